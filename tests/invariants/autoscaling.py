"""What no record of a step may break where `spec.autoscaling` is set: S21 of the project's invariants."""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.core.model.autoscaling import AutoscalerSeen, AutoscalingGate, AutoscalingSeen
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from tests.invariants.violation import Violation, exists, promoted

OLD_S = 60.0  # four questions in a row without an answer


def no_step_ends_against_the_load(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S21: no step is done, no preview and no canary promoted, while the last answer says no, or there is none.

    What skips its steps, what somebody promoted, the first revision and one of 0 replicas do not wait; nor does an update whose
    stable revision is gone.
    """
    before, gate = seen.status, seen.rollout.spec.autoscaling
    if gate is None or not _passes(seen, after) or seen.rollout.spec.replicas == 0:
        return []
    if not before.stable_revision or not exists(seen, before.stable_revision):
        return []
    let_pass = {each.passes for each in after.commands if each.promotes(before)}
    if let_pass & {None, before.step_index}:
        return []
    answer = seen.autoscaling
    if answer is None or seen.now_s - answer.at_s > OLD_S:
        return [Violation("S21", "a step is done without an answer about the load")]
    return [Violation("S21", f"a step is done although {why}") for why in _against(seen, gate, answer)]


def _passes(seen: Snapshot, after: RolloutStatus) -> bool:
    """Whether the same update goes through a gate of this kind with this record."""
    before = seen.status
    same = (before.current_revision, before.strategy_hash, before.attempt, before.abort)
    if same != (after.current_revision, after.strategy_hash, after.attempt, after.abort):
        return False
    match seen.rollout.spec.strategy:
        case Canary():
            forward = after.step_index > before.step_index or promoted(before, after)
            return forward and not before.gate_passed
        case BlueGreen():
            return after.gate_passed and not before.gate_passed


def _against(seen: Snapshot, gate: AutoscalingGate, answer: AutoscalingSeen) -> Iterator[str]:
    if gate.settled or gate.min_headroom_percent is not None:
        if not answer.autoscalers:
            yield "no autoscaler was seen"
        for each in answer.autoscalers or ():
            yield from _of_autoscaler(seen, gate, each)
    new = next((each for each in seen.replica_sets if each.revision == seen.status.current_revision), None)
    if gate.container is None or new is None or new.spec_replicas == 0:
        return
    use = (answer.use or {}).get(new.revision)
    if use is None or use.measured < use.pods or not use.pods or use.used is None or not use.requested:
        yield "the use of its container is not known"
    elif not 0 <= 100 * use.used / use.requested <= gate.container.max_utilization_percent:
        yield f"its container uses {use.used} of {use.requested}"
    elif (use.oldest_at_s or 0.0) < _began_s(seen.status):
        yield "its container was last measured before the step"


def _began_s(status: RolloutStatus) -> float:
    """When the step began. A wait that began before its step shows that the clock was set back in between."""
    began_s = status.step_started_at_s or 0.0
    return began_s if status.waiting_for is None else min(began_s, status.waiting_for.since_s)


def _of_autoscaler(seen: Snapshot, gate: AutoscalingGate, each: AutoscalerSeen) -> Iterator[str]:
    if each.scaling_active.status is not True or each.able_to_scale.status is False or not each.observed:
        yield f"autoscaler {each.name} does nothing"
    if gate.settled and {each.current, each.desired} != {seen.rollout.spec.replicas}:
        yield f"autoscaler {each.name} wants {each.desired}"
    if gate.settled and not each.min_replicas <= (each.desired or 0) <= each.max_replicas:
        yield f"autoscaler {each.name} wants {each.desired}, which its bounds forbid"
    room, percent = each.max_replicas - (each.desired or 0), gate.min_headroom_percent
    if percent is not None and 100 * room < percent * each.max_replicas:
        yield f"autoscaler {each.name} has room for {room}"
