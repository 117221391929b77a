"""Helm installs, upgrades and removes the chart on a real API server, and no Rollout is lost on the way."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.documents import documents
from tests.e2e.manifests import KUBE_PROXY, canary
from tests.e2e.test_the_pages_that_people_follow import deployed
from tests.lab.chart import CHART, RELEASE, RELEASE_NAMESPACE, wait_established
from tests.lab.control_plane import ControlPlane
from tests.packaging.built_in_templates import TEMPLATES
from tests.packaging.rendered import granted, only

pytestmark = pytest.mark.controlplane

TEMPLATE = "rollouts-steady-pods"
RESTRICTED = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": RELEASE_NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}
CRD = "rollouts.rollouts.dev"


@dataclass(frozen=True)
class Administrator:
    """Somebody with Helm and all rights."""

    plane: ControlPlane

    def helm(self, verb: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`helm VERB rollouts …` in the release's namespace. Raises: AssertionError with Helm's words."""
        return self.plane.helm(verb, RELEASE, *arguments, "--namespace", RELEASE_NAMESPACE, check=check)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """An object; None when there is none."""
        done = self.plane.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] | None = json.loads(done.stdout) if done.stdout else None
        return found

    def described(self) -> str:
        """What the Rollouts' CRD says of itself: the mark of a chart's version in these tests."""
        crd = self.get("crd", CRD)
        assert crd is not None
        return str(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"])


@pytest.fixture
def administrator(modules_plane: ControlPlane) -> Iterator[Administrator]:
    """On a cluster that has nothing of ours, and that nobody else works with."""
    administrator = Administrator(modules_plane)
    yield administrator
    administrator.helm("uninstall", "--ignore-not-found")
    crds = modules_plane.kubectl("get", "crds", "-o", "name").stdout.split()
    ours = [crd for crd in crds if crd.endswith(".rollouts.dev")]
    modules_plane.kubectl("delete", *ours, "--timeout=150s", within_s=180)  # a busy API server took more than a minute


def changed_chart(folder: Path, *, description: str) -> Path:
    """The chart of a later version, whose CRD of Rollouts says something else."""
    shutil.copytree(CHART, folder)
    crd = folder / "files" / "crds" / "rollouts.dev_rollouts.yaml"
    lines = crd.read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith('        description: "'))
    lines[place] = f'        description: "{description}"'
    crd.write_text("\n".join(lines) + "\n")
    return folder


def uid(one: Mapping[str, Any] | None) -> str:
    """Tells whether an object was deleted and made again."""
    assert one is not None
    return str(one["metadata"]["uid"])


def test_an_upgrade_upgrades_the_crds_and_an_uninstall_keeps_them(administrator: Administrator, tmp_path: Path) -> None:
    """Helm's own folder crds/ is never upgraded; and a CRD that is deleted takes every Rollout with it."""
    administrator.helm("install", str(CHART), "--create-namespace")
    wait_established(administrator.plane, CRD)
    administrator.plane.apply(canary("web"), namespace="default")
    rollout = uid(administrator.get("rollout", "web"))

    administrator.helm("upgrade", str(changed_chart(tmp_path / "next", description="the next version")))
    after_upgrade = administrator.described()
    template = administrator.get("clusteranalysistemplate", TEMPLATE)
    administrator.helm("upgrade", str(CHART))
    second = uid(administrator.get("clusteranalysistemplate", TEMPLATE))
    administrator.helm("uninstall")

    assert after_upgrade == "the next version"
    assert template is not None
    assert template["metadata"]["annotations"]["meta.helm.sh/release-name"] == RELEASE
    assert uid(template) == second, "an update of the chart deletes no template that an update may need"
    assert uid(administrator.get("rollout", "web")) == rollout
    assert administrator.get("clusteranalysistemplate", TEMPLATE) is None
    assert administrator.plane.kubectl("get", "deployments", "-n", RELEASE_NAMESPACE, "-o", "name").stdout == ""


def test_one_install_brings_the_templates_of_analyses_and_an_upgrade_finds_them(
    administrator: Administrator, tmp_path: Path
) -> None:
    """Helm cannot create objects of a kind that it has just brought, so the controller does. An upgrade takes that right away."""
    plane = administrator.plane
    plane.apply(KUBE_PROXY)
    administrator.helm("install", str(CHART), "--create-namespace")
    with deployed(plane, log=tmp_path / "controller.log"):
        plane.until("/apis/rollouts.dev/v1alpha1/clusteranalysistemplates", TEMPLATE, lambda _: True)
        names = plane.kubectl("get", "clusteranalysistemplates", "-o", "name").stdout.split()
    before = uid(administrator.get("clusteranalysistemplate", TEMPLATE))

    administrator.helm("upgrade", str(CHART))
    role = administrator.get("clusterrole", RELEASE)
    after = uid(administrator.get("clusteranalysistemplate", TEMPLATE))
    administrator.helm("uninstall")

    assert {name.partition("/")[2] for name in names} == set(TEMPLATES)
    assert before == after
    assert role is not None
    assert ("rollouts.dev", "clusteranalysistemplates", "create") not in granted([role])
    assert administrator.get("configmap", f"{RELEASE}-analysis-templates") is None
    assert administrator.get("clusteranalysistemplate", TEMPLATE) is None


def test_crds_of_an_older_chart_are_taken_over(administrator: Administrator, tmp_path: Path) -> None:
    """That chart had them in crds/, so they bear no mark of Helm's; the Rollouts of such a cluster stay."""
    older = tmp_path / "older"
    shutil.copytree(CHART, older)
    (older / "files" / "crds").rename(older / "crds")
    (older / "templates" / "crds.yaml").unlink()
    administrator.helm("install", str(older), "--create-namespace")
    administrator.plane.apply(canary("web"), namespace="default")
    rollout = uid(administrator.get("rollout", "web"))

    refused = administrator.helm("upgrade", str(CHART), check=False)
    administrator.helm("upgrade", str(CHART), "--take-ownership")

    crd = administrator.get("crd", CRD)
    assert refused.returncode != 0
    assert crd is not None
    assert crd["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert uid(administrator.get("rollout", "web")) == rollout


@pytest.mark.parametrize("user", [None, 1000680000], ids=["the image's user", "a user of OpenShift's"])
def test_a_namespace_that_takes_only_restricted_pods_takes_the_charts(
    administrator: Administrator, user: int | None
) -> None:
    """Pod Security `restricted` is the API server's own admission; OpenShift names a user of the namespace's range besides."""
    plane = administrator.plane
    plane.apply(RESTRICTED)
    chosen = () if user is None else ("--set", f"podSecurityContext.runAsUser={user}")

    administrator.helm("install", str(CHART), *chosen)

    plane.kubectl("rollout", "status", f"deployment/{RELEASE}", "-n", RELEASE_NAMESPACE, "--timeout=50s")
    hooks = plane.helm("get", "hooks", RELEASE, "--namespace", RELEASE_NAMESPACE).stdout
    plane.apply(only(documents(hooks), "Pod"), dry_run=True)
    pods = json.loads(plane.kubectl("get", "pods", "-n", RELEASE_NAMESPACE, "-o", "json").stdout)["items"]
    assert {pod["spec"]["securityContext"].get("runAsUser") for pod in pods} == {user}
