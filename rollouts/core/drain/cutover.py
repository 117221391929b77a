"""Cutovers: a Service leaves a revision, and its pods stay until no proxy sends new requests and those in flight are over.

The clock starts when the Service's EndpointSlices no longer show the old revision. It is recorded in status, so a crash can only
make the wait longer. When a Service selects the old revision again, its cutover is forgotten. Another Service that sends the
revision traffic, as when a canary is tried again, has its own cutover. A Service that somebody replaced by its plain manifest
sends requests to every pod: its clock starts again, and that is recorded before the Service is switched. While a Service is not
seen, its clock does not end. `scaleDownDelaySeconds` runs at the same time. core/context/drain_numbers.py says how long to wait;
with `mode: Off` nothing is recorded.

A cutover is *unconfirmed* while its Service shows the old revision (`_shows`), then *confirmed*, and *open* until `until_s` has
passed (`_is_open`). `until_s` is a plan that each pass makes again of the present spec, until it is over; then it is the end. A
Service is *out of sight* when the strategy names it and it is not seen as ours: it may reach pods that are left, so nothing ends.

Probes (`spec.drain.probes`) may end the wait early: when the proxies' lag is over and nothing was in flight on three polls in a
row. A failed poll never counts as nothing in flight. Status has the count too; a gap between polls starts it again.

A canary by the ratio of pods gives up pods at every step; their preStop sleep covers those. There the wait keeps the last stable
pods when `stableService` leaves them, and one pod of a revision that `stableService` leaves before its promotion.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest
from rollouts.core.model.changes import StatusChange, record_cutovers
from rollouts.core.model.drain import DrainMode, OnTimeout
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskDrained
from rollouts.core.model.reasons import Reason
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import DrainSeen, ServiceSeen
from rollouts.core.model.status import Cutover, Idle

SIGNAL = "EndpointSlices"
"""What confirms a cutover: the Service's slices no longer show the old revision."""

POLL_S = 1.0
IDLE_POLLS = 3
"""A single poll may fall between two requests of a client, or reach a proxy that has not counted yet."""

POLLS_APART_S = 5.0
"""Polls further apart than this are not in a row: the controller restarted, or a probe was late."""

ASKS_PER_S = 4
"""For all probes of one Rollout together: other Rollouts ask the same proxies."""

REVISIONS_ASKED = 2
"""Revisions that are polled at the same time; others wait by time meanwhile. With 8 probes, the maximum, polls are 4 s apart."""

_EARLY_S = 0.1  # timers and clocks are not exact: two polls this much closer than POLL_S are still two


def begin_cutovers(ctx: PassContext, departures: Iterable[Cutover]) -> tuple[StatusChange, ...]:
    """Records each Service that leaves a revision, unless this update has recorded it already, or a revision is "" (unknown)."""
    after = ctx.status.cutovers
    began_s = ctx.status.started_at_s or 0.0
    for departure in departures if ctx.spec.drain.mode is not DrainMode.OFF else ():
        service, leaving, to = departure.service, departure.from_revision, departure.to_revision
        recorded = [
            (old.service, old.from_revision, old.to_revision)
            for old in after
            if old.confirmed_at_s is None or old.confirmed_at_s >= began_s
        ]
        if leaving in ("", to) or not to or (service, leaving, to) in recorded:
            continue
        others = [old for old in after if (old.service, old.from_revision) != (service, leaving) and _is_open(ctx, old)]
        after = (*others, _as_of_now(ctx, departure))
    return () if after == ctx.status.cutovers else (record_cutovers(after),)


