"""Measurements of `job`: each makes a Kubernetes Job in the namespace of its run, and waits for its end.

Whoever writes templates can run pods with this, so an installation turns it on by itself (`--job-metrics`).
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

import msgspec

from rollouts.cluster.client import Client
from rollouts.controller.analysis.sources import MeasuredRun, failed
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import JobMetric
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.errors import ApiConflict, ApiExists, ApiForbidden, ApiInvalid, ApiNotFound, ApiUnavailable
from rollouts.manifests.analysis_job import MeasuringJob, is_made_for, job_manifest, job_problem, job_verdict
from rollouts.objects import JOB, Manifest
from rollouts.ports import Clock

JOB_NAME, JOB_NAMESPACE, JOB_UID = "job-name", "job-namespace", "job-uid"
LOOK_MIN_S, LOOK_MAX_S = 2.0, 60.0
TRIES = 4  # to create a Job, while the API server gives no answer
MESSAGE_MAX = 500  # characters of the API server's words


@dataclass(slots=True, kw_only=True, eq=False)
class JobMeasurements:
    """Makes Jobs, looks at them, and deletes them.

    Args:
        service_account: of all Jobs, in the namespace of each.
    """

    client: Client
    clock: Clock
    service_account: str

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`."""
        source = metric.source
        assert isinstance(source, JobMetric)  # noqa: S101 - the registry knows no other for us
        job = MeasuringJob(
            namespace=run.namespace,
            run=run.name,
            uid=run.uid,
            metric=due.metric,
            number=due.number,
            service_account=self.service_account,
        )
        if due.task is Task.TAKE or due.measurement is None:
            taken = await self._taken(job, source, now_s)
            if not taken.finished and due.number > metric.rules.kept:
                await self._forget(job, job.numbered(due.number - metric.rules.kept))
            return taken
        return await self._followed(run, source, due.measurement, now_s, stop=due.task is Task.STOP)

    async def _taken(self, job: MeasuringJob, source: JobMetric, now_s: float) -> Measurement:
        """Makes the Job, or finds the one that was made before."""
        made: Manifest | None = None
        problem = job_problem(source, service_account=self.service_account)
        if not problem:
            try:
                made = _decoded(await self._created(job, job_manifest(job, source)))
            except ApiExists:
                made = await self._job(job.namespace, job.name)
                if made is None or not is_made_for(made, job.uid):
                    problem = f"a Job {job.name} exists and belongs to another owner"
            except ApiForbidden as exc:
                problem = f"the controller may not create the Job: {str(exc)[:MESSAGE_MAX]}"
            except (ApiInvalid, ApiNotFound) as exc:
                problem = f"the API server refuses the Job: {str(exc)[:MESSAGE_MAX]}"
        if problem or made is None:
            return failed(problem, started_at_s=now_s, finished_at_s=self.clock.now_s())
        return Measurement(
            phase=AnalysisPhase.RUNNING,
            started_at_s=now_s,
            resume_at_s=now_s + LOOK_MIN_S,
            metadata=((JOB_NAME, job.name), (JOB_NAMESPACE, job.namespace), (JOB_UID, _uid_of(made))),
        )

    async def _created(self, job: MeasuringJob, manifest: Manifest) -> bytes:
        """Creates the Job. An answer that got lost is asked for again: what was created then exists, and is found by its name."""
        for _ in range(TRIES - 1):
            try:
                return await self.client.create(JOB, job.namespace, manifest, strict=True)
            except ApiUnavailable:
                await asyncio.sleep(LOOK_MIN_S)
        return await self.client.create(JOB, job.namespace, manifest, strict=True)

    async def _followed(
        self, run: MeasuredRun, source: JobMetric, measurement: Measurement, now_s: float, *, stop: bool
    ) -> Measurement:
        """Looks at the Job; one that is stopped and has not ended is deleted."""
        known = dict(measurement.metadata)
        name, uid = known.get(JOB_NAME, ""), known.get(JOB_UID, "")
        if not name or not uid:
            return self._ended(measurement, AnalysisPhase.ERROR, "it is not recorded which Job it is")
        seen = await self._job(run.namespace, name)
        if seen is None:
            phase = AnalysisPhase.PENDING if stop else AnalysisPhase.ERROR
            return self._ended(measurement, phase, f"the Job {name} was deleted before its end was seen")
        if _uid_of(seen) != uid or not is_made_for(seen, run.uid):
            return self._ended(measurement, AnalysisPhase.ERROR, f"another Job has the name {name}")
        verdict = job_verdict(seen, source)
        if verdict.phase.over:
            return self._ended(measurement, verdict.phase, verdict.message)
        if stop:
            return self._ended(measurement, AnalysisPhase.PENDING, await self._deleted(run.namespace, name, uid))
        again_s = min(LOOK_MAX_S, max(LOOK_MIN_S, math.sqrt(max(0.0, now_s - measurement.started_at_s))))
        return replace(measurement, resume_at_s=now_s + again_s, message=verdict.message)

    async def _deleted(self, namespace: str, name: str, uid: str) -> str:
        """Deletes the Job with its pods; says what came of it."""
        try:
            await self.client.delete(JOB, namespace, name, uid)
        except (ApiNotFound, ApiConflict):
            return "the Job was gone when it was stopped"
        except ApiForbidden:
            return f"the controller may not delete the Job {name}: it keeps running until the AnalysisRun is deleted"
        return "the Job was stopped before its end"

    async def _forget(self, job: MeasuringJob, name: str) -> None:
        """Deletes the Job of a measurement that the run's status does not keep either."""
        seen = await self._job(job.namespace, name)
        if seen is not None and is_made_for(seen, job.uid):
            await self._deleted(job.namespace, name, _uid_of(seen))

    async def _job(self, namespace: str, name: str) -> Manifest | None:
        try:
            return _decoded(await self.client.get(JOB, namespace, name))
        except ApiNotFound:
            return None

    def _ended(self, measurement: Measurement, phase: AnalysisPhase, message: str) -> Measurement:
        return replace(measurement, phase=phase, finished_at_s=self.clock.now_s(), resume_at_s=None, message=message)


def _uid_of(job: Manifest) -> str:
    return str((job.get("metadata") or {}).get("uid", ""))


def _decoded(answer: bytes) -> Manifest:
    try:
        found = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ApiUnavailable(f"the API server's answer about a Job cannot be read ({type(exc).__name__})") from exc
    return found if isinstance(found, dict) else {}
