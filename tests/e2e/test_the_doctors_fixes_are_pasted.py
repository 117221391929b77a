"""What `rollouts doctor` prints behind its arrows is pasted into bash, in the order shown; then the doctor is content.

The control plane and Helm are real; kwok stands for the kubelets, so the controller of the chart's Deployment runs beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.controller.facts.route_kinds import kinds_of
from rollouts.objects import Kind
from rollouts.traffic.registry import registry
from tests.e2e.controllers import ROOT, rollouts
from tests.e2e.manifests import KUBE_PROXY, canary, container_of
from tests.e2e.test_the_pages_that_people_follow import deployed
from tests.lab.chart import CHART, RELEASE, RELEASE_NAMESPACE, install_crds, wait_established
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

ROUTERS: dict[str, dict[str, Any]] = {
    "istio": {"virtualService": {"name": "web"}},
    "traefik": {"weightedTraefikServiceName": "web"},
}
PROMETHEUS = "http://prometheus.monitoring:9090"
MINE = f"{RELEASE_NAMESPACE}/{RELEASE}"
TOLD = (
    "not installed: metricproviders.rollouts.dev",
    "rollouts.rollouts.dev is older than this program",
    "manage the same Rollouts",
    f"{MINE} is scaled to 0 replicas",
    f"{MINE} is 0.0.9, this program is",
    f"{MINE} may not get rollouts.rollouts.dev",
    f"{MINE} may not get secrets/rollouts-config-key in default",
    f"{MINE} is configured with ipvs",
    "2 Rollouts need istio, traefik",
    f"{PROMETHEUS}: there is no such Service",
)
"""What it says of the cluster below. That Helm has lost a CRD is no fault by itself: its command says --take-ownership."""


def doctor(plane: ControlPlane) -> str:
    """What the doctor prints, as an administrator."""
    return rollouts("doctor", "--kubeconfig", plane.kubeconfig_admin, code=None).stdout


def fixes(said: str) -> list[str]:
    """The commands, as they stand there."""
    return [line.partition("→ ")[2] for line in said.splitlines() if line.lstrip().startswith("→ ")]


@contextmanager
def repaired(plane: ControlPlane, folder: Path) -> Iterator[list[str]]:
    """Pastes the fixes, one after the other; the Deployment's controller runs meanwhile. The commands."""
    pasted = fixes(doctor(plane))
    for command in pasted:
        plane.typed(command, home=folder, cwd=ROOT, within_s=120)
    of = ("-n", RELEASE_NAMESPACE)
    plane.kubectl("rollout", "status", f"deployment/{RELEASE}", *of, "--timeout=50s")
    with deployed(plane, log=folder / "controller.log"):
        plane.until(
            f"/apis/coordination.k8s.io/v1/namespaces/{RELEASE_NAMESPACE}/leases",
            "rollouts-controller",
            lambda lease: bool(lease["spec"].get("holderIdentity")),
        )
        yield pasted


@pytest.fixture
def bare(modules_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster that has nothing of ours before and after, and says how it proxies."""
    plane = modules_plane
    plane.apply(KUBE_PROXY)
    yield plane
    plane.kubectl("delete", "rollouts,roles,rolebindings", "--all", "-n", "default", "--timeout=55s", check=False)
    plane.helm("uninstall", RELEASE, "--namespace", RELEASE_NAMESPACE, "--ignore-not-found")
    crds = plane.kubectl("get", "crds", "-o", "name").stdout.split()
    if ours := [crd for crd in crds if crd.endswith(".rollouts.dev")]:
        plane.kubectl("delete", *ours, "--timeout=120s")


def test_a_bare_cluster_is_installed_by_one_command(bare: ControlPlane, tmp_path: Path) -> None:
    """It printed one for the CRDs and one for the controller; in that order Helm refused the second."""
    with repaired(bare, tmp_path) as pasted:
        said = doctor(bare)

    assert len(pasted) == 1
    assert said.splitlines()[-1] == "nothing is wrong"


def test_crds_that_kubectl_has_applied_are_taken_over(bare: ControlPlane, tmp_path: Path) -> None:
    """They bear no mark of Helm's, and an install refuses to touch them unless it is told to."""
    install_crds(bare, *crd_manifests())

    with repaired(bare, tmp_path) as pasted:
        said = doctor(bare)

    assert len(pasted) == 1 and "--take-ownership" in pasted[0]
    assert said.splitlines()[-1] == "nothing is wrong"


def test_a_cluster_that_is_broken_in_twelve_ways_is_repaired_in_the_order_shown(
    bare: ControlPlane, tmp_path: Path
) -> None:
    """Five of them are values and rights of one release: one command. A line for each was right alone and wrong together."""
    break_it(bare)

    said = doctor(bare)
    with repaired(bare, tmp_path) as pasted:
        after = doctor(bare)

    assert [each for each in TOLD if each not in said] == []
    assert [command.split()[0:2] for command in pasted] == [
        ["helm", "upgrade"],
        ["helm", "uninstall"],
        ["kubectl", "get"],
    ]
    assert after.splitlines()[-1] == "nothing is wrong", after


def break_it(plane: ControlPlane) -> None:
    """Installs the chart, twice, and breaks what it has installed."""
    release = partial(plane.helm, "upgrade", "--install")
    values = f"proxyMode=ipvs,prometheusUrl={PROMETHEUS}"
    of = ("--namespace", RELEASE_NAMESPACE)
    release(RELEASE, str(CHART), *of, "--create-namespace", "--set", values)
    for crd in crd_manifests():
        wait_established(plane, crd["metadata"]["name"])
    second = "crds.enabled=false,analysis.templates.enabled=false,fullnameOverride=second"
    release("second", str(CHART), "--namespace", "second", "--create-namespace", "--set", second)
    for router, settings in ROUTERS.items():
        install_crds(plane, *(route_crd(kinds[0]) for kinds in kinds_of(registry()[router])))
        plane.apply(routed(router, settings))
    plane.apply(versioned())

    plane.kubectl("scale", "deployment", RELEASE, *of, "--replicas=0")
    plane.kubectl("label", "deployment", RELEASE, *of, "app.kubernetes.io/version=0.0.9", "--overwrite")
    plane.kubectl("delete", "clusterrolebinding", RELEASE)
    plane.kubectl("delete", "crd", "metricproviders.rollouts.dev", "--timeout=120s")
    plane.kubectl("annotate", "crd", "trafficproviders.rollouts.dev", "meta.helm.sh/release-name-")
    field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/paused"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rollouts.rollouts.dev"
    plane.patch(path, [{"op": "remove", "path": field}], form="json")


def route_crd(kind: Kind) -> dict[str, Any]:
    """A CRD for the kind, with any fields."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "plural": kind.plural},
            "scope": "Namespaced",
            "versions": [{"name": kind.version, "served": True, "storage": True, "schema": schema}],
        },
    }


def routed(router: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A Rollout whose router the chart's default does not have."""
    one = canary(router, stableService="web", canaryService="web-canary", trafficRouting={router: settings})
    one["metadata"]["namespace"] = "default"
    return one


def versioned() -> dict[str, Any]:
    """A Rollout whose revisions have a Secret each."""
    one = canary("api", spec={"configVersioning": {"secrets": True}})
    one["metadata"]["namespace"] = "default"
    container_of(one)["envFrom"] = [{"secretRef": {"name": "token"}}]
    return one
