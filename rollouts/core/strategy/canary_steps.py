"""The current step of a canary: its gates, its pauses, and what the steps ask for."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary, judged_step
from rollouts.core.model.status import RolloutStatus, analysis_of
from rollouts.core.model.steps import Analyze, Pause, PauseUntilPromoted, RunExperiment, SetWeight, WeightPercent
from rollouts.core.model.traffic import ALL_TO_STABLE, Split
from rollouts.core.routing.routes import asked_split
from rollouts.core.scale.canary_sizes import wanted_canary
from rollouts.core.strategy.autoscaling import waits_at_gate
from rollouts.core.strategy.experiment_traffic import experiment_shares
from rollouts.core.strategy.guards import is_judged

AnyPause: TypeAlias = Pause | PauseUntilPromoted


class StepGoal(Struct, frozen=True, kw_only=True):
    """What the steps ask for in one pass; by default nothing, before the first step.

    Args:
        is_last: this is the last step; after it the revision gets all traffic.
        canary_replicas: pods of the new revision beside a stable one.
    """

    at_end: bool = False
    is_last: bool = False
    weight_percent: WeightPercent = 0
    split: Split = ALL_TO_STABLE
    canary_replicas: int = 0
    pause: AnyPause | None = None
    analyzes: bool = False


class LowerWeight(Struct, frozen=True):
    """Where a canary goes back to.

    Args:
        step_index: the step that is done again when the update goes forward.
        weight_percent: the weight until then.
    """

    step_index: int
    weight_percent: WeightPercent


def one_weight_back(strategy: Canary, status: RolloutStatus) -> LowerWeight:
    """The latest weight of the steps so far that is below the present one, 0 when there is none.

    The step to do again is the one that has set the present weight. After the last step, which has set the weight 100, it is the
    last step. Without a weight so far it is the present step. A weight that waits for its analysis is not set yet.
    """
    judged, back = judged_step(strategy, status.step_index), status.stepped_back
    record = analysis_of(status, judged[0]) if judged is not None else None
    is_set = judged is None or (record is not None and record.opens)
    steps = strategy.steps[: status.step_index + is_set]
    weights = [(index, step.weight_percent) for index, step in enumerate(steps) if isinstance(step, SetWeight)]
    present: WeightPercent = weights[-1][1] if weights else 0
    if status.step_index >= len(strategy.steps):
        present = 100
    if back is not None and back.back_to_percent is not None:
        present = min(present, back.back_to_percent)
    set_by = (index for index, weight in weights if weight == present)
    again = max(set_by, default=max(0, min(status.step_index, len(strategy.steps) - 1)))
    lower = [weight for index, weight in weights if index <= again and weight < present]
    return LowerWeight(again, lower[-1] if lower else 0)


def step_goal(ctx: PassContext, strategy: Canary) -> StepGoal:
    """The goal of the current step."""
    index = ctx.status.step_index
    step = strategy.steps[index] if index < len(strategy.steps) else None
    weight_percent = asked_weight(ctx, strategy)
    split = asked_split(strategy, index, weight_percent)
    if isinstance(step, RunExperiment) and step.weights:
        split = replace(split, experiments=experiment_shares(ctx, step))
    return StepGoal(
        at_end=index >= len(strategy.steps),
        is_last=index == len(strategy.steps) - 1,
        weight_percent=weight_percent,
        split=split,
        canary_replicas=wanted_canary(ctx, strategy, weight_percent, split),
        pause=step if isinstance(step, AnyPause) else None,
        analyzes=isinstance(step, Analyze | RunExperiment)
        or (isinstance(step, SetWeight) and step.before is not None and is_kept_low(ctx)),
    )


def is_kept_low(ctx: PassContext) -> bool:
    """Whether the current step, a `setWeight` with an analysis before it, waits for the verdict."""
    return not is_judged(ctx, AnalysisGate(AnalysisKind.STEP, ctx.status.step_index))


def gate_index(status: RolloutStatus, strategy: Canary) -> int | None:
    """Index of the current step if the revision may be promoted there: a pause, or one that waits for the autoscaler.

    None at others, and after an abort.
    """
    if status.abort is not None:
        return None
    at_a_gate = pause_at(strategy, status.step_index) is not None or waits_at_gate(status)
    return status.step_index if at_a_gate else None


def next_gate_index(status: RolloutStatus, strategy: Canary) -> int | None:
    """Index of the current or the next step at which the revision may be promoted; None when no pause is left."""
    ahead = range(status.step_index, len(strategy.steps))
    return next((index for index in ahead if pause_at(strategy, index) is not None), None)


def pause_at(strategy: Canary, index: int) -> AnyPause | None:
    """The step of that index, if it is a pause; None for any other step, and after the last step."""
    step = strategy.steps[index] if index < len(strategy.steps) else None
    return step if isinstance(step, AnyPause) else None


def pause_end_s(ctx: PassContext, pause: AnyPause | None) -> float | None:
    """When the current pause is over; None without a pause, for one without an end, and while the update is aborted or paused."""
    if ctx.aborted or ctx.paused or not isinstance(pause, Pause):
        return None
    return (ctx.status.step_started_at_s or ctx.now_s) + pause.duration_s


def asked_weight(ctx: PassContext, strategy: Canary) -> WeightPercent:
    """The weight that the steps ask for: the latest `setWeight` so far, 0 before the first, 100 after the last step.

    Without a stable revision it is 100, and after an abort 0. While a person pauses the Rollout, it does not rise. A `setWeight`
    whose analysis has not succeeded asks for nothing yet.
    """
    if ctx.stable is None:
        return 100
    if ctx.aborted:
        return 0
    index = ctx.status.step_index
    wanted: WeightPercent = 0
    for at, step in enumerate(strategy.steps[: index + 1]):
        if isinstance(step, SetWeight) and not (at == index and step.before is not None and is_kept_low(ctx)):
            wanted = step.weight_percent
    if index >= len(strategy.steps):
        wanted = 100
    back = ctx.stepped_back if ctx.status.analyses else None
    if back is not None and back.back_to_percent is not None:
        wanted = min(wanted, back.back_to_percent)
    return min(wanted, ctx.status.weight_percent or 0) if ctx.paused else wanted
