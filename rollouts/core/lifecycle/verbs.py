"""What each command by annotation means: one class for each verb, which judges it and says what becomes of its record.

An annotation becomes a command bound to a revision and a step, or it is refused with a reason. Never a guess.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.lifecycle.in_place import needs_its_template
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice
from rollouts.core.model.numbering import step_number
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Strategy, judged_step
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Command, Refusal, RolloutStatus, Verb, analysis_of, previous_revision

NOW = "true"
"""The value that means "the revision and the step that status shows"."""
FULL = "full"
SKIP = "skip-"
"""Before the name of an analysis: it is passed while it measures, without a verdict."""
VALUE_MAX = 256
"""Characters of a value. The longest that means anything is `previous@` and a revision; an annotation may have 256 KiB."""
_SHOWN = 80  # characters of a longer one, in its record and in messages
_MOST_DIGITS = 9
"""Of a number in a command. It goes into status, and Python reads no number of more than 4,300 digits."""
_NAMED_ANALYSES = tuple(kind for kind in AnalysisKind if not kind.is_step)

Verdict: TypeAlias = Command | Refusal


class Gates(Struct, frozen=True):
    """Where a revision may be promoted.

    Args:
        at: index of the current step if the revision may be promoted there; else None.
        ahead: index of the current or the next such step; None when there is none.
        held: the analysis whose verdict only a person can pass; it comes before the step. None without one.
        measures: the analysis that the update waits for; only a promotion that says so passes it. None without one.
    """

    at: int | None = None
    ahead: int | None = None
    held: AnalysisGate | None = None
    measures: AnalysisGate | None = None


GatesOf: TypeAlias = Callable[[Strategy, RolloutStatus], Gates]
"""Where the current revision of a status may be promoted; asked only for an annotation that is judged."""


class Asked(Struct, frozen=True):
    """An annotation, and what it is judged by.

    Args:
        value: as `recorded_as` says.
        status: the published one for a `true`; else the status after a new revision, if any, was taken up.
        target: the revision that the Rollout was about when the pass began.
        gates: the gates of `status`.
    """

    verb: Verb
    value: str
    seen: Snapshot
    status: RolloutStatus
    target: str
    gates: Gates

    @property
    def command(self) -> Command:
        """The command, accepted, for the current revision; who judges it adds what else it is bound to."""
        status, now_s = self.status, self.seen.now_s
        revision, steps = status.current_revision, status.strategy_hash
        return Command(self.verb, self.value, revision, now_s, strategy_hash=steps, attempt=status.attempt)

    @property
    def known(self) -> set[str]:
        """The revisions of this Rollout."""
        seen, status = self.seen, self.status
        return {
            seen.rollout.spec.revision,
            status.current_revision,
            status.stable_revision,
            *(replica_set.revision for replica_set in seen.replica_sets),
            *(entry.revision for entry in status.history),
        } - {""}

    def late(self, *, steps: bool) -> Refusal | None:
        """Why a `true` comes too late: the template, or with `steps` the list of steps, has changed since."""
        revision = self.status.current_revision
        if not revision:
            return _refused("nothing was rolled out yet when the command was given")
        if self.target != revision:
            return _refused(f"the command was for revision {revision}, and revision {self.target} has taken its place")
        if steps and self.seen.rollout.spec.strategy_hash != self.status.strategy_hash:
            return _refused(f"the command was for revision {revision}, and the steps in the spec have changed since")
        return None


class VerbRules(ABC):
    """The rules of a verb. An accepted command holds until it is over; from then on it can have no effect any more."""

    @abstractmethod
    def judge(self, asked: Asked) -> Verdict:
        """The command, or why it is refused."""

    def ended(self, command: Command, seen: Snapshot, status: RolloutStatus) -> str | None:
        """None while an accepted command may have an effect; else why it came too late, or "" when it did not."""
        return None

    def replaces(self, fresh: Command, old: Command) -> bool:
        """Whether a fresh command drops the record of an earlier one of this verb; both were accepted."""
        return True

    def is_remembered(self, command: Command, seen: Snapshot, status: RolloutStatus) -> bool:
        """Whether the record of a `true` has a meaning although its annotation is gone."""
        return command.revision in (seen.rollout.spec.revision, status.current_revision)

    def event(self, command: Command, seen: Snapshot) -> Notice | None:
        """The Event of an accepted command; None for an abort and a retry, whose Event comes when they are carried out."""
        return None


class AbortRules(VerbRules):
    """Gives up the current revision.

    | | `true` | a revision |
    |---|---|---|
    | is over | when any abort is on record, or the update is done or another one | never: it holds while it is set |
    | came too late | when that is not the abort of its revision | |
    | replaces | an abort that is over | an abort that is over |
    """

    def judge(self, asked: Asked) -> Verdict:
        """Git may name a revision before its template comes: that is refused as unknown, and aborts the revision if it comes."""
        status, revision = asked.status, asked.value
        if revision == NOW:
            revision = status.current_revision
            if (late := asked.late(steps=False)) is not None:
                return late
            if status.abort is not None:
                return _refused(f"revision {revision} is aborted already")
        elif revision not in asked.known:
            unknown = _unknown(revision)
            return replace(unknown, message=f"{unknown.message}; it is aborted if it comes while the annotation is set")
        if revision == status.stable_revision:
            return _refused(f"revision {revision} is the stable one already; use rollback instead")
        return replace(asked.command, revision=revision)

    def ended(self, command: Command, seen: Snapshot, status: RolloutStatus) -> str | None:
        unfinished = command.revision == status.current_revision != status.stable_revision
        if command.value != NOW or (status.abort is None and unfinished):
            return None
        done = status.abort is not None and status.abort.revision == command.revision
        return "" if done else _moved_on(command)

    def replaces(self, fresh: Command, old: Command) -> bool:
        return not old.holds


class RetryRules(VerbRules):
    """Tries the current revision again after an abort, or after a failure that took its weight back; `step` is the attempt.

    | is over | when its attempt has begun, nothing is left to retry, or the update is another one |
    | came too late | when its attempt has not begun |
    | replaces | a retry that is over |
    """

    def judge(self, asked: Asked) -> Verdict:
        status, revision = asked.status, asked.status.current_revision
        attempt = status.attempt + 1
        if asked.value == NOW:
            if (late := asked.late(steps=True)) is not None:
                return late
        else:
            named, _, digits = asked.value.partition("@")
            if (number := _number(digits)) is None:
                return _refused(
                    f"{asked.value!r} is not of the form REVISION@NUMBER, with {_MOST_DIGITS} digits at most"
                )
            if named not in asked.known:
                return _unknown(named)
            if named != revision:
                return _refused(f"revision {named} is not being rolled out; {revision} is")
            attempt = number
        if not status.may_be_retried:
            return _refused(f"nothing is aborted: revision {revision} needs no new attempt")
        if asked.seen.rollout.annotations.get(Verb.ABORT, "").strip() == revision:
            return _refused(
                f"the annotation rollouts.dev/abort={revision} keeps it aborted: remove it, and the revision is tried again"
            )
        if attempt <= status.attempt:
            return _refused(f"attempt {attempt} has begun already: the next one is {revision}@{status.attempt + 1}")
        return replace(asked.command, step=attempt)

    def ended(self, command: Command, seen: Snapshot, status: RolloutStatus) -> str | None:
        current = command.revision == status.current_revision
        if current and (command.step or 0) <= status.attempt:
            return ""
        return None if current and status.may_be_retried else _moved_on(command)

    def replaces(self, fresh: Command, old: Command) -> bool:
        return not old.holds


class RollbackRules(VerbRules):
    """Goes to a kept revision. The value names only the target; the record's `revision` is the one that it leaves.

    | is over | when the template is no longer the one that it leaves |
    | replaces | any other rollback |
    """

    def judge(self, asked: Asked) -> Verdict:
        """A rollback leaves the revision that status showed, unless that is the target itself."""
        from_revision, late = asked.seen.rollout.spec.revision, self._late(asked)
        kept = {replica_set.revision for replica_set in asked.seen.replica_sets if not replica_set.deleting}
        target = asked.value
        if target == NOW and late is not None:
            return late
        if target.startswith("previous@"):
            named = target.removeprefix("previous@")
            if named not in asked.known:
                return _unknown(named)
            if named != from_revision:
                return _refused(f"the template is revision {from_revision} now, not {named}")
        elif target != NOW:
            return self._to_named(asked, target, late) if target in kept else _unknown(target)
        previous = previous_revision(asked.status, template=from_revision, kept=kept)
        if not previous:
            return _refused(f"no revision before {from_revision} is kept")
        return replace(asked.command, revision=from_revision, target=previous)

    def _to_named(self, asked: Asked, target: str, late: Refusal | None) -> Verdict:
        from_revision, current = asked.seen.rollout.spec.revision, asked.status.current_revision
        if late is not None and current not in ("", target):
            return late
        if target == from_revision == current:
            return _refused(f"revision {from_revision} is the template's own: there is nothing to roll back from")
        return replace(asked.command, revision=from_revision, target=target)

    def _late(self, asked: Asked) -> Refusal | None:
        """Why it comes too late: status shows neither the template's revision nor the target of a rollback from it."""
        shown, template = asked.status.current_revision, asked.seen.rollout.spec.revision
        if not shown:
            return _refused("nothing was rolled out yet when the command was given")
        rollbacks = (command for command in asked.status.commands if command.verb is Verb.ROLLBACK and command.holds)
        if shown == template or any((command.revision, command.target) == (template, shown) for command in rollbacks):
            return None
        return _refused(f"the command was for revision {shown}, and revision {template} has taken its place")

    def ended(self, command: Command, seen: Snapshot, status: RolloutStatus) -> str | None:
        return None if command.revision == seen.rollout.spec.revision else ""

    def event(self, command: Command, seen: Snapshot) -> Notice:
        message = f"rolling back from revision {command.revision} to {command.target}"
        if command.target == command.revision:
            message = f"rolling forward to revision {command.revision} again"
        return Notice(Reason.ROLLOUT_UPDATED, f"{message}{command.by_whom}")


