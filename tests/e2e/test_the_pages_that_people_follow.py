"""docs/getting-started.md, word for word: each command is run as it stands there, from `helm install` to the last deletion.

The control plane is real; kwok stands for the kubelets, so no image is pulled, and the controller of the chart's Deployment runs
beside it, with the flags and the account that the chart gives it. A block that cannot be run here says why in the page.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.controllers import ROOT, Controller
from tests.e2e.manifests import KUBE_PROXY
from tests.lab.chart import RELEASE, RELEASE_NAMESPACE
from tests.lab.control_plane import ControlPlane
from tests.lab.wheels import instead_of_the_index
from tests.pages.blocks import blocks_of

pytestmark = pytest.mark.controlplane

PAGE = ROOT / "docs" / "getting-started.md"
WITHIN_S = 600  # `make cli` installs fifty packages, on a machine that may be busy
_TEMPLATES = "--analysis-templates"
_OF_THE_PROCESS = ("--metrics-address", "--health-address", "--lease-namespace", _TEMPLATES)


def deployed(plane: ControlPlane, *, log: Path) -> Controller:
    """The process that the chart's Deployment asks for."""
    answer = plane.kubectl("get", "deployment", RELEASE, "-n", RELEASE_NAMESPACE, "-o", "json")
    command, *flags = json.loads(answer.stdout)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command == "controller"
    kubeconfig = plane.service_account_kubeconfig(RELEASE_NAMESPACE, RELEASE)
    arguments = [flag for flag in flags if not flag.startswith(_OF_THE_PROCESS)]
    if any(flag.startswith(_TEMPLATES) for flag in flags):  # a ConfigMap that the kubelet would mount
        answer = plane.kubectl(
            "get", "configmap", f"{RELEASE}-analysis-templates", "-n", RELEASE_NAMESPACE, "-o", "json"
        )
        folder = log.parent / "analysis-templates"
        folder.mkdir()
        for name, text in json.loads(answer.stdout)["data"].items():
            (folder / name).write_text(text)
        arguments.append(f"{_TEMPLATES}={folder}")
    return Controller(kubeconfig, log=log, arguments=arguments)


def test_getting_started_does_what_it_says(modules_plane: ControlPlane, tmp_path: Path) -> None:
    """The first ten minutes decide whether there is an eleventh. The cluster says how it proxies, and has nothing of ours."""
    plane, said = modules_plane, dict[str, str]()
    plane.apply(KUBE_PROXY)
    settings = {**os.environ, "PYTHON": sys.executable, **instead_of_the_index()}  # for `make cli`
    types = partial(plane.typed, home=tmp_path, env=settings, cwd=ROOT, within_s=WITHIN_S)
    with ExitStack() as running:
        for block in blocks_of(PAGE):
            if block.why_not:
                continue
            said[block.text] = types(block.text)
            if "helm uninstall" in block.text:  # the kubelet ends the process after that; here somebody has to
                running.close()
            if "helm install" in block.text:
                running.enter_context(deployed(plane, log=tmp_path / "controller.log"))
                types(f"kubectl wait lease/rollouts-controller -n {RELEASE_NAMESPACE} --for=create --timeout 60s")

    of = {command: out for text, out in said.items() for command in text.splitlines()}
    installed = of["helm install rollouts ./helm/rollouts --namespace rollouts-system --create-namespace"]
    assert "kubectl rollouts doctor" in installed
    assert "nothing is wrong" in of["kubectl rollouts doctor"]
    assert "podinfo" in of["kubectl rollouts get podinfo"]
    left = plane.kubectl("get", "crds,deployments,clusterroles", "-A", "-o", "name").stdout
    assert "rollouts" not in left


def test_each_block_is_run_or_says_why_not() -> None:
    """A block of another language, or one that is not found, would be neither."""
    blocks = blocks_of(PAGE)

    assert len(blocks) == PAGE.read_text().count("```") // 2
    assert {block.language for block in blocks} == {"sh"}
    assert {block.text.split()[0] for block in blocks if block.why_not} == {"make"}
