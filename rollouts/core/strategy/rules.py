"""Chooses the rules for a Rollout's strategy: the one place in this package that tells the strategies apart."""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.lifecycle.verbs import Gates
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy
from rollouts.core.model.status import RolloutStatus
from rollouts.core.strategy import blue_green, canary, canary_steps
from rollouts.core.strategy.beginning import closed_gate, prerequisites
from rollouts.core.strategy.guards import held_gate, measured_gate
from rollouts.core.strategy.skeleton import StrategyRules


def rules_of(ctx: PassContext) -> StrategyRules:
    """The rules of the spec's strategy for this pass."""
    has_pods = ctx.new is not None and ctx.new.spec_replicas > 0  # as in most passes
    held = None if has_pods else prerequisites(ctx)
    if held is None and ctx.spec.strategy.before_update is not None:
        held = closed_gate(ctx)
    match ctx.spec.strategy:
        case Canary() as strategy:
            goal = canary_steps.step_goal(ctx, strategy) if held is None else canary_steps.StepGoal()
            return canary.CanaryRules(strategy=strategy, step=goal, held=held)
        case BlueGreen() as strategy:
            return blue_green.BlueGreenRules(strategy, held)


def gates_of(strategy: Strategy, status: RolloutStatus) -> Gates:
    """Where the current revision may be promoted."""
    held, measures = held_gate(strategy, status), measured_gate(strategy, status)
    match strategy:
        case Canary():
            at, ahead = canary_steps.gate_index(status, strategy), canary_steps.next_gate_index(status, strategy)
        case BlueGreen():
            at, ahead = blue_green.gate_index(status), blue_green.GATE
    return Gates(at=at, ahead=ahead, held=held, measures=measures)
