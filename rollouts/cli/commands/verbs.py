"""The verbs: promote, abort, retry, pause, resume, rollback, restart.

Each is read off what the Rollout shows now (`plan_…`, pure), so that it names a revision and a step and can act on no other; it
is sent as annotations guarded by the resourceVersion that was looked at; then the controller's record of it is waited for.
A value that stands already, and that nothing follows from any more, is taken off first: set again it would change nothing.
Nothing is decided here: whether a verb takes effect is the controller's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console

from rollouts.api import verbs as patches
from rollouts.api.times import format_time
from rollouts.cli.commands.get import changes
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import fail
from rollouts.cli.terminal.tree import plain
from rollouts.cli.view.follow import Collection, Followed, following, list_all
from rollouts.cli.view.objects import RolloutObjects, controlled_by, number_of, revision_of, status_of, view_of
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.status import Command, RolloutStatus, Verb
from rollouts.errors import ApiConflict
from rollouts.manifests.ownership import NAME, PREFIX, name_label
from rollouts.objects import REPLICA_SET, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH

RECORDED_WITHIN_S = 10.0  # a controller that is alive records a verb within milliseconds
RECORDED = "recorded"
ATTEMPTS = 5  # the controller may write status between our look and our write
FIELD_MANAGER = "kubectl-rollouts"  # who gave a command, in its record and its Event


@dataclass(frozen=True, slots=True)
class CommandWrite:
    """What is to be written, and what it says.

    Args:
        patch: merge patch of the Rollout's annotations, from `api/verbs.py`.
        verb: whose record in `status.commands` is waited for.
        meaning: `lets revision x pass step 1`.
    """

    patch: Manifest
    verb: Verb
    meaning: str

    @property
    def annotations(self) -> Mapping[str, str | None]:
        """What is set, and what is removed (None)."""
        annotations: Mapping[str, str | None] = self.patch["metadata"]["annotations"]
        return annotations

    @property
    def value(self) -> str | None:
        """Of the record that is waited for; None when the record is to go."""
        return self.annotations[PREFIX + self.verb]


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do, and why; `code` says whether that is bad."""

    why: str
    code: Exit


PlannedWrite = Callable[[RolloutObjects], CommandWrite | Nothing]


def plan_promote(seen: RolloutObjects, *, full: bool, step: int | None) -> CommandWrite | Nothing:
    """Lets the current revision pass the gate it stands at, the step given, or all steps."""
    status = status_of(seen.rollout)
    revision = status.current_revision
    if not revision:
        return Nothing("the controller has not looked at this Rollout yet", Exit.UNFINISHED)
    if revision == status.stable_revision:
        return Nothing(f"revision {revision} is the stable one already: there is nothing to promote", Exit.OK)
    if status.abort is not None:
        return Nothing(f"revision {revision} is aborted: retry it first", Exit.BAD)
    steps = view_of(seen).steps
    if step is not None and not 0 <= step < max(len(steps), 1):
        return Nothing(f"there is no step {step}: they are 0 to {max(len(steps), 1) - 1}", Exit.USAGE)
    index = status.step_index if step is None else step
    paused = _paused(seen)
    if full or (step is None and index >= max(len(steps), 1)):
        meaning = f"lets revision {revision} pass every step{paused}"
        return CommandWrite(patches.promote(revision, full=True), Verb.PROMOTE, meaning)
    # A blue-green update has one gate, and it is number 0.
    which = f"step {index} ({steps[index]}); {_next_stop(steps, after=index)}" if steps else "its gate"
    return CommandWrite(
        patches.promote(revision, step=index), Verb.PROMOTE, f"lets revision {revision} pass {which}{paused}"
    )


def _next_stop(steps: tuple[str, ...], *, after: int) -> str:
    stops = (index for index in range(after + 1, len(steps)) if steps[index].startswith("pause"))
    stop = next(stops, None)
    return "no later step stops it" if stop is None else f"it stops next at step {stop} ({steps[stop]})"


def _paused(seen: RolloutObjects) -> str:
    """That a promotion does not end a pause; "" when nobody holds the Rollout."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return "; it stays paused by spec.paused in its manifest"
    if _annotations(seen.rollout).get(PREFIX + Verb.PAUSE) == "true":
        return f"; it stays paused until `rollouts resume {seen.rollout['metadata']['name']}`"
    return ""


def plan_abort(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Holds the current revision back: the stable one serves."""
    status = status_of(seen.rollout)
    revision = status.current_revision
    if not revision or revision == status.stable_revision:
        return Nothing("no update is under way: there is nothing to abort (to go back, use rollback)", Exit.BAD)
    if status.abort is not None:
        return Nothing(f"revision {revision} is aborted already", Exit.OK)
    meaning = f"holds revision {revision} back; {status.stable_revision} serves"
    return CommandWrite(patches.abort(revision), Verb.ABORT, meaning)


