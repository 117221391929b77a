"""Finds what a canary waits for: lists of named checks; the first check that finds a wait decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from msgspec import Struct

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, pods_text, pods_wait
from rollouts.core.drain.cutover import draining_wait
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import Pause, PauseUntilPromoted
from rollouts.core.routing.routes import ROUTES_NEED_A_PERSON, exchanges_roles
from rollouts.core.routing.services import NEEDS_A_PERSON
from rollouts.core.strategy.autoscaling import gate_wait, waited_since_s
from rollouts.core.strategy.canary_steps import StepGoal, pause_end_s
from rollouts.core.strategy.skeleton import Moves


class Progress(Struct, frozen=True, kw_only=True):
    """The input of the checks: what this pass has decided so far.

    Args:
        service_wait: the first wait among the Services; None when no Service waits.
    """

    ctx: PassContext
    step: StepGoal
    moves: Moves
    service_wait: Wait | None


def canary_wait(ctx: PassContext, step: StepGoal, moves: Moves) -> Wait | None:
    """The first thing that keeps the current step, or the promotion, from being complete; None when nothing does."""
    service_wait: Wait | None = None
    for each in moves.services:
        service_wait = service_wait or each.wait
    progress = Progress(ctx=ctx, step=step, moves=moves, service_wait=service_wait)
    for check in _checks(progress):
        if (wait := check(progress)) is not None:
            return wait
    return None


def _checks(progress: Progress) -> tuple[WaitCheck, ...]:
    if progress.ctx.aborted:
        return ABORTED
    if progress.step.at_end:
        return AT_END
    if progress.step.analyzes:
        return AT_ANALYSIS
    return AT_PAUSE if progress.step.pause is not None else AT_STEP


def evidence_wait(step: StepGoal, moves: Moves) -> Wait | None:
    """The wait at the last step until each metric beside the steps has evidence: after it no stable pod may be left.

    An analysis that has not begun, because no step gives the revision requests, begins with all of them. One that has not begun
    with the weight of this step begins with the next pass.
    """
    if not step.is_last:
        return None
    begins = step.weight_percent > 0
    beside = (each for each in moves.guards if each.gate.step is None and (each.begun or begins))
    return next((each.wait for each in beside if not each.measured), None)


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


def pause_wait(ctx: PassContext, pause: Pause | PauseUntilPromoted | None) -> Wait | None:
    """The wait of the current pause, with what ends it; None without a pause, and when somebody promoted past it."""
    index = ctx.status.step_index
    if pause is None or ctx.promoted_past(index):
        return None
    match pause:
        case Pause(duration_s):
            return Wait(Reason.TIMED_PAUSE, f"step {index}: pause of {duration_s:g} s", pause_end_s(ctx, pause))
        case PauseUntilPromoted():
            gate = f"step {index}: waiting for promotion of revision {ctx.status.current_revision}"
            return Wait(Reason.PROMOTION_NEEDED, f"{gate}: {ctx.command('promote')}")
        case never:
            assert_never(never)


def _replica_failure(progress: Progress) -> Wait | None:
    new = progress.ctx.new
    return Wait(Reason.REPLICA_FAILURE, new.failure) if new is not None and new.failure else None


def _service_needs_a_person(progress: Progress) -> Wait | None:
    wait = progress.service_wait
    return wait if wait is not None and wait.reason in NEEDS_A_PERSON else None


def _route_needs_a_person(progress: Progress) -> Wait | None:
    wait = progress.moves.routing.wait
    return wait if wait is not None and wait.reason in ROUTES_NEED_A_PERSON else None


def _route(progress: Progress) -> Wait | None:
    return progress.moves.routing.wait


def _service(progress: Progress) -> Wait | None:
    """The wait of the Services. With `pingPong` the stable one has no requests any more: it may follow after the promotion."""
    ctx, strategy = progress.ctx, progress.ctx.spec.strategy
    if isinstance(strategy, Canary) and exchanges_roles(ctx, strategy):
        return progress.moves.services[-1].wait
    return progress.service_wait


def _no_canary_pod(progress: Progress) -> Wait | None:
    """With routers: the wait when no canary pod is available, and all traffic goes back to the stable revision, or is there."""
    ctx = progress.ctx
    if not ctx.routed or not ctx.none_available:
        return None
    unreached = not progress.step.at_end and not progress.moves.reached
    if not (unreached or ctx.effective_weight.reaches_canary):
        return None
    pods = pods_text(ctx.new.spec_replicas if ctx.new else 0)
    none = f"revision {ctx.status.current_revision} has {pods} and none is available"
    where = "goes back to" if ctx.effective_weight.reaches_canary else "is at"
    return Wait(Reason.PODS_NOT_AVAILABLE, f"{none}: its traffic {where} the stable revision{ctx.lacking_stable}")


def _sizes(progress: Progress) -> Wait | None:
    """The wait for pods that the step needs, or that must leave before it is complete: a drain, older pods, a shrink."""
    if progress.moves.reached:
        return None
    ctx, sizes = progress.ctx, progress.moves.sizes
    if (draining := draining_wait(ctx)) is not None:
        return draining
    revision = ctx.status.current_revision
    if ctx.new is None or ctx.new_available < sizes.wanted_new:
        return pods_wait(revision, wanted=sizes.wanted_new, available=ctx.new_available)
    if older := sum([each.available for each in ctx.older]):
        return Wait(Reason.OLD_PODS_LEAVING, f"waiting for {pods_text(older)} of older revisions to terminate")
    shrinks, wanted = (ctx.new, sizes.wanted_new)
    if ctx.new.available_for_steps <= wanted and ctx.stable is not None:
        shrinks, wanted = (ctx.stable, sizes.wanted_stable)
    message = f"waiting for revision {shrinks.revision} to shrink to {pods_text(wanted)}; it has {shrinks.replicas}"
    return Wait(Reason.SCALING_DOWN, message)


def _arrival(progress: Progress) -> Wait | None:
    """The wait until the traffic does what the step says."""
    if progress.moves.routing.arrived:
        return None
    follow = Wait(Reason.TRAFFIC_SWITCHING, "waiting for the Services to follow the routes")
    return progress.moves.routing.wait or progress.service_wait or follow


def _pause(progress: Progress) -> Wait | None:
    """The wait of the pause; once its time is over, for the evidence that the last step needs, and for the autoscaler."""
    wait = pause_wait(progress.ctx, progress.step.pause)
    if wait is None or wait.deadline_s is None or progress.ctx.now_s < wait.deadline_s:
        return wait
    return evidence_wait(progress.step, progress.moves) or _autoscaling(progress) or wait


def _old_pods(progress: Progress) -> Wait | None:
    ctx = progress.ctx
    sizes = zip(ctx.older, progress.moves.sizes.older, strict=True)
    leaving = [each for each, size in sizes if size == 0 and each.replicas > 0]
    if ctx.by_ratio and ctx.stable is not None and ctx.stable.replicas > 0:
        leaving.append(ctx.stable)
    if not leaving:
        return None
    message = f"waiting for {pods_text(leaving[0].replicas)} of revision {leaving[0].revision} to terminate"
    return Wait(Reason.OLD_PODS_LEAVING, message)


def _new_pods_unobserved(progress: Progress) -> Wait | None:
    new = progress.ctx.new
    if new is None or new.observed:
        return None
    wanted = progress.moves.sizes.wanted_new
    return pods_wait(progress.ctx.status.current_revision, wanted=wanted, available=new.available)


def _held(progress: Progress) -> Wait | None:
    """The wait of an analysis that holds the update, whatever the step is."""
    for each in progress.moves.guards:
        if each.holds:
            return each.wait
    return None


def _evidence(progress: Progress) -> Wait | None:
    return evidence_wait(progress.step, progress.moves)


def _autoscaling(progress: Progress) -> Wait | None:
    return autoscaling_wait(progress.ctx, progress.step)


def _before_analysis(progress: Progress) -> Wait | None:
    """The wait until the revision has the pods and the traffic that the step's analysis judges it on."""
    step = [each for each in progress.moves.guards if each.gate.step is not None]
    return None if step and step[0].begun else _sizes(progress) or _arrival(progress)


