"""What no record of a verdict may break: S7 and S10 of the project's invariants."""

from __future__ import annotations

import math

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, AnalysisRecord
from rollouts.core.model.intents import Decision, RemoveAnnotation
from rollouts.core.model.rollout import BlueGreen, Canary, analyses
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus, Verb
from rollouts.core.model.steps import Analyze
from tests.invariants.violation import Violation, grows, promoted


def evidence_comes_before_promotion(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: what becomes stable has a recorded success of each analysis that belongs to no step, or a person passed the verdict.

    A revision that skips its steps, the first one, one of 0 replicas, and one that somebody promoted in full are not analysed.
    Steps are judged when they are passed. When the stable ReplicaSet is gone a preview gets the traffic at once, as nothing else
    serves.
    """
    before, strategy = seen.status, seen.rollout.spec.strategy
    if not promoted(before, after) or not before.stable_revision or _skipped(seen) or _in_full(before, after):
        return []
    alone = not any(each.revision == before.stable_revision and not each.deleting for each in seen.replica_sets)
    needed = [
        gate
        for gate in analyses(strategy)
        if gate.step is None and not (alone and gate.kind is AnalysisKind.PRE_PROMOTION)
    ]
    lacking = [str(gate) for gate in needed if not _passed(before, gate)]
    return [Violation("S7", f"promoted without evidence: {', '.join(lacking)}")] if lacking else []


def an_analysis_step_needs_its_verdict(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: a step that is an analysis is done only with the verdict on record."""
    before, strategy = seen.status, seen.rollout.spec.strategy
    same = (before.current_revision, before.strategy_hash, before.attempt) == (
        *(after.current_revision, after.strategy_hash, after.attempt),
    )
    if not isinstance(strategy, Canary) or not same or after.step_index <= before.step_index:
        return []
    if _in_full(before, after) or seen.rollout.spec.replicas == 0:
        return []
    step = strategy.steps[before.step_index]
    if not isinstance(step, Analyze) or _passed(before, AnalysisGate(AnalysisKind.STEP, before.step_index)):
        return []
    return [Violation("S7", f"step {before.step_index} was passed without a verdict")]


def verdicts_are_what_runs_say(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: a verdict is that of its own run, which began in this attempt. It stays as recorded, and only a person passes it."""
    found = []
    known = {each.run: each for each in seen.status.analyses}
    for each in after.analyses:
        before = known.get(each.run)
        if before is not None and before.phase.over and (each.phase, each.message) != (before.phase, before.message):
            found.append(Violation("S7", f"the verdict of {each.run} changes: {before.phase} → {each.phase}"))
        if each.phase.over and (before is None or not before.phase.over):
            found += _unproven(seen, each)
        if each.passed and (before is None or not before.passed) and not _somebody_promoted(after):
            found.append(Violation("S7", f"{each.gate}: nobody promoted it past its verdict"))
    return found


def verdicts_are_alone(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S10: nothing that follows from a verdict is written before the verdict is; an abort may let the stable revision grow."""
    before = {each.run for each in seen.status.analyses if each.phase.over}
    fresh = [each for each in decision.status.analyses if each.phase.over and each.run not in before]
    stable = decision.status.stable_revision
    acts = [
        each
        for each in decision.intents
        if not isinstance(each, RemoveAnnotation) and not grows(seen, each, revision=stable)
    ]
    return [Violation("S10", f"a verdict is not written alone: {acts}")] if fresh and acts else []


def _unproven(seen: Snapshot, record: AnalysisRecord) -> list[Violation]:
    run = next((each for each in seen.runs if each.name == record.run), None)
    if run is None or run.phase is not record.phase:
        return [Violation("S7", f"{record.run} is recorded as {record.phase}, and says {run and run.phase}")]
    began_s = math.floor(seen.status.started_at_s or 0.0)  # a creationTimestamp has whole seconds
    if run.revision != seen.status.current_revision or run.created_at_s < began_s:
        return [Violation("S7", f"{record.run} is about another revision or attempt")]
    return []


def _passed(status: RolloutStatus, gate: AnalysisGate) -> bool:
    return any(
        each.gate == gate and (each.phase is AnalysisPhase.SUCCESSFUL or each.passed) for each in status.analyses
    )


def _skipped(seen: Snapshot) -> bool:
    status = seen.status
    if seen.rollout.spec.replicas == 0:  # nothing is served
        return True
    if isinstance(seen.rollout.spec.strategy, BlueGreen):
        return status.gate_passed and status.gate_started_at_s is None
    return status.gate_passed


def _in_full(before: RolloutStatus, after: RolloutStatus) -> bool:
    return any(each.promotes(before) and each.passes is None for each in (*before.commands, *after.commands))


def _somebody_promoted(after: RolloutStatus) -> bool:
    return any(each.verb is Verb.PROMOTE and each.refusal is None for each in after.commands)