class PromoteRules(VerbRules):
    """Lets the current revision pass a step, an analysis, or everything, in this attempt and for this list of steps.

    | is over | when one of these three is another; past an analysis also when that is passed, or has a verdict |
    | came too late | when it was to pass an analysis without a verdict, and a verdict came that holds the update |
    | replaces | a promotion that passes the same |
    """

    def judge(self, asked: Asked) -> Verdict:
        gates = asked.gates
        if asked.value != NOW:
            return self._named(asked)
        if (late := asked.late(steps=True)) is not None:
            return late
        if gates.held is not None:
            return _past(asked, gates.held)
        if gates.at is None:
            way_out = _passed_by(asked, gates.measures)
            return _refused(f"the Rollout is not at a step that can be promoted{way_out}")
        return replace(asked.command, step=gates.at)

    def _named(self, asked: Asked) -> Verdict:
        revision, _, gate = asked.value.partition("@")
        status, held = asked.status, asked.gates.held
        if revision not in asked.known:
            return _unknown(revision)
        if revision != status.current_revision:
            return _refused(f"revision {revision} is not being rolled out; {status.current_revision} is")
        if status.abort is not None:
            return _refused(f"revision {revision} is aborted: retry it first")
        if gate == FULL:
            return asked.command
        if gate.startswith(SKIP):
            return self._without_verdict(asked, gate.removeprefix(SKIP))
        if gate in _NAMED_ANALYSES:
            if held is None or held.kind != gate:
                way_out = _passed_by(asked, AnalysisGate(AnalysisKind(gate)))
                return _refused(f"no verdict of the {gate} analysis waits for a promotion{way_out}")
            return _past(asked, held)
        if gate:
            return self._step(asked, gate)
        if held is not None:
            named = f"{revision}@{held.promoted_as}"
            return _refused(f"a verdict of the {held.kind} {held.what} holds the update, and only {named} passes it")
        # It names no gate: past the step where status shows the update waiting, or else the first pause ahead.
        ahead = status.step_index if asked.gates.ahead is None else asked.gates.ahead
        shown = _shown_at(asked)
        return replace(asked.command, step=ahead if shown is None else shown)

    def _without_verdict(self, asked: Asked, name: str) -> Verdict:
        """The promotion past the analysis of that name while it measures; nothing else is passed with it."""
        step = _number(name)
        if step is None and name not in _NAMED_ANALYSES:
            return _refused(
                f"{SKIP}{name} names no analysis: it is {SKIP}STEP, or {SKIP}{AnalysisKind.PRE_PROMOTION} for example"
            )
        gate = AnalysisGate(AnalysisKind.STEP, step) if step is not None else AnalysisGate(AnalysisKind(name))
        if step is not None and (judged := judged_step(asked.seen.rollout.spec.strategy, step)) is not None:
            gate, _ = judged
        if gate.kind is AnalysisKind.BACKGROUND:
            what = "measures beside the steps, and they pass it by themselves"
            return _refused(f"the {name} analysis {what}; to end its run: rollouts analysis terminate")
        if asked.gates.held == gate:
            named = f"{asked.status.current_revision}@{gate.promoted_as}"
            return _refused(f"the {gate} has a verdict, which holds the update: {named} passes it")
        if asked.gates.measures != gate:
            what = f"{gate}" if step is None else f"{gate.what} of step {step_number(step)}"
            return _refused(f"no {what} measures now: there is nothing to pass without a verdict")
        return replace(_past(asked, gate), unjudged=True)

    def _step(self, asked: Asked, step: str) -> Verdict:
        if (index := _number(step)) is None:
            return _refused(f"{step!r} is neither a step's index nor {FULL!r}, nor one of {', '.join(_NAMED_ANALYSES)}")
        strategy = asked.seen.rollout.spec.strategy
        steps = max(strategy.step_count, 1)  # a blue-green update has one gate, number 0
        if index >= steps:
            return _refused(f"{step} is not the index of a step: the first is 0, the last is {steps - 1}")
        if (judged := judged_step(strategy, index)) is not None:
            held, _ = judged
            if asked.gates.held == held:
                return _past(asked, held)
            if _shown_at(asked) != index:
                why = f"step {step_number(index)} has an {held.what}: a promotion passes its verdict, once it waits for one"
                return _refused(f"{why}{_passed_by(asked, held)}")
        return replace(asked.command, step=index)

    def ended(self, command: Command, seen: Snapshot, status: RolloutStatus) -> str | None:
        if not command.is_for(status):
            return ""
        if command.gate is None:
            return None
        record = analysis_of(status, command.gate)
        if record is None:
            return ""
        if not command.unjudged:
            return None if record.held else ""
        if not record.settled:
            return None
        return f"the {record.gate} has ended {record.phase}" if record.held else ""

    def replaces(self, fresh: Command, old: Command) -> bool:
        return fresh.passes == old.passes

    def is_remembered(self, command: Command, seen: Snapshot, status: RolloutStatus) -> bool:
        finished = status.current_revision == status.stable_revision
        if command.refusal is None and (command.over or finished):
            return False
        return super().is_remembered(command, seen, status)

    def event(self, command: Command, seen: Snapshot) -> Notice:
        what = "every step" if command.step is None else f"step {step_number(command.step)}"
        if command.gate is not None:
            what = f"the verdict of the {command.gate}"
        if command.unjudged:
            what = f"the {command.gate} without a verdict"
        paused = seen.rollout.spec.paused or seen.rollout.annotations.get(Verb.PAUSE) == NOW
        held = "; the Rollout stays paused until somebody resumes it" if paused else ""
        return Notice(Reason.PROMOTED, f"revision {command.revision} may pass {what}{held}{command.by_whom}")


