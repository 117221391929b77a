"""`rollouts drain-report`: how pods were drained before they were deleted, and how long the waits were. Read from status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import DataOption, NameArgument, on_cluster, print_data
from rollouts.cli.view.drains import cutover_lines, injection_text
from rollouts.cli.view.missing import the_rollout
from rollouts.cli.view.objects import status_of
from rollouts.cli.view.session import Options, open_session
from rollouts.core.model.status import RolloutStatus
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
        print_data({"namespace": session.namespace, "name": name, **document(mapping(rollout.get("status")))}, output)
    else:
        for line in report(status, now_s=now_s):
            print_line(Console(), line)
    cutovers = cutover_lines(status, now_s=now_s)
    if any(each.cut for each in cutovers):
        return Exit.BAD
    return Exit.UNFINISHED if any(each.goes_on for each in cutovers) else Exit.OK


def document(wire: Mapping[str, Any]) -> dict[str, Any]:
    """What status has about drains, with its own names."""
    drain = mapping(wire.get("drain"))
    conditions = [each for each in wire.get("conditions") or () if each.get("type") in DRAIN_CONDITIONS]
    return {"preStop": drain.get("preStop"), "cutovers": drain.get("cutovers", []), "conditions": conditions}


def report(status: RolloutStatus, *, now_s: float) -> Iterator[str]:
    """The lines of the report, also for what went well."""
    yield injection_text(status)
    if not status.cutovers:
        yield "no cutover yet: no Service has left a revision with pods, so pods that were deleted had only their preStop"
    for cutover in cutover_lines(status, now_s=now_s):
        yield cutover.title
        yield from (f"  {fact}" for fact in cutover.facts)
    for condition in status.conditions:
        if condition.type in DRAIN_CONDITIONS:
            yield f"{condition.reason}: {condition.message}"