def settle_cutovers(ctx: PassContext) -> tuple[StatusChange, ...]:
    """Brings every cutover up to date; forgets those that did not happen, and those that are over for good except the last."""
    before = ctx.status.cutovers
    if not before:
        return ()
    now = []
    for cutover in before:
        service = _ours(ctx, cutover)
        if service is not None:  # it may select the old revision again
            came_to_nothing = service.revision == cutover.from_revision
        else:  # or it was dropped before it was seen to leave
            came_to_nothing = cutover.confirmed_at_s is None and cutover.service not in ctx.named_services
        if not came_to_nothing or not _is_open(ctx, cutover):
            now.append(_as_of_now(ctx, cutover))
    after = tuple(
        cutover for cutover in now if cutover is now[-1] or _is_open(ctx, cutover) or _may_reach(ctx, cutover)
    )
    return () if after == before else (record_cutovers(after),)


def restarted_drains(ctx: PassContext) -> frozenset[ServiceRef]:
    """Services whose wait starts again in this pass: they are switched after that is recorded, or a crash would lose it."""
    ran = {(each.service, each.from_revision) for each in ctx.recorded.cutovers if each.confirmed_at_s is not None}
    return frozenset(
        cutover.service
        for cutover in ctx.status.cutovers
        if cutover.confirmed_at_s is None and (cutover.service, cutover.from_revision) in ran
    )


def draining(ctx: PassContext, revision: str) -> Cutover | None:
    """The cutover for which `revision` keeps its pods; None when its pods may go."""
    for cutover in ctx.status.cutovers:
        if cutover.from_revision == revision and _is_open(ctx, cutover):
            return cutover
    return None


def draining_wait(ctx: PassContext) -> Wait | None:
    """The wait for the cutover that keeps pods the longest; None when no cutover keeps any."""
    with_pods = ctx.revisions_with_pods
    going = [each for each in ctx.status.cutovers if each.from_revision in with_pods and _is_open(ctx, each)]
    confirmed = [cutover for cutover in going if cutover.until_s is not None]
    if not confirmed:
        return None
    last = max(confirmed, key=lambda cutover: cutover.until_s or 0.0)
    message = f"revision {last.from_revision} keeps its pods: {last.message}"
    if ctx.spec.drain.probes and (seen := _answer(ctx, last)) is not None:
        known = [] if seen.in_flight is None else [f"{seen.in_flight} request{'' if seen.in_flight == 1 else 's'}"]
        known += [f"{seen.streams} stream{'' if seen.streams == 1 else 's'}"] if seen.streams else []
        message = "; ".join(filter(None, [message, f"in flight: {', '.join(known)}" if known else "", seen.message]))
    return Wait(Reason.DRAIN_TIMED_OUT if last.timed_out else Reason.DRAINING, message, last.until_s)


def drain_questions(ctx: PassContext) -> tuple[AskDrained, ...]:
    """Asks the probes about the revisions that drain: a second after their last answer, later where there are many probes."""
    polled = _polled(ctx)
    poll_s = _poll_s(ctx, polled)
    asked = [
        cutover.from_revision
        for cutover in polled
        if (seen := _answer(ctx, cutover)) is None or ctx.now_s - seen.at_s >= poll_s - _EARLY_S
    ]
    return tuple(AskDrained(revision) for revision in dict.fromkeys(asked))


def next_drained_s(ctx: PassContext) -> float | None:
    """When time alone changes something: a cutover ends, its `timeoutSeconds` pass, or its probes are due."""
    if not ctx.status.cutovers:
        return None
    drain = ctx.spec.drain
    times = [
        at_s
        for cutover in ctx.status.cutovers
        if cutover.confirmed_at_s is not None and _is_open(ctx, cutover)
        for at_s in (cutover.until_s, cutover.confirmed_at_s + drain.timeout_s)
    ]
    polled = _polled(ctx)
    for cutover in polled:
        times.append((cutover.confirmed_at_s or 0.0) + cutover.proxy_lag_s + drain.max_request_s)
        if (seen := _answer(ctx, cutover)) is not None:
            times.append(seen.at_s + _poll_s(ctx, polled))
    return earliest(times, after_s=ctx.now_s)


def _poll_s(ctx: PassContext, polled: Iterable[Cutover]) -> float:
    asks = len(ctx.spec.drain.probes) * len({cutover.from_revision for cutover in polled})
    return max(POLL_S, asks / ASKS_PER_S)


