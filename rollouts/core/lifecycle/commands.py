"""Commands by annotation: each is judged once, on what was seen when it was given, and recorded as accepted or refused.

The value `true` means "the revision and the step that status shows". The pass that reads it writes only status: the command,
bound to the published status. That is what the person saw, whatever template came meanwhile. Later passes carry out what is
recorded. The annotation is removed before status shows anything new to act on: a second `true` is never mistaken for the first.

A value that names its revision may stay in Git forever. Its record stays as long as the annotation, so it is not read again: what
was refused stays refused, and a command for one list of steps, attempt or template has no effect on the next one. Two annotations
are declared states instead of commands and hold whenever their revision comes: `abort: <revision>` and `pause: true`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rollouts.core.context.waits import earliest
from rollouts.core.lifecycle.verdicts import NOW, Asked, Gates, GatesOf, Verdict, judge, recorded_as
from rollouts.core.model.analysis import AnalysisRecord
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, Notice, RemoveAnnotation
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Command, Refusal, RolloutStatus, Verb, analysis_of

REMOVED_AFTER_S = 0.25
"""How long a recorded `true` may stay on the Rollout: carrying it out goes first, and nothing waits for its removal."""
_ORDER = (Verb.ABORT, Verb.RETRY, Verb.ROLLBACK, Verb.PROMOTE, Verb.PAUSE, Verb.RESTART)

_TOLD_WHEN_DONE = frozenset({Verb.ABORT, Verb.RETRY})  # their Event comes with the abort and the new attempt


class Reading(Struct, frozen=True):
    """The commands of one pass.

    Args:
        commands: what `status.commands` must say.
        fresh: those that no earlier pass recorded.
    """

    commands: tuple[Command, ...]
    fresh: tuple[Command, ...] = ()

    def notices(self, seen: Snapshot) -> tuple[Notice, ...]:
        """One Event for each fresh command."""
        return tuple(
            [
                _notice(seen, command)
                for command in self.fresh
                if command.refusal is not None or command.verb not in _TOLD_WHEN_DONE
            ]
        )


def with_noted_abort(seen: Snapshot) -> Snapshot:
    """The snapshot, with an abort that is noted only on a ReplicaSet added to the recorded commands."""
    status = seen.status
    if status.abort is not None:
        return seen
    about = (status.current_revision, status.attempt, status.started_at_s)
    for replica_set in seen.replica_sets:
        note = replica_set.abort_note
        if note is None or (note.revision, note.attempt, note.started_at_s) != about:
            continue
        aborts = (command for command in status.commands if command.verb is Verb.ABORT and command.holds)
        known = any(command.revision == note.revision for command in aborts)
        if known or replica_set.revision != status.stable_revision or note.revision == status.stable_revision:
            continue
        noted = Command(
            Verb.ABORT,
            NOW,
            note.revision,
            note.at_s,
            strategy_hash=status.strategy_hash,
            attempt=status.attempt,
            by=seen.rollout.annotated_by.get(Verb.ABORT) or (Author(note.by, AuthorKind.NOTE) if note.by else None),
        )
        return replace(seen, status=replace(status, commands=_with_fresh(status.commands, (noted,))))
    return seen


def read_shown(seen: Snapshot, *, target: str, gates_of: GatesOf) -> Reading:
    """Judges the commands about the published status that are not recorded yet: each `true`, and rollbacks.

    A pass with a new one decides nothing else.

    Args:
        target: the revision that the Rollout is about; not the one in status when a new template came since.
    """
    fresh = []
    for verb, value in _asked(seen):
        if not _is_about_shown(verb, value) or _standing(seen.status.commands, verb, value) is not None:
            continue
        gates = gates_of(seen.rollout.spec.strategy, seen.status)
        verdict = judge(verb, Asked(value, seen, seen.status, target, gates))
        fresh.append(_judged(seen, verb, value, verdict, target))
    if not fresh:
        return Reading(seen.status.commands)
    return Reading(_with_fresh(seen.status.commands, tuple(fresh)), tuple(fresh))


def read_named(seen: Snapshot, status: RolloutStatus, *, target: str, gates_of: GatesOf) -> Reading:
    """Judges every other value when it is first seen, and keeps the records that still have a meaning.

    Args:
        status: the status after a new revision, if any, was taken up.
        target: as for `read_shown`.
    """
    values = dict(_asked(seen))
    if not values and not status.commands:
        return Reading(())
    records = [_kept(seen, command, values.get(command.verb, ""), status) for command in status.commands]
    kept = tuple([command for command in records if command is not None])
    fresh = []
    for verb, value in values.items():
        if _is_about_shown(verb, value) or _standing(kept, verb, value) is not None:
            continue
        gates = gates_of(seen.rollout.spec.strategy, status)
        verdict = judge(verb, Asked(value, seen, status, target, gates))
        fresh.append(_judged(seen, verb, value, verdict, status.current_revision))
    return Reading(_with_fresh(kept, tuple(fresh)), tuple(fresh))


def read_without_spec(seen: Snapshot) -> Reading:
    """Judges the commands that are not recorded yet while the spec cannot be carried out: by what status knows alone.

    Args:
        seen: with `spec_on_record`.
    """
    status, fresh = seen.status, []
    for verb, value in _asked(seen):
        if _standing(status.commands, verb, value) is not None:
            continue
        if verb in (Verb.PROMOTE, Verb.ROLLBACK):
            later = "the command is judged when it is repaired"
            helps = "repair it, and then give the command again" if value == NOW else later
            verdict: Verdict = Refusal(Reason.INVALID_SPEC, f"the spec cannot be carried out: {helps}")
        else:
            gates = Gates(at=None, ahead=None)
            verdict = judge(verb, Asked(value, seen, status, status.current_revision, gates))
        fresh.append(_judged(seen, verb, value, verdict, status.current_revision))
    return Reading(_with_fresh(status.commands, tuple(fresh)), tuple(fresh))


def close_commands(seen: Snapshot, status: RolloutStatus) -> tuple[tuple[Command, ...], tuple[Notice, ...]]:
    """`status.commands`, with the commands marked as over that can never have an effect again, given the rest of `status`.

    An accepted abort or retry is refused after all when its revision, or the abort to retry, is gone before it was carried out.
    """
    if not status.commands:
        return (), ()
    commands, notices = [], []
    for command in status.commands:
        after = command
        if command.holds and _is_over(seen, status, command):
            after = replace(command, over=True)
            if not _was_done(status, command):
                why = f"the update to revision {command.revision} has moved on"
                if (record := _verdict_came_first(status, command)) is not None:
                    why = f"the {record.gate} analysis has ended {record.phase}"
                after = replace(command, refusal=Refusal(Reason.COMMAND_INVALID, f"it came too late: {why}"))
                notices.append(_notice(seen, after))
        commands.append(after)
    said = set(_outlived(seen.status, seen.status.commands))
    outlived = (message for message in _outlived(status, commands) if message not in said)
    notices += [Notice(Reason.COMMAND_INVALID, message, warning=True) for message in outlived]
    return tuple(commands), tuple(notices)


def remove_annotations(
    seen: Snapshot, status: RolloutStatus, *, now: bool
) -> tuple[tuple[Intent, ...], RolloutStatus, float | None]:
    """The recorded `true`s to remove in this pass, the status that says so, and when to look again for those that may wait.

    Args:
        now: remove all of them at once, because status shows something new to act on.
    """
    intents: list[Intent] = []
    commands = list(status.commands)
    wake_at_s: float | None = None
    for index, command in enumerate(commands):
        if command.value != NOW or command.verb is Verb.PAUSE or command.taken_off:
            continue
        if seen.rollout.annotations.get(command.verb, "").strip() != NOW:
            continue
        if not now and 0 <= seen.now_s - command.at_s < REMOVED_AFTER_S:
            wake_at_s = earliest((wake_at_s, command.at_s + REMOVED_AFTER_S))
            continue
        intents.append(RemoveAnnotation(verb=command.verb, value=seen.rollout.annotations[command.verb]))
        commands[index] = replace(command, taken_off=True)
    return tuple(intents), replace(status, commands=tuple(commands)) if intents else status, wake_at_s


def rollback_target(rollout: Rollout, status: RolloutStatus) -> str:
    """The revision that the Rollout is about: the spec's, or the target of a rollback from it that still holds."""
    standing = rollout.annotations.get(Verb.ROLLBACK, "").strip()
    for command in status.commands:
        stands = not is_declared(command) or command.value == standing
        if command.verb is Verb.ROLLBACK and command.holds and stands and command.revision == rollout.spec.revision:
            return command.target
    return rollout.spec.revision