def _analyses(progress: Progress) -> Wait | None:
    """The wait for a verdict: of the step's own analysis, or at the end of the background's."""
    about_step = not progress.step.at_end
    return next((each.wait for each in progress.moves.guards if (each.gate.step is not None) is about_step), None)


WaitCheck: TypeAlias = Callable[[Progress], Wait | None]

_PERSON: tuple[WaitCheck, ...] = (_replica_failure, _service_needs_a_person)
ABORTED: tuple[WaitCheck, ...] = (*_PERSON, _route)
AT_PAUSE: tuple[WaitCheck, ...] = (*_PERSON, _route_needs_a_person, _no_canary_pod, _held, _pause, _evidence)
AT_STEP: tuple[WaitCheck, ...] = (
    *(*_PERSON, _route_needs_a_person, _no_canary_pod, _held, _sizes, _arrival),
    *(_evidence, _autoscaling),
)
AT_ANALYSIS: tuple[WaitCheck, ...] = (
    *(*_PERSON, _route_needs_a_person, _no_canary_pod, _held, _before_analysis, _analyses),
    *(_evidence, _autoscaling),
)
AT_END: tuple[WaitCheck, ...] = (
    *(*_PERSON, _route_needs_a_person, _no_canary_pod, _held, _sizes, _arrival),
    *(_old_pods, _new_pods_unobserved, _service, _autoscaling, _analyses),
)