class PauseRules(VerbRules):
    """Pauses the steps while it is set. It is never over, and its record goes with its annotation."""

    def judge(self, asked: Asked) -> Verdict:
        return asked.command if asked.value == NOW else _refused(f"{asked.value!r} is not 'true'")

    def is_remembered(self, command: Command, seen: Snapshot, status: RolloutStatus) -> bool:
        return False

    def event(self, command: Command, seen: Snapshot) -> Notice:
        return Notice(Reason.ROLLOUT_PAUSED, f"paused by annotation{command.by_whom}")


class RestartRules(VerbRules):
    """Replaces the pods that are older than the command, or than the time that it names.

    | | `true` | a time |
    |---|---|---|
    | is over | when no pod is older any more | never |
    | replaces | any other restart | any other restart |
    | is remembered | until it is over, whatever revision comes | |
    """

    def judge(self, asked: Asked) -> Verdict:
        if asked.value != NOW and asked.seen.rollout.restart_asked_at_s is None:
            return _refused(f"{asked.value!r} is not an RFC 3339 time such as 2026-11-21T10:00:00Z")
        return asked.command

    def ended(self, command: Command, seen: Snapshot, status: RolloutStatus) -> str | None:
        done_s = status.restarted_at_s
        return "" if command.value == NOW and done_s is not None and done_s >= command.at_s else None

    def is_remembered(self, command: Command, seen: Snapshot, status: RolloutStatus) -> bool:
        return command.holds or super().is_remembered(command, seen, status)

    def event(self, command: Command, seen: Snapshot) -> Notice:
        return Notice(Reason.RESTARTING, f"pods older than the restart time are being replaced{command.by_whom}")