def abort_asked(status: RolloutStatus) -> Command | None:
    """The command that aborts the current revision; a declared one before a `true` that is not carried out yet."""
    aborts = [
        command
        for command in status.commands
        if command.verb is Verb.ABORT and command.holds and command.revision == status.current_revision
    ]
    return next(filter(is_declared, aborts), aborts[0] if aborts else None)


def pending_abort(status: RolloutStatus) -> Command | None:
    """The accepted `abort=true` that is on record, so durable, and not in `status.abort` yet."""
    asked = abort_asked(status) if status.abort is None else None
    unfinished = status.current_revision != status.stable_revision
    return asked if asked is not None and not is_declared(asked) and unfinished else None


def retry_asked(status: RolloutStatus) -> Command | None:
    """The retry whose attempt has not begun yet; None when nothing may be retried."""
    if not status.may_be_retried:
        return None
    retries = (command for command in status.commands if command.verb is Verb.RETRY and command.holds)
    return next((command for command in retries if not _is_past_attempt(status, command)), None)


def is_declared(command: Command) -> bool:
    """Whether the command holds for as long as its annotation is set, as any value but `true` does."""
    return command.value != NOW


def problems_of(status: RolloutStatus) -> tuple[tuple[Reason, str], ...]:
    """Refused commands, and promotions that are still set and have no effect any more: for the condition `InvalidCommand`."""
    refused = [
        (command.refusal.reason, f"{command.verb}: {command.refusal.message}")
        for command in status.commands
        if command.refusal is not None
    ]
    return (*refused, *((Reason.COMMAND_INVALID, message) for message in _outlived(status, status.commands)))


