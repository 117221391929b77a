"""Gives a command: writes its annotations and waits for the controller's record. What is said of it is for the caller.

An annotation that already has the value, and has no effect any more, is removed first: setting it again changes nothing.
Nothing is decided here: the controller decides whether a command takes effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from rollouts.api import verbs as patches
from rollouts.cli.exits import Exit
from rollouts.cli.view.experiments import Termination
from rollouts.cli.view.follow import following, named
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.cli.view.reading import changes, look
from rollouts.cli.view.session import Session
from rollouts.cli.view.verb_plans import FIELD_MANAGER, CommandWrite, Nothing, PlannedWrite, annotations_of
from rollouts.core.model.status import Command
from rollouts.errors import ApiConflict
from rollouts.manifests.ownership import PREFIX
from rollouts.objects import EXPERIMENT, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH

RECORDED_WITHIN_S = 10.0  # a running controller records a command within milliseconds
RECORDED = "recorded"
ATTEMPTS = 5  # the controller may write status between our look and our write


async def give(session: Session, name: str, plan: PlannedWrite, asked: CommandWrite, seen: RolloutObjects) -> None:
    """Writes what was planned of the Rollout that was seen, guarded by its resourceVersion.

    Raises: what `Client` raises; ApiConflict when the Rollout has changed since, and the plan with it.
    """
    stands = annotations_of(seen.rollout).get(PREFIX + asked.verb) == asked.value is not None
    if stands and any(not record.holds for record in _records(seen.rollout, asked) if record.value == asked.value):
        seen = await _withdraw_annotation(session, name, plan, asked, seen)
    await _write(session, name, plan, asked, seen)


async def end_experiment(session: Session, name: str, planned: Termination) -> None:
    """Writes what ends the Experiment that was seen; one of the same name with another uid is refused.

    Raises: what `Client` raises.
    """
    await session.client.patch(
        EXPERIMENT, session.namespace, name, planned.patch, MERGE_PATCH, field_manager=FIELD_MANAGER
    )


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
    if await answer_to(session, name, withdrawn) != RECORDED:
        raise ApiConflict(unanswered(name))
    seen = await look(session, name)
    if plan(seen) != asked:
        removed = f"its old {asked.verb} annotation was removed, look at it again"
        raise ApiConflict(f"{name} changed while the command was prepared; {removed}")
    return seen


async def answer_to(session: Session, name: str, asked: CommandWrite) -> str | None:
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


def unanswered(name: str) -> str:
    """That no controller has recorded the command, and who says why."""
    within = f"within {RECORDED_WITHIN_S:g} s"
    return f"{name}: no controller has recorded the command {within}; `kubectl rollouts doctor` says whether one runs"