RULES: Mapping[Verb, VerbRules] = {
    Verb.ABORT: AbortRules(),
    Verb.RETRY: RetryRules(),
    Verb.ROLLBACK: RollbackRules(),
    Verb.PROMOTE: PromoteRules(),
    Verb.PAUSE: PauseRules(),
    Verb.RESTART: RestartRules(),
}
"""The rules of every verb, in the order in which annotations are judged."""


def judge(asked: Asked) -> Verdict:
    """The command, or why it is refused."""
    given = asked.seen.rollout.annotations[asked.verb].strip()
    if len(given) > VALUE_MAX:
        beginning = f"it begins with {given[:_SHOWN]!r}"
        return _refused(f"a value has at most {VALUE_MAX} characters, and this one has {len(given):,}; {beginning}")
    verdict = RULES[asked.verb].judge(asked)
    if isinstance(verdict, Command) and (why := needs_its_template(asked.seen, asked.status, verdict)):
        return _refused(why)
    return verdict


def recorded_as(annotation: str) -> str:
    """The value of a command; of one that is too long its beginning and its length, so that its record is short."""
    value = annotation.strip()
    return value if len(value) <= VALUE_MAX else f"{value[:_SHOWN]}… ({len(value):,} characters)"


def _refused(message: str) -> Refusal:
    return Refusal(Reason.COMMAND_INVALID, message)


