"""What no record of a step may break: S8 and S9 of the project's invariants."""

from __future__ import annotations

from rollouts.core.model.intents import Decision, RemoveAnnotation
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import Pause, PauseUntilPromoted
from tests.invariants.violation import Violation, abort_is_on_record, exists, grows, held, promoted


def steps_go_forward(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S8: (revision number, step) only grows, one step at a time, except by what is recorded with it.

    A new attempt, an abort, other steps, or a lost status may start over, and a failed analysis may take a canary back.
    """
    before = seen.status
    if after.revision_number < before.revision_number:
        return [Violation("S8", f"revision number {before.revision_number} → {after.revision_number}")]
    if not _same_update(before, after) or after.attempt != before.attempt or after.abort != before.abort:
        return []
    jump = after.step_index - before.step_index
    full = any(each.promotes(before) and each.passes is None for each in after.commands)
    known = {each.run for each in before.analyses if each.phase.over}
    if any(each.back_to_percent is not None and each.run not in known for each in after.analyses):
        return []  # how far back, S7 says
    if before.current_revision and (jump < 0 or (jump > 1 and not full)):
        return [Violation("S8", f"step {before.step_index} → {after.step_index}")]
    return []


def promoted_when_done(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S8: what becomes stable is what was rolled out, and every step of it was durably done."""
    before = seen.status
    if not promoted(before, after):
        return []
    if after.stable_revision != before.current_revision or after.current_revision != after.stable_revision:
        return [Violation("S8", f"stable became {after.stable_revision}, not what was rolled out")]
    if before.stable_revision and not _all_passed(seen):
        return [Violation("S8", f"{after.stable_revision} became stable before its steps were done")]
    return []


def one_way_decisions_are_alone(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S8: a promotion, an abort and a retry are written alone: no write of the same pass touches pods or Services.

    But an abort may let the stable revision grow, which is safe on either side of the record; and one whose command is on record
    may do anything.
    """
    before, after = seen.status, decision.status
    retried = after.attempt != before.attempt and after.current_revision == before.current_revision
    aborted = after.abort is not None and before.abort is None
    if not (promoted(before, after) or retried or aborted):
        return []
    acts = [each for each in decision.intents if not isinstance(each, RemoveAnnotation)]
    if aborted and abort_is_on_record(seen):
        acts = []  # the record of the command is that of the decision
    elif aborted:
        acts = [each for each in acts if not grows(seen, each, revision=after.stable_revision)]
    return [Violation("S8", "a one-way decision is not written alone")] if acts else []


def a_pause_holds_a_new_revision(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S9: a revision, or a list of steps, that comes while somebody holds the Rollout gets no weight."""
    if _same_update(seen.status, after) or not held(seen) or not isinstance(seen.rollout.spec.strategy, Canary):
        return []
    grows = after.current_revision != after.stable_revision and (after.weight_percent or 0) > 0
    if grows and exists(seen, after.stable_revision):
        return [Violation("S9", "the weight of a new revision grows during a pause")]
    return []


def a_pause_holds_step_and_weight(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S9: while somebody holds the Rollout neither its step nor the canary's weight grows."""
    before = seen.status
    if not held(seen) or not _goes_on(seen, after):
        return []
    canary = isinstance(seen.rollout.spec.strategy, Canary)
    if canary and (after.weight_percent or 0) > (before.weight_percent or 0):
        return [Violation("S9", f"weight {before.weight_percent} → {after.weight_percent} during a pause")]
    if after.step_index > before.step_index:
        return [Violation("S9", f"step {before.step_index} → {after.step_index} during a pause")]
    return []


def a_step_lasts_as_long_as_asked(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S9: a timed pause of a canary lasts its time, from its durable start, and a gate until somebody promotes it.

    A wall clock that jumps ahead shortens a pause; nothing here can tell.
    """
    before, strategy = seen.status, seen.rollout.spec.strategy
    if not isinstance(strategy, Canary) or after.step_index <= before.step_index:
        return []
    if not _goes_on(seen, after) or _let_pass(before, after):
        return []
    elapsed_s = seen.now_s - (before.step_started_at_s or seen.now_s)
    match strategy.steps[before.step_index : before.step_index + 1]:
        case (Pause(duration_s),) if elapsed_s < duration_s:
            return [Violation("S9", f"a pause of {duration_s} s lasted {elapsed_s} s")]
        case (PauseUntilPromoted(),):
            return [Violation("S9", f"step {before.step_index} was passed though nobody promoted it")]
        case _:
            return []


def a_gate_opens_in_time(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S9: the gate of a blue-green update opens after `autoPromotionSeconds`, or for who names it."""
    before, strategy = seen.status, seen.rollout.spec.strategy
    if not isinstance(strategy, BlueGreen) or before.gate_passed or not after.gate_passed:
        return []
    if not _goes_on(seen, after) or _let_pass(before, after):
        return []
    started_s = seen.now_s if before.gate_started_at_s is None else before.gate_started_at_s
    if not strategy.auto_promotion_enabled or seen.now_s - started_s < strategy.auto_promotion_s:
        return [Violation("S9", "the gate opened too early")]
    return []


def _same_update(before: RolloutStatus, after: RolloutStatus) -> bool:
    now = (after.current_revision, after.strategy_hash)
    return now == (before.current_revision, before.strategy_hash)


def _goes_on(seen: Snapshot, after: RolloutStatus) -> bool:
    """Whether it is the same update still, from a stable revision that is there."""
    stable = seen.status.stable_revision
    unfinished = bool(stable) and stable != seen.status.current_revision
    return _same_update(seen.status, after) and unfinished and exists(seen, stable)


def _let_pass(before: RolloutStatus, after: RolloutStatus) -> bool:
    """Whether somebody promotes the step at which the update stands, or all of them."""
    promoted = {each.passes for each in after.commands if each.promotes(before)}
    return bool(promoted & {None, before.step_index})


def _all_passed(seen: Snapshot) -> bool:
    strategy = seen.rollout.spec.strategy
    return seen.status.gate_passed if isinstance(strategy, BlueGreen) else seen.status.step_index >= len(strategy.steps)
