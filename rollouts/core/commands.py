"""Verbs by annotation: understood once, bound to a revision and a step, recorded, and never guessed.

A value that names its revision is declarative: it may stay in Git for ever, and acts on that revision only. `true` means "the
revision and the step you see now": it is bound, recorded, and the annotation is taken off once the record is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rollouts.core.intents import Intent, Notice, RemoveAnnotation
from rollouts.core.plan import earliest
from rollouts.core.reasons import Reason
from rollouts.core.snapshot import Snapshot
from rollouts.core.status import WAS_STABLE, Command, RolloutStatus, Verb

FULL = "full"
TAKE_OFF_AFTER_S = 0.25
"""How long a `true` that was recorded is left on: what it asked for goes first, and nothing waits for its removal."""
_NOW = "true"
_ORDER = (Verb.ABORT, Verb.RETRY, Verb.ROLLBACK, Verb.PROMOTE, Verb.PAUSE, Verb.RESTART)


@dataclass(frozen=True, slots=True)
class Problem:
    """A verb that cannot be carried out, and why."""

    verb: Verb
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The verbs of one pass, understood.

    Args:
        commands: what `status.commands` must say.
        fresh: those that no earlier pass recorded.
        problems: verbs that were not understood.
        intents: `true` annotations to take off, their commands being recorded.
        wake_at_s: when there are some to take off.
    """

    commands: tuple[Command, ...]
    fresh: tuple[Command, ...] = ()
    problems: tuple[Problem, ...] = ()
    intents: tuple[Intent, ...] = ()
    wake_at_s: float | None = None

    @property
    def notices(self) -> tuple[Notice, ...]:
        """One Event a fresh command; problems are told by the condition's change."""
        return tuple(_notice(command) for command in self.fresh if command.verb not in (Verb.ABORT, Verb.RETRY))


def read_commands(seen: Snapshot, status: RolloutStatus, *, at_gate: int | None) -> Reading:
    """Understands the annotations of a Rollout.

    Args:
        status: the memory after a new revision, if any, was taken up.
        at_gate: index of the step where the current revision stands and may be promoted; None when it stands at none.
    """
    annotations = seen.rollout.annotations
    commands: list[Command] = []
    fresh: list[Command] = []
    problems: list[Problem] = []
    intents: list[Intent] = []
    wake_at_s: float | None = None
    for verb in _ORDER:
        value = annotations.get(verb, "").strip()
        recorded = [each for each in status.commands if each.verb is verb]
        commands += _kept(recorded, value=value, seen=seen, status=status)
        if not value or (verb is Verb.PAUSE and value == "false"):
            continue
        standing = next((each for each in recorded if each.value == value and not each.taken_off), None)
        if standing is not None:
            if value != _NOW or verb is Verb.PAUSE:
                continue
            if 0 <= seen.now_s - standing.at_s < TAKE_OFF_AFTER_S:
                wake_at_s = earliest((wake_at_s, standing.at_s + TAKE_OFF_AFTER_S))
            else:
                intents.append(RemoveAnnotation(verb=verb, value=value))
            continue
        match _BINDERS[verb](value, seen, status, at_gate):
            case Command() as command:
                commands = [each for each in commands if not _replaces(command, each)]
                commands.append(command)
                fresh.append(command)
            case Problem() as problem:
                problems.append(problem)
            case None:
                pass
    return Reading(tuple(commands), tuple(fresh), tuple(problems), tuple(intents), wake_at_s)


def rollback_target(status: RolloutStatus, *, spec_revision: str) -> str:
    """The revision that the Rollout is about: the spec's, or the one that a rollback from it names."""
    for command in status.commands:
        if command.verb is Verb.ROLLBACK and command.revision == spec_revision and command.target:
            return command.target
    return spec_revision


