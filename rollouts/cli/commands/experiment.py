"""`rollouts experiment list|get|terminate`: the Experiments of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console, RenderableType

from rollouts.cli.commands.get import print_manifests
from rollouts.cli.commands.verdicts import follow_verdict, read_one
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.command_line import CliCommand
from rollouts.cli.terminal.experiments import draw_experiment, experiments_table
from rollouts.cli.terminal.listing import print_drawn, print_line
from rollouts.cli.terminal.options import ExperimentArgument, Output, fail, note, on_cluster
from rollouts.cli.view.experiments import (
    ExperimentLine,
    Termination,
    experiment_line,
    experiment_text,
    plan_termination,
)
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.giving import end_experiment
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cli.view.verb_plans import Nothing
from rollouts.objects import EXPERIMENT

app = typer.Typer(help="See and end Experiments.")


@app.command("list", cls=CliCommand)
@on_cluster
async def list_experiments(
    options: Options,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="List every namespace.")] = False,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="All columns, or the manifests.")] = None,
) -> Exit:
    """List Experiments, the newest first: how far each is, or how it ended and why."""
    console = Console()
    async with open_session(options) as session:
        namespace = None if all_namespaces else session.namespace
        found, _ = await list_all(session, Collection(kind=EXPERIMENT, namespace=namespace))
        if output not in (None, Output.WIDE):
            print_manifests(found, output, console)
        elif not found:
            note(f"no Experiments found{f' in namespace {namespace}' if namespace else ''}")
        else:
            lines = sorted(map(experiment_line, found), key=lambda one: (-one.created_at_s, one.namespace, one.name))
            wide, now_s = output is Output.WIDE, session.clock.now_s()
            print_drawn(console, experiments_table(lines, now_s=now_s, wide=wide, all_namespaces=all_namespaces))
    return Exit.OK


@app.command("get", cls=CliCommand)
@on_cluster
async def get_experiment(
    options: Options,
    name: ExperimentArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is over.")] = False,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="The manifest, or its name.")] = None,
) -> Exit:
    """Show one Experiment: the pods of each template, and each analysis.

    Exit code with -w: 0 when it ended Successful, otherwise 1.
    """
    if output is Output.WIDE:
        raise typer.BadParameter("-o takes name, json or yaml here")
    if watch and output is not None:
        raise typer.BadParameter(f"-w cannot be combined with -o {output}")
    console = Console()
    async with open_session(options) as session:
        if watch:
            return await _follow(session, name, console=console)
        found = await read_one(session, EXPERIMENT, name)
        if output is not None:
            print_manifests(found, output, console)
        else:
            print_drawn(console, draw_experiment(experiment_line(found), now_s=session.clock.now_s()))
    return Exit.OK


@app.command("terminate", cls=CliCommand)
@on_cluster
async def terminate(
    options: Options,
    name: ExperimentArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is over.")] = False,
) -> Exit:
    """End an Experiment now: its analyses are judged by what they have measured, and its pods go after the scale-down delay.

    Exit code 1 for one that is over already. With -w: 0 when it ended Successful, otherwise 1.
    """
    console = Console()
    async with open_session(options) as session:
        planned = plan_termination(await read_one(session, EXPERIMENT, name))
        match planned:
            case Nothing(why, Exit.BAD):
                fail(why)
                return Exit.BAD
            case Nothing(why):
                print_line(console, why)
            case Termination():
                await end_experiment(session, name, planned)
                print_line(console, f"{name} is ending: {planned.meaning}")
        return await _follow(session, name, console=console) if watch else Exit.OK


async def _follow(session: Session, name: str, *, console: Console) -> Exit:
    def picture(line: ExperimentLine, now_s: float) -> RenderableType:
        return draw_experiment(line, now_s=now_s)

    return await follow_verdict(
        session, EXPERIMENT, name, console=console, line_of=experiment_line, picture=picture, text=experiment_text
    )
