"""Promise: Jobs run, are tried again, succeed and fail as the real Job controller lets them, and leave no pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.objects import JOB, POD, Manifest
from rollouts.ports import Request
from rollouts.sim.actors.processes import EXIT_CODES, RUN_SECONDS
from rollouts.sim.cluster import SimulatedCluster
from tests.build import manifest
from tests.sim.manifests import followed, stored

FOREVER_S = 1e6
pytestmark = pytest.mark.virtual_time


def job(*, run_s: float | str = 5.0, codes: str = "0", policy: str = "Never", **spec: Any) -> Manifest:
    """A Job whose pods run for so long and end with these exit codes, by index or by attempt."""
    metadata = {"annotations": {RUN_SECONDS: str(run_s), EXIT_CODES: codes}}
    pod = {"restartPolicy": policy, "containers": [{"name": "main", "image": "test:1"}]}
    return manifest(JOB, "smoke", "default", spec={"template": {"metadata": metadata, "spec": pod}, **spec})


def indexed(*rules: Manifest, completions: int = 3, **options: Any) -> Manifest:
    """An Indexed Job, all of whose pods may run at once, with rules of a successPolicy."""
    policy: Manifest = {"successPolicy": {"rules": list(rules)}} if rules else {}
    return job(completionMode="Indexed", completions=completions, parallelism=completions, **policy, **options)


def statuses(asked: Manifest, *at_s: float) -> list[Manifest]:
    """The Job's status at some times after its creation."""
    return followed(asked, lambda cluster: stored(cluster, JOB, "smoke")["status"], *at_s)


def met(status: Manifest) -> list[tuple[str, str]]:
    """Types and reasons of the conditions that hold, in their order."""
    return [(each["type"], each["reason"]) for each in status.get("conditions") or () if each["status"] == "True"]


def test_a_job_that_succeeds_is_complete() -> None:
    """First what it comes to, then that it is over: readers that wait for either must work."""
    running, done = statuses(job(run_s=5), 3, 10)

    assert [running[key] for key in ("active", "ready", "terminating")] == [1, 1, 0]
    assert met(running) == []
    assert met(done) == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
    assert (done["succeeded"], done["ready"], "active" in done, "failed" in done) == (1, 0, False, False)
    assert done["completionTime"] > done["startTime"]


def test_a_job_that_fails_is_tried_again_later_and_later() -> None:
    """backoffLimit 2 is three pods, 10 and 20 s apart."""
    first, second, third, over = statuses(job(run_s=1, codes="1", backoffLimit=2), 5, 15, 30, 40)

    assert [each.get("failed") for each in (first, second, third, over)] == [1, 2, 2, 3]
    assert met(third) == []
    assert met(over) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert "completionTime" not in over


def test_a_second_try_may_succeed() -> None:
    """Exit codes go by the attempt."""
    (done,) = statuses(job(run_s=1, codes="1,0"), 20)

    assert (done["failed"], done["succeeded"], met(done)[-1][0]) == (1, 1, "Complete")


def test_a_job_that_takes_too_long_fails_and_its_pods_go_first() -> None:
    """A metric that waits for FailureTarget knows it while the pods still terminate."""
    (running, target, over) = statuses(job(run_s=FOREVER_S, activeDeadlineSeconds=10), 9, 10.05, 15)

    assert met(running) == []
    assert met(target) == [("FailureTarget", "DeadlineExceeded")]
    assert (target["terminating"], "active" in target) == (1, False)
    assert met(over) == [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]
    assert over["failed"] == 1


def test_containers_that_are_restarted_in_place_count_too() -> None:
    """With restartPolicy OnFailure the pod stays, and its restarts use up the limit."""
    (over,) = statuses(job(run_s=1, codes="1", policy="OnFailure", backoffLimit=2), 60)

    assert met(over) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]


def test_completions_and_parallelism_are_kept() -> None:
    """Five successes, two at a time."""
    early, middle, over = statuses(job(run_s=4, completions=5, parallelism=2), 2, 6, 20)

    assert (early["active"], "succeeded" in early) == (2, False)
    assert (middle["active"], middle["succeeded"]) == (2, 2)
    assert (over["succeeded"], met(over)[-1][0]) == (5, "Complete")


