"""Canary: how many pods each revision has at each step, when a step is complete, and when the canary becomes stable.

Without traffic routing the share of traffic is the ratio of pods behind one Service. With it, stable keeps its size and the
canary's follows the weight. With `stableService` the old pods leave only after that Service's slices show the new ones
(Argo Rollouts issue 2235 is what happens otherwise).
"""

from __future__ import annotations

from typing import assert_never

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.plan import Plan
from rollouts.core.context.waits import Wait, earliest, pods_told, pods_wait
from rollouts.core.drain.cutover import draining, draining_wait, with_cutover
from rollouts.core.lifecycle.update import promoted
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, Notice, PatchReplicaSet, PointService
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, named_services
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen
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
from rollouts.core.model.traffic import RouteSeen
from rollouts.core.routing.ping_pong import exchanged
from rollouts.core.routing.routes import (
    ROUTES_NEED_A_PERSON,
    Routing,
    exchanges_roles,
    route_traffic,
)
from rollouts.core.routing.services import (
    NEEDS_A_PERSON,
    Pointing,
    is_subset,
    lasting,
    no_worse,
    none_available,
    one_at_a_time,
    point,
    selected_revision,
    told,
)
from rollouts.core.scale.canary_sizes import Sizes, canary_sizes, reach, wanted_canary
from rollouts.core.scale.replicas import at_desired, least_met
from rollouts.core.scale.sizing import (
    create_new,
    drained_s,
    in_safe_order,
    moves_of,
    next_scale_down_s,
    resized,
    with_scale_down,
)


def plan_canary(ctx: PassContext, strategy: Canary) -> Plan:
    """One pass of a canary. Any prefix of its intents is safe: grow, then route and point Services, then shrink."""
    steps = len(strategy.steps)
    if ctx.promoted_full and ctx.status.step_index < steps and not ctx.aborted and not ctx.paused:
        return Plan(status=replace(ctx.status, step_index=steps, step_started_at_s=ctx.now_s))
    weight_percent = _weight_percent(ctx, strategy)
    services = _services(ctx, strategy, weight_percent)
    ctx = ctx.after(_cutovers(ctx, strategy, services))
    services = tuple(_once_on_record(ctx, each) for each in _once_proxies_know(ctx, strategy, services))
    routing = _routing(ctx, strategy, weight_percent, services)
    ctx = ctx.after(routing.status)
    routing = replace(routing, arrived=routing.arrived and _tests_find_it(ctx, strategy, weight_percent, services))
    sizes = canary_sizes(
        ctx,
        strategy,
        weight_percent,
        brought=ctx.effective_weight.and_soon(routing.split),
        holding=_holds_stable(ctx, strategy, services),
        lacking=_lacks_a_way(ctx, strategy, services, routing),
    )
    reached = _reached(ctx, strategy, sizes)
    wait = _wait(ctx, strategy, sizes, reached=reached, services=services, routing=routing)
    recorded = ctx.status.weight_percent == weight_percent
    plan = Plan(
        status=ctx.status if recorded else replace(ctx.status, weight_percent=weight_percent),
        intents=_intents(ctx, sizes, services, routing),
        wait=wait,
        wake_at_s=earliest(
            [
                _pause_end_s(ctx, strategy),
                next_scale_down_s(ctx),
                routing.wake_at_s,
                *(each.wake_at_s for each in services),
            ]
        ),
        notices=(*(notice for each in services for notice in each.notices), *routing.notices),
    )
    if ctx.aborted or ctx.paused or not ctx.durable:
        return plan
    if ctx.status.step_index < steps:
        return _stepped(ctx, strategy, plan, reached=reached, arrived=routing.arrived)
    if wait is None and ctx.status.current_revision != ctx.status.stable_revision:
        return _promotion(ctx, strategy)
    return plan


def gate_index(status: RolloutStatus, strategy: Canary) -> int | None:
    """The step at which the current revision stands and may be promoted; None when it stands at none."""
    at_a_gate = status.abort is None and _pause_at(strategy, status.step_index) is not None
    return status.step_index if at_a_gate else None


