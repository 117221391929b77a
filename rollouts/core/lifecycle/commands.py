"""Commands by annotation: each is judged once, on what was seen when it was given, and recorded as accepted or refused.

The value `true` means "the revision and the step that status shows". The pass that reads it writes only status: the command,
bound to the published status. That is what the person saw, whatever template came meanwhile. Later passes carry out what is
recorded. The annotation is removed before status shows anything new to act on: a second `true` is never mistaken for the first.

A value that names its revision may stay in Git forever. Its record stays as long as the annotation, so it is not read again: what
was refused stays refused, and a command for one list of steps, attempt or template has no effect on the next one. Two annotations
are declared states instead of commands and hold whenever their revision comes: `abort: <revision>` and `pause: true`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from rollouts.core.context.waits import earliest
from rollouts.core.lifecycle.verbs import NOW, RULES, Asked, Gates, GatesOf, Verdict, judge, recorded_as
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, Notice, RemoveAnnotation
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Rollout, RolloutSpec
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Command, Refusal, RolloutStatus, Verb

REMOVED_AFTER_S = 0.25
"""How long a recorded `true` may stay on the Rollout: carrying it out goes first, and nothing waits for its removal."""


class Reading(Struct, frozen=True):
    """The commands of one pass.

    Args:
        fresh: those that no earlier pass recorded.
    """

    commands: tuple[Command, ...]
    fresh: tuple[Command, ...] = ()

    def notices(self, seen: Snapshot) -> tuple[Notice, ...]:
        """One Event for each fresh command, unless its Event comes when it is carried out."""
        notices = [
            _refusal_notice(command, command.refusal)
            if command.refusal is not None
            else RULES[command.verb].event(command, seen)
            for command in self.fresh
        ]
        return tuple([notice for notice in notices if notice is not None])


def with_noted_abort(seen: Snapshot) -> Snapshot:
    """The snapshot, with an abort that is noted only on a ReplicaSet added to the recorded commands."""
    status = seen.status
    if status.abort is not None or status.current_revision == status.stable_revision:
        return seen
    about = (status.current_revision, status.attempt, status.started_at_s)
    for replica_set in seen.replica_sets:
        note = replica_set.abort_note
        if note is None or replica_set.revision != status.stable_revision or abort_asked(status) is not None:
            continue
        if (note.revision, note.attempt, note.started_at_s) == about:
            by = seen.rollout.annotated_by.get(Verb.ABORT) or (Author(note.by, AuthorKind.NOTE) if note.by else None)
            steps, attempt = status.strategy_hash, status.attempt
            noted = Command(Verb.ABORT, NOW, note.revision, note.at_s, strategy_hash=steps, attempt=attempt, by=by)
            return replace(seen, status=replace(status, commands=_with_fresh(status.commands, (noted,))))
    return seen


def read_shown(seen: Snapshot, *, target: str, gates_of: GatesOf) -> Reading:
    """Judges the commands about the published status that are not recorded yet: each `true`, and rollbacks.

    A pass with a new one decides nothing else.

    Args:
        target: the revision that the Rollout is about; not the one in status when a new template came since.
    """
    status = seen.status
    if not seen.rollout.annotations:
        return Reading(status.commands)
    asked = [(verb, value) for verb, value in _asked(seen) if _is_about_shown(verb, value)]
    return _read(seen, status, status.commands, asked, target=target, about=target, gates_of=gates_of)


def read_named(seen: Snapshot, status: RolloutStatus, *, target: str, gates_of: GatesOf) -> Reading:
    """Judges every other value when it is first seen, and keeps the records that still have a meaning.

    Args:
        status: the status after a new revision, if any, was taken up.
        target: as for `read_shown`.
    """
    if not seen.rollout.annotations and not status.commands:
        return Reading(())
    values = dict(_asked(seen))
    records = [_kept(seen, command, values.get(command.verb, ""), status) for command in status.commands]
    kept = tuple([command for command in records if command is not None])
    asked = [(verb, value) for verb, value in values.items() if not _is_about_shown(verb, value)]
    return _read(seen, status, kept, asked, target=target, about=status.current_revision, gates_of=gates_of)


def read_without_spec(seen: Snapshot) -> Reading:
    """Judges the commands that are not recorded yet while the spec cannot be carried out: by what status knows alone.

    Args:
        seen: with `spec_on_record`.
    """
    status, revision = seen.status, seen.status.current_revision
    return _read(seen, status, status.commands, _asked(seen), target=revision, about=revision, gates_of=None)


def spec_on_record(status: RolloutStatus) -> RolloutSpec:
    """As much of a spec as status knows: the revision and the hash of the steps. Its strategy has no steps."""
    return RolloutSpec(
        replicas=status.hpa_replicas,
        selector_json=b"{}",
        selector_text=status.selector,
        template_json=b"{}",
        template_hash=status.current_revision,
        revision=status.current_revision,
        strategy=BlueGreen(active_service="") if status.active_revision else Canary(),
        strategy_hash=status.strategy_hash,
    )


def close_commands(seen: Snapshot, status: RolloutStatus) -> tuple[tuple[Command, ...], tuple[Notice, ...]]:
    """`status.commands`, with the commands marked as over that can never have an effect again, given the rest of `status`.

    An accepted abort or retry is refused after all when its revision, or the abort to retry, is gone before it was carried out.
    """
    if not status.commands:
        return (), ()
    commands, notices = [], list[Notice]()
    for command in status.commands:
        after = command
        if command.holds and (why := RULES[command.verb].ended(command, seen, status)) is not None:
            refusal = Refusal(Reason.COMMAND_INVALID, f"it came too late: {why}") if why else None
            after = replace(command, over=True, refusal=refusal)
            notices += [] if refusal is None else [_refusal_notice(after, refusal)]
        commands.append(after)
    before = set(_outlived(seen.status, seen.status.commands))
    outlived = (message for message in _outlived(status, commands) if message not in before)
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
        if command.value != NOW or command.verb is Verb.PAUSE or command.annotation_removed:
            continue
        if seen.rollout.annotations.get(command.verb, "").strip() != NOW:
            continue
        if not now and 0 <= seen.now_s - command.at_s < REMOVED_AFTER_S:
            wake_at_s = earliest((wake_at_s, command.at_s + REMOVED_AFTER_S))
            continue
        intents.append(RemoveAnnotation(verb=command.verb, value=seen.rollout.annotations[command.verb]))
        commands[index] = replace(command, annotation_removed=True)
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
    about_this = (retry for retry in retries if retry.revision == status.current_revision)
    return next((retry for retry in about_this if (retry.step or 0) > status.attempt), None)


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


def _asked(seen: Snapshot) -> list[tuple[Verb, str]]:
    annotations = seen.rollout.annotations
    values = [(verb, recorded_as(annotations[verb])) for verb in RULES if verb in annotations]
    return [(verb, value) for verb, value in values if value and not (verb is Verb.PAUSE and value == "false")]


def _is_about_shown(verb: Verb, value: str) -> bool:
    return verb is Verb.ROLLBACK or (value == NOW and verb is not Verb.PAUSE)


def _read(
    seen: Snapshot,
    status: RolloutStatus,
    kept: tuple[Command, ...],
    asked: Iterable[tuple[Verb, str]],
    *,
    target: str,
    about: str,
    gates_of: GatesOf | None,
) -> Reading:
    """Judges the annotations that are not among the records.

    Args:
        about: the revision that the record of a refusal names.
        gates_of: None while the spec cannot be carried out.
    """
    fresh: list[Command] = []
    for verb, value in asked:
        if any((old.verb, old.value) == (verb, value) and not old.annotation_removed for old in kept):
            continue
        if gates_of is None and verb in (Verb.PROMOTE, Verb.ROLLBACK):
            verdict: Verdict = _while_invalid(value)
        else:
            gates = Gates() if gates_of is None else gates_of(seen.rollout.spec.strategy, status)
            verdict = judge(Asked(verb, value, seen, status, target, gates))
        if isinstance(verdict, Refusal):
            verdict = Command(verb, value, about, seen.now_s, refusal=verdict)
        fresh.append(replace(verdict, by=seen.rollout.annotated_by.get(verb)))
    return Reading(_with_fresh(kept, fresh), tuple(fresh))


def _while_invalid(value: str) -> Refusal:
    later = "the command is judged when it is repaired"
    helps = "repair it, and then give the command again" if value == NOW else later
    return Refusal(Reason.INVALID_SPEC, f"the spec cannot be carried out: {helps}")


def _kept(seen: Snapshot, command: Command, value: str, status: RolloutStatus) -> Command | None:
    """The record while its annotation, now `value`, is set; the record of a removed `true` while it has a meaning.

    An abort that was refused for an unknown revision is accepted once that revision is the current one.
    """
    refused = command.refusal.reason if command.refusal is not None else None
    if command.value != NOW and refused is Reason.INVALID_SPEC:
        return None  # it is judged now; a `true` was about what nobody knows now
    if command.value == value and not command.annotation_removed:
        came = refused is Reason.UNKNOWN_REVISION and command.verb is Verb.ABORT and value == status.current_revision
        return replace(command, revision=value, refusal=None) if came else command
    if command.value != NOW or not RULES[command.verb].is_remembered(command, seen, status):
        return None
    return command if command.annotation_removed else replace(command, annotation_removed=True)


def _with_fresh(commands: tuple[Command, ...], fresh: Collection[Command]) -> tuple[Command, ...]:
    """Fresh commands drop refusals whose annotation is gone, and commands that they replace."""
    if not fresh:
        return commands
    kept = []
    for old in commands:
        if old.refusal is not None:
            replaced = old.annotation_removed
        else:
            rivals = (new for new in fresh if new.refusal is None and new.verb is old.verb)
            replaced = any(RULES[old.verb].replaces(new, old) for new in rivals)
        if not replaced:
            kept.append(old)
    return (*kept, *fresh)


def _outlived(status: RolloutStatus, commands: Iterable[Command]) -> Iterable[str]:
    """Messages about promotions of the current revision that are set but were for other steps, another attempt or update."""
    revision = status.current_revision
    if revision == status.stable_revision:
        return
    for command in commands:
        if (
            command.verb is not Verb.PROMOTE
            or not command.over
            or command.annotation_removed
            or command.revision != revision
        ):
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


def _refusal_notice(command: Command, refusal: Refusal) -> Notice:
    return Notice(refusal.reason, f"{command.verb}: {refusal.message}{command.by_whom}", warning=True)
