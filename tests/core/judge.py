"""An oracle of its own for commands: what a person saw when one was given, and what it may do, by what status shows alone.

It reads `status.commands` only to learn that a command was judged and how; what may follow is worked out here, from the status
that was published when the annotation was set. A *run* is one revision with one list of steps in one attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Command, RolloutStatus, Verb
from rollouts.core.model.steps import PauseUntilPromoted, Step
from tests.core.model import World, annotated

REFUSALS = (Reason.COMMAND_INVALID, Reason.UNKNOWN_REVISION)
Shown: TypeAlias = tuple[object, ...]


class MisjudgedError(AssertionError):
    """A command acted on what it was not given for, twice, or not at all without a word."""


def shown_by(status: RolloutStatus) -> Shown:
    """What a person can act on."""
    return (
        *(status.current_revision, status.stable_revision, status.strategy_hash, status.attempt, status.step_index),
        *(status.abort, status.gate_started_at_s is not None, status.gate_passed),
    )


@dataclass(slots=True)
class Given:
    """One command.

    Args:
        shown: the status that was published when its annotation was set.
        run, update: of that status.
        read_run: the run that was current once the pass that read it had written; None before.
        read_step: the step at which that run stood then.
        withdrawn: its annotation was changed before it was read. A pass whose view lags may still read it.
        forgotten: everything has settled since, so no view shows it any more.
    """

    verb: str
    value: str
    shown: RolloutStatus
    run: int
    update: int
    clean: bool
    record: Command | None = None
    read_run: int | None = None
    read_step: int = 0
    withdrawn: bool = False
    forgotten: bool = False
    acted: bool = False

    @property
    def accepted(self) -> bool:
        return self.record is not None and self.record.refusal is None


class Judge:
    """Follows one world.

    Args:
        lists: every list of steps that is used, by the hash that status shows.
    """

    def __init__(self, there: World, *, lists: dict[str, tuple[Step, ...]]) -> None:
        self.there = there
        self._lists = lists
        self._given: list[Given] = []
        self._run = self._update = 0
        self._settled = self._asked_for(there)
        self._spec_revision = there.status.current_revision
        self._rollbacks: list[Given] = []
        self.acted = self.refused = 0

    # --- people

    def give(self, verb: str, value: str | None) -> None:
        """Somebody sets an annotation, or with None takes it off. The same value again changes nothing on the object."""
        standing = self.there.rollout.annotations.get(verb)
        if standing == value:
            first = self._last(verb, value) if value == "true" and verb != "pause" else None
            if first is not None and shown_by(first.shown) != shown_by(self.there.status):
                raise MisjudgedError(f"a second {verb}=true, for what status shows now, is lost")
            return
        for each in self._given:
            if each.verb == verb and each.record is None:
                each.withdrawn = True
        self.there = annotated(self.there, verb, value)
        if value is not None:
            clean = self._settled == self._asked_for(self.there)
            self._given.append(Given(verb, value, self.there.status, self._run, self._update, clean))

    # --- the controller

    def see(self, after: World) -> None:
        """The world after a pass, whole or in part, or after the environment moved."""
        before, self.there = self.there, after
        if before.status == after.status and _on_record(before) == _on_record(after):
            return
        old, new = before.status, after.status
        same_run = _run_of(old) == _run_of(new)
        run_before, spec_revision = self._run, after.rollout.spec.revision
        self._run += not same_run
        self._update += old.current_revision != new.current_revision
        template_is_new = spec_revision != self._spec_revision
        held_before = self._rolled_back_to(after)
        if template_is_new:
            self._rollbacks = []
        self._records(before, after)
        if same_run and old.abort is None and new.abort is None:
            self._gates(old, new)
        if old.abort is None and new.abort is not None:
            self._abort(after)
        if old.current_revision == new.current_revision and old.attempt != new.attempt:
            self._retry(before, after, run_before)
        elif same_run and old.abort is not None and new.abort is None:
            raise MisjudgedError("an abort ended and nobody asked for it")
        if old.current_revision != new.current_revision:
            self._change(after, template_is_new=template_is_new, held_before=held_before)
        if new.current_revision == spec_revision or self._rolled_back_to(after) == new.current_revision:
            self._spec_revision = spec_revision

    def rest(self) -> None:
        """The world has settled: whatever was asked for has happened, or was refused in an Event."""
        status, annotations = self.there.status, self.there.rollout.annotations
        for each in self._given:
            if each.record is None and not each.withdrawn and not self._said_before(each):
                raise MisjudgedError(f"{each.verb}={each.value} was lost")
        for each in self._given:
            each.forgotten = each.forgotten or each.withdrawn
        paused = annotations.get("pause") == "true"
        unfinished = status.current_revision != status.stable_revision
        declared = annotations.get("abort") == status.current_revision
        for each in self._given:
            if not each.accepted or each.acted or each.read_run != self._run or not unfinished:
                continue
            waits = (
                (
                    each.verb == "promote"
                    and status.abort is None
                    and not paused
                    and self._gate_of(each) == status.step_index
                )
                or (each.verb == "abort" and each.value == "true" and status.abort is None)
                or (each.verb == "retry" and status.abort is not None and not declared)
            )
            stands = each.value == "true" or annotations.get(each.verb) == each.value
            if waits and stands and self._stands_at_gate(status):
                raise MisjudgedError(f"{each.verb}={each.value} was accepted, and nothing followed from it")
        target = self._rolled_back_to(self.there)
        if target is not None and target != status.current_revision:
            raise MisjudgedError(f"a rollback to {target} was accepted, and {status.current_revision} is there")
        left_on = [verb for verb, value in annotations.items() if value == "true" and verb != "pause"]
        if left_on:
            raise MisjudgedError(f"true was left on: {left_on}")
        self._settled = self._asked_for(self.there)

    def _asked_for(self, there: World) -> tuple[object, ...]:
        """What the Rollout is about: by its spec, and by a rollback that names its target and holds as long as it stands."""
        spec, rollback = there.rollout.spec, there.rollout.annotations.get("rollback")
        return self._run, spec.revision, spec.strategy_hash, None if rollback == "true" else rollback

    # --- what may be

    def _records(self, before: World, after: World) -> None:
        known = {(each.verb, each.value, each.at_s) for each in _on_record(before)}
        fresh = [each for each in _on_record(after) if (each.verb, each.value, each.at_s) not in known]
        told = [each for each in after.notices[len(before.notices) :] if each.reason in REFUSALS and each.warning]
        if len(told) < sum(each.refusal is not None for each in fresh):
            raise MisjudgedError(f"refused without an Event: {fresh}")
        for record in fresh:
            given = next(
                (each for each in reversed(self._given) if (each.verb, each.value) == (record.verb, record.value)), None
            )
            lags = given is not None and _is_noted(record) and not given.forgotten
            if given is not None and _is_noted_again(record, given.record, _on_record(before), _on_record(after)):
                given.record = record
                continue
            if given is None or given.record is not None or (given.withdrawn and not lags):
                raise MisjudgedError(f"recorded, and nobody gave it: {record}")
            same_run = _run_of(before.status) == _run_of(after.status)
            given.record, given.read_run = record, self._run
            given.read_step = (before if same_run else after).status.step_index
            self.refused += record.refusal is not None
            if record.value == "true" and record.verb != "pause":
                if shown_by(before.status) != shown_by(after.status):
                    raise MisjudgedError("more than its record was written when a true was read")
                if shown_by(given.shown) != shown_by(before.status):
                    raise MisjudgedError("a true was read by another status than it was given on")
                self._expected(given, after)
                steps_went = after.rollout.spec.strategy_hash != given.shown.strategy_hash
                if given.accepted and given.verb in ("promote", "retry") and steps_went:
                    raise MisjudgedError(f"{given.verb}=true was accepted for steps that have gone")
            if record.verb == "rollback" and record.refusal is None:
                self._rollbacks = [given]
                self._spec_revision = after.rollout.spec.revision

    def _expected(self, given: Given, after: World) -> None:
        """Where nothing was changed meanwhile, a `true` that fits what was shown is accepted, and another one is refused."""
        shown = given.shown
        if not given.clean or self._settled != self._asked_for(after):
            return
        if self._rolled_back_to(after) not in (None, shown.current_revision):  # accepted, and not carried out yet
            return
        unfinished = shown.current_revision != shown.stable_revision
        held = after.rollout.annotations.get("abort") == shown.current_revision
        fits = {
            "promote": shown.abort is None and unfinished and self._stands_at_gate(shown),
            "abort": shown.abort is None and unfinished,
            "retry": shown.abort is not None and not held,
        }
        if given.verb in fits and fits[given.verb] != given.accepted:
            raise MisjudgedError(f"{given.verb}=true on {shown_by(shown)}: {given.record}")

    def _gates(self, old: RolloutStatus, new: RolloutStatus) -> None:
        steps = self._lists.get(new.strategy_hash)
        if steps is None:
            passed = [0] if new.gate_passed and not old.gate_passed else []
        else:
            moved = range(old.step_index, new.step_index)
            passed = [index for index in moved if isinstance(steps[index], PauseUntilPromoted)]
        for index in passed:
            able = [
                each
                for each in self._given
                if (each.verb, each.accepted, each.read_run) == ("promote", True, self._run)
                and self._gate_of(each) in (None, index)
                and (each.value != "true" or each.run == self._run)
            ]
            if not able:
                raise MisjudgedError(f"the gate at step {index} was passed, and nobody promoted it in this run")
            for each in able:
                each.acted = True
            self.acted += 1

    def _abort(self, after: World) -> None:
        revision = after.status.current_revision
        able = [
            each
            for each in self._given
            if each.verb == "abort"
            and each.accepted
            and not each.acted
            and each.value == "true"
            and each.update == self._update
        ]
        if not able and after.rollout.annotations.get("abort") != revision:
            raise MisjudgedError(f"revision {revision} was aborted, and nobody asked for it")
        for each in able[:1]:
            each.acted = True
        self.acted += 1

    def _retry(self, before: World, after: World, run: int) -> None:
        revision, attempt = after.status.current_revision, after.status.attempt
        able = [
            each
            for each in self._given
            if (each.verb, each.accepted, each.acted) == ("retry", True, False)
            and ((each.value == "true" and each.run == run) or each.value == f"{revision}@{attempt}")
            and each.read_run in (run, self._run)
        ]
        ended = before.status.abort is not None and before.status.abort.declared
        ended = ended and after.rollout.annotations.get("abort") != revision
        if not able and not ended:
            raise MisjudgedError(f"attempt {attempt} of {revision} began, and nobody asked for it")
        for each in able:
            each.acted = True
        self.acted += 1

    def _change(self, after: World, *, template_is_new: bool, held_before: str | None) -> None:
        revision, spec_revision = after.status.current_revision, after.rollout.spec.revision
        target = self._rolled_back_to(after)
        comes_first = template_is_new and revision == spec_revision  # the rollback from it follows
        if target is not None and revision not in (target, held_before) and not comes_first:
            raise MisjudgedError(f"{revision} was taken up while a rollback to {target} holds")
        if target is None and revision != spec_revision:
            raise MisjudgedError(f"{revision} was taken up, which is not the template's, and no rollback names it")
        if target is not None and not template_is_new:
            self._rollbacks[-1].acted = True
            self.acted += 1

    def _rolled_back_to(self, after: World) -> str | None:
        """The target of the rollback that holds: of the present template, and not taken back."""
        for each in self._rollbacks:
            assert each.record is not None
            stands = after.rollout.annotations.get("rollback") == each.value or each.value == "true"
            if stands and each.record.revision == after.rollout.spec.revision:
                named = each.value not in ("true", f"previous@{each.record.revision}")
                if named and each.value != each.record.target:
                    raise MisjudgedError(f"{each.value} was asked for, and the target is {each.record.target}")
                return each.record.target
        return None

    def _gate_of(self, given: Given) -> int | None:
        """The one gate that a promotion passes; None for every gate."""
        _, _, step = given.value.partition("@")
        if step == "full":
            return None
        if step:
            return int(step)
        steps = self._lists.get(given.shown.strategy_hash if given.value == "true" else self.there.status.strategy_hash)
        if steps is None:
            return 0
        start = given.shown.step_index if given.value == "true" else given.read_step
        return next((index for index in range(start, len(steps)) if isinstance(steps[index], PauseUntilPromoted)), -1)

    def _stands_at_gate(self, status: RolloutStatus) -> bool:
        steps = self._lists.get(status.strategy_hash)
        if steps is None:
            return status.abort is not None or (status.gate_started_at_s is not None and not status.gate_passed)
        return status.abort is not None or isinstance(dict(enumerate(steps)).get(status.step_index), PauseUntilPromoted)

    def _last(self, verb: str, value: str | None) -> Given | None:
        return next((each for each in reversed(self._given) if (each.verb, each.value) == (verb, value)), None)

    def _said_before(self, given: Given) -> bool:
        """Its record answers both: the same was given before, on the very same status, or by a name that was not seen to go."""
        before = (each for each in self._given if (each.verb, each.value) == (given.verb, given.value) and each.record)
        if given.value == "true" and given.verb != "pause":
            return any(shown_by(each.shown) == shown_by(given.shown) for each in before)
        kept = {(each.verb, each.value, each.at_s) for each in self.there.status.commands}
        return any((given.verb, given.value, each.record.at_s) in kept for each in before if each.record is not None)


def _is_noted(record: Command) -> bool:
    """Whether an abort is on record as a note on a ReplicaSet, a write that no newer version of the Rollout refuses."""
    return record.verb is Verb.ABORT and record.value == "true"


def _is_noted_again(
    record: Command, first: Command | None, before: tuple[Command, ...], after: tuple[Command, ...]
) -> bool:
    """Whether a pass that has not heard of a note writes it again, in its place: the same command, which still acts once."""
    return _is_noted(record) and first is not None and first in before and first not in after


def _on_record(there: World) -> tuple[Command, ...]:
    """What was judged: `status.commands`, and an abort whose record is the write that made a ReplicaSet grow for it."""
    status = there.status
    now = (status.current_revision, status.attempt, status.started_at_s)
    asked = (each for each in status.commands if each.verb == "abort" and each.holds)
    told = status.abort is not None or any(each.revision == status.current_revision for each in asked)
    notes = (each.abort_note for each in there.replica_sets if each.abort_note is not None and not told)
    noted = (each for each in notes if (each.revision, each.attempt, each.started_at_s) == now)
    return (
        *status.commands,
        *(
            Command(
                Verb.ABORT, "true", each.revision, each.at_s, by=Author(each.by, AuthorKind.NOTE) if each.by else None
            )
            for each in noted
        ),
    )


def _run_of(status: RolloutStatus) -> tuple[object, ...]:
    return (status.current_revision, status.strategy_hash, status.attempt)
