"""What no record of a verdict may break: S7 and S10 of the project's invariants."""

from __future__ import annotations

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, AnalysisRecord, OnFailure, RunSeen
from rollouts.core.model.intents import Decision, RemoveAnnotation
from rollouts.core.model.rollout import BlueGreen, Canary, analyses
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus, Verb
from rollouts.core.model.steps import SetWeight
from rollouts.core.model.traffic import RouteSeen
from tests.invariants.violation import Violation, exists, grows, promoted

FORGED = "forged"
"""How the uid begins of what a tenant of a random world makes, and the hash of what he writes."""


def evidence_comes_before_promotion(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: what becomes stable has a recorded success of each analysis that belongs to no step, or a person passed the verdict.

    A revision that skips its steps, the first one, and one that somebody promoted in full are not analysed.
    Steps are judged when they are passed, and what is measured before a promotion when its gate is: the command of who promoted
    in full may be gone by now. When the stable ReplicaSet is gone a preview gets the traffic at once, as nothing else serves.
    """
    before, strategy = seen.status, seen.rollout.spec.strategy
    if not promoted(before, after) or not before.stable_revision or _skipped(seen) or _in_full(before, after):
        return []
    gone_through = before.gate_passed or not exists(seen, before.stable_revision)
    needed = [
        gate
        for gate in analyses(strategy)
        if gate.step is None
        and gate.kind is not AnalysisKind.BEFORE_UPDATE  # it is about the first pod: see `beginnings.py`
        and not (gone_through and gate.kind is AnalysisKind.PRE_PROMOTION)
    ]
    lacking = [str(gate) for gate in needed if not is_passed(before, gate)]
    return [Violation("S7", f"promoted without evidence: {', '.join(lacking)}")] if lacking else []


def a_gate_needs_its_verdict(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: blue-green: the preview may take the traffic once what is measured before a promotion has a success on record."""
    before, strategy = seen.status, seen.rollout.spec.strategy
    passes = after.gate_passed and not before.gate_passed and _update_of(before) == _update_of(after)
    if not isinstance(strategy, BlueGreen) or not passes or _in_full(before, after):
        return []
    if not exists(seen, before.stable_revision):
        return []
    gates = [each for each in analyses(strategy) if each.kind is AnalysisKind.PRE_PROMOTION]
    return [Violation("S7", f"{each} was passed without a verdict") for each in gates if not is_passed(before, each)]


def an_analysis_step_needs_its_verdict(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: a step that is an analysis, or an experiment, or has an analysis before it, is done only with the verdict on record."""
    before, strategy = seen.status, seen.rollout.spec.strategy
    same = (before.current_revision, before.strategy_hash, before.attempt) == (
        *(after.current_revision, after.strategy_hash, after.attempt),
    )
    if not isinstance(strategy, Canary) or not same or after.step_index <= before.step_index:
        return []
    if _in_full(before, after):
        return []
    gates = [each for each in analyses(strategy) if each.step == before.step_index and not is_passed(before, each)]
    return [Violation("S7", f"step {before.step_index} was passed without a verdict") for _ in gates]


def no_weight_rises_before_its_verdict(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: the weight of a step with an analysis before it is neither on record nor wished of routes without a success."""
    before, strategy = seen.status, seen.rollout.spec.strategy
    if not isinstance(strategy, Canary) or after.step_index >= len(strategy.steps) or after.abort is not None:
        return []
    step = strategy.steps[after.step_index]
    passed = is_passed(
        after if _update_of(before) == _update_of(after) else RolloutStatus(), _at_step(after.step_index)
    )
    unguarded = not isinstance(step, SetWeight) or step.before is None or passed
    finished = after.stable_revision in ("", after.current_revision) or not exists(seen, after.stable_revision)
    if unguarded or finished or _in_full(before, after):
        return []
    wished = before.traffic.desired_percent if before.traffic is not None else 0
    wishes = after.traffic.desired_percent if after.traffic is not None else 0
    routes = [each.split.share * 100 for each in seen.routes.values() if isinstance(each, RouteSeen) and each.split]
    weight = after.weight_percent or 0
    if weight > (before.weight_percent or 0) or wishes > max(weight, wished, *routes):
        return [Violation("S7", f"step {after.step_index} has no verdict, and the weight rises to {weight}, {wishes}")]
    return []


def _at_step(index: int) -> AnalysisGate:
    return AnalysisGate(AnalysisKind.STEP, index)


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
        if each.passed and (before is None or not before.passed):
            found += _passed_by_nobody(after, each)
    if _begins_anew(seen.status, after):
        goes_on = seen.status.abort is None and seen.status.current_revision == after.current_revision
        begun = [each.run for each in after.analyses if goes_on and each.gate.kind is AnalysisKind.BEFORE_UPDATE]
        kept = [each.run for each in after.analyses if each.run in known and each.run not in begun]
        found += [Violation("S7", f"{run} was measured before this attempt") for run in kept]
    return found


def _begins_anew(before: RolloutStatus, after: RolloutStatus) -> bool:
    """Whether verdicts are needed again. Other steps for a revision that is stable already ask for none."""
    if (after.attempt, after.current_revision, after.started_at_s) != (
        *(before.attempt, before.current_revision, before.started_at_s),
    ):
        return True
    return after.strategy_hash != before.strategy_hash and before.stable_revision != before.current_revision


def what_was_passed_without_a_verdict_stays_so(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: the record of an analysis that a person passed while it measured says who, and gets no verdict afterwards."""
    unjudged = {each.run: each for each in seen.status.analyses if each.passed and not each.phase.over}
    changed = [each for each in after.analyses if each.run in unjudged and each != unjudged[each.run]]
    return [Violation("S7", f"{each.run} was passed without a verdict, and becomes {each}") for each in changed]


def a_failure_that_steps_back_stays_back(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: with `onFailure: stepBack` the weight stays at the one before, until a person promotes, retries or aborts."""
    before = seen.status
    if _update_of(before) != _update_of(after) or before.abort is not None or after.abort is not None:
        return []
    back = _back(before)
    if after.attempt != before.attempt:
        return _went_on_by_itself(before, after)
    if back is None or _in_full(before, after) or not exists(seen, before.stable_revision):
        return []
    held, kept = _back(after), back.back_to_percent or 0
    if held is None or (held.back_to_percent or 0) > kept or after.step_index > before.step_index:
        return [
            Violation("S7", f"{back.gate} holds at {kept} %, and the update goes on: {held}, step {after.step_index}")
        ]
    routes = [each.split.share * 100 for each in seen.routes.values() if isinstance(each, RouteSeen) and each.split]
    wished = before.traffic.desired_percent if before.traffic is not None else 0
    wishes = after.traffic.desired_percent if after.traffic is not None else 0
    # What somebody has set by hand comes back only as stable pods can take it.
    if (after.weight_percent or 0) > max(kept, before.weight_percent or 0) or wishes > max(kept, wished, *routes):
        return [Violation("S7", f"the weight grows past {kept} % while {back.gate} holds it there")]
    return []


def steps_back_by_one_weight(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: a failed verdict goes back where the spec says so, and only then: to a weight of an earlier step, or to 0."""
    before, strategy = seen.status, seen.rollout.spec.strategy
    known = {each.run for each in before.analyses if each.phase.over}
    found = []
    for each in after.analyses:
        analysis = analyses(strategy).get(each.gate)
        if each.run in known or not each.phase.over or analysis is None:
            continue
        bad = {AnalysisPhase.FAILED, AnalysisPhase.ERROR} if _is_experiment(each.gate) else {AnalysisPhase.FAILED}
        goes_back = each.phase in bad and analysis.on_failure is OnFailure.STEP_BACK
        if goes_back is not (each.back_to_percent is not None):
            found.append(Violation("S7", f"{each.gate} ended {each.phase}: {analysis.on_failure}, {each}"))
        if goes_back and isinstance(strategy, Canary):
            found += _far_back(before, after, strategy, each)
    return found


def _is_experiment(gate: AnalysisGate) -> bool:
    return gate.kind is AnalysisKind.EXPERIMENT


def a_bad_experiment_aborts(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7: an Experiment that failed, or was not carried out, ends the update, unless the spec says otherwise."""
    known = {each.run for each in seen.status.analyses if each.phase.over}
    fresh = [each for each in after.analyses if _is_experiment(each.gate) and each.run not in known]
    bad = [each for each in fresh if each.phase in (AnalysisPhase.FAILED, AnalysisPhase.ERROR)]
    strategy = analyses(seen.rollout.spec.strategy)
    aborts = [each for each in bad if each.gate in strategy and strategy[each.gate].on_failure is OnFailure.ABORT]
    if after.abort is not None:
        return []
    return [Violation("S7", f"{each.gate} ended {each.phase}, and the update goes on") for each in aborts]


def _far_back(before: RolloutStatus, after: RolloutStatus, strategy: Canary, record: AnalysisRecord) -> list[Violation]:
    weights = [
        (at, each) for at, each in enumerate(strategy.steps[: before.step_index + 1]) if isinstance(each, SetWeight)
    ]
    asked = before.step_index if not is_passed(before, _at_step(before.step_index)) else None
    so_far = [each.weight_percent for at, each in weights if each.before is None or at != asked]
    in_force = 100 if before.step_index >= len(strategy.steps) else so_far[-1] if so_far else 0
    lower = [weight for weight in so_far if weight < in_force]
    earlier = _back(before)
    wanted = {lower[-1] if lower else 0} if earlier is None else {0, *so_far}
    if record.back_to_percent not in wanted or after.step_index > before.step_index:
        return [Violation("S7", f"from {in_force} % back to {record.back_to_percent} %, step {after.step_index}")]
    return []


def _went_on_by_itself(before: RolloutStatus, after: RolloutStatus) -> list[Violation]:
    """A new attempt without an abort is what a person asked for, and nothing measured before counts in it."""
    asked = any(each.verb in (Verb.PROMOTE, Verb.RETRY) and each.refusal is None for each in after.commands)
    if _back(before) is None or not asked or after.analyses:
        return [Violation("S7", f"attempt {after.attempt} began, and nobody asked for it: {after.analyses}")]
    return []


def _back(status: RolloutStatus) -> AnalysisRecord | None:
    backs = (each for each in status.analyses if each.phase.bad and not each.passed)
    return next((each for each in backs if each.back_to_percent is not None), None)


def _update_of(status: RolloutStatus) -> tuple[object, ...]:
    return status.current_revision, status.strategy_hash, status.started_at_s


def verdicts_are_alone(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S10: nothing that follows from a verdict is written before the verdict is; an abort may let the stable revision grow."""
    before = {each.run for each in seen.status.analyses if each.phase.over}
    passed = {each.run for each in seen.status.analyses if each.passed}
    fresh = [
        each
        for each in decision.status.analyses
        if (each.phase.over and each.run not in before) or (each.passed and each.run not in passed)
    ]
    stable = decision.status.stable_revision
    acts = [
        each
        for each in decision.intents
        if not isinstance(each, RemoveAnnotation) and not grows(seen, each, revision=stable)
    ]
    return [Violation("S10", f"a verdict is not written alone: {acts}")] if fresh and acts else []


def _unproven(seen: Snapshot, record: AnalysisRecord) -> list[Violation]:
    known = next((each for each in seen.status.analyses if each.run == record.run), None)
    run = next((each for each in seen.runs if each.name == record.run), None)
    if (
        record.phase is AnalysisPhase.INCONCLUSIVE
        and record.message.startswith("no verdict within")
        and known is not None
    ):
        within_s = _within_s(seen, record.gate)
        if within_s is None or seen.now_s < known.at_s + within_s:
            return [Violation("S7", f"{record.run} is given up before its deadline, {within_s} s after {known.at_s}")]
        return []
    if run is None or run.phase is not record.phase:
        return [Violation("S7", f"{record.run} is recorded as {record.phase}, and says {run and run.phase}")]
    if known is None or not known.uid or (known.uid, known.spec_hash) != (run.uid, run.spec_hash) or is_forged(run):
        return [Violation("S7", f"{record.run} is recorded as {record.phase}, and somebody else made or edited it")]
    if run.revision != seen.status.current_revision:
        return [Violation("S7", f"{record.run} is about another revision")]
    return []


def _within_s(seen: Snapshot, gate: AnalysisGate) -> float | None:
    analysis = analyses(seen.rollout.spec.strategy).get(gate)
    return None if analysis is None else analysis.deadline_s


def is_forged(run: RunSeen) -> bool:
    """Whether somebody else has made the run, or written its spec, in a world of the tests: they mark what they forge."""
    return FORGED in (run.uid.split("-")[0], run.spec_hash) or run.generation > 2


def is_passed(status: RolloutStatus, gate: AnalysisGate) -> bool:
    return any(
        each.gate == gate and (each.phase is AnalysisPhase.SUCCESSFUL or each.passed) for each in status.analyses
    )


def _skipped(seen: Snapshot) -> bool:
    status = seen.status
    if isinstance(seen.rollout.spec.strategy, BlueGreen):
        return status.gate_passed and status.gate_started_at_s is None
    return status.gate_passed


def _in_full(before: RolloutStatus, after: RolloutStatus) -> bool:
    return any(each.promotes(before) and each.passes is None for each in (*before.commands, *after.commands))


def _passed_by_nobody(after: RolloutStatus, record: AnalysisRecord) -> list[Violation]:
    """A verdict is passed by a promotion; an analysis without one only by a promotion that names it and says so."""
    promotions = [each for each in after.commands if each.verb is Verb.PROMOTE and each.refusal is None]
    if record.phase.over:
        able = [each for each in promotions if not each.unjudged]
        return [] if able else [Violation("S7", f"{record.gate}: nobody promoted it past its verdict")]
    gate = record.gate
    able = [each for each in promotions if each.unjudged and (each.analysis, each.step) == (gate.kind, gate.step)]
    told = [each for each in able if record.message == f"passed without a verdict{each.by_whom}"]
    if not told or gate.kind is AnalysisKind.BACKGROUND:
        return [Violation("S7", f"{gate} is passed without a verdict, and the record is {record}: {able}")]
    return []