def test_every_index_of_an_indexed_job_must_succeed() -> None:
    """Without a successPolicy; the index that fails once is tried again."""
    (over,) = statuses(indexed(run_s=1), 30)
    (failed,) = statuses(indexed(run_s=1, codes="0,1,0", backoffLimit=0), 30)

    assert (over["completedIndexes"], met(over)[-1][0]) == ("0-2", "Complete")
    assert (failed["completedIndexes"], met(failed)[-1][0]) == ("0,2", "Failed")


@pytest.mark.parametrize(
    ("rules", "codes", "end"),
    [
        ([{"succeededIndexes": "0"}], "0,1,1", ("Complete", "SuccessPolicy")),
        ([{"succeededIndexes": "1-2"}], "0,1,1", ("Failed", "BackoffLimitExceeded")),
        ([{"succeededCount": 2}], "0,1,0", ("Complete", "SuccessPolicy")),
        ([{"succeededIndexes": "0-1", "succeededCount": 1}], "1,0,1", ("Complete", "SuccessPolicy")),
        ([{"succeededIndexes": "2"}, {"succeededCount": 1}], "0,1,1", ("Complete", "SuccessPolicy")),
    ],
    ids=str,
)
def test_a_success_policy_ends_the_job_early(rules: list[Manifest], codes: str, end: tuple[str, str]) -> None:
    """The leader's success is the Job's, whatever the others do."""
    (over,) = statuses(indexed(*rules, run_s=1, codes=codes, backoffLimit=2), 60)

    assert met(over)[-1] == end


async def test_pods_that_are_not_needed_any_more_are_deleted(cluster: SimulatedCluster) -> None:
    """By a success policy: the others still run when it holds."""
    cluster.apply(indexed({"succeededIndexes": "0"}, run_s=f"1,{FOREVER_S}"))
    await asyncio.sleep(10)

    pods, status = cluster.list(POD), stored(cluster, JOB, "smoke")["status"]
    assert [each["status"]["phase"] for each in pods] == ["Succeeded"]
    assert (status["succeeded"], met(status)[-1]) == (1, ("Complete", "SuccessPolicy"))


async def test_a_suspended_job_runs_when_it_is_resumed(cluster: SimulatedCluster) -> None:
    """And says so."""
    cluster.apply(job(run_s=1, suspend=True))
    seen = []
    for suspend in (True, False):
        cluster.apply(job(run_s=1, suspend=suspend))
        await asyncio.sleep(10)
        seen.append(met(stored(cluster, JOB, "smoke")["status"]))

    suspended, resumed = seen
    assert suspended == [("Suspended", "JobSuspended")]
    assert resumed[-1] == ("Complete", "CompletionsReached")


async def test_a_finished_job_goes_after_its_time_to_live(cluster: SimulatedCluster) -> None:
    """With its pods."""
    cluster.apply(job(run_s=1, ttlSecondsAfterFinished=30))
    seen = []
    for _ in range(2):
        await asyncio.sleep(20)
        seen.append((len(cluster.list(JOB)), len(cluster.list(POD))))

    assert seen == [(1, 1), (0, 0)]


@pytest.mark.parametrize(("propagation", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 1), ("", 1)])
async def test_deleting_a_job_takes_its_pods_along_only_when_told(
    cluster: SimulatedCluster, propagation: str, left: int
) -> None:
    """Without propagationPolicy batch/v1 orphans them, unlike every other kind: they would run on for nobody."""
    cluster.apply(job(run_s=FOREVER_S))
    await asyncio.sleep(5)
    query = {"propagationPolicy": propagation} if propagation else {}
    assert cluster.api.answer(Request("DELETE", JOB.path("default", "smoke"), query)).status in (200, 202)
    await asyncio.sleep(40)
    assert cluster.list(JOB) == []

    assert len(cluster.list(POD)) == left