def _polled(ctx: PassContext) -> list[Cutover]:
    """The cutovers that probes may end early; those of the oldest revisions when there are many."""
    if not ctx.spec.drain.probes:
        return []
    with_pods = [cutover for cutover in ctx.status.cutovers if cutover.from_revision in ctx.revisions_with_pods]
    running = [cutover for cutover in with_pods if cutover.confirmed_at_s is not None and not cutover.drained]
    running = [cutover for cutover in running if _is_open(ctx, cutover)]
    asked = list(dict.fromkeys([cutover.from_revision for cutover in running]))[:REVISIONS_ASKED]
    return [cutover for cutover in running if cutover.from_revision in asked]


def _answer(ctx: PassContext, cutover: Cutover) -> DrainSeen | None:
    """The probes' answer about this cutover; None when there is none since it was confirmed."""
    seen = ctx.seen.drains.get(cutover.from_revision)
    if seen is None or cutover.confirmed_at_s is None or seen.at_s < cutover.confirmed_at_s:
        return None
    return seen


def _is_open(ctx: PassContext, cutover: Cutover) -> bool:
    if cutover.until_s is None or ctx.now_s < cutover.until_s or _out_of_sight(ctx, cutover):
        return True
    # An end by probes counts only once its record is seen: the end that was recorded before is still in the future.
    return cutover.drained and not any(
        each.drained and (each.service, each.from_revision) == (cutover.service, cutover.from_revision)
        for each in ctx.recorded.cutovers
    )


def _shows(ctx: PassContext, cutover: Cutover) -> bool:
    """Whether the Service may still send requests to the old revision; for a Service that is not seen, the record decides.

    A Service of the strategy without our selector key, as after `kubectl replace`, selects the pods of every revision. Slices
    that are not seen yet may show any of them.
    """
    service, left = _ours(ctx, cutover), cutover.from_revision
    if service is None:
        plain = cutover.service in ctx.services_seen and _out_of_sight(ctx, cutover)
        return plain or cutover.confirmed_at_s is None
    return service.revision == left or not service.slices_seen or service.ready_by_revision.get(left, 0) > 0


def _out_of_sight(ctx: PassContext, cutover: Cutover) -> bool:
    """Whether the strategy names the Service but it is not seen as managed: it may send requests to the pods that are left."""
    return _may_reach(ctx, cutover) and _ours(ctx, cutover) is None


def _may_reach(ctx: PassContext, cutover: Cutover) -> bool:
    """Whether there are pods left that the Service would reach if somebody made it again by its plain manifest."""
    return cutover.from_revision in ctx.revisions_with_pods and cutover.service in ctx.named_services


def _ours(ctx: PassContext, cutover: Cutover) -> ServiceSeen | None:
    service = ctx.services_seen.get(cutover.service)
    return service if service is not None and service.managed_by == ctx.seen.rollout.name else None


def _as_of_now(ctx: PassContext, cutover: Cutover) -> Cutover:
    """The cutover as of now: unconfirmed while the Service shows the old revision, else timed by the present spec, or over."""
    if cutover.until_s is not None and not _is_open(ctx, cutover):
        return _with_rest(ctx, cutover if cutover.timed_out or cutover.drained else _timed_out(ctx, cutover))
    if _shows(ctx, cutover):  # it is not confirmed, whatever was recorded
        return Cutover(
            service=cutover.service,
            from_revision=cutover.from_revision,
            to_revision=cutover.to_revision,
            proxy_lag_s=cutover.proxy_lag_s,
            needed_s=cutover.needed_s,
            message=cutover.message,
        )
    drain, numbers = ctx.spec.drain, ctx.drain_numbers
    confirmed_at_s = ctx.now_s if cutover.confirmed_at_s is None else cutover.confirmed_at_s
    lasts_s, because = numbers.drain_s, numbers.drain_why
    if lasts_s > drain.timeout_s and drain.on_timeout is OnTimeout.CONTINUE:
        lasts_s, because = drain.timeout_s, f"{because}; timeoutSeconds ends it after {drain.timeout_s:g} s"
    current = replace(
        cutover,
        confirmed_at_s=confirmed_at_s,
        proxy_lag_s=numbers.proxy_lag_s,
        needed_s=numbers.drain_s,
        until_s=confirmed_at_s + lasts_s,
        message=because,
    )
    no_more_s = confirmed_at_s + numbers.proxy_lag_s  # no proxy sends new requests from then on
    if not drain.probes:
        current = replace(current, idle=None, streams_idle=None)
    elif (seen := _answer(ctx, current)) is not None and seen.at_s - seen.age_s >= no_more_s:
        idle = _counted(cutover.idle, seen.in_flight, at_s=seen.at_s)
        streams_idle = _counted(cutover.streams_idle, seen.streams, at_s=seen.at_s)
        current = replace(current, idle=idle, streams_idle=streams_idle)
    polled = _ended_by_probes(ctx, current)
    return polled if polled.drained else _timed_out(ctx, polled)


