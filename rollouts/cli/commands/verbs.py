"""The commands that change Rollouts by annotation: promote, abort, retry, pause, resume, restart.

`view/verb_plans.py` says what each of them writes, `view/giving.py` writes it; here is what a terminal says of it.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import CommandRun, NameArgument, duration, fail, on_cluster
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.giving import RECORDED, answer_to, give, unanswered
from rollouts.cli.view.objects import RolloutObjects
from rollouts.cli.view.reading import look
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cli.view.verb_plans import (
    CommandWrite,
    Nothing,
    PlannedWrite,
    plan_abort,
    plan_pause,
    plan_promote,
    plan_restart,
    plan_resume,
    plan_retry,
)
from rollouts.core.model.analysis import AnalysisKind

WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait up to 10 s until a controller has recorded the command.")
]


@on_cluster
def promote(
    options: Options,
    name: NameArgument,
    full: Annotated[bool, typer.Option("--full", help="Pass every step and every analysis that is left.")] = False,
    step: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Pass this step, counted from 1; default: the current one."),
    ] = None,
    gate: Annotated[
        AnalysisKind | None,
        typer.Option(help="Pass the verdict of this analysis, and nothing else; `step` is that of the current step."),
    ] = None,
    skip_analysis: Annotated[
        bool, typer.Option("--skip-analysis", help="Pass the analysis that measures now, without a verdict.")
    ] = False,
    wait: WaitOption = True,
) -> CommandRun:
    """Let the current revision pass the gate where it waits: a verdict that holds it, else the current step.

    A promotion past a verdict names the analysis, so it never passes a pause, nor the verdict of another analysis.
    """
    if sum((full, step is not None, gate is not None, skip_analysis)) > 1:
        raise typer.BadParameter("--full, --step, --gate and --skip-analysis cannot be combined")
    index = None if step is None else step - 1

    def plan(seen: RolloutObjects) -> CommandWrite | Nothing:
        return plan_promote(seen, full=full, step=index, gate=gate, skip_analysis=skip_analysis)

    return _verb(options, name, plan, wait=wait)


@on_cluster
def abort(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Abort the current revision: the stable revision gets all traffic. `retry` takes it back."""
    return _verb(options, name, plan_abort, wait=wait)


@on_cluster
def retry(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Try the aborted revision again from its first step."""
    return _verb(options, name, plan_retry, wait=wait)


@on_cluster
def pause(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Pause the steps; scaling goes on."""
    return _verb(options, name, plan_pause, wait=wait)


@on_cluster
def resume(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """End a pause that `pause` began. To pass a step that waits for promotion, use `promote`."""
    return _verb(options, name, plan_resume, wait=wait)


@on_cluster
def restart(
    options: Options,
    name: NameArgument,
    in_s: Annotated[
        float,
        typer.Option("-i", "--in", parser=duration, metavar="DURATION", help="Begin so much later (30s, 5m, 1h)."),
    ] = "0s",  # type: ignore[assignment]
    wait: WaitOption = True,
) -> CommandRun:
    """Replace the pods that exist now, a few at a time."""
    at_s = time.time() + in_s
    return _verb(options, name, lambda seen: plan_restart(seen, at_s=at_s), wait=wait)


async def _verb(options: Options, name: str, plan: PlannedWrite, *, wait: bool) -> Exit:
    async with open_session(options) as session:
        return await carry_out(session, name, plan, wait=wait, console=Console())


async def carry_out(session: Session, name: str, plan: PlannedWrite, *, wait: bool, console: Console) -> Exit:
    """Reads the Rollout, plans, writes, says what that means and what is lost by it, and waits for the controller's record.

    Raises: what `Client` raises; ApiConflict when the Rollout changed between read and write, and the plan with it.
    """
    seen = await look(session, name)
    asked = plan(seen)
    if isinstance(asked, Nothing):
        fail(f"{name}: {asked.why}") if asked.code else console.print(plain(f"{name}: {asked.why}"), markup=False)
        return asked.code
    await give(session, name, plan, asked, seen)
    annotations = asked.annotations.items()
    written = ", ".join(f"{key} removed" if value is None else f"{key}={value}" for key, value in annotations)
    print_line(console, f"{name}: {written}: {asked.words}")
    if asked.loses:
        print_line(console, f"{name}: {asked.loses}")
    if not wait:
        return Exit.OK
    answer = await answer_to(session, name, asked)
    if answer == RECORDED:
        console.print(f"{name}: the controller has recorded the command", markup=False, highlight=False)
        return Exit.OK
    if answer is not None:
        fail(f"{name}: the controller refused the command: {answer}")
        return Exit.BAD
    fail(unanswered(name))
    return Exit.UNFINISHED
