"""Promise: pods that restart, crash in a loop or run out of memory show what real kubelets show, and serve nobody meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.core.analysis.source import PodEvidence
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.pods import pod_seen, pods_measured
from rollouts.objects import POD, REPLICA_SET, Manifest
from rollouts.sim.actors.processes import CRASH_AFTER, OUT_OF_MEMORY, OUT_OF_MEMORY_AFTER, back_off_s
from rollouts.sim.clock import EPOCH_S
from rollouts.sim.cluster import SimulatedCluster
from tests.sim.manifests import followed, replica_set, service, stored

pytestmark = pytest.mark.virtual_time
STARTUP_S = 1.0


def lived(*at_s: float, **annotations: str) -> list[tuple[Manifest, AnalysisPhase, str]]:
    """A pod at some times after its creation, and what an analysis says of it then."""
    return followed(replica_set("web", replicas=1, startup_s=STARTUP_S, annotations=annotations), judged, *at_s)


def judged(cluster: SimulatedCluster) -> tuple[Manifest, AnalysisPhase, str]:
    """The only container's status, and what the pods' metric says."""
    pods = cluster.list(POD)
    seen = [pod_seen(each) for each in pods]
    now_s = cluster.clock.now_s()
    found = pods_measured(PodEvidence(), seen, since_s=EPOCH_S, started_at_s=now_s, finished_at_s=now_s)
    return pods[0]["status"]["containerStatuses"][0], found.phase, found.message


def test_a_process_that_ends_is_started_again() -> None:
    """The first time at once; the restart is counted, and the last state says why."""
    (before, good, _), (after, bad, why) = lived(9, 15, **{CRASH_AFTER: "10"})

    assert (before["restartCount"], before["ready"], good) == (0, True, AnalysisPhase.SUCCESSFUL)
    assert (after["restartCount"], after["ready"], "running" in after["state"]) == (1, True, True)
    ended = after["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["startedAt"] < ended["finishedAt"]) == (1, "Error", True)
    assert (bad, why) == (AnalysisPhase.FAILED, "containers were restarted 1 times, 0 are allowed")


def test_one_that_ends_again_and_again_waits_longer_and_longer() -> None:
    """CrashLoopBackOff is a state between two tries, and its name is what people search for."""
    (status, phase, why), (later, _, _) = lived(12, 14, **{CRASH_AFTER: "5"})

    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (status["restartCount"], status["ready"], status["started"]) == (1, False, False)
    assert status["lastState"]["terminated"]["reason"] == "Error"
    assert (phase, why) == (AnalysisPhase.FAILED, "containers wait: CrashLoopBackOff")
    assert later["state"] == status["state"]
    assert [back_off_s(each) for each in (1, 2, 3, 4, 7, 20)] == [1, 10, 20, 40, 300, 300]


def test_one_that_is_killed_for_memory_says_so() -> None:
    """Exit code 137, and the reason that the metric asks for."""
    ((status, phase, why),) = lived(15, **{OUT_OF_MEMORY_AFTER: "10"})

    ended = status["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert (phase, why) == (AnalysisPhase.FAILED, "1 containers were killed for memory")


def test_a_process_that_has_run_for_long_is_forgiven() -> None:
    """After ten minutes the next crash counts as the first."""
    ((status, _, _),) = lived(2_000, **{CRASH_AFTER: "650"})

    assert status["restartCount"] == 3
    assert "running" in status["state"]


async def test_a_test_may_end_a_process(cluster: SimulatedCluster) -> None:
    """Between two measurements; the pod stays, is not ready for a while, and the ReplicaSet and its Service see that."""
    cluster.apply(service("web"))
    cluster.apply(replica_set("web", replicas=1, startup_s=STARTUP_S))
    await asyncio.sleep(10)
    clients = cluster.clients(namespace="default", service="web", rate_per_s=50)
    (pod,) = cluster.list(POD)
    cluster.kubelets.crash(("default", pod["metadata"]["name"]), OUT_OF_MEMORY)
    seen: list[tuple[int, int, int]] = []
    for wait_s in (0.5, 5.0):
        await asyncio.sleep(wait_s)
        ready = stored(cluster, REPLICA_SET, "web")["status"].get("readyReplicas", 0)
        seen.append((ready, judged(cluster)[0]["restartCount"], clients.tally.lost.total()))
    clients.stop()

    (ready, restarts, lost), (ready_again, restarts_then, lost_then) = seen
    assert (ready, restarts) == (0, 0)
    assert (ready_again, restarts_then) == (1, 1)
    assert 0 < lost < lost_then < 200


async def test_only_what_runs_can_end(cluster: SimulatedCluster) -> None:
    """A test that ends what does not run any more would test nothing."""
    cluster.apply(replica_set("web", replicas=1))
    await asyncio.sleep(10)
    (pod,) = cluster.list(POD)
    key = ("default", pod["metadata"]["name"])
    cluster.kubelets.crash(key)
    with pytest.raises(KeyError):
        cluster.kubelets.crash(key)
    with pytest.raises(KeyError):
        cluster.kubelets.crash(("default", "nobody"))
