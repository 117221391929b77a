"""`rollouts drain-report`: how pods were drained before they were deleted, and how long the waits were. Read from status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from rollouts.api.times import format_time
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import DataOption, NameArgument, on_cluster, print_data
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.missing import the_rollout
from rollouts.cli.view.objects import status_of
from rollouts.cli.view.session import Options, open_session
from rollouts.core.drain.cutover import SIGNAL
from rollouts.core.model.status import Cutover, RolloutStatus
from rollouts.core.routing.services import display_name
from rollouts.objects import mapping

DRAIN_CONDITIONS = ("DrainTimedOut", "DrainUnsafe", "ProxyModeKnown")


@on_cluster
async def drain_report(options: Options, name: NameArgument, output: DataOption = None) -> Exit:
    """Show what the last cutover waited for, for how long, and what confirmed it.

    Exit code 0: no request was cut, as far as is known. 1: requests may have been cut. 3: a wait goes on.
    """
    async with open_session(options) as session:
        rollout = await the_rollout(session, name)
        status = status_of(rollout)
        now_s = session.clock.now_s()
    if output is not None:
        print_data({"namespace": session.namespace, "name": name, **_document(mapping(rollout.get("status")))}, output)
    else:
        for line in report(status, now_s=now_s):
            print_line(Console(), line)
    cut = any(cutover.timed_out or cutover.in_flight for cutover in status.cutovers)
    goes_on = any(_is_open(cutover, now_s) for cutover in status.cutovers)
    return Exit.BAD if cut else Exit.UNFINISHED if goes_on else Exit.OK


def _document(wire: Mapping[str, Any]) -> dict[str, Any]:
    conditions = [each for each in wire.get("conditions") or () if each.get("type") in DRAIN_CONDITIONS]
    return {"injection": wire.get("injection"), "cutovers": wire.get("cutovers", []), "conditions": conditions}


def report(status: RolloutStatus, *, now_s: float) -> Iterator[str]:
    """The lines of the report, also for what went well."""
    if status.injection is not None:
        yield f"revision {status.current_revision}: {status.injection}"
    else:
        yield f"revision {status.current_revision or '(none)'}: nothing was added to its pod template"
    if not status.cutovers:
        yield "no cutover yet: no Service has left a revision with pods, so pods that were deleted had only their preStop"
    for cutover in reversed(status.cutovers):
        yield from _cutover(cutover, now_s=now_s)
    for condition in status.conditions:
        if condition.type in DRAIN_CONDITIONS:
            yield f"{condition.reason}: {condition.message}"


def _cutover(cutover: Cutover, *, now_s: float) -> Iterator[str]:
    yield f"{display_name(cutover.service)}: {cutover.from_revision} -> {cutover.to_revision}"
    if cutover.confirmed_at_s is None or cutover.until_s is None:
        yield f"  waiting until: its EndpointSlices show no pod of revision {cutover.from_revision}"
        return
    yield f"  confirmed by: {SIGNAL}, {_time(cutover.confirmed_at_s)}"
    probes = [
        f"no {what} in flight on {count_of(idle.polls, 'poll')} in a row, the last at {_time(idle.at_s)}"
        for what, idle in (("requests", cutover.idle), ("streams", cutover.streams_idle))
        if idle is not None
    ]
    if probes:
        yield f"  probes: {', '.join(probes)}"
    wait_s = cutover.until_s - cutover.confirmed_at_s
    if _is_open(cutover, now_s):
        yield f"  waiting: {wait_s:g} s in all, {short(cutover.until_s - now_s)} left, until {_time(cutover.until_s)}"
    else:
        yield f"  waited: {wait_s:g} s, until {_time(cutover.until_s)}"
    yield f"  for: {cutover.message}"
    if cutover.timed_out:
        yield f"  TIMED OUT: {cutover.needed_s:g} s were needed; requests may have been cut"
    if _is_open(cutover, now_s):
        return
    counts = ((cutover.in_flight, "request"), (cutover.streams, "stream"))
    if counted := [count_of(count, what) for count, what in counts if count]:
        yield f"  IN FLIGHT at the end: {', '.join(counted)}"
    elif cutover.in_flight == 0:
        yield "  in flight at the end: nothing that the probes count"
    elif not cutover.timed_out:
        yield "  in flight at the end: not counted; only requests longer than maxRequestSeconds can have been cut"


def _time(at_s: float) -> str:
    """To the second: nobody waits for less."""
    return format_time(float(round(at_s)))


def _is_open(cutover: Cutover, now_s: float) -> bool:
    return cutover.until_s is None or now_s < cutover.until_s
