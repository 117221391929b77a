"""Runs one look at one AnalysisRun, from its key to its status, and handles everything that goes wrong in it.

Nothing is measured before the status that asks for it is written, and nothing that was measured counts before it is in the
status. So a crash between any two writes only means that a measurement is taken again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from msgspec import Struct

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import metadata_of
from rollouts.cluster.store import Table
from rollouts.cluster.structs import AnalysisRunObject, Metadata
from rollouts.controller.act.events import EventSender
from rollouts.controller.act.render import render_notice
from rollouts.controller.analysis.measuring import Measuring
from rollouts.controller.analysis.reading import (
    RunStatusRead,
    needs_a_look,
    not_recorded,
    patch_to,
    spec_of,
    status_of,
    time_to_live_of,
    within_limits,
)
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.runtime import log_error, work_off
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.analysis.run import TERMINATED, decide_run
from rollouts.core.analysis.run_spec import RunSpec
from rollouts.core.analysis.time_to_live import expires_at_s
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice
from rollouts.core.model.reasons import Reason
from rollouts.errors import ApiConflict, ApiNotFound, Delays, SpecInvalid
from rollouts.manifests.ownership import FIELD_MANAGER
from rollouts.objects import ANALYSIS_RUN, Key
from rollouts.ports import MERGE_PATCH, Clock
from rollouts.telemetry import Telemetry

LOOK_DEADLINE_S = 60.0  # its one request has a shorter deadline of its own
AGAIN_MIN_S = 0.01
AGAIN_MAX_S = 300.0  # a look costs no request, and the wall clock may have been set meanwhile
KEPT_AGAIN_S = 60.0
UNNAMED_AGAIN_S = 5.0

_UNNAMED = (
    "the Rollout that controls this run has not asked for it: status.analyses does not name it, so it measures nothing; "
    "delete it, or remove the owner reference to measure by its labels"
)

_REASONS = {
    AnalysisPhase.SUCCESSFUL: Reason.ANALYSIS_SUCCESSFUL,
    AnalysisPhase.FAILED: Reason.ANALYSIS_FAILED,
    AnalysisPhase.INCONCLUSIVE: Reason.ANALYSIS_RUN_INCONCLUSIVE,
    AnalysisPhase.ERROR: Reason.ANALYSIS_RUN_ERROR,
}

Keeps: TypeAlias = Callable[[Metadata], bool]
"""Whether a run that is over must stay although its time has come."""


class About(Struct, frozen=True):
    """The Rollout and the revision that a run is about; "" where nothing says it."""

    rollout: str
    revision: str


Tells: TypeAlias = Callable[[Metadata], About | None]
"""What a run is about; None while the Rollout that controls it does not name it in its status."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Known:
    """A run that is not over.

    Args:
        spec: of that generation, or what is wrong with it.
        written: resourceVersion of our last write; what follows from it was done in the look that wrote it.
        recorded: the status of that version, so that the next look need not decode it.
        about: what it measures, once that is known; it never changes.
        unnamed: an earlier look found that its Rollout does not name it.
    """

    uid: str
    generation: int
    spec: RunSpec | SpecInvalid
    written: str = ""
    recorded: RunStatus | None = None
    about: About | None = None
    unnamed: bool = False


