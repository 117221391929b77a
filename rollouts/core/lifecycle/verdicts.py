"""Judges one annotation: it becomes a command bound to a revision and a step, or it is refused with a reason. Never a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, Strategy
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Command, Refusal, RolloutStatus, Verb, previous_revision
from rollouts.core.model.steps import Analyze

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
_NAMED_ANALYSES = (AnalysisKind.BACKGROUND, AnalysisKind.PRE_PROMOTION, AnalysisKind.POST_PROMOTION)


class Gates(Struct, frozen=True):
    """Where a revision may be promoted.

    Args:
        at: index of the current step if the revision may be promoted there; else None.
        ahead: index of the current or the next such step; None when there is none.
        held: the analysis whose verdict only a person can pass; it comes before the step. None without one.
        measures: the analysis that the update waits for; only a promotion that says so passes it. None without one.
    """

    at: int | None
    ahead: int | None
    held: AnalysisGate | None = None
    measures: AnalysisGate | None = None


GatesOf: TypeAlias = Callable[[Strategy, RolloutStatus], Gates]
"""Where the current revision of a status may be promoted; asked only for an annotation that is judged."""


class Asked(Struct, frozen=True):
    """An annotation's value, and what it is judged by.

    Args:
        value: as `recorded_as` says.
        status: the published one for a `true`; else the status after a new revision, if any, was taken up.
        target: the revision that the Rollout was about when the pass began.
        gates: the gates of `status`.
    """

    value: str
    seen: Snapshot
    status: RolloutStatus
    target: str
    gates: Gates


Verdict: TypeAlias = Command | Refusal


def _accepted(
    asked: Asked,
    verb: Verb,
    revision: str,
    *,
    step: int | None = None,
    target: str = "",
    analysis: AnalysisKind | None = None,
    unjudged: bool = False,
) -> Command:
    return Command(
        verb,
        asked.value,
        revision,
        asked.seen.now_s,
        step=step,
        target=target,
        strategy_hash=asked.status.strategy_hash,
        attempt=asked.status.attempt,
        analysis=analysis,
        unjudged=unjudged,
    )


def _refused(message: str) -> Refusal:
    return Refusal(Reason.COMMAND_INVALID, message)


def _unknown(revision: str) -> Refusal:
    return Refusal(Reason.UNKNOWN_REVISION, f"this Rollout has no revision {revision!r}")


def _late(asked: Asked, *, steps: bool) -> Refusal | None:
    """Why a `true` comes too late: the template, or with `steps` the list of steps, has changed since."""
    revision = asked.status.current_revision
    if not revision:
        return _refused("nothing was rolled out yet when the command was given")
    if asked.target != revision:
        return _refused(f"the command was for revision {revision}, and revision {asked.target} has taken its place")
    if steps and asked.seen.rollout.spec.strategy_hash != asked.status.strategy_hash:
        return _refused(f"the command was for revision {revision}, and the steps in the spec have changed since")
    return None


def _promote_now(asked: Asked) -> Verdict:
    if (late := _late(asked, steps=True)) is not None:
        return late
    if (held := asked.gates.held) is not None:
        return _past_verdict(asked, held)
    if asked.gates.at is None:
        return _refused(f"the Rollout is not at a step that can be promoted{_passed_by(asked, asked.gates.measures)}")
    return _accepted(asked, Verb.PROMOTE, asked.status.current_revision, step=asked.gates.at)


def _past_verdict(asked: Asked, held: AnalysisGate) -> Command:
    """The promotion past the verdict that holds the update: of a step by its index, of other analyses by their name."""
    return _accepted(asked, Verb.PROMOTE, asked.status.current_revision, step=held.step, analysis=held.kind)


def _promote_named(asked: Asked) -> Verdict:
    revision, _, gate = asked.value.partition("@")
    status, held = asked.status, asked.gates.held
    if revision not in _known(asked):
        return _unknown(revision)
    if revision != status.current_revision:
        return _refused(f"revision {revision} is not being rolled out; {status.current_revision} is")
    if status.abort is not None:
        return _refused(f"revision {revision} is aborted: retry it first")
    if gate == FULL:
        return _accepted(asked, Verb.PROMOTE, revision)
    if gate.startswith(SKIP):
        return _without_verdict(asked, gate.removeprefix(SKIP))
    if gate in _NAMED_ANALYSES:
        if held is None or held.kind != gate:
            way_out = _passed_by(asked, AnalysisGate(AnalysisKind(gate)))
            return _refused(f"no verdict of the {gate} analysis waits for a promotion{way_out}")
        return _past_verdict(asked, held)
    if gate:
        return _promote_step(asked, gate)
    if held is not None:
        return _refused(
            f"a verdict of the {held.kind} analysis holds the update, and only {revision}@{held.promoted_as} passes it"
        )
    # It names no gate: past the step where status shows the update waiting, or else the first pause ahead.
    ahead = status.step_index if asked.gates.ahead is None else asked.gates.ahead
    shown = _shown_at(asked)
    return _accepted(asked, Verb.PROMOTE, revision, step=ahead if shown is None else shown)


def _without_verdict(asked: Asked, name: str) -> Verdict:
    """The promotion past the analysis of that name while it measures; nothing else is passed with it."""
    step = _number(name)
    if step is None and name not in _NAMED_ANALYSES:
        return _refused(f"{SKIP}{name} names no analysis: it is {SKIP}STEP, or {SKIP}{_NAMED_ANALYSES[1]} for example")
    gate = AnalysisGate(AnalysisKind.STEP, step) if step is not None else AnalysisGate(AnalysisKind(name))
    if gate.kind is AnalysisKind.BACKGROUND:
        what = "measures beside the steps, and they pass it by themselves"
        return _refused(f"the {name} analysis {what}; to end its run: rollouts analysis terminate")
    if asked.gates.held == gate:
        named = f"{asked.status.current_revision}@{gate.promoted_as}"
        return _refused(f"the {gate} analysis has a verdict, which holds the update: {named} passes it")
    if asked.gates.measures != gate:
        what = f"{gate.kind} analysis" if step is None else f"analysis of step {step}"
        return _refused(f"no {what} measures now: there is nothing to pass without a verdict")
    return _accepted(
        asked, Verb.PROMOTE, asked.status.current_revision, step=gate.step, analysis=gate.kind, unjudged=True
    )


def _passed_by(asked: Asked, gate: AnalysisGate | None) -> str:
    """The end of a refusal that says what passes the analysis at `gate`, which measures; "" for one that does not."""
    if gate is None or asked.gates.measures != gate:
        return ""
    named = f"{asked.status.current_revision}@{SKIP}{gate.promoted_as}"
    return f"; the {gate} analysis measures, and only {named} passes it without a verdict"


def _promote_step(asked: Asked, step: str) -> Verdict:
    if (index := _number(step)) is None:
        return _refused(f"{step!r} is neither a step's index nor {FULL!r}, nor one of {', '.join(_NAMED_ANALYSES)}")
    strategy = asked.seen.rollout.spec.strategy
    steps = max(strategy.step_count, 1)  # a blue-green update has one gate, number 0
    if index >= steps:
        return _refused(f"there is no step {step}: the first is 0, the last is {steps - 1}")
    if isinstance(strategy, Canary) and isinstance(strategy.steps[index], Analyze):
        held = AnalysisGate(AnalysisKind.STEP, index)
        if asked.gates.held == held:
            return _past_verdict(asked, held)
        if _shown_at(asked) != index:
            why = f"step {step} is an analysis: a promotion passes its verdict, once it waits for one"
            return _refused(f"{why}{_passed_by(asked, held)}")
    return _accepted(asked, Verb.PROMOTE, asked.status.current_revision, step=index)


def _number(text: str) -> int | None:
    """The number of a step or of an attempt; None when the text is no number, or a longer one than `_MOST_DIGITS`."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _shown_at(asked: Asked) -> int | None:
    """The step where the published status shows that this update waits and may be promoted."""
    shown, now = asked.seen.status, asked.status
    same = (shown.current_revision, shown.strategy_hash, shown.attempt, shown.step_index)
    return asked.gates.at if same == (now.current_revision, now.strategy_hash, now.attempt, now.step_index) else None