def next_gate_index(status: RolloutStatus, strategy: Canary) -> int | None:
    """The step at which the current revision stands or will stand next and may be promoted; None when there is none."""
    ahead = range(status.step_index, len(strategy.steps))
    return next((index for index in ahead if _pause_at(strategy, index) is not None), None)


def _pause_at(strategy: Canary, index: int) -> Pause | PauseUntilPromoted | None:
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


def _weight_percent(ctx: PassContext, strategy: Canary) -> WeightPercent:
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


def _services(ctx: PassContext, strategy: Canary, weight_percent: WeightPercent) -> tuple[Pointing, ...]:
    """What stableService and canaryService need, in that order, each only if it is named."""
    one = min(1, ctx.spec.replicas)
    pointings = []
    if strategy.stable_service:
        target = ctx.stable or ctx.new
        at_least = max(one, no_worse(ctx, strategy.stable_service, target, enough=ctx.promised))
        if ctx.stable is not None and _cuts_over(ctx, strategy, weight_percent):
            target, at_least = ctx.new, reach(ctx, strategy)
        pointings.append(point(ctx, strategy.stable_service, target, at_least=at_least))
    if strategy.canary_service:
        leaves = ctx.aborted or wanted_canary(ctx, strategy, weight_percent) == 0
        new_serves = ctx.new is not None and lasting(ctx.new) > 0 and not leaves
        target = ctx.new if new_serves or ctx.stable is None else ctx.stable
        target, at_least = _canary_target(ctx, strategy, target, weight_percent=weight_percent, one=one)
        pointing = point(ctx, strategy.canary_service, target, at_least=at_least)
        if pointings and strategy.stable_service:
            names = (strategy.stable_service, strategy.canary_service)
            pointing = one_at_a_time(pointings[0], pointing, names=names)
        pointings.append(pointing)
    return tuple(pointings)


def _canary_target(
    ctx: PassContext, strategy: Canary, target: ReplicaSet | None, *, weight_percent: WeightPercent, one: int
) -> tuple[ReplicaSet | None, int]:
    """With routers: the canary Service changes only while nothing reaches it, and counts only with the pods of its step."""
    if not strategy.routers:
        return target, one
    selected = selected_revision(ctx, strategy.canary_service)
    if selected and ctx.effective_weight.reaches_canary:
        target = next((each for each in ctx.seen.replica_sets if each.revision == selected), target)
    if target is None or target is not ctx.new or ctx.stable is None or ctx.aborted:
        return target, one
    wanted = wanted_canary(ctx, strategy, weight_percent)
    return target, max(one, least_met(desired=wanted, threshold=strategy.replica_progress_threshold))


def _routing(
    ctx: PassContext, strategy: Canary, weight_percent: WeightPercent, services: tuple[Pointing, ...]
) -> Routing:
    stable, canary = services if len(services) > 1 else (Pointing(), Pointing())
    return route_traffic(ctx, strategy, weight_percent=weight_percent, stable=stable, canary=canary)


def _cuts_over(ctx: PassContext, strategy: Canary, weight_percent: WeightPercent) -> bool:
    """The stable Service goes to the new revision: all steps are done and as many new pods as there is room for are there.

    With routers also only once nothing reaches the stable Service any more.
    """
    early = ctx.aborted or weight_percent < 100 or ctx.status.step_index < len(strategy.steps)
    if ctx.new is None or early or exchanges_roles(ctx, strategy):
        return False
    seen = ctx.seen.services.get(strategy.stable_service or "")
    switched = isinstance(seen, ServiceSeen) and seen.revision == ctx.new.revision
    left = not strategy.routers or ctx.effective_weight.least_percent == 100 or ctx.spec.replicas == 0
    return switched or (left and lasting(ctx.new) >= reach(ctx, strategy) and not ctx.paused)


def _holds_stable(ctx: PassContext, strategy: Canary, services: tuple[Pointing, ...]) -> bool:
    """A stable pod stays until the stable Service's slices show the new revision alone, and until it has drained."""
    if ctx.stable is None or ctx.new is None or not ctx.stable.available:
        return False
    if draining(ctx, ctx.stable.revision) is not None:  # maybe of a Service that the strategy named before
        return True
    return bool(strategy.stable_service) and not (services[0].confirmed and services[0].selects == ctx.new.revision)


