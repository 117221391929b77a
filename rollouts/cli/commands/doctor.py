"""`rollouts doctor`: looks at everything that Rollouts need of a cluster, and says of each fault what repairs it. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from rollouts.cli.commands.doctor_finding import Diagnosis, Level
from rollouts.cli.commands.version import own_version
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import on_cluster
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.session import Options, open_session

_STYLES = {Level.OK: "green", Level.NOTE: "dim", Level.WARNING: "yellow", Level.FAULT: "bold red"}


@on_cluster
async def doctor(
    options: Options,
    controller_namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where the controller runs; default: looks in every namespace."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> Exit:
    """Look whether the cluster has everything that Rollouts need, and say of each fault what repairs it. Reads only.

    Each line after an arrow is a command for bash. Run them in their order, and ask again.

    Looks at the CRDs, the controller, its leader and its rights, versions, the proxy mode, routers and Gateway classes,
    metrics APIs of autoscalers, Prometheus, TrafficProviders and MetricProviders, and the policies that hold workloads which
    Rollouts update in place.
    Exit code 0: no fault. 1: a fault. 4: the API server cannot be reached or refuses.
    """
    from rollouts.cli.commands.diagnosis import diagnoses  # noqa: PLC0415 - main.py says why
    from rollouts.cli.commands.doctor_reads import read_cluster  # noqa: PLC0415

    console = Console()
    async with open_session(options) as session:
        found = diagnoses(await read_cluster(session, controller_namespace=controller_namespace), version=own_version())
    if as_json:
        text = json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    else:
        shown = set[str]()
        for diagnosis in found:
            console.print(f"{diagnosis.level:<8}", style=_STYLES[diagnosis.level], end="", highlight=False)
            print_line(console, f"{diagnosis.check}: {diagnosis.says}")
            if diagnosis.fix in shown:
                print_line(console, f"{'':<10}(repaired by the same command as above)")
            elif diagnosis.fix:
                print_line(console, f"{'':<8}→ {diagnosis.fix}")
                shown.add(diagnosis.fix)
            if diagnosis.hint:
                print_line(console, f"{'':<10}{diagnosis.hint}")
        console.print(summary(found), highlight=False)
    return Exit.BAD if any(diagnosis.level is Level.FAULT for diagnosis in found) else Exit.OK


def summary(found: Iterable[Diagnosis]) -> str:
    """The last line."""
    levels = [diagnosis.level for diagnosis in found]
    faults, warnings = levels.count(Level.FAULT), levels.count(Level.WARNING)
    if not faults and not warnings:
        return "nothing is wrong"
    return ", ".join(count_of(count, noun) for count, noun in ((faults, "fault"), (warnings, "warning")) if count)