def _abort(asked: Asked) -> Verdict:
    """Git may name a revision before its template comes: that is refused as unknown, and aborts the revision if it comes."""
    status, revision = asked.status, asked.value
    if revision == NOW:
        revision = status.current_revision
        if (late := _late(asked, steps=False)) is not None:
            return late
        if status.abort is not None:
            return _refused(f"revision {revision} is aborted already")
    elif revision not in _known(asked):
        unknown = _unknown(revision)
        return Refusal(unknown.reason, f"{unknown.message}; it is aborted if it comes while the annotation is set")
    if revision == status.stable_revision:
        return _refused(f"revision {revision} is the stable one already; use rollback instead")
    return _accepted(asked, Verb.ABORT, revision)


def _retry(asked: Asked) -> Verdict:
    status, revision = asked.status, asked.status.current_revision
    attempt = status.attempt + 1
    if asked.value == NOW:
        if (late := _late(asked, steps=True)) is not None:
            return late
    else:
        named, _, digits = asked.value.partition("@")
        if (number := _number(digits)) is None:
            return _refused(f"{asked.value!r} is not of the form REVISION@NUMBER, with {_MOST_DIGITS} digits at most")
        if named not in _known(asked):
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
    return _accepted(asked, Verb.RETRY, revision, step=attempt)


