"""Finds what a canary waits for: the first thing that is not there yet decides."""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, pods_text, pods_wait
from rollouts.core.drain.cutover import draining_wait
from rollouts.core.model.numbering import step_number
from rollouts.core.model.reasons import Reason
from rollouts.core.model.steps import Pause, PauseUntilPromoted
from rollouts.core.routing.routes import ROUTES_NEED_A_PERSON, exchanges_roles
from rollouts.core.routing.services import NEEDS_A_PERSON
from rollouts.core.strategy.autoscaling import gate_wait, waited_since_s
from rollouts.core.strategy.canary_steps import AnyPause, StepGoal, pause_end_s
from rollouts.core.strategy.skeleton import Moves


def canary_wait(ctx: PassContext, step: StepGoal, moves: Moves) -> Wait | None:
    """The first thing that keeps the current step, or the promotion, from being complete."""
    routing_wait = moves.routing.wait
    service_wait = next((switch.wait for switch in moves.services if switch.wait is not None), None)
    if ctx.new is not None and ctx.new.failure:
        return Wait(Reason.REPLICA_FAILURE, ctx.new.failure)
    if service_wait is not None and service_wait.reason in NEEDS_A_PERSON:
        return service_wait
    if ctx.aborted or (routing_wait is not None and routing_wait.reason in ROUTES_NEED_A_PERSON):
        return routing_wait
    held = next((guard.wait for guard in moves.guards if guard.holds), None)
    return _no_canary_pod(ctx, step, moves) or held or _step_wait(ctx, step, moves, service_wait)


def _step_wait(ctx: PassContext, step: StepGoal, moves: Moves, service_wait: Wait | None) -> Wait | None:
    """The wait of the step itself, or of the promotion; then for evidence and for the autoscaler."""
    if step.at_end:
        last = _pods_or_traffic(ctx, moves, service_wait) or _last_pods(ctx, moves, service_wait)
        return last or autoscaling_wait(ctx, step) or _verdict(step, moves)
    if step.pause is not None:
        pause = pause_wait(ctx, step.pause)
        if pause is not None and pause.deadline_s is not None and pause.deadline_s <= ctx.now_s:
            pause = evidence_wait(step, moves) or autoscaling_wait(ctx, step) or pause
        return pause or evidence_wait(step, moves)
    # An analysis begins when the revision has the pods and the traffic that it is judged on.
    begun = step.analyzes and next((guard.begun for guard in moves.guards if guard.gate.step is not None), False)
    wait = None if begun else _pods_or_traffic(ctx, moves, service_wait)
    if step.analyzes:
        wait = wait or _verdict(step, moves)
    return wait or evidence_wait(step, moves) or autoscaling_wait(ctx, step)


def evidence_wait(step: StepGoal, moves: Moves) -> Wait | None:
    """The wait at the last step until each metric beside the steps has evidence: after it no stable pod may be left.

    An analysis that has not begun, because no step gives the revision requests, begins with all of them. One that has not begun
    with the weight of this step begins with the next pass.
    """
    if not step.is_last:
        return None
    begins = step.weight_percent > 0
    beside_the_steps = (guard for guard in moves.guards if guard.gate.step is None and (guard.begun or begins))
    return next((guard.wait for guard in beside_the_steps if not guard.measured), None)


def autoscaling_wait(ctx: PassContext, step: StepGoal) -> Wait | None:
    """The wait of `spec.autoscaling` at the end of the current step, or before the promotion.

    None once somebody promoted past it. Pods and traffic were there when a pause or an analysis began; at other steps they are
    since the step waits for nothing but this gate.
    """
    if ctx.spec.autoscaling is None or ctx.promoted_past(ctx.status.step_index):
        return None
    keeps = step.pause is not None or step.analyzes
    began_s = ctx.status.step_started_at_s if keeps else waited_since_s(ctx)
    return gate_wait(ctx, since_s=ctx.now_s if began_s is None else began_s)