def _tests_find_it(
    ctx: PassContext, strategy: Canary, weight_percent: WeightPercent, services: tuple[Pointing, ...]
) -> bool:
    """Whether canaryService brings requests to the new revision, wherever a step gives it pods: tests go there next."""
    at_end = ctx.status.step_index >= len(strategy.steps)
    if strategy.canary_service is None or ctx.new is None or ctx.stable is None or at_end:
        return True
    pointing = services[-1]
    there = pointing.confirmed and pointing.selects == ctx.new.revision
    return there or wanted_canary(ctx, strategy, weight_percent) == 0


def _lacks_a_way(ctx: PassContext, strategy: Canary, services: tuple[Pointing, ...], routing: Routing) -> bool:
    """Whether a Service or a route that the spec names is missing, of no use, or not read yet: nobody knows where requests go."""
    unread = any(not isinstance(ctx.seen.services.get(name), ServiceSeen) for name in named_services(strategy))
    waits = (*(each.wait for each in services), routing.wait)
    return unread or any(each is not None and each.reason in NEEDS_A_PERSON | ROUTES_NEED_A_PERSON for each in waits)


def _cutovers(ctx: PassContext, strategy: Canary, services: tuple[Pointing, ...]) -> RolloutStatus:
    """The memory of Services that leave a revision: stableService in either direction, with traffic routing canaryService too.

    On the way forward the stable revision counts as left when its last pod is out of the slices: its place is known, so that
    needs no memory before. On the way back what a Service selects now is noted before it changes.
    """
    new, stable, name = ctx.new, ctx.stable, strategy.stable_service
    forward = name and new is not None and services[0].selects == new.revision and not ctx.aborted
    left = stable is not None and stable.spec_replicas > 0 and stable.revision not in ctx.shown_revisions
    if name and new is not None and stable is not None and forward and left:
        ctx = ctx.after(with_cutover(ctx, service=name, leaving=stable.revision, to=new.revision))
    names = [each for each in (strategy.stable_service, strategy.canary_service) if each]
    for service, pointing in zip(names, services, strict=True):
        if service == strategy.canary_service and strategy.traffic_routing is None:
            continue
        leaving = pointing.selects
        for intent in pointing.intents:
            if isinstance(intent, PointService) and leaving != ctx.status.stable_revision:
                ctx = ctx.after(with_cutover(ctx, service=service, leaving=leaving, to=intent.revision))
    return ctx.status


def _once_proxies_know(ctx: PassContext, strategy: Canary, services: tuple[Pointing, ...]) -> tuple[Pointing, ...]:
    """The same, but a stable subset that has changed counts only when every proxy has its rule, if its old pods are few.

    A proxy learns of a DestinationRule and of a VirtualService by itself: one with the new route and the old rule would bring
    everything to the pods that `dynamicStableScale` has left.
    """
    name = strategy.stable_service
    if not name or not is_subset(name) or ctx.stable is None or not services[0].confirmed:
        return services
    changes = [each for each in ctx.status.cutovers if (each.service, each.to_revision) == (name, services[0].selects)]
    if not changes or changes[-1].confirmed_at_s is None or lasting(ctx.stable) >= ctx.promised:
        return services
    settle_s = max((each.settle_s for each in ctx.seen.routes.values() if isinstance(each, RouteSeen)), default=0.0)
    until_s = changes[-1].confirmed_at_s + settle_s
    if ctx.now_s >= until_s:
        return services
    wait = Wait(
        Reason.SERVICE_SWITCHING, f"proxies are given {settle_s:g} s to learn what {told(name)} selects", until_s
    )
    return (replace(services[0], confirmed=False, wait=wait, wake_at_s=until_s), *services[1:])


def _once_on_record(ctx: PassContext, pointing: Pointing) -> Pointing:
    """The same without its change of the Service, while the cutover that it begins is not on record: a crash would forget it."""
    recorded = {(each.service, each.from_revision) for each in ctx.recorded.cutovers}
    begins = {(each.service, each.from_revision) for each in ctx.status.cutovers} - recorded
    if not any(isinstance(each, PointService) and (each.name, pointing.selects) in begins for each in pointing.intents):
        return pointing
    return replace(pointing, intents=(), notices=())


