"""How pods were drained before they were deleted, and how long the waits were, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from rollouts.api.times import format_time
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.core.drain.cutover import SIGNAL
from rollouts.core.model.status import Cutover, RolloutStatus
from rollouts.core.routing.services import display_name


class CutoverLine(Struct, frozen=True):
    """One Service that went to another revision.

    Args:
        title: which one, and from where to where.
        facts: what was waited for, how long and by which signal.
        goes_on: the wait is not over.
        cut: requests may have been cut, or were in flight when it ended.
    """

    title: str
    facts: tuple[str, ...]
    goes_on: bool
    cut: bool


def injection_text(status: RolloutStatus) -> str:
    """What the pods of the current revision do before they end."""
    if status.injection is not None:
        return f"revision {status.current_revision}: {status.injection}"
    return f"revision {status.current_revision or '(none)'}: nothing was added to its pod template"


def cutover_lines(status: RolloutStatus, *, now_s: float) -> tuple[CutoverLine, ...]:
    """The latest cutover of each Service, the newest first."""
    return tuple(
        CutoverLine(
            title=f"{display_name(cutover.service)}: {cutover.from_revision} -> {cutover.to_revision}",
            facts=tuple(_facts(cutover, now_s=now_s)),
            goes_on=_is_open(cutover, now_s),
            cut=cutover.timed_out or bool(cutover.in_flight),
        )
        for cutover in reversed(status.cutovers)
    )


def _facts(cutover: Cutover, *, now_s: float) -> Iterator[str]:
    if cutover.confirmed_at_s is None or cutover.until_s is None:
        yield f"waiting until: its EndpointSlices show no pod of revision {cutover.from_revision}"
        return
    yield f"confirmed by: {SIGNAL}, {_time(cutover.confirmed_at_s)}"
    probes = [
        f"no {what} in flight on {count_of(idle.polls, 'poll')} in a row, the last at {_time(idle.at_s)}"
        for what, idle in (("requests", cutover.idle), ("streams", cutover.streams_idle))
        if idle is not None
    ]
    if probes:
        yield f"probes: {', '.join(probes)}"
    wait_s = cutover.until_s - cutover.confirmed_at_s
    if _is_open(cutover, now_s):
        yield f"waiting: {wait_s:g} s in all, {short(cutover.until_s - now_s)} left, until {_time(cutover.until_s)}"
    else:
        yield f"waited: {wait_s:g} s, until {_time(cutover.until_s)}"
    yield f"for: {cutover.message}"
    if cutover.timed_out:
        yield f"TIMED OUT: {cutover.needed_s:g} s were needed; requests may have been cut"
    if _is_open(cutover, now_s):
        return
    counts = ((cutover.in_flight, "request"), (cutover.streams, "stream"))
    if counted := [count_of(count, what) for count, what in counts if count]:
        yield f"IN FLIGHT at the end: {', '.join(counted)}"
    elif cutover.in_flight == 0:
        yield "in flight at the end: nothing that the probes count"
    elif not cutover.timed_out:
        yield "in flight at the end: not counted; only requests longer than maxRequestSeconds can have been cut"


def _time(at_s: float) -> str:
    """To the second: nobody waits for less."""
    return format_time(float(round(at_s)))


def _is_open(cutover: Cutover, now_s: float) -> bool:
    return cutover.until_s is None or now_s < cutover.until_s
