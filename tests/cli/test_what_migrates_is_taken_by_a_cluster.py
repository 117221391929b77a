"""Promise: the real API server takes every object that comes out of `rollouts migrate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollouts.cli.commands.lint import lint_text
from rollouts.cli.migrate.migrated import migrated
from rollouts.objects import Manifest
from tests.api.argo_provider_examples import ALL
from tests.cli.flagger_canaries import AUTOSCALER, CANARIES, DEPLOYMENT, TEMPLATE
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane


def refused(plane: ControlPlane, namespace: str, objects: list[Manifest]) -> str:
    """What a server-side dry run of all of them says against them; "" for nothing."""
    placed = [{**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in objects]
    for each in placed:
        if each["kind"].startswith("Cluster"):
            del each["metadata"]["namespace"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": placed})
    done = plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text, check=False)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("name", CANARIES)
def test_what_a_canary_of_flagger_becomes_is_taken(
    name: str, control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path
) -> None:
    """The chart's CRDs are installed by the last fixture."""
    outcome = migrated([CANARIES[name], DEPLOYMENT, AUTOSCALER, TEMPLATE])

    assert outcome.objects
    assert refused(control_plane, namespace, outcome.objects) == ""


def test_what_argos_examples_become_is_taken(
    control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path
) -> None:
    """All in one request; those that lint refuses by name are left out, for their notes say what to do first."""
    outcomes = []
    for number, example in enumerate(ALL):
        argo = {"apiVersion": "argoproj.io/v1alpha1", "kind": example.kind, "metadata": {"name": f"cart-{number}"}}
        outcomes += migrated([{**argo, "spec": example.spec}]).objects
    fit = [each for each in outcomes if not lint_text(json.dumps(each)).problems]

    assert len(fit) > len(ALL) // 3
    assert refused(control_plane, namespace, fit) == ""