class RunWorker:
    """Takes keys of AnalysisRuns from the queue. All workers share one.

    Args:
        table: the AnalysisRuns.
        identity: of the process, for Events.
    """

    def __init__(  # noqa: PLR0913 - the parts of one look, in their order
        self,
        *,
        queue: WorkQueue,
        barrier: Barrier,
        table: Table[AnalysisRunObject],
        measuring: Measuring,
        client: Client,
        keeps: Keeps,
        about: Tells,
        events: EventSender,
        telemetry: Telemetry,
        clock: Clock,
        identity: str,
    ) -> None:
        self._queue = queue
        self._barrier = barrier
        self._table = table
        self._measuring = measuring
        self._client = client
        self._keeps = keeps
        self._about = about
        self._events = events
        self._telemetry = telemetry
        self._clock = clock
        self._identity = identity
        self._known: dict[Key, _Known] = {}

    def __len__(self) -> int:
        """Runs that are not over."""
        return len(self._known)

    def changed(self, before: AnalysisRunObject | None, after: AnalysisRunObject | None) -> None:
        """Follows one change in the cluster: queues a look if there is something to do."""
        metadata = (after or before or AnalysisRunObject()).metadata
        key = Key(metadata.namespace, metadata.name)
        self._barrier.shown(ANALYSIS_RUN, key.namespace, key.name)
        if after is None or (before is not None and before.metadata.uid != metadata.uid):
            self._forget(key)
            self._barrier.forget(key)
            self._queue.forget(key)
        if after is None or not needs_a_look(after):
            return
        known = self._known.get(key)
        if known is None or known.written != metadata.resource_version or known.generation != metadata.generation:
            self._queue.add(key)

    async def run(self) -> None:
        """Works until the queue is closed, and finishes a look that has begun."""
        await work_off(self._queue, self._reconcile, on_error=self._on_error, delays=Delays(), barrier=self._barrier)

    def _on_error(self, key: Key, error: Exception, retry_in_s: float) -> None:
        self._telemetry.analysis.errors.labels(type(error).__name__).inc()
        log_error("analysis", error, retry_in_s, run=str(key))

    async def _reconcile(self, key: Key) -> None:
        """Looks once. Raises: what `Client` raises; ApiConflict also when the run has changed or is gone; TimeoutError."""
        async with asyncio.timeout(LOOK_DEADLINE_S):
            await self._look(key)

    async def _look(self, key: Key) -> None:
        seen = self._table.get(key.namespace, key.name)
        unreadable = (key.namespace, key.name) in self._table.unreadable
        if seen is None or seen.metadata.deletion_timestamp is not None or unreadable:
            self._forget(key)
            return
        now_s = self._clock.now_s()
        known = self._known.get(key)
        if known is not None and known.recorded is not None and known.written == seen.metadata.resource_version:
            read = RunStatusRead(known.recorded)  # nobody has written since we did
        else:
            read = status_of(seen)
        if read.status.phase.over:
            self._forget(key)
            await self._expire(key, seen, read.status, now_s)
            return
        if read.problems:
            log.warning("analysis_status_unreadable", run=str(key), problems=read.problems)
        known = self._known_of(key, seen)
        if isinstance(known.spec, SpecInvalid):
            await self._record(key, seen, read, _refused(read.status, known.spec, now_s))
            return
        known.about = known.about or self._about(seen.metadata)
        if known.about is not None or known.spec.terminate:
            await self._measure(key, seen, read, known.spec, now_s)
            return
        # Its Rollout does not name it, so it would not count: it measures nothing. The second look says so in the run.
        if known.unnamed:
            await self._record(key, seen, read, replace(read.status, message=_UNNAMED))
        known.unnamed = True
        self._queue.add_at(key, self._clock.monotonic_s() + UNNAMED_AGAIN_S)

    async def _measure(
        self, key: Key, seen: AnalysisRunObject, read: RunStatusRead, spec: RunSpec, now_s: float
    ) -> None:
        """Decides, records, and only then asks."""
        uid = seen.metadata.uid
        if spec.terminate:
            self._measuring.give_up(uid)
        taken = self._measuring.taken(uid)
        status = replace(read.status, message="") if read.status.message == _UNNAMED else read.status
        decision = decide_run(
            spec.rules,
            status,
            measured=not_recorded(taken, read.status),
            asked=self._measuring.asked(uid),
            terminate=TERMINATED if spec.terminate else "",
            now_s=now_s,
        )
        await self._record(key, seen, read, within_limits(decision.status))
        self._measuring.recorded(uid, taken)
        known = self._known.get(key)
        if decision.status.phase.over or known is None or known.uid != uid:
            return  # it was deleted while its status was written
        started_at_s = decision.status.started_at_s
        about = known.about or About("", "")  # one that ends begins nothing
        run = MeasuredRun(
            namespace=key.namespace,
            name=key.name,
            uid=uid,
            rollout=about.rollout,
            revision=about.revision,
            started_at_s=now_s if started_at_s is None else started_at_s,
        )
        metrics = {metric.rules.name: metric for metric in spec.metrics}
        for due in decision.due:
            self._measuring.ask(key, run, metrics[due.metric], due)
        if decision.wake_at_s is not None:
            wait_s = min(AGAIN_MAX_S, max(AGAIN_MIN_S, decision.wake_at_s - now_s))
            self._queue.add_at(key, self._clock.monotonic_s() + wait_s)

    async def _record(self, key: Key, seen: AnalysisRunObject, read: RunStatusRead, status: RunStatus) -> None:
        """Writes the status if it differs.

        Raises: what `Client` raises; ApiConflict also when the run has changed or is gone.
        """
        if patch := patch_to(status, read=read, seen=seen):
            await self._write(key, seen.metadata, patch, status)
        if status.phase.over:
            self._forget(key)
            self._tell(seen.metadata, status)

    async def _write(self, key: Key, metadata: Metadata, patch: Mapping[str, object], status: RunStatus) -> None:
        # With a resourceVersion in it, a merge patch on an old version is a conflict, not an overwrite.
        body = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": patch,
        }
        try:
            answer = await self._client.patch(
                ANALYSIS_RUN,
                key.namespace,
                key.name,
                body,
                MERGE_PATCH,
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except ApiNotFound as exc:
            self._barrier.wrote(key, ANALYSIS_RUN, key.name, resource_version=None, uid=metadata.uid)
            raise ApiConflict(f"AnalysisRun {key} is gone") from exc
        except ApiConflict:
            version = metadata.resource_version
            self._barrier.outdated(key, ANALYSIS_RUN, key.name, resource_version=version, uid=metadata.uid)
            raise
        written = metadata_of(answer).resource_version
        self._barrier.wrote(key, ANALYSIS_RUN, key.name, resource_version=written, uid=metadata.uid)
        known = self._known.get(key)
        if known is not None and known.uid == metadata.uid:
            known.written, known.recorded = written, status

    def _tell(self, metadata: Metadata, status: RunStatus) -> None:
        """Reports the end of a run."""
        phase = status.phase
        self._telemetry.analysis.runs.labels(phase.value).inc()
        log.info("analysis_over", run=f"{metadata.namespace}/{metadata.name}", phase=phase, why=status.message or None)
        message = status.message or "all its metrics are Successful"
        notice = Notice(_REASONS[phase], message, warning=phase is not AnalysisPhase.SUCCESSFUL)
        at_s, index = self._clock.now_s(), self._events.next_index()
        event = render_notice(metadata, notice, at_s=at_s, index=index, instance=self._identity, kind=ANALYSIS_RUN)
        self._events.offer(metadata.namespace, event)

    async def _expire(self, key: Key, seen: AnalysisRunObject, status: RunStatus, now_s: float) -> None:
        """Deletes a run that was to be kept until now, exactly as it was seen."""
        at_s = expires_at_s(time_to_live_of(seen), status)
        if at_s is None:
            return
        metadata = seen.metadata
        wait_s = at_s - now_s if at_s > now_s else KEPT_AGAIN_S if self._keeps(metadata) else 0.0
        if wait_s > 0:
            self._queue.add_at(key, self._clock.monotonic_s() + wait_s)
            return
        try:
            await self._client.delete(ANALYSIS_RUN, key.namespace, key.name, metadata.uid, metadata.resource_version)
        except ApiNotFound:
            pass  # it is gone already, as wanted
        except ApiConflict:
            self._barrier.outdated(
                key, ANALYSIS_RUN, key.name, resource_version=metadata.resource_version, uid=metadata.uid
            )
            raise
        self._barrier.wrote(key, ANALYSIS_RUN, key.name, resource_version=None, uid=metadata.uid)

    def _status_of(self, key: Key, seen: AnalysisRunObject) -> RunStatusRead:
        """The run's status: as we wrote it, where nobody has written since."""
        known = self._known.get(key)
        if known is not None and known.recorded is not None and known.written == seen.metadata.resource_version:
            return RunStatusRead(known.recorded)
        return status_of(seen)

    def _known_of(self, key: Key, seen: AnalysisRunObject) -> _Known:
        """What is known of the run; its spec is read once for each generation."""
        uid, generation = seen.metadata.uid, seen.metadata.generation
        known = self._known.get(key)
        if known is not None and (known.uid, known.generation) == (uid, generation):
            return known
        if known is not None and known.uid != uid:
            self._measuring.forget(known.uid)
        try:
            spec: RunSpec | SpecInvalid = spec_of(seen)
        except SpecInvalid as exc:
            spec = exc
        known = self._known[key] = _Known(uid, generation, spec)
        return known

    def _forget(self, key: Key) -> None:
        """Ends what is being measured for a run that is over, gone, or cannot be seen."""
        known = self._known.pop(key, None)
        if known is not None:
            self._measuring.forget(known.uid)


def _refused(status: RunStatus, invalid: SpecInvalid, now_s: float) -> RunStatus:
    """The end of a run whose spec cannot be carried out."""
    return replace(
        status,
        phase=AnalysisPhase.ERROR,
        message=str(invalid),
        started_at_s=now_s if status.started_at_s is None else status.started_at_s,
        completed_at_s=now_s,
    )
