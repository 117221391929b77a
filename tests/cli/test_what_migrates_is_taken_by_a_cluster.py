"""Promise: the real API server takes every object that comes out of `rollouts migrate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollouts.cli.migrate.migrated import converted, migrated
from rollouts.objects import Manifest
from tests.api.argo_provider_examples import ALL
from tests.cli.flagger_canaries import AUTOSCALER, CANARIES, DEPLOYMENT, TEMPLATE
from tests.cli.migration_inputs import INPUTS
from tests.lab.chart import install_crds
from tests.lab.control_plane import ControlPlane
from tests.linted import lint_text
from tests.traffic.cases.all_cases import CASES
from tests.traffic.crds import manifests

SERVED = ("v1", "apps/", "autoscaling/", "networking.k8s.io/", "policy/", "rollouts.dev/")
"""How the versions begin of what the control plane has kinds for."""

pytestmark = pytest.mark.controlplane


def refused(plane: ControlPlane, namespace: str, objects: list[Manifest], *, served: tuple[str, ...] = SERVED) -> str:
    """What a dry run says against the first of them that the server has a kind for and refuses; "" for nothing."""
    placed = [
        {**each, "metadata": {name: value for name, value in each["metadata"].items() if name != "namespace"}}
        for each in objects
        if str(each["apiVersion"]).startswith(served)
    ]
    try:
        plane.apply(*placed, namespace=namespace, dry_run=True)
    except AssertionError as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("name", CANARIES)
def test_what_a_canary_of_flagger_becomes_is_taken(
    name: str, control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path
) -> None:
    """The chart's CRDs are installed by the last fixture."""
    outcome = migrated([CANARIES[name], DEPLOYMENT, AUTOSCALER, TEMPLATE])

    assert outcome.objects
    assert refused(control_plane, namespace, outcome.objects) == ""


def test_whatever_leaves_nothing_to_do_is_taken(
    control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path
) -> None:
    """All in one call, each object once, without those whose kinds other products bring."""
    found = [each for given in INPUTS if given.complete for each in converted(given.objects).objects]
    once = {json.dumps(each, sort_keys=True): each for each in found}

    assert len(once) > 100
    assert {"Rollout", "AnalysisTemplate", "MetricProvider", "Service"} <= {each["kind"] for each in once.values()}
    assert refused(control_plane, namespace, list(once.values())) == ""


def test_the_routers_own_crds_take_the_routes(
    control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path
) -> None:
    """Those that came out of Canaries, strictly: each field exists where it was put."""
    by_kind = {str(case.example["kind"]): case for case in CASES if case.crds}
    found = [each for given in INPUTS if given.complete for each in converted(given.objects).objects]
    routes = {json.dumps(each, sort_keys=True): each for each in found if each["kind"] in by_kind}
    kinds = {str(each["kind"]) for each in routes.values()}
    for kind in sorted(kinds):
        for crd in by_kind[kind].crds:
            install_crds(control_plane, *manifests(crd, kind))

    assert {"HTTPRoute", "VirtualService", "HTTPProxy", "TraefikService", "RouteTable"} <= kinds
    versions = tuple({str(each["apiVersion"]) for each in routes.values()})
    assert refused(control_plane, namespace, list(routes.values()), served=versions) == ""


def test_what_argos_examples_become_is_taken(
    control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path
) -> None:
    """All in one call; those that lint refuses by name are left out, for their notes say what to do first."""
    outcomes = []
    for number, example in enumerate(ALL):
        argo = {"apiVersion": "argoproj.io/v1alpha1", "kind": example.kind, "metadata": {"name": f"cart-{number}"}}
        outcomes += migrated([{**argo, "spec": example.spec}]).objects
    fit = [each for each in outcomes if not lint_text(json.dumps(each)).problems]

    assert len(fit) > len(ALL) // 3
    assert refused(control_plane, namespace, fit) == ""
