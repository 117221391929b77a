"""`rollouts undo` and `rollouts rollback`: goes back to a kept revision, and says beforehand what that takes."""

from __future__ import annotations

import asyncio

from rich.console import Console

from rollouts.cli.commands.verbs import carry_out
from rollouts.cli.exits import Exit
from rollouts.cli.plan.command import plan_of_live
from rollouts.cli.plan.report import PlannedStep, PlanReport
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.text import marks_for
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.follow import following, named
from rollouts.cli.view.giving import RECORDED_WITHIN_S
from rollouts.cli.view.objects import RolloutObjects, number_of, revision_of, status_of
from rollouts.cli.view.reading import changes, look
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cli.view.verb_plans import CommandWrite, Nothing, plan_promote, plan_rollback
from rollouts.core.forecast import StageKind
from rollouts.core.model.numbering import revision_title
from rollouts.errors import RolloutsError
from rollouts.objects import ROLLOUT

_SHOWN_IN_SECONDS = 120.0  # longer times are read in minutes


async def undo(options: Options, name: str, *, to: str | None, full: bool, wait: bool, console: Console) -> Exit:
    """Goes back by annotation.

    Args:
        to: a revision or its number; None for the previous one.
        full: passes every step and every analysis on the way.
        wait: waits for the controller's record; `full` always does.

    Raises: what `Client` raises; ApiConflict when the Rollout changes meanwhile.
    """

    def plan(seen: RolloutObjects) -> CommandWrite | Nothing:
        return plan_rollback(seen, to=to)

    async with open_session(options) as session:
        seen = await look(session, name)
        asked = plan(seen)
        if isinstance(asked, CommandWrite):
            arrow = marks_for(ascii_only=console.options.ascii_only).arrow
            said = way_back(seen, asked.target, await _forecast(session, seen, asked), full=full, arrow=arrow)
            print_line(console, f"{name}: {said}")
        code = await carry_out(session, name, plan, wait=wait or full, console=console)
        if code is not Exit.OK or not isinstance(asked, CommandWrite) or not full:
            return code
        target = asked.target
        await _wait_until_current(session, name, target)

        def pass_everything(seen: RolloutObjects) -> CommandWrite | Nothing:
            if status_of(seen.rollout).current_revision == target:
                return plan_promote(seen, full=True)
            why = f"revision {target} is not being rolled out, so none of its steps is passed"
            return Nothing(why, Exit.UNFINISHED)

        return await carry_out(session, name, pass_everything, wait=wait, console=console)


def way_back(seen: RolloutObjects, target: str, report: PlanReport | None, *, full: bool, arrow: str = "→") -> str:
    """What going back takes: `#3 f7w2k9xq4c → #2 b5c8r2mm9d, 2 steps, about 90 s; it stops at step 1 (pause until promoted)`.

    Args:
        report: None where nobody could tell.
        full: whether steps are passed.
    """
    numbers = {revision_of(replica_set): number_of(replica_set) for replica_set in seen.replica_sets}
    current = status_of(seen.rollout).current_revision
    from_, to = (revision_title(numbers.get(each, 0), each) for each in (current, target))
    parts = [f"{from_} {arrow} {to}"]
    if report is None:
        return parts[0]
    steps = [step for step in report.steps if step.kind is StageKind.STEP]
    if full or (not steps and report.strategy == "Canary"):
        parts.append("without its steps")
        steps = []
    elif steps:
        parts.append(count_of(len(steps), "step"))
    if not full:
        parts.append(_time(report))
    stop = (
        None
        if full
        else next((step for step in report.steps if any(wait.seconds is None for wait in step.waits)), None)
    )
    return ", ".join(parts) + (f"; it stops at {_place(stop)}" if stop is not None else "")


def _place(step: PlannedStep) -> str:
    if step.kind is not StageKind.STEP:
        return "its gate, until it is promoted"
    number, _, what = step.what.partition(" ")
    return f"step {number} ({what})"


def _time(report: PlanReport) -> str:
    known_s = report.known_s
    took = f"{known_s:.0f} s" if known_s < _SHOWN_IN_SECONDS else short(known_s)
    more = " and the start of pods" if report.unmeasured else ""
    verdicts = f" and {count_of(report.analyses, 'verdict')} of analyses" if report.analyses else ""
    return f"about {took}{more}{verdicts}"


async def _forecast(session: Session, seen: RolloutObjects, asked: CommandWrite) -> PlanReport | None:
    """What the controller would do after the command; None where something that it depends on cannot be read."""
    try:
        metadata = seen.rollout["metadata"]
        merged = {**(metadata.get("annotations") or {}), **asked.annotations}
        annotations = {name: value for name, value in merged.items() if value}
        commanded = {**seen.rollout, "metadata": {**metadata, "annotations": annotations}}
        report = await plan_of_live(session, commanded)
    except RolloutsError:
        return None
    return None if report.supposed else report


async def _wait_until_current(session: Session, name: str, target: str) -> None:
    """Waits until the revision is the current one, or until a controller would have made it that."""
    mine = named(ROLLOUT, session.namespace, name)
    try:
        async with asyncio.timeout(RECORDED_WITHIN_S), following(session, mine) as followed:
            async for _ in changes(followed, at_least_every_s=RECORDED_WITHIN_S):
                if any(status_of(rollout).current_revision == target for rollout in followed.all(ROLLOUT)):
                    return
    except TimeoutError:
        return
