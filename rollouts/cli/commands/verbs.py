"""The commands by annotation: promote, abort, retry, pause, resume, rollback, restart.

`plan_…` (pure) makes each command from what the Rollout shows now, so it names a revision and a step and cannot act on another.
`carry_out` writes it as annotations, guarded by the resourceVersion that was read, and waits until the controller has recorded
it. An annotation that already has the value, and has no effect any more, is removed first: setting it again changes nothing.
Nothing is decided here: the controller decides whether a command takes effect.
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
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.follow import Collection, Followed, following, list_all
from rollouts.cli.view.objects import RolloutObjects, controlled_by, number_of, revision_of, status_of, view_of
from rollouts.cli.view.runs import about
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.analysis import AnalysisKind, AnalysisRecord
from rollouts.core.model.status import Command, RolloutStatus, Verb
from rollouts.errors import ApiConflict
from rollouts.manifests.ownership import NAME, PREFIX, name_label
from rollouts.objects import REPLICA_SET, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH

RECORDED_WITHIN_S = 10.0  # a running controller records a command within milliseconds
RECORDED = "recorded"
ATTEMPTS = 5  # the controller may write status between our look and our write
FIELD_MANAGER = "kubectl-rollouts"  # who gave a command, in its record and its Event


@dataclass(frozen=True, slots=True)
class CommandWrite:
    """The annotations that give a command, and what they mean.

    Args:
        patch: merge patch of the Rollout's annotations, from `api/verbs.py`.
        verb: the command whose record in `status.commands` shows the answer.
        meaning: for people: `lets revision x pass step 1`.
    """

    patch: Manifest
    verb: Verb
    meaning: str

    @property
    def annotations(self) -> Mapping[str, str | None]:
        """The annotations to set, and those to remove (None)."""
        annotations: Mapping[str, str | None] = self.patch["metadata"]["annotations"]
        return annotations

    @property
    def value(self) -> str | None:
        """The annotation's value, which the record repeats; None when the annotation is removed, and the record with it."""
        return self.annotations[PREFIX + self.verb]


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing is written, and why; `code` says whether that is an error."""

    why: str
    code: Exit


PlannedWrite = Callable[[RolloutObjects], CommandWrite | Nothing]


def plan_promote(
    seen: RolloutObjects, *, full: bool, step: int | None, gate: AnalysisKind | None = None
) -> CommandWrite | Nothing:
    """Lets the current revision pass the gate it stands at, the gate given, or all of them.

    Args:
        full: everything that is left, analyses too.
        step: the step to pass; None for where it stands.
        gate: the analysis whose verdict to pass; `step` is that of the current step.
    """
    status = status_of(seen.rollout)
    revision = status.current_revision
    if not revision:
        return Nothing("the controller has not seen this Rollout yet", Exit.UNFINISHED)
    if revision == status.stable_revision:
        return Nothing(f"revision {revision} is stable already: there is nothing to promote", Exit.OK)
    if status.abort is not None:
        return Nothing(f"revision {revision} is aborted: retry it first", Exit.BAD)
    steps = view_of(seen).steps
    if step is not None and not 0 <= step < max(len(steps), 1):
        return Nothing(f"there is no step {step}: the steps are 0 to {max(len(steps), 1) - 1}", Exit.USAGE)
    held = _held(status)
    if gate is not None and (held is None or held.gate.kind is not gate):
        return Nothing(f"no verdict of the {gate} analysis waits for a promotion", Exit.BAD)
    paused = _paused(seen)
    if not full and step is None and held is not None:
        return _past_verdict(revision, held, paused)
    index = status.step_index if step is None else step
    if full or (step is None and index >= max(len(steps), 1)):
        too = " and every analysis" if status.analyses else ""
        meaning = f"lets revision {revision} pass every step{too}{paused}"
        return CommandWrite(patches.promote(revision, full=True), Verb.PROMOTE, meaning)
    if steps and steps[index].startswith("analysis") and (held is None or held.gate.step != index):
        why = "a promotion passes its verdict, once there is one that holds the update; --full passes everything"
        return Nothing(f"step {index} is an analysis: {why}", Exit.BAD)
    # A blue-green update has one gate, and it is number 0.
    which = f"step {index} ({steps[index]}); {_next_stop(steps, after=index)}" if steps else "its gate"
    return CommandWrite(
        patches.promote(revision, step=index), Verb.PROMOTE, f"lets revision {revision} pass {which}{paused}"
    )


def _held(status: RolloutStatus) -> AnalysisRecord | None:
    """The verdict that only a person can pass, in the controller's order: one that took the weight back, one without a step."""
    if status.stepped_back is not None:
        return status.stepped_back
    held = [each for each in status.analyses if each.held and each.gate.step in (None, status.step_index)]
    return min(held, key=lambda each: each.gate.step is not None, default=None)


