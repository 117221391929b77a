"""Promise: a StatefulSet that a Rollout updates in place stays the StatefulSet that its user wrote, and keeps its claims.

The StatefulSet controller is the real one. The controller has the rights and the fences of the chart, and its policies hold the
StatefulSet, or its partition does between updates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import ROLLOUT, STATEFUL_SET
from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Stage
from tests.lab.chart import another_account, hold_workloads
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

GRANTED = ("--set", "workloads={statefulsets}")
OWN = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
MOST = 2_147_483_647
STEPS: list[Manifest] = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}]
CLASS = "claims-of-a-test"
SIZE = {"storage": "1Mi"}


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, controller_kubeconfig: Path) -> Path:
    """An account with the rights to StatefulSets; the CRDs are those of the other one."""
    assert controller_kubeconfig.exists()
    return another_account(control_plane, "updates-of-ordinals", *GRANTED)


@pytest.fixture(params=["Policy", "AtRest"])
def stage(
    control_plane: ControlPlane, account: Path, namespace: str, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """A StatefulSet with a volume for each pod and its Rollout, at rest, with a controller."""
    control_plane.apply(*(_volume(f"{namespace}-{number}") for number in range(5)))
    if request.param == "Policy":
        hold_workloads(control_plane, namespace, STATEFUL_SET)
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        found = Stage(control_plane, namespace)
        found.apply(stateful_set(), rollout(request.param))
        found.until(ROLLOUT.plural, "db", lambda one: one.get("status", {}).get("phase") == "Healthy")
        found.until("statefulsets", "db", is_held if request.param == "AtRest" else is_at_rest)
        yield found
        control_plane.end_in(namespace)


def _volume(name: str) -> Manifest:
    spec = {
        "capacity": SIZE,
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp"},  # noqa: S108 - no kubelet mounts it
        "storageClassName": CLASS,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _partition(found: Manifest) -> int | None:
    partition: int | None = found["spec"]["updateStrategy"].get("rollingUpdate", {}).get("partition")
    return partition


def is_held(found: Manifest) -> bool:
    """Whether it is held between updates, with a note of its user's fields."""
    note = found["metadata"].get("annotations", {}).get("rollouts.dev/held", '{"own": null}')
    return bool(json.loads(note)["own"] == {"partition": 0}) and _partition(found) == MOST


def is_at_rest(found: Manifest) -> bool:
    """Whether it has its user's fields, or is held between updates."""
    return bool(found["spec"]["updateStrategy"] == OWN) or is_held(found)


def stateful_set(image: str = "db:1") -> Manifest:
    """The user's manifest."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": SIZE}, "storageClassName": CLASS}
    spec = {
        "replicas": 4,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": build.pod_template("db", image=image),
        "updateStrategy": OWN,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    return build.manifest(STATEFUL_SET, "db", spec=spec)


def rollout(hold: str) -> Manifest:
    """The Rollout that steps it."""
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "mode": "InPlace", "hold": hold}
    return build.manifest(ROLLOUT, "db", spec={"workloadRef": reference, "strategy": {"canary": {"steps": STEPS}}})


def until(stage: Stage, phase: str, pods: str, *, step: int | None = None) -> None:
    """Waits until the Rollout is in that phase, and at that step, and the pods, from ordinal 0 on, have these images."""

    def holds(one: dict[str, Any]) -> bool:
        status = one.get("status", {})
        there = step is None or status.get("currentStepIndex") == step
        return there and status.get("phase") == phase and images(stage) == pods

    stage.until(ROLLOUT.plural, "db", holds)


def images(stage: Stage) -> str:
    """The image of each pod that stays, from ordinal 0 on."""
    there = [each for each in stage.all("pods", "app=db") if "deletionTimestamp" not in each["metadata"]]
    there.sort(key=lambda each: str(each["metadata"]["name"]))
    return "".join(each["spec"]["containers"][0]["image"].removeprefix("db:") for each in there)


def claims(stage: Stage) -> dict[str, str]:
    """The uid of each claim."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in stage.all("persistentvolumeclaims", "app=db")}


def test_an_update_goes_from_the_top_ordinal_down_and_gives_the_fields_back(stage: Stage) -> None:
    """Each claim stays with its ordinal, and `kubectl rollout status` says that it is over."""
    before = claims(stage)
    assert len(before) == 4
    stage.kubectl("set", "image", "statefulset/db", "app=db:2")
    until(stage, "Paused", "1112")
    stage.annotate("db", "promote", "true")
    until(stage, "Paused", "1122", step=3)
    stage.annotate("db", "promote", "true")
    until(stage, "Healthy", "2222")

    stage.until("statefulsets", "db", is_at_rest)
    found = stage.get("statefulsets", "db")
    if "rollouts.dev/held" not in found["metadata"].get("annotations", {}):  # else it is held between updates
        stage.until("statefulsets", "db", lambda _: not stage.our_fields("statefulset", "db"))
    status = found["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert claims(stage) == before


def test_an_abort_a_manifest_that_is_applied_again_and_the_way_back(stage: Stage) -> None:
    """The template stays what Git says, and so do the claims; with the old template everything is as before.

    No policy keeps the partition at rest, so the manifest that is applied does not name it, as the page says.
    """
    before, old, new = claims(stage), stateful_set("db:1"), stateful_set("db:2")
    if stage.get("statefulsets", "db")["spec"]["updateStrategy"] != OWN:
        del old["spec"]["updateStrategy"], new["spec"]["updateStrategy"]
    stage.kubectl("apply", "-f", "-", input=json.dumps(new))
    until(stage, "Paused", "1112")
    stage.annotate("db", "promote", "true")
    until(stage, "Paused", "1122", step=3)
    stage.annotate("db", "abort", "true")
    until(stage, "Aborted", "1111")
    for _ in range(3):
        stage.kubectl("apply", "-f", "-", input=json.dumps(new))
    assert images(stage) == "1111"
    stage.kubectl("apply", "-f", "-", input=json.dumps(old))
    until(stage, "Healthy", "1111")

    stage.until("statefulsets", "db", is_at_rest)
    assert claims(stage) == before


def test_a_newer_template_and_a_pod_that_is_deleted_in_a_step(stage: Stage) -> None:
    """A pod comes back as what it was, and the newer template begins with the first step."""
    stage.kubectl("set", "image", "statefulset/db", "app=db:2")
    until(stage, "Paused", "1112")
    stage.kubectl("delete", "pod", "db-0", "db-3")
    until(stage, "Paused", "1112")
    stage.kubectl("set", "image", "statefulset/db", "app=db:3")
    until(stage, "Paused", "1113")
