"""docs/getting-started.md, word for word, on a real node: from `make image` to the last deletion, nothing stands in for anything.

tests/e2e follows the same page on every machine, where kwok stands for the kubelet and no image is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.processes import run
from tests.node.engine import Engine
from tests.node.installed import PRESENT, Installed, give_image
from tests.node.machine import outside
from tests.node.one_run import ROOT
from tests.pages.blocks import blocks_of

PAGE = ROOT / "docs" / "getting-started.md"
WITHIN_S = 600
NEEDS_THE_NETWORK = ("make image\n", "make cli\n")
"""Blocks that fetch packages, and ask no cluster."""


def test_the_page_leads_from_a_checkout_to_a_canary_and_back_to_nothing(
    bare_cluster: Installed, image_engine: Engine, tmp_path: Path
) -> None:
    """The image, the chart and the commands are those of the page; its commands fail when a promise is not kept."""
    plane = bare_cluster.plane
    environment = {
        **image_engine.environment,
        "PATH": f"{tmp_path}/local/bin:{plane.programs}:{Path(sys.executable).parent}:{image_engine.environment['PATH']}",
        "PREFIX": f"{tmp_path}/local",
        "KUBECONFIG": str(plane.kubeconfig_admin),
        **{f"HELM_{each}_HOME": f"{tmp_path}/helm" for each in ("CACHE", "CONFIG", "DATA")},
    }
    said: dict[str, str] = {}
    for block in blocks_of(PAGE):
        if block.why_not and block.text not in NEEDS_THE_NETWORK:
            continue
        said[block.text] = types(block.text, environment)
        if block.text == "make image\n":  # then the page says how it gets to the nodes of kind, which this is not
            give_image(bare_cluster.node, image_engine, PRESENT)

    assert f"localhost/rollouts:{PRESENT} is built and starts" in said["make image\n"]
    assert "nothing is wrong" in said["kubectl rollouts doctor\n"]
    left = plane.kubectl("get", "crds,deployments,clusterroles,namespaces", "-A", "-o", "name").stdout
    assert "rollouts" not in left


def types(text: str, environment: dict[str, str]) -> str:
    """Runs the lines as a shell does that stops at the first failure; what they print."""
    shell = ["bash", "-euo", "pipefail", "-c", text]
    if text in NEEDS_THE_NETWORK:
        return outside(*shell, within_s=WITHIN_S, env=environment, cwd=ROOT)
    return run(*shell, cwd=ROOT, env=environment, within_s=WITHIN_S).stdout