def _unknown(revision: str) -> Refusal:
    return Refusal(Reason.UNKNOWN_REVISION, f"this Rollout has no revision {revision!r}")


def _moved_on(command: Command) -> str:
    return f"the update to revision {command.revision} has moved on"


def _number(text: str) -> int | None:
    """The number of a step or of an attempt; None when the text is no number, or a longer one than `_MOST_DIGITS`."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _past(asked: Asked, gate: AnalysisGate) -> Command:
    """The promotion past a verdict: of a step by its index, of other analyses by their name."""
    return replace(asked.command, step=gate.step, analysis=gate.kind)


def _passed_by(asked: Asked, gate: AnalysisGate | None) -> str:
    """The end of a refusal that says what passes the analysis at `gate`, which measures; "" for one that does not."""
    if gate is None or asked.gates.measures != gate:
        return ""
    named = f"{asked.status.current_revision}@{SKIP}{gate.promoted_as}"
    return f"; the {gate} measures, and only {named} passes it without a verdict"


def _shown_at(asked: Asked) -> int | None:
    """The step where the published status shows that this update waits and may be promoted."""
    shown, now = asked.seen.status, asked.status
    same = (shown.current_revision, shown.strategy_hash, shown.attempt, shown.step_index)
    return asked.gates.at if same == (now.current_revision, now.strategy_hash, now.attempt, now.step_index) else None
