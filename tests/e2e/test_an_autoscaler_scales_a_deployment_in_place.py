"""Promise: real autoscalers of a Deployment go on with their work while a Rollout updates it in place, and the share stays.

By an external metric, as KEDA makes them, and by what pods use. tests/controller has every phase; this is one life.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import DEPLOYMENT, ROLLOUT
from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest
from tests.e2e.scaled import TARGET_MILLI, autoscaler, loaded
from tests.e2e.stage import Stage
from tests.lab.chart import another_account, hold_workloads
from tests.lab.control_plane import ControlPlane, is_true

pytestmark = pytest.mark.controlplane

KINDS = ("external-average", "usage")
STEPS: list[Manifest] = [{"setWeight": 25}, {"pause": {}}]
WITHIN_S = 120


@pytest.fixture
def stage(control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str) -> Iterator[Stage]:
    """With a controller, and the policies of the chart."""
    assert controller_kubeconfig.exists()
    account = another_account(control_plane, "updates-beside-autoscalers", "--set", "workloads={deployments}")
    hold_workloads(control_plane, namespace, DEPLOYMENT)
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        yield Stage(control_plane, namespace)
        control_plane.end_in(namespace)


def manifests(name: str) -> list[Manifest]:
    """A Deployment of eight pods, and the Rollout that steps it.

    It makes no pod more than it has: what the whole load is to each pod is asked of all that are there, so an autoscaler by an
    average would take one more for wanted when it differs by no more than a tenth.
    """
    container = {"resources": {"requests": {"cpu": f"{TARGET_MILLI}m"}}}
    template = build.pod_template(name, image="web:1", container=container)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "mode": "InPlace", "hold": "Policy"}
    spec = {"workloadRef": reference, "strategy": {"canary": {"steps": STEPS}}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}}
    deployment = build.deployment(name, replicas=8, template=template, strategy=strategy)
    return [deployment, build.manifest(ROLLOUT, name, spec=spec)]


def until(stage: Stage, phase: str, **sizes: int) -> None:
    """Waits until each Rollout is in that phase, and as many pods of each image are ready."""
    for name in KINDS:

        def holds(one: dict[str, Any], name: str = name) -> bool:
            pods = [each for each in stage.all("pods", f"app={name}") if is_true(each, "Ready")]
            images = Counter(each["spec"]["containers"][0]["image"].replace("web:", "v") for each in pods)
            return one.get("status", {}).get("phase") == phase and images == sizes

        stage.until(ROLLOUT.plural, name, holds, within_s=WITHIN_S)


def replicas(stage: Stage) -> set[int]:
    """Of the Deployments."""
    return {stage.get(DEPLOYMENT.plural, name)["spec"]["replicas"] for name in KINDS}


def order(stage: Stage, verb: str) -> None:
    """A person's command to all."""
    for name in KINDS:
        stage.annotate(name, verb, "true")


def test_a_load_is_followed_at_rest_in_a_step_after_an_abort_and_after_the_promotion(stage: Stage) -> None:
    """Nothing else makes a pod more: neither the pods of a step nor those beside each other in an abort."""
    stage.apply(*(one for name in KINDS for one in manifests(name)))
    until(stage, "Healthy", v1=8)
    with loaded(stage, pods=8) as load:
        stage.apply(*(autoscaler(name, name, target=DEPLOYMENT) for name in KINDS))
        load.wait_for_looks(KINDS, looks=4)
        assert replicas(stage) == {8}
        for name in KINDS:
            stage.kubectl("set", "image", f"deployment/{name}", "app=web:2")
        until(stage, "Paused", v1=6, v2=2)
        load.wait_for_looks(KINDS, looks=4)
        assert replicas(stage) == {8}
        load.pods = 12
        until(stage, "Paused", v1=9, v2=3)
        order(stage, "abort")
        until(stage, "Aborted", v1=12)
        load.wait_for_looks(KINDS, looks=4)
        assert replicas(stage) == {12}
        load.pods = 16
        until(stage, "Aborted", v1=16)
        order(stage, "retry")
        until(stage, "Paused", v1=12, v2=4)
        order(stage, "promote")
        until(stage, "Healthy", v2=16)
        load.pods = 20
        until(stage, "Healthy", v2=20)
        load.wait_for_looks(KINDS, looks=4)
        assert replicas(stage) == {20}
