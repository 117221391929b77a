"""`rollouts doctor`: looks at everything that Rollouts need of a cluster, and says of each fault what repairs it. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
from rich.console import Console

from rollouts.cli.commands.diagnosis import diagnoses
from rollouts.cli.commands.doctor_finding import Diagnosis, Level
from rollouts.cli.commands.doctor_reads import read_cluster
from rollouts.cli.commands.own_version import own_version
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.session import Options, open_session

_STYLES = {Level.OK: "green", Level.NOTE: "dim", Level.WARNING: "yellow", Level.FAULT: "bold red"}


async def doctor(options: Options, *, controller_namespace: str | None, as_json: bool, console: Console) -> Exit:
    """Prints what was looked at; the exit code says whether there is a fault.

    Args:
        controller_namespace: where to look for controllers; None for all namespaces.

    Raises: what `Client` raises.
    """
    async with open_session(options) as session:
        found = diagnoses(await read_cluster(session, controller_namespace=controller_namespace), version=own_version())
    if as_json:
        text = json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    else:
        for each in found:
            console.print(f"{each.level:<8}", style=_STYLES[each.level], end="", highlight=False)
            print_line(console, f"{each.check}: {each.says}")
            if each.fix:
                print_line(console, f"{'':<8}→ {each.fix}")
        console.print(summary(found), highlight=False)
    return Exit.BAD if any(each.level is Level.FAULT for each in found) else Exit.OK


def summary(found: Iterable[Diagnosis]) -> str:
    """The last line."""
    levels = [each.level for each in found]
    faults, warnings = levels.count(Level.FAULT), levels.count(Level.WARNING)
    if not faults and not warnings:
        return "nothing is wrong"
    return ", ".join(count_of(count, noun) for count, noun in ((faults, "fault"), (warnings, "warning")) if count)
