"""Runs one pass over one Rollout, from its key to one log line, and handles everything that goes wrong in it.

No object's content can end the process: whatever a pass raises is counted, logged and affects only its key.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import structlog

from rollouts.api.status.scalars import weight_to_json
from rollouts.cluster.structs import Metadata
from rollouts.controller.act.calls import (
    Apply,
    Ask,
    AskDataPlanes,
    Patch,
    ReadRoute,
    Write,
    WriteStatus,
)
from rollouts.controller.act.events import EventSender
from rollouts.controller.act.orphans import Orphans
from rollouts.controller.act.performer import CreationWriteRefused, Performer, RolloutVersion, RouteWriteRefused
from rollouts.controller.act.render import render_notice, render_status
from rollouts.controller.facts.off_loop import NotWorkedOut
from rollouts.controller.loop.deferred import ANSWER_DEFERRED_S, COUNTERS_DEFERRED_S, DeferredStatus
from rollouts.controller.loop.refusals import NotSaid, refused_creation, refused_route, rendered
from rollouts.controller.loop.stopped import reason_of, still_true, stopped_status, with_help
from rollouts.controller.observe.observer import Gone, Illegible, Observer, Seen, Undecided, Unreadable
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.core.decide import begun_on_record, commands_on_record, decide, decide_invalid
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskConfig, AskPods, AskService, Decision, Notice
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase
from rollouts.errors import (
    ApiConflict,
    ApiForbidden,
    ApiThrottled,
    NotLeader,
    ObjectUnreadable,
    TerminalError,
    TransientError,
    WatchFailed,
)
from rollouts.objects import Key
from rollouts.ports import Clock, DrainQuestion
from rollouts.telemetry import Telemetry, pass_span

PASS_DEADLINE_S = 60.0  # each request in it has a shorter deadline of its own
REQUEUE_MIN_S = 0.01
REQUEUE_MAX_S = 300.0  # a pass costs no request, and the wall clock may have been set meanwhile
POISONED_RETRY_S = 30.0
POISONED_HOLD_S = 1.0  # events about a poisoned object cause at most one pass a second
FORBIDDEN_RETRY_S = 60.0
REFUSED_RETRY_S = 300.0  # quotas and admission policies change without an event that we see

log = structlog.get_logger()

_Rollout: TypeAlias = Seen | Unreadable
_ASKS = AskService | AskConfig | AskPods | ReadRoute | AskDataPlanes | DrainQuestion


@dataclass(slots=True)
class _Pass:
    """What one pass has done so far: the content of its log line."""

    key: Key
    writes: int = 0
    intents: tuple[str, ...] = ()
    decision: Decision | None = None
    requeue_in_s: float | None = None
    rollout: _Rollout | None = None


class Worker:
    """Takes keys from the queue, one after the other. All workers share the same parts."""

    def __init__(  # noqa: PLR0913 - the picture of one pass, in its order
        self,
        *,
        queue: WorkQueue,
        barrier: Barrier,
        observer: Observer,
        inbox: Inbox,
        performer: Performer,
        orphans: Orphans,
        deferred: DeferredStatus,
        events: EventSender,
        telemetry: Telemetry,
        clock: Clock,
        identity: str,
    ) -> None:
        self._queue = queue
        self._barrier = barrier
        self._observer = observer
        self._inbox = inbox
        self._performer = performer
        self._orphans = orphans
        self._deferred = deferred
        self._events = events
        self._telemetry = telemetry
        self._clock = clock
        self._identity = identity

    async def run(self) -> None:
        """Works until the queue is closed, and finishes a pass that has begun."""
        while (key := await self._queue.take()) is not None:
            try:
                if self._barrier.holds_back(key):
                    self._telemetry.barrier_waits.inc()
                else:
                    await self.reconcile(key)
            finally:
                self._queue.done(key)

    async def reconcile(self, key: Key) -> None:
        """Runs one pass and handles its failure. Raises: nothing but cancellation."""
        began_s = self._clock.monotonic_s()
        this = _Pass(key)
        outcome = "failed"
        try:
            with pass_span(key):
                async with asyncio.timeout(PASS_DEADLINE_S):
                    await self._pass_or_stop(this)
            outcome = "wrote" if this.writes else "unchanged"
        except NotLeader:
            self._count(NotLeader)
            self._queue.failed(key)
        except (TransientError, TimeoutError) as exc:
            self._count(type(exc))
            retry_in_s = self._retry_transient(key, exc)
            tell = (
                log.debug if isinstance(exc, ApiConflict) else log.warning
            )  # a conflict is how two writers share an object
            tell("reconcile_failed", rollout=str(key), error=type(exc).__name__, why=str(exc), retry_in_s=retry_in_s)
        except TerminalError as exc:  # the error could not even be written into status
            self._count(type(exc))
            retry_in_s = self._queue.failed(key, retry_in_s=FORBIDDEN_RETRY_S)
            log.error(
                "reconcile_stopped", rollout=str(key), error=type(exc).__name__, why=str(exc), retry_in_s=retry_in_s
            )
        except Exception as exc:
            self._count(type(exc))
            retry_in_s = self._queue.failed(key, retry_in_s=POISONED_RETRY_S, hold_s=POISONED_HOLD_S)
            log.exception("reconcile_crashed", rollout=str(key), retry_in_s=retry_in_s)
        took_s = self._clock.monotonic_s() - began_s
        self._telemetry.passes.labels(outcome).inc()
        self._telemetry.pass_seconds.observe(took_s)
        if this.decision is not None and outcome != "failed":
            self._log(this, this.decision, took_s)

    async def _pass_or_stop(self, this: _Pass) -> None:
        try:
            await self._pass_with_answers(this)
        except TerminalError as exc:
            if this.rollout is None:
                raise
            await self._stop(this, this.rollout, exc)
        else:
            self._queue.succeeded(this.key)

    async def _pass_with_answers(self, this: _Pass) -> None:
        """The pass, once more for each answer of a provider that was not worked out yet.

        A pass has written nothing by then; the release of a deleted Rollout may have, and goes on with what is left.
        """
        while True:
            try:
                return await self._pass(this)
            except NotWorkedOut as exc:
                await exc.work_out()

    async def _pass(self, this: _Pass) -> None:
        """Observes, decides, renders and acts, as the picture in ARCHITECTURE.md shows."""
        observed = self._observer.observe(this.key)
        not_said: NotSaid | None = None
        match observed:
            case Gone():
                this.writes = await self._orphans.release(this.key)
                self._telemetry.set_phase(this.key, None)
                return
            case Undecided():
                return
            case Illegible():
                why = str(observed.trouble)
                self._count(ObjectUnreadable)
                self._tell(observed.metadata, (Notice(Reason.OBJECT_UNREADABLE, why, warning=True),))
                log.warning("reconcile_stopped", rollout=str(this.key), reason=Reason.OBJECT_UNREADABLE, why=why)
                return  # the watch brings its key again when it can be read
            case Unreadable():
                seen_whole = observed.trouble is None
                decision = decide_invalid(observed.snapshot, problems=observed.problems, all_seen=seen_whole)
                calls: list[Write | Ask] = []
            case Seen():
                if observed.trouble is not None:
                    self._stop_unless_settled(this, observed, observed.trouble)
                    return
                seen = self._with_deferred(this.key, observed)
                decision = decide(seen.snapshot)
                try:
                    calls = rendered(seen, decision)
                except NotSaid as exc:
                    calls, not_said = exc.calls, exc
            case _:
                assert_never(observed)
        this.rollout, this.decision = observed, decision
        this.intents = tuple(type(intent).__name__ for intent in decision.intents)
        if not_said is not None:
            # The calls before it, such as growing, do not depend on a route that cannot express what the step asks for.
            this.writes = await self._performer.perform(_target(this.key, observed.metadata), calls)
            self._decide_without(this, observed, decision, not_said)
            return
        status = self._status_due(this, observed, decision, calls)
        try:
            await self._carry_out(this, observed.metadata, decision, calls, status)
        except (RouteWriteRefused, CreationWriteRefused) as exc:
            self._decide_without(this, observed, decision, exc)
            return
        self._count_routes(calls, decision.notices)
        self._requeue(this, decision, now_s=_now_s(observed))
        self._telemetry.set_phase(this.key, decision.status.phase)

    def _decide_without(
        self,
        this: _Pass,
        observed: _Rollout,
        decision: Decision,
        error: NotSaid | RouteWriteRefused | CreationWriteRefused,
    ) -> None:
        """Has the next pass, which is due now, decide without a write that is refused.

        Raises: the cause, when no pass can decide without it, or when this one has tried it in spite of the refusal.
        """
        if not isinstance(observed, Seen):
            raise error.cause
        now_s = _now_s(observed)
        if isinstance(error, CreationWriteRefused):
            if (refused := refused_creation(observed, decision, error, now_s=now_s)) is None:
                raise error.cause
            self._inbox.put_creation_refused(this.key, refused)
            what, reason = refused.revision, refused.reason
        else:
            if (found := refused_route(observed, decision, error, now_s=now_s)) is None:
                raise error.cause
            self._inbox.put_route_refused(this.key, *found)
            what, reason = str(found[0]), found[1].reason
        self._count(type(error.cause))
        self._queue.add(this.key)
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
        self._queue.add_at(this.key, self._clock.monotonic_s() + FORBIDDEN_RETRY_S)

    def _with_deferred(self, key: Key, seen: Seen) -> Seen:
        """`seen` with the status that was decided and not written yet, so that the progress clock stays exact."""
        read = seen.snapshot.status
        deferred = self._deferred.recalled(key, read)
        return seen if deferred is read else replace(seen, snapshot=replace(seen.snapshot, status=deferred))

    async def _carry_out(
        self, this: _Pass, metadata: Metadata, decision: Decision, calls: list[Write | Ask], status: WriteStatus | None
    ) -> None:
        """Performs the calls and the write of status, in the decision's order, and then sends the Events."""
        target = _target(this.key, metadata)
        status_first = decision.status_first and status is not None
        if status is not None and status_first:
            this.writes = await self._performer.perform(target, [status])
            self._tell(metadata, decision.notices)
            status = None
        this.writes += await self._performer.perform(target, calls if status is None else [*calls, status])
        if status is not None or status_first:
            self._deferred.settled(this.key)
        elif this.writes:
            self._deferred.moved(this.key)
        if not status_first:
            self._tell(metadata, decision.notices)

    def _status_due(
        self, this: _Pass, observed: _Rollout, decision: Decision, calls: list[Write | Ask]
    ) -> WriteStatus | None:
        """The write of status; None when nothing differs or the write can wait (then a later pass is queued)."""
        if isinstance(observed, Seen) and decision.status == observed.snapshot.status:
            self._deferred.settled(this.key)
            return None
        steps = observed.snapshot.rollout.spec.strategy.step_count if isinstance(observed, Seen) else 0
        write, can_wait = render_status(decision.status, before=observed.status_wire, step_count=steps)
        if write is None:
            self._deferred.settled(this.key)
            return None
        asks = sum(isinstance(call, _ASKS) for call in calls)
        # The answer to a question may change the status again, so a write before it would be one too many.
        asks_only = asks > 0 and asks == len(calls) and not decision.notices
        if not can_wait and not asks_only:
            return write
        wait_s = self._deferred.wait_s(this.key, patience_s=COUNTERS_DEFERRED_S if can_wait else ANSWER_DEFERRED_S)
        if wait_s <= 0:
            return write
        if isinstance(observed, Seen) and not asks_only:
            self._deferred.hold(this.key, observed.snapshot.status, decision.status)
        this.requeue_in_s = wait_s
        return None

    def _requeue(self, this: _Pass, decision: Decision, *, now_s: float) -> None:
        times_s = [] if this.requeue_in_s is None else [this.requeue_in_s]
        if decision.requeue_at_s is not None:
            times_s.append(decision.requeue_at_s - now_s)
        if times_s:
            this.requeue_in_s = min(REQUEUE_MAX_S, max(REQUEUE_MIN_S, min(times_s)))
            self._queue.add_at(this.key, self._clock.monotonic_s() + this.requeue_in_s)

    async def _stop(self, this: _Pass, rollout: _Rollout, error: TerminalError) -> None:
        """Reports in status and in an Event why the Rollout cannot continue, and retries only after a long time or a change."""
        self._count(type(error))
        reason, message = reason_of(error), with_help(error)
        before = rollout.snapshot.status
        if isinstance(rollout, Seen) and this.decision is None:
            before = commands_on_record(rollout.snapshot)
        elif isinstance(rollout, Seen) and this.decision is not None:
            before = still_true(begun_on_record(rollout.snapshot), this.decision)
        status = stopped_status(
            before,
            reason=reason,
            message=message,
            generation=rollout.metadata.generation,
            now_s=_now_s(rollout),
        )
        steps = rollout.snapshot.rollout.spec.strategy.step_count if isinstance(rollout, Seen) else 0
        write, _ = render_status(status, before=rollout.status_wire, step_count=steps)
        if write is not None:
            this.writes += await self._performer.perform(_target(this.key, rollout.metadata), [write])
            self._tell(rollout.metadata, (Notice(reason, message, warning=True),))
        soon = isinstance(error, ApiForbidden | WatchFailed)
        retry_in_s = FORBIDDEN_RETRY_S if soon else REFUSED_RETRY_S
        self._queue.failed(this.key, retry_in_s=retry_in_s)
        self._telemetry.set_phase(this.key, status.phase)
        this.decision = None
        log.warning("reconcile_stopped", rollout=str(this.key), reason=reason, why=message, retry_in_s=retry_in_s)

    def _retry_transient(self, key: Key, error: Exception) -> float:
        if isinstance(error, ApiThrottled):
            return self._queue.failed(key, retry_in_s=error.retry_after_s, hold_s=error.retry_after_s)
        # A conflict needs a newer view. The watch brings it, and queues the key. The back-off is for a change that no
        # decision reads, which queues nothing.
        return self._queue.failed(key)

    def _tell(self, metadata: Metadata, notices: tuple[Notice, ...]) -> None:
        at_s = self._clock.now_s()
        for notice in notices:
            index = self._events.next_index()
            event = render_notice(metadata, notice, at_s=at_s, index=index, instance=self._identity)
            self._events.offer(metadata.namespace, event)

    def _count_routes(self, calls: list[Write | Ask], notices: tuple[Notice, ...]) -> None:
        for call in calls:
            if isinstance(call, Patch | Apply) and call.route is not None:
                self._telemetry.route_writes.labels(call.route.router).inc()
        self._telemetry.route_drifts.inc(sum(notice.reason is Reason.ROUTE_DRIFTED for notice in notices))

    def _count(self, error: type[BaseException]) -> None:
        self._telemetry.errors.labels(error.__name__).inc()

    def _log(self, this: _Pass, decision: Decision, took_s: float) -> None:
        status = decision.status
        write = log.info if this.writes else log.debug
        write(
            "reconciled",
            rollout=str(this.key),
            phase=status.phase,
            step=status.step_index,
            weight_percent=weight_to_json(status.weight_percent),
            intents=this.intents,
            writes=this.writes,
            requeue_in_s=None if this.requeue_in_s is None else round(this.requeue_in_s, 3),
            took_ms=round(took_s * 1000, 2),
        )


def _target(key: Key, metadata: Metadata) -> RolloutVersion:
    return RolloutVersion(key=key, uid=metadata.uid, resource_version=metadata.resource_version)


def _now_s(rollout: _Rollout) -> float:
    """The wall clock as the pass read it, once."""
    return rollout.snapshot.now_s
