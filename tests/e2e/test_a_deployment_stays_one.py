"""Promise: a Deployment that a Rollout updates in place stays the Deployment that its user wrote, and keeps its pods.

The Deployment controller is the real one. The controller has the rights and the fences of the chart, and its policies hold the
Deployment, or it is paused between updates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import DEPLOYMENT, ROLLOUT
from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Stage
from tests.lab.chart import another_account, hold_workloads
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

GRANTED = ("--set", "workloads={deployments}")
LIMITS = {"maxSurge": "25%", "maxUnavailable": "25%"}
STEPS: list[Manifest] = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}]


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, controller_kubeconfig: Path) -> Path:
    """An account with the rights to Deployments; the CRDs are those of the other one."""
    assert controller_kubeconfig.exists()
    return another_account(control_plane, "updates-in-place", *GRANTED)


@pytest.fixture(params=["Policy", "AtRest"])
def stage(
    control_plane: ControlPlane, account: Path, namespace: str, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """A Deployment and its Rollout, at rest, with a controller."""
    if request.param == "Policy":
        hold_workloads(control_plane, namespace, DEPLOYMENT)
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        found = Stage(control_plane, namespace)
        found.apply(deployment(), rollout(request.param))
        found.until(ROLLOUT.plural, "web", lambda one: one.get("status", {}).get("phase") == "Healthy")
        yield found
        control_plane.end_in(namespace)


def deployment(image: str = "web:1") -> Manifest:
    """The user's manifest."""
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": build.pod_template("web", image=image),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": LIMITS},
    }
    return build.manifest(DEPLOYMENT, "web", spec=spec)


def rollout(hold: str) -> Manifest:
    """The Rollout that steps it."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "mode": "InPlace", "hold": hold}
    return build.manifest(ROLLOUT, "web", spec={"workloadRef": reference, "strategy": {"canary": {"steps": STEPS}}})


def until(stage: Stage, phase: str, *, step: int | None = None, **sizes: int) -> None:
    """Waits until the Rollout is in that phase, and at that step, and ReplicaSets with pods have these sizes, by image."""

    def holds(one: dict[str, Any]) -> bool:
        status = one.get("status", {})
        there = step is None or status.get("currentStepIndex") == step
        return there and status.get("phase") == phase and by_image(stage) == sizes

    stage.until(ROLLOUT.plural, "web", holds)


def by_image(stage: Stage) -> dict[str, int]:
    """The size of each ReplicaSet with pods."""
    sets = stage.all("replicasets", "app=web")
    sizes = {each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"] for each in sets}
    return {f"v{image.removeprefix('web:')}": size for image, size in sizes.items() if size}


def test_an_update_keeps_its_pods_and_gives_the_fields_back(stage: Stage) -> None:
    """Three of the first pods stay at 25 %; each canary pod lives through the promotion."""
    stage.kubectl("set", "image", "deployment/web", "app=web:2")
    until(stage, "Paused", v1=3, v2=1)
    canary = {each["metadata"]["uid"] for each in stage.all("pods", "app=web") if image_of(each) == "web:2"}
    stage.annotate("web", "promote", "true")
    until(stage, "Paused", step=3, v1=2, v2=2)
    stage.annotate("web", "promote", "true")
    until(stage, "Healthy", v2=4)

    stage.kubectl("rollout", "status", "deployment/web", "--timeout=55s")
    spec = stage.get("deployments", "web")["spec"]
    assert (spec["strategy"]["rollingUpdate"], spec.get("minReadySeconds", 0)) == (LIMITS, 0)
    assert spec["progressDeadlineSeconds"] == 600
    assert canary <= {each["metadata"]["uid"] for each in stage.all("pods", "app=web")}


def image_of(pod: Manifest) -> str:
    """The image of a pod."""
    image: str = pod["spec"]["containers"][0]["image"]
    return image


def test_an_abort_a_manifest_that_is_applied_again_and_the_way_back(stage: Stage) -> None:
    """The template stays what Git says; with the old one everything is as before."""
    stage.kubectl("apply", "-f", "-", input=json.dumps(deployment("web:2")))
    until(stage, "Paused", v1=3, v2=1)
    stage.annotate("web", "abort", "true")
    until(stage, "Aborted", v1=4)
    for _ in range(3):
        stage.kubectl("apply", "-f", "-", input=json.dumps(deployment("web:2")))
    assert by_image(stage) == {"v1": 4}
    stage.kubectl("apply", "-f", "-", input=json.dumps(deployment("web:1")))
    until(stage, "Healthy", v1=4)


def test_a_newer_template_a_restart_and_a_scale_in_a_step(stage: Stage) -> None:
    """The share of the new revision is the same at another size."""
    stage.kubectl("set", "image", "deployment/web", "app=web:2")
    until(stage, "Paused", v1=3, v2=1)
    stage.kubectl("scale", "deployment/web", "--replicas=8")
    until(stage, "Paused", v1=6, v2=2)
    stage.kubectl("set", "image", "deployment/web", "app=web:3")
    until(stage, "Paused", v1=6, v3=2)


def test_an_undo_in_a_step_ends_the_update_and_gives_the_fields_back(stage: Stage) -> None:
    """kubectl replaces all annotations of the Deployment by those of the ReplicaSet: so the note of its fields goes."""
    stage.kubectl("set", "image", "deployment/web", "app=web:2")
    until(stage, "Paused", v1=3, v2=1)
    stage.kubectl("rollout", "undo", "deployment/web")
    until(stage, "Healthy", v1=4)

    stage.until("deployments", "web", lambda one: one["spec"]["strategy"]["rollingUpdate"] == LIMITS)
    stage.kubectl("rollout", "status", "deployment/web", "--timeout=55s")