def _past_verdict(revision: str, held: AnalysisRecord, paused: str) -> CommandWrite:
    analysis = held.gate.kind if held.gate.step is None else None
    patch = patches.promote(revision, step=held.gate.step, analysis=analysis)
    meaning = f"lets revision {revision} pass the verdict of its {about(held.gate)}, which is {held.phase}{paused}"
    if held.back_to_percent is not None:
        meaning = f"lets revision {revision} go forward again, and its {about(held.gate)} measure again{paused}"
    return CommandWrite(patch, Verb.PROMOTE, meaning)


def _next_stop(steps: tuple[str, ...], *, after: int) -> str:
    stops = (index for index in range(after + 1, len(steps)) if steps[index].startswith(("pause", "analysis")))
    stop = next(stops, None)
    return "no later step stops it" if stop is None else f"it stops next at step {stop} ({steps[stop]})"


def _paused(seen: RolloutObjects) -> str:
    """A reminder that a promotion does not end a pause; "" when the Rollout is not paused."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return "; it stays paused by spec.paused in its manifest"
    if _annotations(seen.rollout).get(PREFIX + Verb.PAUSE) == "true":
        return f"; it stays paused until `rollouts resume {seen.rollout['metadata']['name']}`"
    return ""


def plan_abort(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Aborts the current revision: the stable revision gets all traffic."""
    status = status_of(seen.rollout)
    revision = status.current_revision
    if not revision or revision == status.stable_revision:
        return Nothing("no update is under way: there is nothing to abort (to go back, use rollback)", Exit.BAD)
    if status.abort is not None:
        return Nothing(f"revision {revision} is aborted already", Exit.OK)
    meaning = f"aborts revision {revision}; revision {status.stable_revision} gets all traffic"
    return CommandWrite(patches.abort(revision), Verb.ABORT, meaning)