def pause_wait(ctx: PassContext, pause: AnyPause | None) -> Wait | None:
    """The wait of the current pause, with what ends it; None without a pause, and when somebody promoted past it."""
    index = ctx.status.step_index
    if pause is None or ctx.promoted_past(index):
        return None
    match pause:
        case Pause(duration_s):
            return Wait(
                Reason.TIMED_PAUSE, f"step {step_number(index)}: pause of {duration_s:g} s", pause_end_s(ctx, pause)
            )
        case PauseUntilPromoted():
            gate = f"step {step_number(index)}: waiting for promotion of revision {ctx.status.current_revision}"
            return Wait(Reason.PROMOTION_NEEDED, f"{gate}: {ctx.command('promote')}")


def _no_canary_pod(ctx: PassContext, step: StepGoal, moves: Moves) -> Wait | None:
    """With routers: the wait when no canary pod is available, and all traffic returns to the stable revision, or is there."""
    if not ctx.routed or not ctx.none_available:
        return None
    unreached = not step.at_end and not moves.reached
    if not (unreached or ctx.effective_weight.reaches_canary):
        return None
    pods = pods_text(ctx.new.spec_replicas if ctx.new else 0)
    none = f"revision {ctx.status.current_revision} has {pods} and none is available"
    where = "returns to" if ctx.effective_weight.reaches_canary else "is at"
    return Wait(Reason.PODS_NOT_AVAILABLE, f"{none}: its traffic {where} the stable revision{ctx.lacking_stable}")


def _pods_or_traffic(ctx: PassContext, moves: Moves, service_wait: Wait | None) -> Wait | None:
    """The wait for pods that the step needs, or that must leave; then until the traffic does what the step says."""
    if moves.reached:
        if moves.routing.arrived:
            return None
        follow = Wait(Reason.TRAFFIC_SWITCHING, "waiting for the Services to follow the routes")
        return moves.routing.wait or service_wait or follow
    if (draining := draining_wait(ctx)) is not None:
        return draining
    new, sizes, revision = ctx.new, moves.sizes, ctx.status.current_revision
    if new is None or ctx.new_available < sizes.wanted_new:
        return pods_wait(revision, wanted=sizes.wanted_new, available=ctx.new_available)
    if older := sum([replica_set.available for replica_set in ctx.older]):
        return Wait(Reason.OLD_PODS_LEAVING, f"waiting for {pods_text(older)} of older revisions to terminate")
    shrinks, wanted = new, sizes.wanted_new
    if new.available_for_steps <= wanted and ctx.stable is not None:
        shrinks, wanted = ctx.stable, sizes.wanted_stable
    message = f"waiting for revision {shrinks.revision} to shrink to {pods_text(wanted)}; it has {shrinks.replicas}"
    return Wait(Reason.SCALING_DOWN, message)


def _last_pods(ctx: PassContext, moves: Moves, service_wait: Wait | None) -> Wait | None:
    """The wait at the end until the old pods have left, and the counts of the new ones are observed; then of the Services."""
    sizes = zip(ctx.older, moves.sizes.older, strict=True)
    leaving = [replica_set for replica_set, size in sizes if size == 0 and replica_set.replicas > 0]
    if ctx.by_ratio and ctx.stable is not None and ctx.stable.replicas > 0:
        leaving.append(ctx.stable)
    if leaving:
        message = f"waiting for {pods_text(leaving[0].replicas)} of revision {leaving[0].revision} to terminate"
        return Wait(Reason.OLD_PODS_LEAVING, message)
    if ctx.new is not None and not ctx.new.observed:
        return pods_wait(ctx.status.current_revision, wanted=moves.sizes.wanted_new, available=ctx.new.available)
    # With `pingPong` the stable Service has no requests any more: it may follow after the promotion.
    return moves.services[-1].wait if exchanges_roles(ctx) else service_wait


def _verdict(step: StepGoal, moves: Moves) -> Wait | None:
    """The wait for a verdict: of the step's own analysis, or at the end of the background's."""
    about_step = not step.at_end
    return next((guard.wait for guard in moves.guards if (guard.gate.step is not None) is about_step), None)