def plan_retry(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Tries the aborted revision again from its first step; an `abort` annotation that holds it goes with it."""
    status = status_of(seen.rollout)
    if status.abort is None:
        return Nothing("nothing is aborted: there is nothing to retry", Exit.BAD)
    revision = status.current_revision
    attempt = status.attempt + 1
    return CommandWrite(
        patches.retry(revision, attempt=attempt), Verb.RETRY, f"tries revision {revision} again (attempt {attempt})"
    )


def plan_pause(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Holds the steps; scaling goes on."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return Nothing("spec.paused is set already", Exit.OK)
    return CommandWrite(patches.pause(), Verb.PAUSE, "holds its steps")


def plan_resume(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Takes the pause annotation away; a pause in the manifest is its author's."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return Nothing("it is paused by spec.paused: take that out of its manifest", Exit.BAD)
    if PREFIX + Verb.PAUSE not in _annotations(seen.rollout):
        return Nothing("it is not paused by annotation; to pass a step that waits for you, use promote", Exit.BAD)
    return CommandWrite(patches.resume(), Verb.PAUSE, "lets its steps go on")


def plan_rollback(seen: RolloutObjects, *, to: str | None) -> CommandWrite | Nothing:
    """Goes back to a kept revision without touching the spec.

    Args:
        to: a revision, or its number (`3`, `#3`); None for the one before.
    """
    status = status_of(seen.rollout)
    if not status.current_revision:
        return Nothing("the controller has not looked at this Rollout yet", Exit.UNFINISHED)
    in_force_rollback = _rollback_that_holds(status)
    template = status.current_revision if in_force_rollback is None else in_force_rollback.revision
    if to is None:
        if in_force_rollback is not None:
            return Nothing(f"{_rolled_back(in_force_rollback)} already; `--to` goes to another revision", Exit.OK)
        meaning = f"goes back from revision {template} to the one before"
        return CommandWrite(patches.rollback_to_previous(template), Verb.ROLLBACK, meaning)
    found = [
        each
        for each in seen.replica_sets
        if to == revision_of(each)
        or (to.removeprefix("#").isdecimal() and int(to.removeprefix("#")) == number_of(each))
    ]
    if not found:
        kept = ", ".join(f"#{number_of(each)} {revision_of(each)}" for each in seen.replica_sets)
        return Nothing(f"no revision {to} is kept; these are: {kept or 'none'}", Exit.BAD)
    revision = revision_of(found[0])
    if in_force_rollback is not None and revision == in_force_rollback.target:
        return Nothing(f"{_rolled_back(in_force_rollback)} already", Exit.OK)
    if in_force_rollback is not None and revision == template:
        return CommandWrite(
            patches.rollback(revision), Verb.ROLLBACK, f"goes forward to revision {revision}, the template's own"
        )
    if revision == template:
        serves = revision == status.stable_revision
        why = "the one that serves" if serves else "the template's own, which is being rolled out"
        return Nothing(f"revision {revision} is {why}", Exit.OK)
    return CommandWrite(patches.rollback(revision), Verb.ROLLBACK, f"goes back from revision {template} to {revision}")


def _rollback_that_holds(status: RolloutStatus) -> Command | None:
    """The rollback that keeps the template's revision back; one that was given for an earlier template holds nothing."""
    rollbacks = (each for each in status.commands if each.verb is Verb.ROLLBACK and each.holds)
    return next((each for each in rollbacks if each.target != each.revision), None)


def _rolled_back(in_force_rollback: Command) -> str:
    return f"it is rolled back from revision {in_force_rollback.revision} to {in_force_rollback.target}"


def plan_restart(seen: RolloutObjects, *, now_s: float) -> CommandWrite | Nothing:
    """Replaces every pod that is older than now."""
    at_s = float(int(now_s))  # the API server keeps no fractions of a pod's age
    name = seen.rollout["metadata"]["name"]
    return CommandWrite(
        patches.restart(at_s), Verb.RESTART, f"replaces the pods of {name} that are older than {format_time(at_s)}"
    )


async def carry_out(
    options: Options,
    name: str,
    plan: PlannedWrite,
    *,
    wait: bool,
    console: Console,
    confirm: Callable[[str], bool] | None = None,
) -> Exit:
    """Looks, plans, asks for confirmation, writes, and waits for the record.

    Args:
        confirm: shown what is meant; False leaves everything as it is.

    Raises: what `Client` raises; ApiConflict when the Rollout moved on to something else between look and write.
    """
    async with open_session(options) as session:
        return await carry_out_on(session, name, plan, wait=wait, console=console, confirm=confirm)


async def carry_out_on(
    session: Session,
    name: str,
    plan: PlannedWrite,
    *,
    wait: bool,
    console: Console,
    confirm: Callable[[str], bool] | None = None,
) -> Exit:
    """The same on a session that is open already."""
    seen = await _look(session, name)
    asked = plan(seen)
    if isinstance(asked, Nothing):
        fail(f"{name}: {asked.why}") if asked.code else console.print(plain(f"{name}: {asked.why}"), markup=False)
        return asked.code
    if confirm is not None and not confirm(plain(f"{session.namespace}/{name}: {asked.meaning}")):
        console.print("left as it is", highlight=False)
        return Exit.BAD
    if _is_spent(seen, asked):
        seen = await _taken_off(session, name, plan, asked, seen)
    await _write(session, name, plan, asked, seen)
    console.print(plain(f"{name}: {_written(asked)}: {asked.meaning}"), markup=False, highlight=False, soft_wrap=True)
    if not wait:
        return Exit.OK
    answer = await _answer(session, name, asked)
    if answer == RECORDED:
        console.print(f"{name}: the controller has recorded it", markup=False, highlight=False)
        return Exit.OK
    if answer is not None:
        fail(f"{name}: the controller does not carry it out: {answer}")
        return Exit.BAD
    fail(_unanswered(name))
    return Exit.UNFINISHED


async def _look(session: Session, name: str) -> RolloutObjects:
    """Raises: ApiNotFound."""
    rollout = manifest_from(await session.client.get(ROLLOUT, session.namespace, name))
    mine = Collection(
        kind=REPLICA_SET, namespace=session.namespace, query={"labelSelector": f"{NAME}={name_label(name)}"}
    )
    replica_sets, _ = await list_all(session, mine)
    return RolloutObjects(
        rollout=rollout, replica_sets=tuple(each for each in replica_sets if controlled_by(each, rollout))
    )


async def _write(session: Session, name: str, plan: PlannedWrite, asked: CommandWrite, seen: RolloutObjects) -> None:
    """Sends the annotations; where the Rollout moved since the look, looks again and goes on only if they would be the same.

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
            seen = await _look(session, name)
            if attempt == ATTEMPTS or plan(seen) != asked:
                raise ApiConflict(
                    f"{name} has moved on since it was looked at; nothing was changed, look again"
                ) from None
        else:
            return


async def _taken_off(
    session: Session, name: str, plan: PlannedWrite, asked: CommandWrite, seen: RolloutObjects
) -> RolloutObjects:
    """The Rollout without the annotation that is to be set again, as the controller has seen it too.

    Raises: ApiConflict, also when that never comes, or something else is to be done by then.
    """
    withdrawn = CommandWrite(patches.withdraw(asked.verb), asked.verb, "")
    await _write(session, name, lambda now: withdrawn if plan(now) == asked else Nothing("", Exit.BAD), withdrawn, seen)
    if await _answer(session, name, withdrawn) != RECORDED:
        raise ApiConflict(_unanswered(name))
    seen = await _look(session, name)
    if plan(seen) != asked:
        raise ApiConflict(f"{name} has moved on since it was looked at; {asked.verb} was taken off, look again")
    return seen


def _is_spent(seen: RolloutObjects, asked: CommandWrite) -> bool:
    """The very value stands, and nothing follows from it any more."""
    if asked.value is None or _annotations(seen.rollout).get(PREFIX + asked.verb) != asked.value:
        return False
    return any(not each.holds for each in _records(seen.rollout, asked) if each.value == asked.value)


async def _answer(session: Session, name: str, asked: CommandWrite) -> str | None:
    """RECORDED; else why the controller does not carry the verb out; None when nobody answers."""
    mine = Collection(kind=ROLLOUT, namespace=session.namespace, query={"fieldSelector": f"metadata.name={name}"})
    try:
        async with asyncio.timeout(RECORDED_WITHIN_S), following(session, mine) as followed:
            async for _ in changes(followed, at_least_every_s=RECORDED_WITHIN_S):
                if (said := _said(followed, asked)) is not None:
                    return said
    except TimeoutError:
        pass
    return None


def _said(followed: Followed, asked: CommandWrite) -> str | None:
    for rollout in followed.all(ROLLOUT):
        records = _records(rollout, asked)
        if asked.value is None:
            return None if records else RECORDED
        for each in records:
            if each.value == asked.value:
                return RECORDED if each.refusal is None else each.refusal.message
        return None
    return RECORDED  # it was deleted: nobody will record anything any more


def _records(rollout: Manifest, asked: CommandWrite) -> list[Command]:
    """What the controller has on record of the verb's annotation."""
    return [each for each in status_of(rollout).commands if each.verb is asked.verb and not each.taken_off]


def _annotations(rollout: Manifest) -> Mapping[str, str]:
    annotations: Mapping[str, str] = rollout["metadata"].get("annotations") or {}
    return annotations


def _unanswered(name: str) -> str:
    within = f"within {RECORDED_WITHIN_S:g} s"
    return f"{name}: no controller has recorded it {within}; is one running? (`rollouts get {name}`)"


def _written(asked: CommandWrite) -> str:
    return ", ".join(
        f"{key}={value}" if value is not None else f"{key} removed" for key, value in asked.annotations.items()
    )
