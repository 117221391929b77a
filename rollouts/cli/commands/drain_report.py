"""`rollouts drain-report`: what was done and waited for so that pods that went lost no request, read from status."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from rollouts.api.times import format_time
from rollouts.cli.exits import Exit
from rollouts.cli.view.durations import short
from rollouts.cli.view.objects import status_of
from rollouts.cli.view.session import Options, open_session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.drain.cutover import SIGNAL
from rollouts.core.model.status import Cutover, RolloutStatus
from rollouts.core.routing.services import display_name
from rollouts.objects import ROLLOUT

DRAIN_CONDITIONS = ("DrainTimedOut", "DrainUnsafe", "ProxyModeKnown")


async def drain_report(options: Options, name: str, *, console: Console) -> Exit:
    """Tells of the pods' sleep, and of the last cutover: from, to, what confirmed it, how long was waited and why.

    Returns: BAD when a wait ran out or ended with requests in flight, UNFINISHED while one goes on, else OK.

    Raises: ApiNotFound; what `Client` raises.
    """
    async with open_session(options) as session:
        rollout = manifest_from(await session.client.get(ROLLOUT, session.namespace, name))
        status = status_of(rollout)
        now_s = session.clock.now_s()
    for line in report(status, now_s=now_s):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if any(each.timed_out or each.in_flight for each in status.cutovers):
        return Exit.BAD
    return Exit.UNFINISHED if any(_is_open(each, now_s) for each in status.cutovers) else Exit.OK


def report(status: RolloutStatus, *, now_s: float) -> Iterator[str]:
    """The report, line by line; nothing is left out because it went well."""
    if status.injection is not None:
        yield f"revision {status.current_revision}: {status.injection}"
    else:
        yield f"revision {status.current_revision or '(none)'}: its template was left as it is"
    if not status.cutovers:
        yield "no Service has left a revision with pods so far: pods that went were covered by their preStop alone"
    for cutover in reversed(status.cutovers):
        yield from _cutover(cutover, now_s=now_s)
    for condition in status.conditions:
        if condition.type in DRAIN_CONDITIONS:
            yield f"{condition.reason}: {condition.message}"


def _cutover(cutover: Cutover, *, now_s: float) -> Iterator[str]:
    yield f"{display_name(cutover.service)}: {cutover.from_revision} -> {cutover.to_revision}"
    if cutover.confirmed_at_s is None or cutover.until_s is None:
        yield f"  waiting for: its EndpointSlices to show no pod of {cutover.from_revision}"
        return
    yield f"  confirmed by: {SIGNAL}, {format_time(cutover.confirmed_at_s)}"
    if cutover.idle is not None or cutover.streams_idle is not None:
        yield f"  probes: {', '.join(_idle(cutover))}"
    wait_s = cutover.until_s - cutover.confirmed_at_s
    if _is_open(cutover, now_s):
        yield f"  waiting: {wait_s:g} s in all, {short(cutover.until_s - now_s)} left, until {format_time(cutover.until_s)}"
    else:
        yield f"  waited: {wait_s:g} s, until {format_time(cutover.until_s)}"
    yield f"  for: {cutover.message}"
    if cutover.timed_out:
        yield f"  TIMED OUT: {cutover.needed_s:g} s were needed; requests may have been cut"
    if not _is_open(cutover, now_s):
        yield from _rest(cutover)


def _idle(cutover: Cutover) -> Iterator[str]:
    for what, idle in (("requests", cutover.idle), ("streams", cutover.streams_idle)):
        if idle is not None:
            yield f"no {what} in flight on {idle.polls} polls in a row, the last {format_time(idle.at_s)}"


def _rest(cutover: Cutover) -> Iterator[str]:
    """What the end of the wait may have cut."""
    counted = [
        f"{count} {what}" for what, count in (("requests", cutover.in_flight), ("streams", cutover.streams)) if count
    ]
    if counted:
        yield f"  IN FLIGHT at the end: {', '.join(counted)}"
    elif cutover.in_flight == 0:
        yield "  in flight at the end: nothing that the probes count"
    elif not cutover.timed_out:
        yield "  in flight afterwards: only what took longer than maxRequestSeconds; no connection was looked at"


def _is_open(cutover: Cutover, now_s: float) -> bool:
    return cutover.until_s is None or now_s < cutover.until_s
