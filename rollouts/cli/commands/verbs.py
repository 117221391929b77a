"""The commands that change Rollouts by annotation: promote, abort, retry, pause, resume, restart.

`verb_plans.py` says what each of them writes.
`carry_out` writes it as annotations, guarded by the resourceVersion that was read, and waits until the controller has recorded
it. An annotation that already has the value, and has no effect any more, is removed first: setting it again changes nothing.
Nothing is decided here: the controller decides whether a command takes effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console

from rollouts.api import verbs as patches
from rollouts.cli.commands.get import changes
from rollouts.cli.commands.verb_plans import (
    FIELD_MANAGER,
    CommandWrite,
    Nothing,
    PlannedWrite,
    annotations_of,
    plan_abort,
    plan_pause,
    plan_promote,
    plan_restart,
    plan_resume,
    plan_retry,
)
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import CommandRun, NameArgument, duration, fail, on_cluster
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.follow import Collection, following, list_all, named
from rollouts.cli.view.in_place import as_replica_sets, revisions_kind
from rollouts.cli.view.missing import the_rollout
from rollouts.cli.view.objects import RolloutObjects, controlled_by, query_of_its_pods, status_of
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.status import Command
from rollouts.errors import ApiConflict
from rollouts.manifests.ownership import PREFIX
from rollouts.objects import ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH

RECORDED_WITHIN_S = 10.0  # a running controller records a command within milliseconds
RECORDED = "recorded"
ATTEMPTS = 5  # the controller may write status between our look and our write


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
    stands = annotations_of(seen.rollout).get(PREFIX + asked.verb) == asked.value is not None
    if stands and any(not record.holds for record in _records(seen.rollout, asked) if record.value == asked.value):
        seen = await _withdraw_annotation(session, name, plan, asked, seen)
    await _write(session, name, plan, asked, seen)
    annotations = asked.annotations.items()
    written = ", ".join(f"{key} removed" if value is None else f"{key}={value}" for key, value in annotations)
    print_line(console, f"{name}: {written}: {asked.meaning}")
    if asked.loses:
        print_line(console, f"{name}: {asked.loses}")
    if not wait:
        return Exit.OK
    answer = await _answer(session, name, asked)
    if answer == RECORDED:
        console.print(f"{name}: the controller has recorded the command", markup=False, highlight=False)
        return Exit.OK
    if answer is not None:
        fail(f"{name}: the controller refused the command: {answer}")
        return Exit.BAD
    fail(_unanswered(name))
    return Exit.UNFINISHED


async def look(session: Session, name: str) -> RolloutObjects:
    """The Rollout and its revisions.

    Raises: ApiNotFound; what `Client` raises.
    """
    rollout = await the_rollout(session, name)
    kept = Collection(kind=revisions_kind(rollout), namespace=session.namespace, query=query_of_its_pods(rollout))
    found, _ = await list_all(session, kept)
    own = tuple(thing for thing in found if controlled_by(thing, rollout))
    return RolloutObjects(rollout=rollout, replica_sets=as_replica_sets(own, ()))


async def _write(session: Session, name: str, plan: PlannedWrite, asked: CommandWrite, seen: RolloutObjects) -> None:
    """Sends the annotations. If the Rollout has changed since it was read, reads it again and goes on only with the same plan.

    Raises: ApiConflict.
    """
    for attempt in range(1, ATTEMPTS + 1):
        guard = {"resourceVersion": seen.rollout["metadata"]["resourceVersion"]}
        patch = {"metadata": asked.patch["metadata"] | guard}
        try:
            await session.client.patch(
                ROLLOUT, session.namespace, name, patch, MERGE_PATCH, field_manager=FIELD_MANAGER
            )
        except ApiConflict:
            seen = await look(session, name)
            if attempt == ATTEMPTS or plan(seen) != asked:
                why = f"{name} changed while the command was prepared; nothing was written, look at it again"
                raise ApiConflict(why) from None
        else:
            return


async def _withdraw_annotation(
    session: Session, name: str, plan: PlannedWrite, asked: CommandWrite, seen: RolloutObjects
) -> RolloutObjects:
    """Removes the annotation that is about to be set again, and returns the Rollout after the controller has seen that.

    Raises: ApiConflict, also when the controller does not record the removal, or when the plan is another by then.
    """
    withdrawn = CommandWrite(patches.withdraw(asked.verb), asked.verb, "")
    await _write(session, name, lambda now: withdrawn if plan(now) == asked else Nothing("", Exit.BAD), withdrawn, seen)
    if await _answer(session, name, withdrawn) != RECORDED:
        raise ApiConflict(_unanswered(name))
    seen = await look(session, name)
    if plan(seen) != asked:
        removed = f"its old {asked.verb} annotation was removed, look at it again"
        raise ApiConflict(f"{name} changed while the command was prepared; {removed}")
    return seen


async def _answer(session: Session, name: str, asked: CommandWrite) -> str | None:
    """RECORDED, or why the controller refused the command; None when no controller answers."""
    mine = named(ROLLOUT, session.namespace, name)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RECORDED_WITHIN_S), following(session, mine) as followed:
            async for _ in changes(followed, at_least_every_s=RECORDED_WITHIN_S):
                if (answer := _recorded_answer(followed.all(ROLLOUT), asked)) is not None:
                    return answer
    return None


def _recorded_answer(rollouts: Iterable[Manifest], asked: CommandWrite) -> str | None:
    for rollout in rollouts:
        records = _records(rollout, asked)
        if asked.value is None:
            return None if records else RECORDED
        answers = (record for record in records if record.value == asked.value)
        if (record := next(answers, None)) is None:
            return None
        return RECORDED if record.refusal is None else record.refusal.message
    return RECORDED  # the Rollout was deleted: there will be no record


def _records(rollout: Manifest, asked: CommandWrite) -> list[Command]:
    """The controller's records of this command, without those whose annotation it removed."""
    return [
        command
        for command in status_of(rollout).commands
        if command.verb is asked.verb and not command.annotation_removed
    ]


def _unanswered(name: str) -> str:
    within = f"within {RECORDED_WITHIN_S:g} s"
    return f"{name}: no controller has recorded the command {within}; `kubectl rollouts doctor` says whether one runs"
