"""The chart is upgraded in the middle of rollouts, under load: they go on where they are, and no request and no pod is lost."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.stage import REVISION, Stage
from tests.node.configured import NEW, OLD, reading, source
from tests.node.installed import BEFORE, PRESENT, Installed
from tests.node.moves import until_phase, until_waiting_for, wait_until_done
from tests.node.traffic import traffic_of
from tests.node.workload import GATED_STEPS, NAME, REPLICAS, Manifest, canary, new_version, service

RATE = 100  # requests a second, of each of two Services
WITHIN_S = 120

LOOKED_AT_S = 10  # a new leader has looked at all Rollouts long before
LONG_STEPS = ({"setWeight": 25}, {"pause": {"duration": "15s"}}, {"setWeight": 50}, {"pause": {"duration": "15s"}})
VALUES_BEFORE = {
    "extraVolumes": [{"name": "temporary", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "temporary", "mountPath": "/tmp"}],  # noqa: S108 - of a pod
    "analysis.templates.enabled": False,
}
"""A controller from before it was first run on a node needs a folder to write; its chart could be too quick for its own CRDs."""

_MEANING = (
    *("phase", "currentRevision", "stableRevision", "currentStepIndex", "observedGeneration"),
    *("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"),
)


@pytest.mark.usefixtures("image")
def test_rollouts_go_on_through_an_upgrade(bare_cluster: Installed, checkout_before: Path) -> None:
    """One waits for a person, with an edited ConfigMap; one is on its way by the clock. Neither begins again."""
    bare_cluster.upgrade(checkout_before / "helm" / "rollouts", tag=BEFORE, values=VALUES_BEFORE)
    plane = bare_cluster.plane
    with plane.fresh_namespace() as first, plane.fresh_namespace() as second:
        waiting, moving = Stage(plane, first), Stage(plane, second)
        waiting.apply(source(OLD), service(), reading(canary("dies", "auto", steps=GATED_STEPS)))
        moving.apply(service(), canary("dies", "auto", steps=LONG_STEPS))
        for stage in (waiting, moving):
            until_phase(stage, "Healthy")
        with (
            traffic_of(bare_cluster.node, waiting, rate=RATE) as of_waiting,
            traffic_of(bare_cluster.node, moving, rate=RATE) as of_moving,
        ):
            waiting.apply(source(NEW))
            status = until_waiting_for(waiting, "PromotionNeeded")["status"]
            halves = {status[of]: REPLICAS // 2 for of in ("currentRevision", "stableRevision")}
            waiting.until_pods(NAME, halves, within_s=WITHIN_S)  # those that the canary replaced are drained first
            before, pods = waiting.get("rollout", NAME), containers(waiting)
            moving.patch(NAME, new_version("2"))
            leader = bare_cluster.upgrade(tag=PRESENT)
            threading.Event().wait(LOOKED_AT_S)
            after, pods_after = waiting.get("rollout", NAME), containers(waiting)
            wait_until_done(moving)
            waiting.annotate(NAME, "promote", "true")
            wait_until_done(waiting)
        promoted = waiting.get("rollout", NAME)["status"]
        for stage in (waiting, moving):
            stage.kubectl("delete", "rollout", NAME, "--timeout=55s")

    assert leader in bare_cluster.wait_for_leader()
    assert pods_after == pods
    assert len(pods) == REPLICAS
    assert meaning(after) == meaning(before)
    assert promoted["stableRevision"] == before["status"]["currentRevision"]
    for outcome in (of_waiting.outcome, of_moving.outcome):
        assert outcome.failed == {}, outcome.failures
    assert set(of_moving.outcome.versions) == {"1", "2"}
    assert bare_cluster.restarts() == 0


def containers(stage: Stage) -> dict[str, tuple[str, str, int]]:
    """Of each pod by its name: its id, its revision, and how often its container was started again."""
    found = {}
    for pod in stage.all("pods", f"app={NAME}"):
        restarts = sum(one["restartCount"] for one in pod["status"]["containerStatuses"])
        found[pod["metadata"]["name"]] = (pod["metadata"]["uid"], pod["metadata"]["labels"][REVISION], restarts)
    return found


def meaning(rollout: Manifest) -> Mapping[str, object]:
    """What people and tools read of a status."""
    status = rollout["status"]
    wait = status["waitingFor"]
    return {**{field: status.get(field) for field in _MEANING}, "reason": wait["reason"], "since": wait.get("since")}