def _judged(seen: Snapshot, verb: Verb, value: str, verdict: Verdict, about: str) -> Command:
    by = seen.rollout.annotated_by.get(verb)
    match verdict:
        case Command():
            return replace(verdict, by=by)
        case Refusal():
            return Command(verb, value, about, seen.now_s, refusal=verdict, by=by)


def _asked(seen: Snapshot) -> list[tuple[Verb, str]]:
    annotations = seen.rollout.annotations
    if not annotations:
        return []
    values = [(verb, recorded_as(annotations[verb])) for verb in _ORDER if verb in annotations]
    return [(verb, value) for verb, value in values if value and not (verb is Verb.PAUSE and value == "false")]


def _is_about_shown(verb: Verb, value: str) -> bool:
    return verb is Verb.ROLLBACK or (value == NOW and verb is not Verb.PAUSE)


def _standing(commands: Iterable[Command], verb: Verb, value: str) -> Command | None:
    """The record of an annotation that is still set."""
    return next(
        (command for command in commands if (command.verb, command.value) == (verb, value) and not command.taken_off),
        None,
    )


def _kept(seen: Snapshot, command: Command, value: str, status: RolloutStatus) -> Command | None:
    """The record while its annotation, now `value`, is set; the record of a removed `true` while it has a meaning."""
    if command.value != NOW and command.refusal is not None and command.refusal.reason is Reason.INVALID_SPEC:
        return None  # it is judged now; a `true` was about what nobody knows now
    if command.value == value and not command.taken_off:
        return _of_revision_that_came(command, status)
    if command.value != NOW or command.verb is Verb.PAUSE:
        return None
    if not command.taken_off:
        command = replace(command, taken_off=True)
    finished = status.current_revision == status.stable_revision
    if command.verb is Verb.PROMOTE and command.refusal is None and (command.over or finished):
        return None
    unfinished_restart = command.verb is Verb.RESTART and command.holds
    about = command.revision in (seen.rollout.spec.revision, status.current_revision)
    return command if about or unfinished_restart else None


def _of_revision_that_came(command: Command, status: RolloutStatus) -> Command:
    """The record; an abort that was refused for an unknown revision is accepted once that revision is the current one."""
    unknown = command.refusal is not None and command.refusal.reason is Reason.UNKNOWN_REVISION
    if unknown and command.verb is Verb.ABORT and command.value == status.current_revision:
        return replace(command, revision=command.value, refusal=None)
    return command


def _with_fresh(commands: tuple[Command, ...], fresh: tuple[Command, ...]) -> tuple[Command, ...]:
    if not fresh:
        return commands
    kept = tuple(old for old in commands if not any(_replaces(command, old) for command in fresh))
    return (*kept, *fresh)


def _replaces(fresh: Command, old: Command) -> bool:
    """Whether a fresh command drops an old record: a refusal whose annotation is gone, or a command that it replaces."""
    if old.refusal is not None:
        return old.taken_off
    if fresh.refusal is not None or fresh.verb is not old.verb:
        return False
    match old.verb:
        case Verb.PROMOTE:
            return fresh.passes == old.passes
        case Verb.ABORT | Verb.RETRY:
            return not old.holds
        case Verb.ROLLBACK | Verb.RESTART | Verb.PAUSE:
            return True