def _counted(idle: Idle | None, count: int | None, *, at_s: float) -> Idle | None:
    """Counts one idle poll. Stops at IDLE_POLLS, so that a longer wait for streams writes no status."""
    if count is None or count > 0:
        return None
    if idle is None:
        return Idle(1, at_s)
    apart_s = at_s - idle.at_s
    if idle.polls >= IDLE_POLLS or apart_s < POLL_S - _EARLY_S:
        return idle
    return Idle(idle.polls + 1 if apart_s <= POLLS_APART_S else 1, at_s)


def _ended_by_probes(ctx: PassContext, cutover: Cutover) -> Cutover:
    """Ends the cutover now if the proxies' lag is over and neither requests nor streams are in flight, or their time is over."""
    probes, confirmed_at_s = ctx.spec.drain.probes, cutover.confirmed_at_s
    if not probes or confirmed_at_s is None or cutover.until_s is None or ctx.now_s >= cutover.until_s:
        return cutover
    no_more_s = confirmed_at_s + cutover.proxy_lag_s
    idle, streams_idle = (
        polls is not None and polls.polls >= IDLE_POLLS for polls in (cutover.idle, cutover.streams_idle)
    )
    requests_over = idle or ctx.now_s >= no_more_s + ctx.spec.drain.max_request_s
    streams_over = streams_idle or ctx.spec.drain.max_stream_s == 0
    if ctx.now_s < no_more_s or not requests_over or not streams_over:
        return cutover
    ended = f"{cutover.message}; ended early: nothing was in flight on {IDLE_POLLS} polls in a row"
    return _with_rest(ctx, replace(cutover, until_s=ctx.now_s, drained=True, message=ended))


def _with_rest(ctx: PassContext, cutover: Cutover) -> Cutover:
    """Records what the probes counted when the cutover ended, if that is known and not recorded yet."""
    seen = _answer(ctx, cutover)
    if seen is None or cutover.until_s is None or (cutover.in_flight, cutover.streams) != (None, None):
        return cutover
    streams = seen.streams if ctx.spec.drain.max_stream_s else None
    if not ctx.spec.drain.probes or not -POLLS_APART_S <= seen.at_s - cutover.until_s <= POLLS_APART_S:
        return cutover
    return replace(cutover, in_flight=seen.in_flight, streams=streams)


def _timed_out(ctx: PassContext, cutover: Cutover) -> Cutover:
    """Marks the cutover when `timeoutSeconds` are over before the needed time, or were when it ended."""
    if cutover.confirmed_at_s is None or cutover.until_s is None:
        return cutover
    limit_s = ctx.spec.drain.timeout_s
    over = not _is_open(ctx, cutover)
    waited_s = cutover.until_s - cutover.confirmed_at_s if over else ctx.now_s - cutover.confirmed_at_s
    late = waited_s < cutover.needed_s if over else waited_s >= limit_s and cutover.needed_s > limit_s
    return replace(cutover, timed_out=True) if late else cutover