def _reached(ctx: PassContext, strategy: Canary, sizes: Sizes) -> bool:
    """Whether the sizes of the step are reached: told by what is available, and by what this pass tells the rest to be."""
    if ctx.new is None or ctx.new.deleting:
        return False
    new = at_desired(
        desired=sizes.wanted_new,
        spec=sizes.new,
        available=ctx.new.available_for_steps,
        threshold=strategy.replica_progress_threshold,
    )
    older_gone = strategy.traffic_routing is not None or not any(each.available for each in ctx.older)
    return new and sizes.stable == sizes.wanted_stable and older_gone


def _intents(ctx: PassContext, sizes: Sizes, services: tuple[Pointing, ...], routing: Routing) -> tuple[Intent, ...]:
    patches: list[PatchReplicaSet | None] = []
    create: tuple[Intent, ...] = ()
    if ctx.stable is not None:
        patches.append(resized(ctx, ctx.stable, replicas=sizes.stable))
    if ctx.new is not None:
        patches.append(resized(ctx, ctx.new, replicas=sizes.new))
    elif not ctx.aborted:
        create = (create_new(ctx, replicas=sizes.new),)
    patches += [resized(ctx, each, replicas=size) for each, size in zip(ctx.older, sizes.older, strict=True)]
    return in_safe_order(ctx, patches, create=create, moves=(*routing.intents, *moves_of(services)))


def _wait(
    ctx: PassContext, strategy: Canary, sizes: Sizes, *, reached: bool, services: tuple[Pointing, ...], routing: Routing
) -> Wait | None:
    """The first thing that keeps the current step, or the promotion, from being complete."""
    revision = ctx.status.current_revision
    if ctx.new is not None and ctx.new.failure:
        return Wait(Reason.REPLICA_FAILURE, ctx.new.failure)
    at_end = ctx.status.step_index >= len(strategy.steps)
    held = next((each.wait for each in services if each.wait is not None), None)
    if held is not None and held.reason in NEEDS_A_PERSON:
        return held
    if ctx.aborted or (routing.wait is not None and routing.wait.reason in ROUTES_NEED_A_PERSON):
        return routing.wait
    step = None if at_end else strategy.steps[ctx.status.step_index]
    if strategy.routers and none_available(ctx) and (ctx.effective_weight.reaches_canary or (step and not reached)):
        return _fallen_back_wait(ctx)
    if not isinstance(step, Pause | PauseUntilPromoted) and not (reached and routing.arrived):
        if reached:
            return (
                routing.wait or held or Wait(Reason.TRAFFIC_SWITCHING, "waiting for the Services to follow the routes")
            )
        return draining_wait(ctx) or _size_wait(ctx, sizes)
    if not at_end:
        return _pause_wait(ctx, strategy)
    leaving = [each for each, size in zip(ctx.older, sizes.older, strict=True) if size == 0 and each.replicas > 0]
    if strategy.traffic_routing is None and ctx.stable is not None and ctx.stable.replicas > 0:
        leaving.append(ctx.stable)
    if leaving:
        message = f"waiting for {pods_told(leaving[0].replicas)} of revision {leaving[0].revision} to terminate"
        return Wait(Reason.OLD_PODS_LEAVING, message)
    if ctx.new is not None and not ctx.new.observed:
        return pods_wait(revision, wanted=sizes.wanted_new, available=ctx.new.available)
    return held


def _fallen_back_wait(ctx: PassContext) -> Wait:
    pods, revision = ctx.new.spec_replicas if ctx.new else 0, ctx.status.current_revision
    message = f"none of the {pods} pods of revision {revision} is available: the stable revision has all traffic until they are"
    return Wait(Reason.PODS_NOT_AVAILABLE, message)


def _size_wait(ctx: PassContext, sizes: Sizes) -> Wait:
    revision = ctx.status.current_revision
    available = lasting(ctx.new) if ctx.new is not None else 0
    if ctx.new is None or available < sizes.wanted_new:
        return pods_wait(revision, wanted=sizes.wanted_new, available=available)
    if older := sum(each.available for each in ctx.older):
        return Wait(Reason.OLD_PODS_LEAVING, f"waiting for {pods_told(older)} of older revisions to terminate")
    shrinks, wanted = (ctx.new, sizes.wanted_new)
    if ctx.new.available_for_steps <= wanted and ctx.stable is not None:
        shrinks, wanted = (ctx.stable, sizes.wanted_stable)
    message = f"waiting for revision {shrinks.revision} to shrink to {pods_told(wanted)}; it has {shrinks.replicas}"
    return Wait(Reason.SCALING_DOWN, message)


