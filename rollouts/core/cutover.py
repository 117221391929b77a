"""A Service leaves a revision: its pods stay until no proxy sends them anything new and what was in flight is over.

The clock starts when no EndpointSlice shows the old revision any more and is recorded in status, so a crash can only lengthen the
wait. `scaleDownDelaySeconds` runs beside it. What has to be waited is in core/drain.py; nothing is recorded with `mode: Off`.

A canary by the ratio of pods gives pods up at every step; those are covered by their preStop sleep. There the wait holds the last
stable pods when `stableService` leaves them, and one pod of a revision that `stableService` leaves before it was promoted.
"""

from __future__ import annotations

from rollouts.core.drain import DrainMode, DrainNumbers, OnTimeout, drain_numbers
from rollouts.core.frozen import replace
from rollouts.core.plan import View, Wait, earliest
from rollouts.core.reasons import Reason
from rollouts.core.services import shown_revisions
from rollouts.core.status import Cutover, RolloutStatus

SIGNAL = "EndpointSlices"
"""What a cutover is confirmed by: the slices of the Services show the old revision no more."""


def numbers_of(view: View) -> DrainNumbers:
    """What this Rollout has to wait in this cluster."""
    return drain_numbers(view.spec.drain, view.seen.proxy)


def with_cutover(view: View, *, service: str, leaving: str, to: str) -> RolloutStatus:
    """Remembers that `service` goes from revision `leaving` to `to`; unchanged when this update has remembered it already."""
    status = view.status
    if view.spec.drain.mode is DrainMode.OFF or not leaving or not to or leaving == to:
        return status
    last = status.cutovers[-1] if status.cutovers else None
    if last is not None and (last.service, last.from_revision, last.to_revision) == (service, leaving, to):
        of_this_update = last.confirmed_at_s is None or last.confirmed_at_s >= (status.started_at_s or 0.0)
        if of_this_update:
            return status
    fresh = _as_of_now(view, Cutover(service=service, from_revision=leaving, to_revision=to), shown_revisions(view))
    others = (each for each in status.cutovers if each.from_revision not in (leaving, to) and _is_open(view, each))
    return replace(status, cutovers=(*others, fresh))


def settled_cutovers(view: View) -> RolloutStatus:
    """The memory with each cutover as it stands now; of those that are over only the last is kept."""
    before = view.status.cutovers
    if not before:
        return view.status
    shown = shown_revisions(view)
    now = [_as_of_now(view, each, shown) for each in before]
    after = tuple(each for each in now if each is now[-1] or _is_open(view, each))
    return view.status if after == before else replace(view.status, cutovers=after)


def draining(view: View, revision: str) -> Cutover | None:
    """The cutover for which `revision` keeps its pods; None when they may go."""
    return next(
        (each for each in view.status.cutovers if each.from_revision == revision and _is_open(view, each)), None
    )


def draining_wait(view: View) -> Wait | None:
    """What the pods of a revision that has some are kept for, the longest first; None when none are."""
    with_pods = {each.revision for each in view.seen.replica_sets if each.spec_replicas > 0}
    going = [each for each in view.status.cutovers if each.from_revision in with_pods and _is_open(view, each)]
    confirmed = [each for each in going if each.until_s is not None]
    if not confirmed:
        return None
    last = max(confirmed, key=lambda each: each.until_s or 0.0)
    reason = Reason.DRAIN_TIMED_OUT if last.timed_out else Reason.DRAINING
    return Wait(reason, f"revision {last.from_revision} keeps its pods: {last.message}", last.until_s)


def next_drained_s(view: View) -> float | None:
    """When time alone changes what cutovers ask for: one is over, or its `timeoutSeconds` pass."""
    limit_s = view.spec.drain.timeout_s
    times = [
        at_s
        for each in view.status.cutovers
        if each.confirmed_at_s is not None and _is_open(view, each)
        for at_s in (each.until_s, each.confirmed_at_s + limit_s)
    ]
    return earliest(each for each in times if each is not None and each > view.now_s)


def _is_open(view: View, cutover: Cutover) -> bool:
    return cutover.until_s is None or view.now_s < cutover.until_s


def _as_of_now(view: View, cutover: Cutover, shown: frozenset[str]) -> Cutover:
    """Confirmed once the old revision is shown nowhere, and again not when it is shown again; then the end by today's spec."""
    if cutover.until_s is not None and not _is_open(view, cutover):
        return cutover if cutover.timed_out else _timed_out(view, cutover)
    if cutover.from_revision in shown:
        return replace(cutover, confirmed_at_s=None, until_s=None)
    drain, numbers = view.spec.drain, numbers_of(view)
    confirmed_at_s = view.now_s if cutover.confirmed_at_s is None else cutover.confirmed_at_s
    cut_short = numbers.drain_s > drain.timeout_s and drain.on_timeout is OnTimeout.CONTINUE
    because = numbers.drain_why
    if cut_short:
        because = f"{because}; timeoutSeconds, {drain.timeout_s:g} s, comes first"
    current = replace(
        cutover,
        confirmed_at_s=confirmed_at_s,
        proxy_lag_s=numbers.proxy_lag_s,
        needed_s=numbers.drain_s,
        until_s=confirmed_at_s + (drain.timeout_s if cut_short else numbers.drain_s),
        message=because,
    )
    return _timed_out(view, current)


def _timed_out(view: View, cutover: Cutover) -> Cutover:
    """The same, marked when `timeoutSeconds` are over and what was waited for is not, or was not when its end came."""
    if cutover.confirmed_at_s is None or cutover.until_s is None:
        return cutover
    limit_s = view.spec.drain.timeout_s
    over = not _is_open(view, cutover)
    waited_s = cutover.until_s - cutover.confirmed_at_s if over else view.now_s - cutover.confirmed_at_s
    late = waited_s < cutover.needed_s if over else waited_s >= limit_s and cutover.needed_s > limit_s
    return replace(cutover, timed_out=True) if late else cutover