def _kept(recorded: list[Command], *, value: str, seen: Snapshot, status: RolloutStatus) -> list[Command]:
    """Recorded commands that still hold; one whose `true` has gone from the annotations is marked so.

    A promotion says no more once its revision is the stable one.
    """
    kept = []
    about = {seen.rollout.spec.revision, status.current_revision}
    for command in recorded:
        if command.value == value and not command.taken_off:
            kept.append(command)
        elif command.verb is Verb.PAUSE or (
            command.verb is Verb.PROMOTE and command.revision == status.stable_revision
        ):
            continue
        elif command.value == _NOW and command.revision in about:
            kept.append(replace(command, taken_off=True))
    return kept


def _replaces(fresh: Command, old: Command) -> bool:
    """A spent `true` has nothing more to say once the verb is given again; promotions of other steps still hold."""
    same = (old.verb, old.value) == (fresh.verb, fresh.value) and old.taken_off
    return same and (fresh.verb is not Verb.PROMOTE or old.step == fresh.step)


Binder = Callable[[str, Snapshot, RolloutStatus, int | None], Command | Problem | None]


def _bind_promote(value: str, seen: Snapshot, status: RolloutStatus, at_gate: int | None) -> Command | Problem | None:
    if value == _NOW:
        if at_gate is None:
            return Problem(
                Verb.PROMOTE, Reason.COMMAND_INVALID, "the Rollout does not stand at a step that can be promoted"
            )
        return Command(Verb.PROMOTE, value, status.current_revision, seen.now_s, step=at_gate)
    revision, _, step = value.partition("@")
    if revision not in _known(seen, status):
        return _unknown(Verb.PROMOTE, revision)
    if revision != status.current_revision:
        return None
    if step == FULL:
        return Command(Verb.PROMOTE, value, revision, seen.now_s)
    if step:
        if not step.isdecimal():
            return Problem(Verb.PROMOTE, Reason.COMMAND_INVALID, f"{step!r} is neither a step's index nor {FULL!r}")
        return Command(Verb.PROMOTE, value, revision, seen.now_s, step=int(step))
    if at_gate is None:
        return None
    return Command(Verb.PROMOTE, value, revision, seen.now_s, step=at_gate)


def _bind_abort(value: str, seen: Snapshot, status: RolloutStatus, at_gate: int | None) -> Command | Problem | None:
    del at_gate
    revision = status.current_revision if value == _NOW else value
    if revision not in _known(seen, status):
        return _unknown(Verb.ABORT, revision)
    if revision == status.stable_revision:
        if value != _NOW and revision != seen.rollout.spec.revision:
            return None
        return Problem(
            Verb.ABORT, Reason.COMMAND_INVALID, f"revision {revision} is the stable one already; roll back instead"
        )
    if revision != status.current_revision:
        return None
    return Command(Verb.ABORT, value, revision, seen.now_s)


def _bind_retry(value: str, seen: Snapshot, status: RolloutStatus, at_gate: int | None) -> Command | Problem | None:
    del at_gate
    if value == _NOW:
        if status.abort is None:
            return Problem(Verb.RETRY, Reason.COMMAND_INVALID, "nothing is aborted")
        return Command(Verb.RETRY, value, status.current_revision, seen.now_s, step=status.attempt + 1)
    revision, _, attempt = value.partition("@")
    if not attempt.isdecimal():
        return Problem(Verb.RETRY, Reason.COMMAND_INVALID, f"{value!r} is not of the form REVISION@NUMBER")
    if revision not in _known(seen, status):
        return _unknown(Verb.RETRY, revision)
    if revision != status.current_revision or int(attempt) <= status.attempt or status.abort is None:
        return None
    return Command(Verb.RETRY, value, revision, seen.now_s, step=int(attempt))


