"""All AnalysisRuns of the cluster: their watch, their queue, and, while this controller leads, looks and measurements.

Every controller watches them; only the leader looks at them. Without the CRD, or without the right to watch it, there are none.

Nothing is measured before the status that asks for it is written, and nothing that was measured counts before it is in the
status. So a crash between any two writes only means that a measurement is taken again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog
from msgspec import Struct

from rollouts.api.spec.analysis.run import parse_run, time_to_live_in
from rollouts.api.status.wire import read_status
from rollouts.cluster.client import Client
from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Store, Table
from rollouts.cluster.structs import AnalysisRunObject, Metadata, RolloutObject
from rollouts.controller.act.events import EventSender
from rollouts.controller.act.status_writes import write_status
from rollouts.controller.analysis.measuring import Measuring
from rollouts.controller.analysis.reading import (
    RunStatusRead,
    needs_a_look,
    not_recorded,
    patch_to,
    spec_of,
    status_of,
    within_limits,
)
from rollouts.controller.analysis.sources import MeasuredRun, MeasurementSource
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.runtime import log_error, reconcile_loop
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.analysis.run import TERMINATED, decide_run
from rollouts.core.analysis.run_spec import RunSpec, TimeToLive, expires_at_s
from rollouts.core.model.analysis import AnalysisPhase, AnalysisRecord
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice
from rollouts.core.model.reasons import Reason
from rollouts.errors import ApiConflict, ApiNotFound, Delays, SpecInvalid
from rollouts.manifests.ownership import NAME, REVISION, name_label
from rollouts.objects import ANALYSIS_RUN, ROLLOUT, Key, Kind
from rollouts.ports import ApiServer, Clock
from rollouts.telemetry import Telemetry

LOOKS_AT_ONCE = 16
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


class _About(Struct, frozen=True):
    """The Rollout and the revision that a run is about; "" where nothing says it."""

    rollout: str
    revision: str


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
    about: _About | None = None
    unnamed: bool = False


@dataclass(kw_only=True, eq=False)
class AnalysisRuns:
    """Carries out AnalysisRuns.

    Args:
        sources: those that this installation has.
        measurements: that may be taken at once.
        on_change: called for each change of a run, after this room knows of it.
    """

    api: ApiServer
    client: Client
    store: Store
    sources: Mapping[str, MeasurementSource]
    events: EventSender
    telemetry: Telemetry
    clock: Clock
    rng: random.Random
    identity: str
    measurements: int
    on_change: Callable[[AnalysisRunObject | None, AnalysisRunObject | None], None]
    _known: dict[Key, _Known] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._table: Table[AnalysisRunObject] = self.store.table(ANALYSIS_RUN)
        self._rollouts: Table[RolloutObject] = self.store.table(ROLLOUT)
        self._queue = WorkQueue(clock=self.clock, rng=self.rng, workers=LOOKS_AT_ONCE)
        self._barrier = Barrier(store=self.store, queue=self._queue, clock=self.clock)
        self._measuring = Measuring(
            sources=self.sources,
            clock=self.clock,
            rng=self.rng,
            telemetry=self.telemetry,
            at_once=self.measurements,
            on_taken=self._queue.add,
        )
        self.watch = OptionalWatch(
            self._table,
            api=self.api,
            rng=self.rng,
            on_change=self._changed,
            on_unreadable=self._unreadable,
            on_seen=lambda: self.telemetry.follow_table(self._table),
        )
        """Whether runs can be seen, and where not."""
        telemetry = self.telemetry
        telemetry.analysis.measurements_active.set_function(lambda: self._measuring.active)
        telemetry.analysis.measurements_waiting.set_function(lambda: len(self._measuring))
        telemetry.analysis.runs_active.set_function(lambda: len(self._known))

    async def lead(self) -> None:
        """Looks at runs and measures until `close`. Cancellation: ends looks and measurements, and waits for that."""
        async with asyncio.TaskGroup() as tasks:
            measuring = tasks.create_task(self._measuring.run())
            async with asyncio.TaskGroup() as looks:
                for _ in range(LOOKS_AT_ONCE):
                    work = reconcile_loop(
                        self._queue, self._reconcile, on_error=self._on_error, delays=Delays(), barrier=self._barrier
                    )
                    looks.create_task(work)
            measuring.cancel()

    def close(self) -> None:
        """Begins no more looks; those that have begun are finished."""
        self._queue.close()

    def _changed(self, _kind: Kind, before: AnalysisRunObject | None, after: AnalysisRunObject | None) -> None:
        """Queues a look if there is something to do."""
        metadata = (after or before or AnalysisRunObject()).metadata
        key = Key(metadata.namespace, metadata.name)
        self._barrier.shown(ANALYSIS_RUN, key.namespace, key.name)
        if after is None or (before is not None and before.metadata.uid != metadata.uid):
            self._forget(key)
            self._barrier.forget(key)
            self._queue.forget(key)
        if after is not None and needs_a_look(after):
            known = self._known.get(key)
            if known is None or known.written != metadata.resource_version or known.generation != metadata.generation:
                self._queue.add(key)
        self.on_change(before, after)

    def _unreadable(self, kind: Kind, seen: UnreadableObject) -> None:
        """A look at a run that exists and cannot be read ends its measurements, and its Rollout says so; all others go on."""
        metadata = seen.metadata
        log.error("object_unreadable", kind=kind.kind, namespace=metadata.namespace, name=metadata.name, why=seen.why)
        self._barrier.shown(kind, metadata.namespace, metadata.name)
        self._queue.add(Key(metadata.namespace, metadata.name))
        self.on_change(None, AnalysisRunObject(metadata=metadata))

    def _on_error(self, key: Key, error: Exception, retry_in_s: float) -> None:
        self.telemetry.analysis.errors.labels(type(error).__name__).inc()
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
        now_s = self.clock.now_s()
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
            started_at_s = now_s if read.status.started_at_s is None else read.status.started_at_s
            refused = replace(
                read.status,
                phase=AnalysisPhase.ERROR,
                message=str(known.spec),
                started_at_s=started_at_s,
                completed_at_s=now_s,
            )
            await self._record(key, seen, read, refused)
            return
        known.about = known.about or self._about(seen.metadata)
        if known.about is not None or known.spec.terminate:
            await self._measure(key, seen, read, known.spec, now_s)
            return
        # Its Rollout does not name it, so it would not count: it measures nothing. The second look says so in the run.
        if known.unnamed:
            await self._record(key, seen, read, replace(read.status, message=_UNNAMED))
        known.unnamed = True
        self._queue.add_at(key, self.clock.monotonic_s() + UNNAMED_AGAIN_S)

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
        about = known.about or _About("", "")  # one that ends begins nothing
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
            self._queue.add_at(key, self.clock.monotonic_s() + wait_s)

    async def _record(self, key: Key, seen: AnalysisRunObject, read: RunStatusRead, status: RunStatus) -> None:
        """Writes the status if it differs."""
        metadata = seen.metadata
        if patch := patch_to(status, read=read, seen=seen):
            written = await write_status(self.client, self._barrier, ANALYSIS_RUN, key, seen=metadata, patch=patch)
            known = self._known.get(key)
            if known is not None and known.uid == metadata.uid:
                known.written, known.recorded = written, status
        if status.phase.over:
            self._forget(key)
            self._report_end(metadata, status)

    def _report_end(self, metadata: Metadata, status: RunStatus) -> None:
        phase = status.phase
        self.telemetry.analysis.runs.labels(phase.value).inc()
        log.info("analysis_over", run=f"{metadata.namespace}/{metadata.name}", phase=phase, why=status.message or None)
        message = status.message or "all its metrics are Successful"
        notice = Notice(_REASONS[phase], message, warning=phase is not AnalysisPhase.SUCCESSFUL)
        at_s = self.clock.now_s()
        self.events.report(metadata, (notice,), at_s=at_s, instance=self.identity, kind=ANALYSIS_RUN)

    async def _expire(self, key: Key, seen: AnalysisRunObject, status: RunStatus, now_s: float) -> None:
        """Deletes a run that was to be kept until now, exactly as it was seen."""
        time_to_live = TimeToLive()
        with contextlib.suppress(SpecInvalid):  # the rest of its spec may be wrong
            time_to_live = time_to_live_in(spec_of(seen))
        at_s = expires_at_s(time_to_live, status)
        if at_s is None:
            return
        metadata = seen.metadata
        wait_s = at_s - now_s if at_s > now_s else KEPT_AGAIN_S if self._is_awaited(metadata) else 0.0
        if wait_s > 0:
            self._queue.add_at(key, self.clock.monotonic_s() + wait_s)
            return
        try:
            await self.client.delete(ANALYSIS_RUN, key.namespace, key.name, metadata.uid, metadata.resource_version)
        except ApiNotFound:
            pass  # it is gone already, as wanted
        except ApiConflict:
            version = metadata.resource_version
            self._barrier.outdated(key, ANALYSIS_RUN, key.name, resource_version=version, uid=metadata.uid)
            raise
        self._barrier.wrote(key, ANALYSIS_RUN, key.name, resource_version=None, uid=metadata.uid)

    def _known_of(self, key: Key, seen: AnalysisRunObject) -> _Known:
        """What is known of the run; its spec is read once for each generation."""
        uid, generation = seen.metadata.uid, seen.metadata.generation
        known = self._known.get(key)
        if known is not None and (known.uid, known.generation) == (uid, generation):
            return known
        if known is not None and known.uid != uid:
            self._measuring.forget(known.uid)
        try:
            spec: RunSpec | SpecInvalid = parse_run(spec_of(seen))
        except SpecInvalid as exc:
            spec = exc
        known = self._known[key] = _Known(uid, generation, spec)
        return known

    def _forget(self, key: Key) -> None:
        """Ends what is being measured for a run that is over, gone, or cannot be seen."""
        known = self._known.pop(key, None)
        if known is not None:
            self._measuring.forget(known.uid)

    def _is_awaited(self, run: Metadata) -> bool:
        """Whether the run's Rollout has not recorded its verdict yet: without the run it would measure again."""
        rollout = self._rollout_of(run)
        record = None if rollout is None else _record_of(run, rollout)[1]
        return record is not None and not record.phase.over

    def _about(self, run: Metadata) -> _About | None:
        """What a run measures: its labels say it, or, as tenants may edit labels, the status of the Rollout that controls it.

        None while that status does not name the run.
        """
        labels = run.labels or {}
        rollout = self._rollout_of(run)
        if rollout is None:
            return _About(labels.get(NAME, ""), labels.get(REVISION, ""))
        revision, record = _record_of(run, rollout)
        return None if record is None else _About(name_label(rollout.metadata.name), revision)

    def _rollout_of(self, run: Metadata) -> RolloutObject | None:
        """The Rollout that controls a run."""
        for owner in run.owner_references or ():
            if is_rollout(owner):
                rollout = self._rollouts.get(run.namespace, owner.name)
                if rollout is not None and rollout.metadata.uid == owner.uid:
                    return rollout
        return None


def _record_of(run: Metadata, rollout: RolloutObject) -> tuple[str, AnalysisRecord | None]:
    """The revision that a Rollout updates to, and what its status says of a run; None when it does not name it."""
    status = read_status(bytes(rollout.status)).status
    return status.current_revision, next((record for record in status.analyses if record.run == run.name), None)
