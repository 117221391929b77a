"""Runs one pass over one Rollout, from its key to one log line, and handles everything that goes wrong in it.

No object's content can end the process: whatever a pass raises is counted, logged and affects only its key.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import structlog

from rollouts.api.status.scalars import weight_to_json
from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import Metadata
from rollouts.controller.act.calls import (
    Apply,
    AskDataPlanes,
    Patch,
    ReadRoute,
    RolloutCall,
    WriteStatus,
)
from rollouts.controller.act.events import EventSender
from rollouts.controller.act.orphans import Orphans
from rollouts.controller.act.performer import CreationWriteRefused, Performer, RolloutVersion, RouteWriteRefused
from rollouts.controller.act.render import render_status
from rollouts.controller.facts.off_loop import NotWorkedOut
from rollouts.controller.loop.deferred import ANSWER_DEFERRED_S, COUNTERS_DEFERRED_S, DeferredStatus
from rollouts.controller.loop.refusals import (
    DELAYS,
    RouteCannotExpress,
    reason_of,
    refused_creation,
    refused_route,
    render_intents,
    still_true,
    stopped_status,
    with_help,
)
from rollouts.controller.observe.observer import Gone, Illegible, Observer, Seen, Undecided, Unreadable
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.runtime import log_error, reconcile_loop
from rollouts.core.decide import begun_on_record, commands_on_record, decide, decide_invalid
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskConfig,
    AskHold,
    AskPods,
    AskPodTemplate,
    AskReplicaSets,
    AskService,
    AskWorkload,
    Decision,
    Notice,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase, RolloutStatus
from rollouts.errors import Delays, NotLeader, ObjectUnreadable, TerminalError, WatchFailed, remedy
from rollouts.manifests.event import NO_ANNOTATIONS, event_annotations
from rollouts.objects import Key, Kind
from rollouts.ports import Clock, DrainQuestion
from rollouts.telemetry import Telemetry, pass_span

PASS_DEADLINE_S = 60.0  # each request in it has a shorter deadline of its own
REQUEUE_MIN_S = 0.01
REQUEUE_MAX_S = 300.0  # a pass costs no request, and the wall clock may have been set meanwhile
UNTOLD_DELAYS = Delays(refused_s=DELAYS.forbidden_s)  # the error could not even be written into status

log = structlog.get_logger()

_Rollout: TypeAlias = Seen | Unreadable
_Refusal: TypeAlias = RouteCannotExpress | RouteWriteRefused | CreationWriteRefused
_ASKS = (
    AskService
    | AskWorkload
    | AskHold
    | AskReplicaSets
    | AskPodTemplate
    | AskConfig
    | AskPods
    | ReadRoute
    | AskDataPlanes
    | DrainQuestion
)


@dataclass(slots=True)
class _Pass:
    """What one pass has done so far: the content of its log line."""

    key: Key
    began_s: float
    writes: int = 0
    decision: Decision | None = None
    requeue_in_s: float | None = None
    rollout: _Rollout | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """Takes keys from the queue, one after the other. All workers share the same parts."""

    queue: WorkQueue
    barrier: Barrier
    observer: Observer
    inbox: Inbox
    performer: Performer
    orphans: Orphans
    deferred: DeferredStatus
    events: EventSender
    telemetry: Telemetry
    clock: Clock
    identity: str

    async def run(self) -> None:
        """Works until the queue is closed, and finishes a pass that has begun."""
        await reconcile_loop(
            self.queue,
            self._reconcile,
            on_error=self._on_error,
            delays=UNTOLD_DELAYS,
            barrier=self.barrier,
            on_behind=self.telemetry.barrier_waits.inc,
        )

    async def _reconcile(self, key: Key) -> None:
        """Runs one pass. Raises: what could not be written into status."""
        this = _Pass(key, began_s=self.clock.monotonic_s())
        try:
            with pass_span(key):
                async with asyncio.timeout(PASS_DEADLINE_S):
                    await self._pass_or_stop(this)
        except Exception:
            self._finish(this, "failed")
            raise
        self._finish(this, "wrote" if this.writes else "unchanged")

    def _finish(self, this: _Pass, outcome: str) -> None:
        """Counts the pass, and writes its log line."""
        took_s = self.clock.monotonic_s() - this.began_s
        self.telemetry.passes.labels(outcome).inc()
        self.telemetry.pass_seconds.observe(took_s)
        if this.decision is None or outcome == "failed":
            return
        status = this.decision.status
        write = log.info if this.writes else log.debug
        write(
            "reconciled",
            rollout=str(this.key),
            phase=status.phase,
            step=status.step_index,
            weight_percent=weight_to_json(status.weight_percent),
            intents=tuple(type(intent).__name__ for intent in this.decision.intents),
            writes=this.writes,
            requeue_in_s=None if this.requeue_in_s is None else round(this.requeue_in_s, 3),
            took_ms=round(took_s * 1000, 2),
        )

    def _on_error(self, key: Key, error: Exception, retry_in_s: float) -> None:
        self._count(error)
        if not isinstance(error, NotLeader):
            log_error("reconcile", error, retry_in_s, rollout=str(key))

    async def _pass_or_stop(self, this: _Pass) -> None:
        """The pass, once more for each answer of a provider that was not worked out yet.

        A pass has written nothing by then; the release of a deleted Rollout may have, and goes on with what is left.
        """
        while True:
            try:
                return await self._pass(this)
            except NotWorkedOut as exc:
                await exc.work_out()
            except TerminalError as exc:
                if this.rollout is None:
                    raise
                return await self._stop(this, this.rollout, exc)

    async def _pass(self, this: _Pass) -> None:
        """Observes, decides, renders and acts, as the picture in ARCHITECTURE.md shows."""
        observed = self.observer.observe(this.key)
        inexpressible: RouteCannotExpress | None = None
        match observed:
            case Gone():
                self.telemetry.show(this.key, None)
                this.writes = await self.orphans.release(this.key, self._tell)
                return
            case Undecided():
                return
            case Illegible():
                why = str(observed.trouble)
                self._count(observed.trouble)
                self._send_events(observed.metadata, (Notice(Reason.OBJECT_UNREADABLE, why, warning=True),))
                log.warning("reconcile_stopped", rollout=str(this.key), reason=Reason.OBJECT_UNREADABLE, why=why)
                return  # the watch brings its key again when it can be read
            case Unreadable():
                seen_whole = observed.trouble is None and not observed.in_place
                decision = decide_invalid(observed.snapshot, problems=observed.problems, all_seen=seen_whole)
                calls: list[RolloutCall] = []
            case Seen():
                if observed.trouble is not None:
                    self._stop_unless_settled(this, observed, observed.trouble)
                    return
                # With the status that was decided and not written yet, the progress clock stays exact.
                status_read = observed.snapshot.status
                deferred = self.deferred.last_decided(this.key, status_read)
                seen = observed
                if deferred is not status_read:
                    seen = replace(observed, snapshot=replace(observed.snapshot, status=deferred))
                decision = decide(seen.snapshot)
                try:
                    calls = render_intents(seen, decision)
                except RouteCannotExpress as exc:
                    calls, inexpressible = exc.calls, exc
            case _:
                assert_never(observed)
        this.rollout, this.decision = observed, decision
        if inexpressible is not None:
            # The calls before it, such as growing, do not depend on a route that cannot express what the step asks for.
            this.writes = await self.performer.perform(_target(this.key, observed.metadata), calls)
            self._decide_without(this, observed, decision, inexpressible)
            return
        status = self._status_due(this, observed, decision, calls)
        try:
            await self._carry_out(this, observed.metadata, decision, calls, status)
        except (RouteWriteRefused, CreationWriteRefused) as exc:
            self._decide_without(this, observed, decision, exc)
            return
        self._count_routes(calls, decision.notices)
        self._requeue(this, decision, now_s=observed.snapshot.now_s)
        self.telemetry.show(this.key, decision.status)

    def _decide_without(self, this: _Pass, observed: _Rollout, decision: Decision, error: _Refusal) -> None:
        """Has the next pass, which is due now, decide without a write that is refused.

        Raises: the cause, when no pass can decide without it, or when this one has tried it in spite of the refusal.
        """
        if not isinstance(observed, Seen):
            raise error.cause
        now_s = observed.snapshot.now_s
        if isinstance(error, CreationWriteRefused):
            if (refused := refused_creation(observed, decision, error, now_s=now_s)) is None:
                raise error.cause
            self.inbox.put_creation_refused(this.key, refused)
            what, reason = refused.revision, refused.reason
        else:
            if (route_refused := refused_route(observed, decision, error, now_s=now_s)) is None:
                raise error.cause
            route, refusal = route_refused
            self.inbox.put_route_refused(this.key, route, refusal)
            what, reason = str(route), refusal.reason
        self._count(error.cause)
        self.queue.add(this.key)
        log.warning("write_refused", rollout=str(this.key), what=what, reason=reason, why=str(error.cause))

    def _stop_unless_settled(self, this: _Pass, seen: Seen, trouble: ObjectUnreadable | WatchFailed) -> None:
        """Leaves the status of a healthy Rollout as it is when only a watch fails, and looks again later.

        Commands are put on record all the same; nothing is carried out before everything can be seen.

        Raises: `trouble`, otherwise.
        """
        status = seen.snapshot.status
        settled = status.phase is Phase.HEALTHY and status.observed_generation == seen.metadata.generation
        asked = commands_on_record(seen.snapshot) is not status
        if not settled or asked or isinstance(trouble, ObjectUnreadable):
            this.rollout = seen
            raise trouble
        self.queue.add_at(this.key, self.clock.monotonic_s() + remedy(trouble, DELAYS).in_s)

    async def _carry_out(
        self, this: _Pass, metadata: Metadata, decision: Decision, calls: list[RolloutCall], status: WriteStatus | None
    ) -> None:
        """Performs the calls and the write of status, in the decision's order, and then sends the Events."""
        target = _target(this.key, metadata)
        status_first = decision.status_first and status is not None
        if status is not None and status_first:
            this.writes = await self.performer.perform(target, [status])
            self._send_events(metadata, decision.notices, decision.status)
            status = None
        this.writes += await self.performer.perform(target, calls if status is None else [*calls, status])
        if status is not None or status_first:
            self.deferred.forget(this.key)
        elif this.writes:
            self.deferred.acted(this.key)
        if not status_first:
            self._send_events(metadata, decision.notices, decision.status)

    def _status_due(
        self, this: _Pass, observed: _Rollout, decision: Decision, calls: list[RolloutCall]
    ) -> WriteStatus | None:
        """The write of status; None when nothing differs or the write can wait (then a later pass is queued)."""
        if isinstance(observed, Seen) and decision.status == observed.snapshot.status:
            self.deferred.forget(this.key)
            return None
        steps = observed.snapshot.rollout.spec.strategy.step_count if isinstance(observed, Seen) else 0
        write, can_wait = render_status(decision.status, before=json_object(observed.status_json), step_count=steps)
        if write is None:
            self.deferred.forget(this.key)
            return None
        # The answer to a question may change the status again, so a write before it would be one too many.
        asks_only = bool(calls) and all(isinstance(call, _ASKS) for call in calls) and not decision.notices
        if not can_wait and not asks_only:
            return write
        wait_s = self.deferred.wait_s(this.key, patience_s=COUNTERS_DEFERRED_S if can_wait else ANSWER_DEFERRED_S)
        if wait_s <= 0:
            return write
        if isinstance(observed, Seen) and not asks_only:
            self.deferred.keep(this.key, observed.snapshot.status, decision.status)
        this.requeue_in_s = wait_s
        return None

    def _requeue(self, this: _Pass, decision: Decision, *, now_s: float) -> None:
        times_s = [] if this.requeue_in_s is None else [this.requeue_in_s]
        if decision.requeue_at_s is not None:
            times_s.append(decision.requeue_at_s - now_s)
        if times_s:
            this.requeue_in_s = min(REQUEUE_MAX_S, max(REQUEUE_MIN_S, min(times_s)))
            self.queue.add_at(this.key, self.clock.monotonic_s() + this.requeue_in_s)

    async def _stop(self, this: _Pass, rollout: _Rollout, error: TerminalError) -> None:
        """Reports in status and in an Event why the Rollout cannot continue, and retries only after a long time or a change."""
        self._count(error)
        reason, message = reason_of(error), with_help(error)
        before = rollout.snapshot.status
        if isinstance(rollout, Seen) and this.decision is None:
            before = commands_on_record(rollout.snapshot)
        elif isinstance(rollout, Seen) and this.decision is not None:
            before = still_true(begun_on_record(rollout.snapshot), this.decision)
        generation, now_s = rollout.metadata.generation, rollout.snapshot.now_s
        status = stopped_status(before, reason=reason, message=message, generation=generation, now_s=now_s)
        steps = rollout.snapshot.rollout.spec.strategy.step_count if isinstance(rollout, Seen) else 0
        write, _ = render_status(status, before=json_object(rollout.status_json), step_count=steps)
        if write is not None:
            this.writes += await self.performer.perform(_target(this.key, rollout.metadata), [write])
            self._send_events(rollout.metadata, (Notice(reason, message, warning=True),), status)
        retry_in_s = remedy(error, DELAYS).in_s
        self.queue.add_at(this.key, self.clock.monotonic_s() + retry_in_s)
        self.telemetry.show(this.key, status)
        this.decision = None
        log.warning("reconcile_stopped", rollout=str(this.key), reason=reason, why=message, retry_in_s=retry_in_s)

    def _send_events(
        self, metadata: Metadata, notices: tuple[Notice, ...], status: RolloutStatus | None = None
    ) -> None:
        stands = event_annotations(status) if notices and status is not None else NO_ANNOTATIONS
        self.events.report(metadata, notices, at_s=self.clock.now_s(), instance=self.identity, annotations=stands)

    def _tell(self, metadata: Metadata, notice: Notice, kind: Kind) -> None:
        self.events.report(metadata, (notice,), at_s=self.clock.now_s(), instance=self.identity, kind=kind)

    def _count_routes(self, calls: list[RolloutCall], notices: tuple[Notice, ...]) -> None:
        for call in calls:
            if isinstance(call, Patch | Apply) and call.route is not None:
                self.telemetry.route_writes.labels(call.route.router).inc()
        self.telemetry.route_drifts.inc(sum(notice.reason is Reason.ROUTE_DRIFTED for notice in notices))

    def _count(self, error: Exception) -> None:
        self.telemetry.errors.labels(type(error).__name__).inc()


def _target(key: Key, metadata: Metadata) -> RolloutVersion:
    return RolloutVersion(key=key, uid=metadata.uid, resource_version=metadata.resource_version)
