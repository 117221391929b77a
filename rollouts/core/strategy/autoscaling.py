"""The gate `spec.autoscaling`: what a step, or a promotion, waits for at its end.

The autoscaler must have settled and have headroom, and one container of the new revision must use no more than allowed. Only what
was seen after the step's pods and traffic were there counts: before that, nobody had measured what the step changed. No evidence
is never a pass.

An HPA of a Rollout sets `spec.replicas`. It averages over all pods of the selector, so usage is judged by revision here.
Source of the fields: Kubernetes pkg/controller/podautoscaler/horizontal.go; KEP-1610 for usage by container.
"""

from __future__ import annotations

import math

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import AT_AUTOSCALING_GATE, Wait, pods_text
from rollouts.core.model.autoscaling import (
    LOOK_S,
    AutoscalerSeen,
    AutoscalingGate,
    AutoscalingSeen,
    ContainerLimit,
    ContainerMetric,
    ContainerUse,
)
from rollouts.core.model.intents import AskAutoscaling
from rollouts.core.model.limits import ceil_percent
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import is_in_place
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import SetWeight
from rollouts.core.scale.settling import headroom_percent, lacking_word, unsettled

POLL_S = 15.0
"""Seconds from one question to the next: metrics-server measures, and the HPA controller looks, every 15 s."""

FRESH_S = 3 * POLL_S
"""An answer that is older says nothing about now."""

TOLERANCE = 0.1
"""An HPA does not scale for a smaller difference (`--horizontal-pod-autoscaler-tolerance`)."""


def gate_wait(ctx: PassContext, *, since_s: float) -> Wait | None:
    """What the gate waits for; None when it lets the update go on, or does not count now.

    Args:
        since_s: evidence from before this time does not count.
    """
    gate, status, seen = ctx.spec.autoscaling, ctx.status, ctx.seen.autoscaling
    if gate is None or status.stable_revision in ("", status.current_revision):
        return None
    if any((status.gate_passed, ctx.promoted_full, ctx.spec.replicas == 0, ctx.aborted, ctx.paused)):
        return None
    if seen is None or seen.at_s < since_s or ctx.now_s - seen.at_s > FRESH_S:
        return Wait(
            Reason.AUTOSCALING_UNKNOWN, "waiting for what the autoscaler and the containers show since this step"
        )
    wait = _container_wait(ctx, gate, seen, since_s=since_s)
    if wait is not None or (gate.settled, gate.min_headroom_percent) == (False, None):
        return wait
    if seen.autoscalers is None:
        why = seen.message or "the API server gave no answer"
        return _unknown(ctx, f"it is not known whether the autoscaler has settled: {why}")
    if not seen.autoscalers:
        has_pods = ctx.spec.workload_ref if is_in_place(ctx.seen) else f"Rollout {ctx.seen.rollout.name}"
        missing = f"no HorizontalPodAutoscaler has {has_pods} as its scaleTargetRef, and spec.autoscaling needs one"
        return Wait(Reason.AUTOSCALER_NOT_FOUND, f"{missing}: create it, or ask for less; {_ways_out(ctx)}")
    waits = (_autoscaler_wait(ctx, gate, seen, autoscaler, since_s=since_s) for autoscaler in seen.autoscalers)
    return next((wait for wait in waits if wait is not None), None)


def waited_since_s(ctx: PassContext) -> float:
    """Since when the step waits at the gate for nothing else: its pods and its traffic have been there since then."""
    waiting = ctx.recorded.waiting_for
    here = ctx.recorded.step_index == ctx.status.step_index and ctx.durable
    return waiting.since_s if here and waiting is not None and waiting.reason in AT_AUTOSCALING_GATE else ctx.now_s


def waits_at_gate(status: RolloutStatus) -> bool:
    """Whether status says that the update waits at this gate, which a promotion passes."""
    return status.waiting_for is not None and status.waiting_for.reason in AT_AUTOSCALING_GATE


def autoscaling_question(ctx: PassContext, wait: Wait | None) -> Contribution:
    """Asks the gate's question every 15 s while the update waits there, and at no other time."""
    gate = ctx.spec.autoscaling
    if gate is None or wait is None or wait.reason not in AT_AUTOSCALING_GATE:
        return Contribution()
    seen = ctx.seen.autoscaling
    if seen is None or ctx.now_s - seen.at_s >= POLL_S:
        return Contribution(intents=(AskAutoscaling(gate),), wake_at_s=ctx.now_s + POLL_S)
    return Contribution(wake_at_s=seen.at_s + POLL_S)


# --- the container


def _container_wait(ctx: PassContext, gate: AutoscalingGate, seen: AutoscalingSeen, *, since_s: float) -> Wait | None:
    limit, new = gate.container, ctx.new
    if limit is None or new is None or new.spec_replicas == 0:
        return None
    what = f"container {limit.container} of revision {new.revision}"
    if seen.use is None:
        return _unknown(ctx, f"the use of {what} is not known: {seen.message or 'metrics.k8s.io gave no answer'}")
    use = seen.use.get(new.revision)
    lacking = _lacking(ctx, limit, use, since_s=since_s)
    if use is None or lacking or use.utilization_percent is None:
        return _unknown(ctx, f"{what} {lacking}")
    if use.utilization_percent <= limit.max_utilization_percent:
        return None
    used = f"uses {math.ceil(use.utilization_percent)} % of its {limit.resource} request"
    message = f"{what} {used} (limit {limit.max_utilization_percent} %); {_ways_out(ctx)}"
    return Wait(Reason.CONTAINER_OVER_LIMIT, message)


