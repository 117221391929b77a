"""Where a canary stands in its steps: its gates, its pauses, and the weight that the steps ask for."""

from __future__ import annotations

from typing import assert_never

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import (
    MatchTrafficWeight,
    Pause,
    PauseUntilPromoted,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetHeaderRoute,
    SetMirrorRoute,
    SetWeight,
    WeightPercent,
)


def gate_index(status: RolloutStatus, strategy: Canary) -> int | None:
    """The step at which the current revision stands and may be promoted; None when it stands at none."""
    at_a_gate = status.abort is None and pause_at(strategy, status.step_index) is not None
    return status.step_index if at_a_gate else None


def next_gate_index(status: RolloutStatus, strategy: Canary) -> int | None:
    """The step at which the current revision stands or will stand next and may be promoted; None when there is none."""
    ahead = range(status.step_index, len(strategy.steps))
    return next((index for index in ahead if pause_at(strategy, index) is not None), None)


def pause_at(strategy: Canary, index: int) -> Pause | PauseUntilPromoted | None:
    """The step of that index when it is a pause; None when it is another one, and after the last."""
    if index >= len(strategy.steps):
        return None
    match strategy.steps[index]:
        case Pause() | PauseUntilPromoted() as pause:
            return pause
        case (
            SetWeight()
            | SetCanaryReplicas()
            | SetCanaryScalePercent()
            | MatchTrafficWeight()
            | SetHeaderRoute()
            | SetMirrorRoute()
        ):
            return None
        case never:
            assert_never(never)


def pause_end_s(ctx: PassContext, strategy: Canary) -> float | None:
    """When the timed pause at which the update stands is over; None for none, and while nobody counts it."""
    pause = pause_at(strategy, ctx.status.step_index)
    if ctx.aborted or ctx.paused or not isinstance(pause, Pause):
        return None
    return (ctx.status.step_started_at_s or ctx.now_s) + pause.duration_s


def asked_weight(ctx: PassContext, strategy: Canary) -> WeightPercent:
    """The latest `setWeight` at or before the current step; 0 before the first, 100 after the last step; a pause raises none."""
    if ctx.stable is None:
        return 100
    if ctx.aborted:
        return 0
    index = ctx.status.step_index
    steps = strategy.steps[: index + 1]
    wanted = next((step.weight_percent for step in reversed(steps) if isinstance(step, SetWeight)), 0)
    if index >= len(strategy.steps):
        wanted = 100
    return min(wanted, ctx.status.weight_percent or 0) if ctx.paused else wanted