def _rollback(asked: Asked) -> Verdict:
    """The value names only the target. The rollback leaves the revision that status showed, unless that is the target itself."""
    from_revision, current = asked.seen.rollout.spec.revision, asked.status.current_revision
    late = _template_came(asked)
    if asked.value == NOW:
        return late or _to_previous(asked)
    if asked.value.startswith("previous@"):
        named = asked.value.removeprefix("previous@")
        if named not in _known(asked):
            return _unknown(named)
        if named != from_revision:
            return _refused(f"the template is revision {from_revision} now, not {named}")
        return _to_previous(asked)
    if not any(kept.revision == asked.value and not kept.deleting for kept in asked.seen.replica_sets):
        return _unknown(asked.value)
    if late is not None and current not in ("", asked.value):
        return late
    if asked.value == from_revision == current:
        return _refused(f"revision {from_revision} is the template's own: there is nothing to roll back from")
    return _accepted(asked, Verb.ROLLBACK, from_revision, target=asked.value)


def _template_came(asked: Asked) -> Refusal | None:
    """Why a rollback comes too late: status shows neither the template's revision nor the target of a rollback from it."""
    shown, template = asked.status.current_revision, asked.seen.rollout.spec.revision
    if not shown:
        return _refused("nothing was rolled out yet when the command was given")
    rollbacks = (command for command in asked.status.commands if command.verb is Verb.ROLLBACK and command.holds)
    if shown == template or any((command.revision, command.target) == (template, shown) for command in rollbacks):
        return None
    return _refused(f"the command was for revision {shown}, and revision {template} has taken its place")


def _to_previous(asked: Asked) -> Verdict:
    from_revision = asked.seen.rollout.spec.revision
    kept = {replica_set.revision for replica_set in asked.seen.replica_sets if not replica_set.deleting}
    target = previous_revision(asked.status, template=from_revision, kept=kept)
    if not target:
        return _refused(f"no revision before {from_revision} is kept")
    return _accepted(asked, Verb.ROLLBACK, from_revision, target=target)


def recorded_as(annotation: str) -> str:
    """The value of a command; of one that is too long its beginning and its length, so that its record is short."""
    value = annotation.strip()
    return value if len(value) <= VALUE_MAX else f"{value[:_SHOWN]}… ({len(value):,} characters)"


def judge(verb: Verb, asked: Asked) -> Verdict:
    """The command, or why it is refused."""
    given = asked.seen.rollout.annotations[verb].strip()
    if len(given) > VALUE_MAX:
        beginning = f"it begins with {given[:_SHOWN]!r}"
        return _refused(f"a value has at most {VALUE_MAX} characters, and this one has {len(given):,}; {beginning}")
    match verb:
        case Verb.PROMOTE:
            return _promote_now(asked) if asked.value == NOW else _promote_named(asked)
        case Verb.ABORT:
            return _abort(asked)
        case Verb.RETRY:
            return _retry(asked)
        case Verb.ROLLBACK:
            return _rollback(asked)
        case Verb.PAUSE:
            if asked.value != NOW:
                return _refused(f"{asked.value!r} is not 'true'")
            return _accepted(asked, verb, asked.status.current_revision)
        case Verb.RESTART:
            if asked.value != NOW and asked.seen.rollout.restart_asked_at_s is None:
                return _refused(f"{asked.value!r} is not an RFC 3339 time such as 2026-11-21T10:00:00Z")
            return _accepted(asked, verb, asked.status.current_revision)


def _known(asked: Asked) -> set[str]:
    seen, status = asked.seen, asked.status
    return {
        seen.rollout.spec.revision,
        status.current_revision,
        status.stable_revision,
        *(replica_set.revision for replica_set in seen.replica_sets),
        *(entry.revision for entry in status.history),
    } - {""}