def _lacking(ctx: PassContext, limit: ContainerLimit, use: ContainerUse | None, *, since_s: float) -> str:
    """Why the use of a container is no evidence; "" when it is."""
    if use is None or use.pods == 0:
        return "has no ready pod that could be measured"
    pods = max(use.pods, ctx.new_available)
    if use.measured < pods or use.used is None:
        return f"was measured in {use.measured} of {pods_text(pods)}{f': {use.message}' if use.message else ''}"
    if use.requested is None or not 0 < use.requested < math.inf:
        return f"has no {limit.resource} request in each of its pods, which its use could be compared with"
    if not 0 <= use.used < math.inf:
        return f"has no {limit.resource} use that can be right: {use.used:g}"
    if use.oldest_at_s is None or use.oldest_at_s - use.window_s < since_s:
        return "was not measured in each of its pods since this step"
    return ""


# --- the autoscalers


def _autoscaler_wait(
    ctx: PassContext, gate: AutoscalingGate, seen: AutoscalingSeen, autoscaler: AutoscalerSeen, *, since_s: float
) -> Wait | None:
    """The wait until an autoscaler reports on the present load, and scales nothing, and is not too near its maximum."""
    name, most, percent = f"autoscaler {autoscaler.name}", autoscaler.max_replicas, gate.min_headroom_percent
    if lacking := lacking_word(autoscaler):
        return _unknown(ctx, f"{name} {lacking}")
    if seen.at_s < since_s + LOOK_S:
        message = f"{name} is given {LOOK_S:g} s to see what this step has changed"
        return Wait(Reason.AUTOSCALER_NOT_SETTLED, message, since_s + LOOK_S)
    if gate.settled:
        still = unsettled(autoscaler, now_s=ctx.now_s, replicas=ctx.spec.replicas)
        if still is not None:
            message = f"waiting for {name} to settle: {still.why}; {_ways_out(ctx)}"
            return Wait(Reason.AUTOSCALER_NOT_SETTLED, message, still.until_s)
    if autoscaler.scaling_limited.status and autoscaler.scaling_limited.reason == "TooManyReplicas":
        beyond = f"{name} wants more than its maximum of {pods_text(most)}: raise maxReplicas"
        return Wait(Reason.NO_HEADROOM, f"{beyond}; {_ways_out(ctx)}")
    pods, added = max(autoscaler.desired or 0, ctx.spec.replicas), _added_by_next_step(ctx, gate, seen)
    if percent is None or most - pods >= ceil_percent(most, percent) + added:
        return None
    room = f"{name} is at {pods} of {pods_text(most)}: headroom {headroom_percent(pods=pods, most=most)} %"
    more = f" and about {pods_text(added)} for what the new revision uses" if added else ""
    remedy = "raise maxReplicas, or lower minHeadroomPercent"
    return Wait(Reason.NO_HEADROOM, f"{room}, the next step needs {percent} %{more}: {remedy}; {_ways_out(ctx)}")


def _added_by_next_step(ctx: PassContext, gate: AutoscalingGate, seen: AutoscalingSeen) -> int:
    """How many pods more the next weight will need, if the new revision uses more CPU for the same share; 0 if not known.

    Both revisions' use is taken as proportional to their shares. What is within the autoscaler's tolerance adds nothing.
    """
    strategy, limit = ctx.spec.strategy, gate.container
    by_cpu = limit is not None and limit.resource is ContainerMetric.CPU
    if not by_cpu or seen.use is None or not isinstance(strategy, Canary):
        return 0
    new = _measured(seen.use.get(ctx.status.current_revision))
    stable = _measured(seen.use.get(ctx.status.stable_revision))
    share = float(ctx.status.weight_percent or 0) / 100  # of the requests that the new revision gets, from 0 to 1
    if ctx.by_ratio:
        share = ctx.new_available / max(1, ctx.new_available + ctx.stable_available)
    if not 0 < share < 1 or new <= 0 or stable <= 0:
        return 0
    later_steps = strategy.steps[ctx.status.step_index + 1 :]
    weights = (step.weight_percent for step in later_steps if isinstance(step, SetWeight))
    then = float(next(weights, 100)) / 100
    growth = (new / share * then + stable / (1 - share) * (1 - then)) / (new + stable) - 1
    return math.ceil(ctx.spec.replicas * growth) if growth > TOLERANCE else 0


def _measured(use: ContainerUse | None) -> float:
    """What a revision uses altogether; 0 when that is not known."""
    if use is None or not use.complete or use.used is None or not 0 <= use.used < math.inf:
        return 0.0
    return use.used


# --- words


def _unknown(ctx: PassContext, message: str) -> Wait:
    return Wait(Reason.AUTOSCALING_UNKNOWN, f"{message}; {_ways_out(ctx)}")


def _ways_out(ctx: PassContext) -> str:
    return f"to go on nevertheless: {ctx.command('promote')}; to go back: {ctx.command('abort')}"