def _is_over(seen: Snapshot, status: RolloutStatus, command: Command) -> bool:
    """Whether the command can have no effect any more. A declared abort, a pause and a restart at a named time never end."""
    match command.verb:
        case Verb.PROMOTE:
            if command.gate is None:
                return not command.is_for(status)
            record = analysis_of(status, command.gate)  # a promotion past an analysis, or its verdict, passes it once
            passed = record is None or (record.settled if command.unjudged else not record.held)
            return passed or not command.is_for(status)
        case Verb.ABORT:
            unfinished = command.revision == status.current_revision != status.stable_revision
            return not is_declared(command) and (status.abort is not None or not unfinished)
        case Verb.RETRY:
            return not status.may_be_retried or _is_past_attempt(status, command)
        case Verb.ROLLBACK:
            return command.revision != seen.rollout.spec.revision
        case Verb.RESTART:
            done_s = status.restarted_at_s
            return not is_declared(command) and done_s is not None and done_s >= command.at_s
        case Verb.PAUSE:
            return False


def _verdict_came_first(status: RolloutStatus, command: Command) -> AnalysisRecord | None:
    """The verdict that holds the update although a promotion was to pass its analysis without one."""
    if not command.unjudged or command.gate is None or not command.is_for(status):
        return None
    record = analysis_of(status, command.gate)
    return record if record is not None and record.held else None


def _is_past_attempt(status: RolloutStatus, command: Command) -> bool:
    return command.revision != status.current_revision or (command.step or 0) <= status.attempt


def _was_done(status: RolloutStatus, command: Command) -> bool:
    """Whether a command that is over was carried out; of aborts, retries and promotions without a verdict it may not be."""
    match command.verb:
        case Verb.ABORT:
            return status.abort is not None and status.abort.revision == command.revision
        case Verb.RETRY:
            return command.revision == status.current_revision and (command.step or 0) <= status.attempt
        case Verb.PROMOTE:
            return _verdict_came_first(status, command) is None
        case Verb.ROLLBACK | Verb.RESTART | Verb.PAUSE:
            return True


def _outlived(status: RolloutStatus, commands: Iterable[Command]) -> Iterable[str]:
    """Messages about promotions of the current revision that are set but were for other steps, another attempt or update."""
    revision = status.current_revision
    if revision == status.stable_revision:
        return
    for command in commands:
        if command.verb is not Verb.PROMOTE or not command.over or command.taken_off or command.revision != revision:
            continue
        if command.analysis is not None or (command.step is not None and command.step < status.step_index):
            continue
        given_for = "an earlier update"
        if command.strategy_hash != status.strategy_hash:
            given_for = "another list of steps"
        elif command.attempt != status.attempt:
            given_for = f"attempt {command.attempt}"
        yield (
            f"promote: {command.value!r} was given for {given_for} and has no effect now; to promote revision {revision}, "
            "remove the annotation and set it again"
        )


# --- Events


def _notice(seen: Snapshot, command: Command) -> Notice:
    by = command.by_whom
    if command.refusal is not None:
        return Notice(command.refusal.reason, f"{command.verb}: {command.refusal.message}{by}", warning=True)
    match command.verb:
        case Verb.PROMOTE:
            what = "every step" if command.step is None else f"step {command.step}"
            if command.gate is not None:
                what = f"the verdict of the {command.gate} analysis"
            if command.unjudged:
                what = f"the {command.gate} analysis without a verdict"
            paused = seen.rollout.spec.paused or seen.rollout.annotations.get(Verb.PAUSE) == NOW
            held = "; the Rollout stays paused until somebody resumes it" if paused else ""
            return Notice(Reason.PROMOTED, f"revision {command.revision} may pass {what}{held}{by}")
        case Verb.ROLLBACK:
            message = f"rolling back from revision {command.revision} to {command.target}{by}"
            if command.target == command.revision:
                message = f"rolling forward to revision {command.revision} again{by}"
            return Notice(Reason.ROLLOUT_UPDATED, message)
        case Verb.PAUSE:
            return Notice(Reason.ROLLOUT_PAUSED, f"paused by annotation{by}")
        case Verb.RESTART:
            return Notice(Reason.RESTARTING, f"pods older than the restart time are being replaced{by}")
        case Verb.RETRY:
            return Notice(Reason.ROLLOUT_RETRY, f"attempt {command.step} of revision {command.revision}{by}")
        case Verb.ABORT:
            return Notice(Reason.ROLLOUT_ABORTED, f"revision {command.revision} is aborted{by}", warning=True)