def _pause_wait(ctx: PassContext, strategy: Canary) -> Wait | None:
    index = ctx.status.step_index
    if ctx.promoted_past(index):
        return None
    match _pause_at(strategy, index):
        case Pause(duration_s):
            return Wait(Reason.TIMED_PAUSE, f"step {index}: pause of {duration_s:g} s", _pause_end_s(ctx, strategy))
        case PauseUntilPromoted():
            gate = f"step {index}: waiting for promotion of revision {ctx.status.current_revision}"
            return Wait(Reason.PROMOTION_NEEDED, f"{gate}: {ctx.command('promote')}")
        case None:
            return None
        case never:
            assert_never(never)


def _pause_end_s(ctx: PassContext, strategy: Canary) -> float | None:
    pause = _pause_at(strategy, ctx.status.step_index)
    if ctx.aborted or ctx.paused or not isinstance(pause, Pause):
        return None
    return (ctx.status.step_started_at_s or ctx.now_s) + pause.duration_s


def _stepped(ctx: PassContext, strategy: Canary, plan: Plan, *, reached: bool, arrived: bool) -> Plan:
    """The plan with the current step done, if it is; what the next step needs follows once this is durable."""
    index = ctx.status.step_index
    match strategy.steps[index]:
        case SetWeight() | SetCanaryReplicas() | SetCanaryScalePercent() | MatchTrafficWeight():
            recorded = ctx.recorded.weight_percent == plan.status.weight_percent  # a retry or a resume comes first
            done = reached and arrived and recorded and (plan.wait is None or plan.wait.reason not in NEEDS_A_PERSON)
        case SetHeaderRoute() | SetMirrorRoute():
            done = reached and arrived
        case Pause():
            end_s = _pause_end_s(ctx, strategy)
            done = ctx.promoted_past(index) or (end_s is not None and ctx.now_s >= end_s)
        case PauseUntilPromoted():
            done = ctx.promoted_past(index)
        case never:
            assert_never(never)
    if not done:
        return plan
    status = replace(plan.status, step_index=index + 1, step_started_at_s=ctx.now_s, progressed_at_s=ctx.now_s)
    after = ctx.after(status)
    weight_percent = _weight_percent(after, strategy)
    wait = Wait(Reason.PODS_NOT_AVAILABLE, f"step {index + 1} begins")
    if index + 1 < len(strategy.steps):
        wait = _pause_wait(after, strategy) or wait
    notice = Notice(
        Reason.STEP_COMPLETED,
        f"step {index} of revision {status.current_revision} is done, {index + 1} of {len(strategy.steps)}",
    )
    return replace(
        plan,
        status=replace(status, weight_percent=weight_percent),
        wait=wait,
        wake_at_s=earliest([_pause_end_s(after, strategy), next_scale_down_s(ctx)]),
        notices=(*plan.notices, notice),
    )


def _promotion(ctx: PassContext, strategy: Canary) -> Plan:
    """The new revision becomes the stable one; written alone, before anything follows from it."""
    old = ctx.status.stable_revision
    status = promoted(ctx.seen, ctx.status)
    if exchanges_roles(ctx, strategy):
        status = exchanged(status)
    routing = strategy.traffic_routing
    if routing is not None:
        if strategy.stable_service:
            after = ctx.after(status)
            to = status.current_revision
            status = with_cutover(after, service=strategy.stable_service, leaving=old, to=to)
        if not routing.dynamic_stable_scale:
            delayed_s = ctx.now_s + strategy.scale_down_delay_s
            at_s = drained_s(ctx.after(status), old, no_sooner_than_s=delayed_s)
            status = with_scale_down(status, revision=old, at_s=at_s)
    notice = Notice(
        Reason.ROLLOUT_COMPLETED, f"revision {status.revision_number} ({status.current_revision}) is stable"
    )
    return Plan(status=replace(status, weight_percent=100), notices=(notice,))
