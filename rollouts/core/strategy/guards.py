"""Which analyses guard an update now: the one place that knows when in an update each of them counts.

Source of the moments: Argo Rollouts' features/analysis. A revision that skips its steps (the first one, the stable one, one
within `rollbackWindow`) is not analysed, nor is one that somebody promoted in full. One of 0 replicas is, as soon as it has pods:
otherwise whoever switches a Rollout off overnight, or an autoscaler that finds no requests, would promote what nobody has judged
(docs/decisions/0066-an-analysis-waits-for-pods.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.analysis import Analysis, AnalysisGate, AnalysisKind, AnalysisRecord
from rollouts.core.model.rollout import BlueGreen, Strategy, judged_step
from rollouts.core.model.status import RolloutStatus, analysis_of

BACKGROUND = AnalysisGate(AnalysisKind.BACKGROUND)
PRE_PROMOTION = AnalysisGate(AnalysisKind.PRE_PROMOTION)
POST_PROMOTION = AnalysisGate(AnalysisKind.POST_PROMOTION)
BEFORE_UPDATE = AnalysisGate(AnalysisKind.BEFORE_UPDATE)


def guarding(ctx: PassContext) -> Mapping[AnalysisGate, Analysis]:
    """The analyses that count now, by their gates; none while no update is under way, and after an abort."""
    status = ctx.status
    finished = status.stable_revision in ("", status.current_revision)
    if finished or ctx.aborted or None in ctx.passed:
        return {}
    return _analyses(ctx.spec.strategy, status)


def is_judged(ctx: PassContext, gate: AnalysisGate) -> bool:
    """Whether nothing needs to be measured at the gate any more: the verdict is on record, or no analysis guards it."""
    record = analysis_of(ctx.recorded, gate)
    return (record is not None and record.opens) or gate not in guarding(ctx)


def guarding_gates(ctx: PassContext) -> tuple[AnalysisGate, ...]:
    """The gates of the analyses that count now; first that of a verdict that took the weight back, which holds at any step."""
    back, gates = ctx.stepped_back, tuple(guarding(ctx))
    return gates if back is None else (back.gate, *(gate for gate in gates if gate != back.gate))


def held_gate(strategy: Strategy, status: RolloutStatus) -> AnalysisGate | None:
    """The gate with a verdict that only a person can pass; none after an abort.

    A verdict that took the weight back comes first: it holds at any step, whatever the spec says by now.
    """
    if status.stepped_back is not None:  # never after an abort
        return status.stepped_back.gate
    return next((record.gate for record in _records(strategy, status) if record.held), None)


def measured_gate(strategy: Strategy, status: RolloutStatus) -> AnalysisGate | None:
    """The gate that waits for the verdict of a run; none for the background, which no gate waits for alone."""
    measured = (record.gate for record in _records(strategy, status) if not record.settled)
    return next((gate for gate in measured if gate != BACKGROUND), None)


def _records(strategy: Strategy, status: RolloutStatus) -> Iterator[AnalysisRecord]:
    """The records of the analyses that count now; none after an abort."""
    if status.abort is None and status.analyses:
        for gate in _analyses(strategy, status):
            if (record := analysis_of(status, gate)) is not None:
                yield record


def _analyses(strategy: Strategy, status: RolloutStatus) -> dict[AnalysisGate, Analysis]:
    analyses = dict[AnalysisGate, Analysis]()
    at_first_step = status.step_index == 0 and status.gate_started_at_s is None and not status.gate_passed
    if strategy.before_update is not None and at_first_step:
        analyses[BEFORE_UPDATE] = strategy.before_update
    if isinstance(strategy, BlueGreen):
        gate, analysis = PRE_PROMOTION, strategy.pre_promotion
        if status.gate_passed:
            gate, analysis = POST_PROMOTION, strategy.post_promotion
        skipped = status.gate_passed and status.gate_started_at_s is None
        return analyses if analysis is None or skipped else analyses | {gate: analysis}
    if status.gate_passed:  # it began with its steps skipped
        return {}
    index = status.step_index
    if strategy.analysis is not None and index >= min(strategy.analysis.starting_step, len(strategy.steps)):
        analyses[BACKGROUND] = strategy.analysis
    if (judged := judged_step(strategy, index)) is not None:
        analyses.update((judged,))
    return analyses
