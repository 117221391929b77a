"""Promise: a metric of the source job makes one Job for each measurement, reads its end, and leaves none behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest

from rollouts.core.model.frozen import replace
from rollouts.errors import ApiUnavailable
from rollouts.manifests.analysis_job import MeasuringJob
from rollouts.objects import JOB, Manifest
from rollouts.ports import MERGE_PATCH, Request, Response
from rollouts.settings import MetricSettings
from rollouts.sim.actors.processes import RUN_SECONDS
from tests import build
from tests.controller.analysis.stage import CONTROLLER, NAMESPACE, Stage, analysis_run
from tests.controller.door import Door, refusal

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

ON = replace(CONTROLLER, metrics=MetricSettings(jobs=True, job_service_account="jobs"))
POD = {"containers": [{"name": "test", "image": "test:1"}]}
ENDLESS = {"annotations": {RUN_SECONDS: "1000000"}}
"""Metadata of pods that do not end by themselves: how their Jobs end, each test says."""


def asks_a_job(name: str = "smoke", pod: Manifest | None = None, **more: Any) -> Manifest:
    """A metric of the source job."""
    spec = more.pop("spec", {})
    template = {"metadata": ENDLESS, "spec": {"restartPolicy": "Never", **(pod or POD)}}
    job = {"spec": {"backoffLimit": 0, "template": template, **spec}}
    return {"name": name, "provider": {"job": job}, **more}


class JobStage:
    """How Jobs end, by hand."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @property
    def jobs(self) -> list[Manifest]:
        """All Jobs, in the order of their names."""
        return sorted(self.stage.cluster.list(JOB, NAMESPACE), key=lambda each: str(each["metadata"]["name"]))

    def end(self, job: Manifest, kind: str, **status: Any) -> None:
        """A condition that holds from now on."""
        condition = {"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}
        body = msgspec.json.encode({"status": {"conditions": [condition], **status}})
        path = JOB.path(NAMESPACE, job["metadata"]["name"], "status")
        answer = self.stage.cluster.api.answer(Request("PATCH", path, {}, body, MERGE_PATCH))
        assert answer.status == 200, answer.body

    def delete(self, job: Manifest) -> None:
        """Somebody deletes it."""
        body = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
        path = JOB.path(NAMESPACE, job["metadata"]["name"])
        assert self.stage.cluster.api.answer(Request("DELETE", path, {}, body)).status == 200

    async def until(self, count: int) -> list[Manifest]:
        """Waits for that many Jobs."""
        for _ in range(600):
            if len(self.jobs) >= count:
                return self.jobs
            await asyncio.sleep(0.1)
        raise AssertionError(f"{len(self.jobs)} Jobs")


def door(
    stage: Stage, after: Callable[[Request], Awaitable[None]] | None = None, *, status: Mapping[str, int] | None = None
) -> Door:
    """The API server, which refuses what is asked about Jobs with some verbs; `after` is what else happens to an answer."""

    def refuse(request: Request) -> Response | None:
        code = (status or {}).get(request.method, 0) if "/jobs" in request.path else 0
        return refusal(code, "Forbidden", "jobs.batch is forbidden") if code else None

    return Door(stage.cluster.api, refuse, after=after)


def makes_job(request: Request) -> bool:
    """Whether that is a request for a new Job."""
    return request.method == "POST" and "/jobs" in request.path


def planted(stage: Stage, name: str) -> Manifest:
    """A Job that somebody else makes."""
    template = {"metadata": ENDLESS, "spec": {"restartPolicy": "Never", **POD}}
    return stage.cluster.apply(build.manifest(JOB, name, NAMESPACE, spec={"template": template}))


@pytest.fixture
def jobs(stage: Stage) -> JobStage:
    """The Jobs of the cluster."""
    return JobStage(stage)


@pytest.mark.parametrize(
    ("kind", "status", "phase"),
    [
        ("Complete", {"succeeded": 1}, "Successful"),
        ("Failed", {"failed": 1}, "Failed"),
        ("SuccessCriteriaMet", {"succeeded": 1}, "Successful"),
    ],
)
async def test_the_end_of_the_job_is_the_verdict(
    kind: str, status: dict[str, Any], phase: str, stage: Stage, jobs: JobStage
) -> None:
    """It belongs to the run, and runs under the account of Jobs."""
    stage.cluster.apply(analysis_run("run", asks_a_job()))
    async with stage.controller(settings=ON):
        (job,) = await jobs.until(1)
        await asyncio.sleep(30)
        assert stage.phases("smoke") == ["Running"]
        assert len(jobs.jobs) == 1
        jobs.end(job, kind, **status)
        assert await stage.until_over(within_s=10) == phase
    run = stage.run() or {}
    assert job["metadata"]["ownerReferences"][0]["uid"] == run["metadata"]["uid"]
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "jobs"
    (measured,) = stage.result("smoke")["measurements"]
    of = job["metadata"]
    assert measured["metadata"] == {"job-name": of["name"], "job-namespace": NAMESPACE, "job-uid": of["uid"]}


async def test_a_long_job_is_asked_seldom(stage: Stage, jobs: JobStage) -> None:
    """After an hour it is looked at once a minute, and its end is seen within one."""
    api = door(stage)
    stage.cluster.apply(analysis_run("run", asks_a_job()))
    async with stage.controller(settings=ON, api=api):
        (job,) = await jobs.until(1)
        await asyncio.sleep(3_600)
        assert api.count("/jobs", "GET") < 150
        jobs.end(job, "Complete", succeeded=1)
        assert await stage.until_over(within_s=70) == "Successful"


async def test_without_the_flag_no_job_is_made(stage: Stage) -> None:
    """The measurement says how to turn it on."""
    api = door(stage)
    stage.cluster.apply(analysis_run("run", asks_a_job(consecutiveErrorLimit=0)))
    async with stage.controller(api=api):
        assert await stage.until_over() == "Error"
    assert "--job-metrics" in stage.result("smoke")["message"]
    assert "--job-metrics" in stage.status()["message"]
    assert api.count("/jobs") == 0


async def test_a_run_that_is_ended_deletes_its_job(stage: Stage, jobs: JobStage) -> None:
    """With its pods; the measurement says so, and is no verdict."""
    stage.cluster.apply(analysis_run("run", asks_a_job()))
    async with stage.controller(settings=ON):
        await jobs.until(1)
        await asyncio.sleep(5)
        stage.edit({"spec": {"terminate": True}})
        await stage.until_over(within_s=30)
        assert jobs.jobs == []
    (measured,) = stage.result("smoke")["measurements"]
    assert (measured["phase"], measured["message"]) == ("Pending", "the Job was stopped before its end")


async def test_a_job_that_has_ended_when_it_is_stopped_tells_the_truth(stage: Stage, jobs: JobStage) -> None:
    """The verdict is there: nobody throws it away."""
    stage.cluster.apply(analysis_run("run", asks_a_job()))
    async with stage.controller(settings=ON):
        (job,) = await jobs.until(1)
        await asyncio.sleep(5)
        jobs.end(job, "Failed", failed=1)
        stage.edit({"spec": {"terminate": True}})
        assert await stage.until_over(within_s=30) == "Failed"
        assert len(jobs.jobs) == 1


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_job_that_somebody_deletes_is_an_error(replaced: bool, stage: Stage, jobs: JobStage) -> None:
    """Nobody knows how it would have ended; one of the same name is not it."""
    stage.cluster.apply(analysis_run("run", asks_a_job(consecutiveErrorLimit=0)))
    async with stage.controller(settings=ON):
        (job,) = await jobs.until(1)
        await asyncio.sleep(5)
        jobs.delete(job)
        if replaced:
            jobs.end(planted(stage, job["metadata"]["name"]), "Complete", succeeded=1)
        assert await stage.until_over(within_s=60) == "Error"
    words = "another Job has the name" if replaced else "was deleted before its end was seen"
    assert words in stage.result("smoke")["message"]


async def test_a_job_of_another_owner_with_its_name_is_not_taken(stage: Stage, jobs: JobStage) -> None:
    """Whoever plants a Job that has ended well gets no verdict for it."""
    run = stage.cluster.apply(analysis_run("run", asks_a_job(consecutiveErrorLimit=0)))
    uid = run["metadata"]["uid"]
    of = MeasuringJob(namespace=NAMESPACE, run="run", uid=uid, metric="smoke", number=1, service_account="jobs")
    jobs.end(planted(stage, of.name), "Complete", succeeded=1)
    async with stage.controller(settings=ON):
        assert await stage.until_over(within_s=60) == "Error"
    assert "belongs to another owner" in stage.result("smoke")["message"]


async def test_a_controller_that_dies_after_making_a_job_finds_it_again(stage: Stage, jobs: JobStage) -> None:
    """Before it was recorded which Job it is: the next controller takes the measurement under its number, and that is the Job."""

    made = asyncio.Event()

    async def dies(request: Request) -> None:
        if makes_job(request):
            made.set()
            await asyncio.Event().wait()

    stage.cluster.apply(analysis_run("run", asks_a_job()))
    dying = asyncio.create_task(stage.control(asyncio.Event(), api=door(stage, dies), settings=ON))
    await made.wait()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    async with stage.controller(settings=ON):
        await asyncio.sleep(20)
        (job,) = jobs.jobs
        jobs.end(job, "Complete", succeeded=1)
        assert await stage.until_over(within_s=60) == "Successful"
    assert len(jobs.jobs) == 1


async def test_an_answer_that_gets_lost_makes_no_second_job(stage: Stage, jobs: JobStage) -> None:
    """The Job was made, and nobody knows: the next try finds it by its name."""

    lost: list[Request] = []

    async def loses(request: Request) -> None:
        if makes_job(request) and not lost:
            lost.append(request)
            raise ApiUnavailable("the connection broke")

    stage.cluster.apply(analysis_run("run", asks_a_job(consecutiveErrorLimit=0)))
    async with stage.controller(settings=ON, api=door(stage, loses)):
        await asyncio.sleep(10)
        (job,) = jobs.jobs
        jobs.end(job, "Complete", succeeded=1)
        assert await stage.until_over(within_s=30) == "Successful"


@pytest.mark.parametrize(
    ("metric", "status", "words"),
    [
        (asks_a_job(pod={**POD, "serviceAccountName": "admin"}), {}, "Jobs of metrics run as jobs"),
        (asks_a_job(spec={"manualSelector": True}), {}, "manualSelector"),
        (asks_a_job(pod={"containers": []}), {}, "the API server refuses the Job"),
        (asks_a_job(), {"POST": 403}, "the controller may not create the Job"),
        (asks_a_job(), {"POST": 500}, "the API server does not answer as it must"),
    ],
)
async def test_a_job_that_cannot_be_made_is_an_error(
    metric: Manifest, status: dict[str, int], words: str, stage: Stage, jobs: JobStage
) -> None:
    """And says why."""
    stage.cluster.apply(analysis_run("run", {**metric, "consecutiveErrorLimit": 0}))
    async with stage.controller(settings=ON, api=door(stage, status=status)):
        assert await stage.until_over() == "Error"
    assert words in stage.result("smoke")["message"]
    assert jobs.jobs == []


async def test_a_job_that_may_not_be_deleted_is_told_of(stage: Stage, jobs: JobStage) -> None:
    """The run ends all the same."""
    stage.cluster.apply(analysis_run("run", asks_a_job()))
    async with stage.controller(settings=ON, api=door(stage, status={"DELETE": 403})):
        await jobs.until(1)
        await asyncio.sleep(5)
        stage.edit({"spec": {"terminate": True}})
        await stage.until_over(within_s=30)
    assert "may not delete the Job" in stage.result("smoke")["measurements"][0]["message"]


async def test_no_more_jobs_stay_than_measurements_are_kept(stage: Stage, jobs: JobStage) -> None:
    """A run of a thousand measurements does not fill its namespace."""
    metric = asks_a_job(interval="10s", count=8)
    retention = [{"metricName": "smoke", "limit": 3}]
    stage.cluster.apply(analysis_run("run", metric, measurementRetention=retention))
    async with stage.controller(settings=ON):
        for _ in range(400):
            for each in jobs.jobs:
                if not (each.get("status") or {}).get("conditions"):
                    jobs.end(each, "Complete", succeeded=1)
            assert len(jobs.jobs) <= 4
            await asyncio.sleep(0.5)
        assert stage.status()["phase"] == "Successful"
        assert stage.result("smoke")["successful"] == 8
    assert len(jobs.jobs) == 3
