"""The commands that change Rollouts by annotation. What each writes is in `commands/verb_plans.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.commands import verb_plans
from rollouts.cli.commands.verbs import carry_out
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import CommandRun, NameArgument, on_cluster
from rollouts.cli.terminal.prompt import YesOption, confirmation
from rollouts.cli.view.objects import RolloutObjects
from rollouts.cli.view.session import Options, open_session
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
        typer.Option(help="Pass this step, counted from 0 as in currentStepIndex; default: the current one."),
    ] = None,
    gate: Annotated[
        AnalysisKind | None,
        typer.Option(help="Pass the verdict of this analysis, and nothing else; `step` is that of the current step."),
    ] = None,
    skip_analysis: Annotated[
        bool,
        typer.Option(
            "--skip-analysis",
            help="Pass the analysis that measures now, without a verdict. Says what is lost and asks, on a terminal.",
        ),
    ] = False,
    yes: YesOption = False,
    wait: WaitOption = True,
) -> CommandRun:
    """Let the current revision pass the gate where it waits: a verdict that holds it, else the current step.

    A promotion past a verdict names the analysis, so it never passes a pause, nor the verdict of another analysis.
    """
    if sum((full, step is not None, gate is not None, skip_analysis)) > 1:
        raise typer.BadParameter("--full, --step, --gate and --skip-analysis cannot be combined")
    confirm = confirmation("the promotion without a verdict", yes=yes) if skip_analysis else None

    def plan(seen: RolloutObjects) -> verb_plans.CommandWrite | verb_plans.Nothing:
        return verb_plans.plan_promote(seen, full=full, step=step, gate=gate, skip_analysis=skip_analysis)

    return _verb(options, name, plan, wait=wait, confirm=confirm)


@on_cluster
def abort(
    options: Options,
    name: NameArgument,
    yes: YesOption = False,
    wait: WaitOption = True,
) -> CommandRun:
    """Abort the current revision: the stable revision gets all traffic. Says what is lost and asks, on a terminal."""
    confirm = confirmation("the abort", yes=yes)
    return _verb(options, name, verb_plans.plan_abort, wait=wait, confirm=confirm)


@on_cluster
def retry(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Try the aborted revision again from its first step."""
    return _verb(options, name, verb_plans.plan_retry, wait=wait)


@on_cluster
def pause(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Pause the steps; scaling goes on."""
    return _verb(options, name, verb_plans.plan_pause, wait=wait)


@on_cluster
def resume(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """End a pause that `pause` began. To pass a step that waits for promotion, use `promote`."""
    return _verb(options, name, verb_plans.plan_resume, wait=wait)


@on_cluster
def rollback(
    options: Options,
    name: NameArgument,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="REVISION", help="A revision or its number (see history); default: the previous one."
        ),
    ] = None,
    wait: WaitOption = True,
) -> CommandRun:
    """Go back to an earlier revision that is kept, without changing the spec; holds until the template changes."""
    return _undo(options, name, to=to, full=False, wait=wait)


@on_cluster
def undo(
    options: Options,
    name: NameArgument,
    to_revision: Annotated[
        str | None,
        typer.Option(metavar="REVISION", help="A revision or its number (see history); default: the previous one."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Pass every step and every analysis on the way back.")] = False,
    wait: WaitOption = True,
) -> CommandRun:
    """Go back to an earlier revision that is kept, and say what that takes: how many steps, how long, where it stops.

    The spec stays as it is; the rollback holds until the template changes. It is the same as `rollback`.
    """
    return _undo(options, name, to=to_revision, full=full, wait=wait)


@on_cluster
def restart(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Replace the pods that exist now, a few at a time."""
    now_s = time.time()
    return _verb(options, name, lambda seen: verb_plans.plan_restart(seen, now_s=now_s), wait=wait)


def _undo(options: Options, name: str, *, to: str | None, full: bool, wait: bool) -> CommandRun:
    from rollouts.cli.plan import undo as undo_command  # noqa: PLC0415 - the controller's policy is for it only

    return undo_command.undo(options, name, to=to, full=full, wait=wait, console=Console())


async def _verb(
    options: Options,
    name: str,
    plan: verb_plans.PlannedWrite,
    *,
    wait: bool,
    confirm: Callable[[str], bool] | None = None,
) -> Exit:
    async with open_session(options) as session:
        return await carry_out(session, name, plan, wait=wait, console=Console(), confirm=confirm)
