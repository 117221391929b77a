"""Promise: a Deployment takes over the ReplicaSet with its new pods, and each of them lives through the promotion.

The Deployment controller and the one of EndpointSlices are the real ones. The controller has the rights and the fences of the
chart, and its policies hold the Deployment, or it is paused between updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import ROLLOUT
from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Stage
from tests.e2e.test_a_deployment_stays_one import GRANTED, LIMITS, by_image, deployment, image_of
from tests.lab.chart import another_account, render
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

SERVICES = {"stableService": "web", "canaryService": "preview"}
STRATEGIES: dict[str, Manifest] = {
    "blue-green": {
        "blueGreen": {
            "activeService": "web",
            "previewService": "preview",
            "autoPromotionEnabled": False,
            "scaleDownDelaySeconds": 5,
        }
    },
    "routed": {
        "canary": {
            **SERVICES,
            "trafficRouting": {},
            "scaleDownDelaySeconds": 5,
            "abortScaleDownDelaySeconds": 5,
            "steps": [{"setWeight": 50}, {"pause": {}}],
        }
    },
}
BEGUN = {"blue-green": 4, "routed": 2}
"""New pods beside the four, while the update waits for its promotion."""


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, controller_kubeconfig: Path) -> Path:
    """An account with the rights to Deployments; the CRDs are those of the other one."""
    assert controller_kubeconfig.exists()
    return another_account(control_plane, "updates-beside", *GRANTED)


@pytest.fixture(params=["Policy", "AtRest"])
def hold(request: pytest.FixtureRequest) -> str:
    """What holds a new template."""
    return str(request.param)


@pytest.fixture(params=STRATEGIES)
def stage(
    control_plane: ControlPlane, account: Path, namespace: str, hold: str, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """A Deployment, its Services and its Rollout, whose second image waits for its promotion."""
    if hold == "Policy":
        values = f"workloads={{deployments}},watchNamespaces={{{namespace}}},fullnameOverride={namespace}"
        rendered = render(Path(control_plane.programs, "helm"), "--set", values)
        control_plane.apply(*(one for one in rendered if ".hold-" in one["metadata"]["name"]))
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        found = Stage(control_plane, namespace)
        services = [build.service(name, app="web") for name in ("web", "preview")]
        found.apply(deployment(), *services, rollout(STRATEGIES[request.param], hold))
        until(found, "Healthy", v1=4)
        found.kubectl("set", "image", "deployment/web", "app=web:2")
        until(found, "Paused", v1=4, v2=BEGUN[request.param])
        yield found
        control_plane.end_in(namespace)


def rollout(strategy: Manifest, hold: str) -> Manifest:
    """The Rollout that updates the Deployment."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "mode": "InPlace", "hold": hold}
    return build.manifest(ROLLOUT, "web", spec={"workloadRef": reference, "strategy": strategy})


def until(stage: Stage, phase: str, **sizes: int) -> None:
    """Waits until the Rollout is in that phase, and ReplicaSets with pods have these sizes, by image."""

    def holds(one: dict[str, Any]) -> bool:
        return one.get("status", {}).get("phase") == phase and by_image(stage) == sizes

    stage.until(ROLLOUT.plural, "web", holds)


def uids(stage: Stage, image: str) -> set[str]:
    """The pods of an image."""
    return {each["metadata"]["uid"] for each in stage.all("pods", "app=web") if image_of(each) == image}


def selected(stage: Stage, service: str) -> set[str]:
    """The images of the pods that a Service selects."""
    labels: dict[str, str] = stage.get("services", service)["spec"]["selector"]
    return {image_of(each) for each in stage.all("pods", ",".join(f"{key}={value}" for key, value in labels.items()))}


def test_a_promotion_hands_the_new_pods_over(stage: Stage) -> None:
    """Its Services lead to the pods of one revision each meanwhile, and `kubectl rollout status` says the truth."""
    assert (selected(stage, "web"), selected(stage, "preview")) == ({"web:1"}, {"web:2"})
    before = uids(stage, "web:2")
    stage.annotate("web", "promote", "true")
    until(stage, "Healthy", v2=4)

    stage.kubectl("rollout", "status", "deployment/web", "--timeout=55s")
    spec = stage.get("deployments", "web")["spec"]
    assert (spec["strategy"]["rollingUpdate"], spec.get("minReadySeconds", 0)) == (LIMITS, 0)
    assert spec["progressDeadlineSeconds"] == 600
    assert before <= uids(stage, "web:2")
    for name in ("web", "preview"):
        stage.until("services", name, lambda one: one["spec"]["selector"] == {"app": "web"})
    owners = {each["metadata"]["ownerReferences"][0]["kind"] for each in stage.all("replicasets", "app=web")}
    assert owners == {"Deployment"}


def test_an_abort_and_the_stable_template_leave_everything_as_before(stage: Stage) -> None:
    """No stable pod has gone."""
    before = uids(stage, "web:1")
    stage.annotate("web", "abort", "true")
    until(stage, "Aborted", v1=4)
    stage.kubectl("set", "image", "deployment/web", "app=web:1")
    until(stage, "Healthy", v1=4)

    assert uids(stage, "web:1") == before
    stage.kubectl("rollout", "status", "deployment/web", "--timeout=55s")