def _bind_rollback(value: str, seen: Snapshot, status: RolloutStatus, at_gate: int | None) -> Command | Problem | None:
    del at_gate
    from_revision = seen.rollout.spec.revision
    if value == _NOW or value.startswith("previous@"):
        named = from_revision if value == _NOW else value.removeprefix("previous@")
        if named not in _known(seen, status):
            return _unknown(Verb.ROLLBACK, named)
        if named != from_revision:
            return None
        target = _previous(seen, status)
        if not target:
            return Problem(Verb.ROLLBACK, Reason.COMMAND_INVALID, f"no revision before {from_revision} is kept")
    else:
        target = value
        if not any(each.revision == target and not each.deleting for each in seen.replica_sets):
            return _unknown(Verb.ROLLBACK, target)
        if target == from_revision:
            return None
    return Command(Verb.ROLLBACK, value, from_revision, seen.now_s, target=target)


def _bind_pause(value: str, seen: Snapshot, status: RolloutStatus, at_gate: int | None) -> Command | Problem | None:
    del at_gate
    if value != _NOW:
        return Problem(Verb.PAUSE, Reason.COMMAND_INVALID, f"{value!r} is not 'true'")
    return Command(Verb.PAUSE, value, status.current_revision, seen.now_s)


def _bind_restart(value: str, seen: Snapshot, status: RolloutStatus, at_gate: int | None) -> Command | Problem | None:
    del at_gate
    if value == _NOW:
        return Command(Verb.RESTART, value, status.current_revision, seen.now_s)
    if seen.rollout.restart_asked_at_s is None:
        return Problem(
            Verb.RESTART, Reason.COMMAND_INVALID, f"{value!r} is not an RFC 3339 time such as 2026-11-21T10:00:00Z"
        )
    return Command(Verb.RESTART, value, status.current_revision, seen.now_s)


_BINDERS: dict[Verb, Binder] = {
    Verb.PROMOTE: _bind_promote,
    Verb.ABORT: _bind_abort,
    Verb.RETRY: _bind_retry,
    Verb.ROLLBACK: _bind_rollback,
    Verb.PAUSE: _bind_pause,
    Verb.RESTART: _bind_restart,
}


def _known(seen: Snapshot, status: RolloutStatus) -> set[str]:
    return {
        seen.rollout.spec.revision,
        status.current_revision,
        status.stable_revision,
        *(each.revision for each in seen.replica_sets),
        *(each.revision for each in status.history),
    } - {""}


def _unknown(verb: Verb, revision: str) -> Problem:
    return Problem(verb, Reason.UNKNOWN_REVISION, f"this Rollout has no revision {revision!r}")


def _previous(seen: Snapshot, status: RolloutStatus) -> str:
    """The revision that was stable before the spec's one and is still kept; "" when there is none."""
    kept = {each.revision for each in seen.replica_sets if not each.deleting}
    spec_revision = seen.rollout.spec.revision
    if status.stable_revision not in ("", spec_revision) and status.stable_revision in kept:
        return status.stable_revision
    for entry in reversed(status.history):
        if entry.outcome in WAS_STABLE and entry.revision != spec_revision and entry.revision in kept:
            return entry.revision
    return ""


def _notice(command: Command) -> Notice:
    match command.verb:
        case Verb.PROMOTE:
            what = "every step" if command.step is None else f"step {command.step}"
            return Notice(Reason.PROMOTED, f"revision {command.revision} may pass {what}")
        case Verb.ROLLBACK:
            return Notice(Reason.ROLLOUT_UPDATED, f"going back from revision {command.revision} to {command.target}")
        case Verb.PAUSE:
            return Notice(Reason.ROLLOUT_PAUSED, "paused by annotation")
        case Verb.RESTART:
            return Notice(Reason.RESTARTING, "pods older than the time asked for are replaced")
        case Verb.RETRY:
            return Notice(Reason.ROLLOUT_RETRY, f"attempt {command.step} of revision {command.revision}")
        case Verb.ABORT:
            return Notice(Reason.ROLLOUT_ABORTED, f"revision {command.revision} is held back", warning=True)