def plan_retry(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Tries a revision that was aborted, or went back, again from its first step; removes an `abort` annotation that stands."""
    status = status_of(seen.rollout)
    if not status.may_be_retried:
        return Nothing("nothing is aborted: there is nothing to retry", Exit.BAD)
    revision = status.current_revision
    attempt = status.attempt + 1
    return CommandWrite(
        patches.retry(revision, attempt=attempt), Verb.RETRY, f"tries revision {revision} again (attempt {attempt})"
    )


def plan_pause(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Pauses the steps; scaling goes on."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return Nothing("spec.paused is set already", Exit.OK)
    return CommandWrite(patches.pause(), Verb.PAUSE, "pauses its steps")


def plan_resume(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Removes the pause annotation; only its author ends a pause in the manifest."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return Nothing("it is paused by spec.paused: remove that from its manifest", Exit.BAD)
    if PREFIX + Verb.PAUSE not in _annotations(seen.rollout):
        return Nothing("it is not paused by annotation; to pass a step that waits for promotion, use promote", Exit.BAD)
    return CommandWrite(patches.resume(), Verb.PAUSE, "resumes its steps")


def plan_rollback(seen: RolloutObjects, *, to: str | None) -> CommandWrite | Nothing:
    """Goes back to a kept revision without touching the spec.

    Args:
        to: a revision, or its number (`3`, `#3`); None for the previous revision.
    """
    status = status_of(seen.rollout)
    if not status.current_revision:
        return Nothing("the controller has not seen this Rollout yet", Exit.UNFINISHED)
    in_force_rollback = _rollback_that_holds(status)
    template = status.current_revision if in_force_rollback is None else in_force_rollback.revision
    if to is None:
        if in_force_rollback is not None:
            return Nothing(f"{_rolled_back(in_force_rollback)} already; use `--to` for another revision", Exit.OK)
        meaning = f"goes back from revision {template} to the previous one"
        return CommandWrite(patches.rollback_to_previous(template), Verb.ROLLBACK, meaning)
    found = [
        each
        for each in seen.replica_sets
        if to == revision_of(each)
        or (to.removeprefix("#").isdecimal() and int(to.removeprefix("#")) == number_of(each))
    ]
    if not found:
        kept = ", ".join(f"#{number_of(each)} {revision_of(each)}" for each in seen.replica_sets)
        return Nothing(f"revision {to} is not kept; the kept revisions: {kept or 'none'}", Exit.BAD)
    revision = revision_of(found[0])
    if in_force_rollback is not None and revision == in_force_rollback.target:
        return Nothing(f"{_rolled_back(in_force_rollback)} already", Exit.OK)
    if in_force_rollback is not None and revision == template:
        return CommandWrite(
            patches.rollback(revision), Verb.ROLLBACK, f"goes forward to revision {revision}, the template's"
        )
    if revision == template:
        serves = revision == status.stable_revision
        why = "is stable already" if serves else "is the template's, and is being rolled out"
        return Nothing(f"revision {revision} {why}", Exit.OK)
    meaning = f"goes back from revision {template} to revision {revision}"
    return CommandWrite(patches.rollback(revision), Verb.ROLLBACK, meaning)


def _rollback_that_holds(status: RolloutStatus) -> Command | None:
    """The rollback that is in effect instead of the template's revision; one for an earlier template is not in effect."""
    rollbacks = (each for each in status.commands if each.verb is Verb.ROLLBACK and each.holds)
    return next((each for each in rollbacks if each.target != each.revision), None)


def _rolled_back(in_force_rollback: Command) -> str:
    return f"it is rolled back from revision {in_force_rollback.revision} to revision {in_force_rollback.target}"


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
    """Reads the Rollout, plans, asks for confirmation, writes, and waits for the controller's record.

    Args:
        confirm: called with the command's meaning; on False nothing is written.

    Raises: what `Client` raises; ApiConflict when the Rollout changed between read and write, and the plan with it.
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
    """Does what `carry_out` does, on an open session."""
    seen = await _look(session, name)
    asked = plan(seen)
    if isinstance(asked, Nothing):
        fail(f"{name}: {asked.why}") if asked.code else console.print(plain(f"{name}: {asked.why}"), markup=False)
        return asked.code
    if confirm is not None and not confirm(plain(f"{session.namespace}/{name}: {asked.meaning}")):
        console.print("nothing was changed", highlight=False)
        return Exit.BAD
    if _is_spent(seen, asked):
        seen = await _taken_off(session, name, plan, asked, seen)
    await _write(session, name, plan, asked, seen)
    console.print(plain(f"{name}: {_written(asked)}: {asked.meaning}"), markup=False, highlight=False, soft_wrap=True)
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
            seen = await _look(session, name)
            if attempt == ATTEMPTS or plan(seen) != asked:
                raise ApiConflict(
                    f"{name} changed while the command was prepared; nothing was written, look at it again"
                ) from None
        else:
            return


async def _taken_off(
    session: Session, name: str, plan: PlannedWrite, asked: CommandWrite, seen: RolloutObjects
) -> RolloutObjects:
    """Removes the annotation that is about to be set again, and returns the Rollout after the controller has seen that.

    Raises: ApiConflict, also when the controller does not record the removal, or when the plan is another by then.
    """
    withdrawn = CommandWrite(patches.withdraw(asked.verb), asked.verb, "")
    await _write(session, name, lambda now: withdrawn if plan(now) == asked else Nothing("", Exit.BAD), withdrawn, seen)
    if await _answer(session, name, withdrawn) != RECORDED:
        raise ApiConflict(_unanswered(name))
    seen = await _look(session, name)
    if plan(seen) != asked:
        raise ApiConflict(
            f"{name} changed while the command was prepared; its old {asked.verb} annotation was removed, look at it again"
        )
    return seen


def _is_spent(seen: RolloutObjects, asked: CommandWrite) -> bool:
    """Whether the annotation already has this value, and its record has no effect any more."""
    if asked.value is None or _annotations(seen.rollout).get(PREFIX + asked.verb) != asked.value:
        return False
    return any(not each.holds for each in _records(seen.rollout, asked) if each.value == asked.value)


async def _answer(session: Session, name: str, asked: CommandWrite) -> str | None:
    """RECORDED, or why the controller refused the command; None when no controller answers."""
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
    return RECORDED  # the Rollout was deleted: there will be no record


def _records(rollout: Manifest, asked: CommandWrite) -> list[Command]:
    """The controller's records of this command, without those whose annotation it removed."""
    return [each for each in status_of(rollout).commands if each.verb is asked.verb and not each.taken_off]


def _annotations(rollout: Manifest) -> Mapping[str, str]:
    annotations: Mapping[str, str] = rollout["metadata"].get("annotations") or {}
    return annotations


def _unanswered(name: str) -> str:
    within = f"within {RECORDED_WITHIN_S:g} s"
    return f"{name}: no controller has recorded the command {within}; is one running? (`rollouts get {name}`)"


def _written(asked: CommandWrite) -> str:
    return ", ".join(
        f"{key}={value}" if value is not None else f"{key} removed" for key, value in asked.annotations.items()
    )
