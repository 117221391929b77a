"""Canary: how many pods each revision has at each step, when a step is complete, and when the canary becomes stable.

Without traffic routing the share of traffic is the ratio of pods behind one Service. With it, stable keeps its size and the
canary's follows the weight. With `stableService` the old pods leave only after that Service's slices show the new ones
(Argo Rollouts issue 2235 is what happens otherwise).
"""

from __future__ import annotations

from typing import assert_never

from rollouts.core.drain.cutover import draining, draining_wait, with_cutover
from rollouts.core.lifecycle.update import promoted
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, Notice, PatchReplicaSet, PointService
from rollouts.core.model.plan import Plan, View, Wait, earliest, pods_told, pods_wait
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
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
    has_routers,
    in_force,
    route_traffic,
)
from rollouts.core.routing.services import (
    NEEDS_A_PERSON,
    Pointing,
    is_subset,
    lasting,
    named_services,
    no_worse,
    none_available,
    one_at_a_time,
    point,
    selected_revision,
    shown_revisions,
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


def plan_canary(view: View, strategy: Canary) -> Plan:
    """One pass of a canary. Any prefix of its intents is safe: grow, then route and point Services, then shrink."""
    steps = len(strategy.steps)
    if view.promoted_full and view.status.step_index < steps and not view.aborted and not view.paused:
        return Plan(status=replace(view.status, step_index=steps, step_started_at_s=view.now_s))
    weight_percent = _weight_percent(view, strategy)
    services = _services(view, strategy, weight_percent)
    view = view.with_status(_cutovers(view, strategy, services))
    services = tuple(_once_on_record(view, each) for each in _once_proxies_know(view, strategy, services))
    routing = _routing(view, strategy, weight_percent, services)
    view = view.with_status(routing.status)
    routing = replace(routing, arrived=routing.arrived and _tests_find_it(view, strategy, weight_percent, services))
    sizes = canary_sizes(
        view,
        strategy,
        weight_percent,
        brought=in_force(view, soon=routing.split),
        holding=_holds_stable(view, strategy, services),
        lacking=_lacks_a_way(view, strategy, services, routing),
    )
    reached = _reached(view, strategy, sizes)
    wait = _wait(view, strategy, sizes, reached=reached, services=services, routing=routing)
    recorded = view.status.weight_percent == weight_percent
    plan = Plan(
        status=view.status if recorded else replace(view.status, weight_percent=weight_percent),
        intents=_intents(view, sizes, services, routing),
        wait=wait,
        wake_at_s=earliest(
            [
                _pause_end_s(view, strategy),
                next_scale_down_s(view),
                routing.wake_at_s,
                *(each.wake_at_s for each in services),
            ]
        ),
        notices=(*(notice for each in services for notice in each.notices), *routing.notices),
    )
    if view.aborted or view.paused or not view.durable:
        return plan
    if view.status.step_index < steps:
        return _stepped(view, strategy, plan, reached=reached, arrived=routing.arrived)
    if wait is None and view.status.current_revision != view.status.stable_revision:
        return _promotion(view, strategy)
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


def _weight_percent(view: View, strategy: Canary) -> WeightPercent:
    """The latest `setWeight` at or before the current step; 0 before the first, 100 after the last step; a pause raises none."""
    if view.stable is None:
        return 100
    if view.aborted:
        return 0
    index = view.status.step_index
    steps = strategy.steps[: index + 1]
    wanted = next((step.weight_percent for step in reversed(steps) if isinstance(step, SetWeight)), 0)
    if index >= len(strategy.steps):
        wanted = 100
    return min(wanted, view.status.weight_percent or 0) if view.paused else wanted


def _services(view: View, strategy: Canary, weight_percent: WeightPercent) -> tuple[Pointing, ...]:
    """What stableService and canaryService need, in that order, each only if it is named."""
    one = min(1, view.spec.replicas)
    pointings = []
    if strategy.stable_service:
        target = view.stable or view.new
        at_least = max(one, no_worse(view, strategy.stable_service, target, enough=view.promised))
        if view.stable is not None and _cuts_over(view, strategy, weight_percent):
            target, at_least = view.new, reach(view, strategy)
        pointings.append(point(view, strategy.stable_service, target, at_least=at_least))
    if strategy.canary_service:
        leaves = view.aborted or wanted_canary(view, strategy, weight_percent) == 0
        new_serves = view.new is not None and lasting(view.new) > 0 and not leaves
        target = view.new if new_serves or view.stable is None else view.stable
        target, at_least = _canary_target(view, strategy, target, weight_percent=weight_percent, one=one)
        pointing = point(view, strategy.canary_service, target, at_least=at_least)
        if pointings and strategy.stable_service:
            names = (strategy.stable_service, strategy.canary_service)
            pointing = one_at_a_time(pointings[0], pointing, names=names)
        pointings.append(pointing)
    return tuple(pointings)


def _canary_target(
    view: View, strategy: Canary, target: ReplicaSet | None, *, weight_percent: WeightPercent, one: int
) -> tuple[ReplicaSet | None, int]:
    """With routers: the canary Service changes only while nothing reaches it, and counts only with the pods of its step."""
    if not has_routers(strategy):
        return target, one
    selected = selected_revision(view, strategy.canary_service)
    if selected and in_force(view).reaches_canary:
        target = next((each for each in view.seen.replica_sets if each.revision == selected), target)
    if target is None or target is not view.new or view.stable is None or view.aborted:
        return target, one
    wanted = wanted_canary(view, strategy, weight_percent)
    return target, max(one, least_met(desired=wanted, threshold=strategy.replica_progress_threshold))


def _routing(view: View, strategy: Canary, weight_percent: WeightPercent, services: tuple[Pointing, ...]) -> Routing:
    stable, canary = services if len(services) > 1 else (Pointing(), Pointing())
    return route_traffic(view, strategy, weight_percent=weight_percent, stable=stable, canary=canary)


def _cuts_over(view: View, strategy: Canary, weight_percent: WeightPercent) -> bool:
    """The stable Service goes to the new revision: all steps are done and as many new pods as there is room for are there.

    With routers also only once nothing reaches the stable Service any more.
    """
    early = view.aborted or weight_percent < 100 or view.status.step_index < len(strategy.steps)
    if view.new is None or early or exchanges_roles(view, strategy):
        return False
    seen = view.seen.services.get(strategy.stable_service or "")
    switched = isinstance(seen, ServiceSeen) and seen.revision == view.new.revision
    left = not has_routers(strategy) or in_force(view).least_percent == 100 or view.spec.replicas == 0
    return switched or (left and lasting(view.new) >= reach(view, strategy) and not view.paused)


def _holds_stable(view: View, strategy: Canary, services: tuple[Pointing, ...]) -> bool:
    """A stable pod stays until the stable Service's slices show the new revision alone, and until it has drained."""
    if view.stable is None or view.new is None or not view.stable.available:
        return False
    if draining(view, view.stable.revision) is not None:  # maybe of a Service that the strategy named before
        return True
    return bool(strategy.stable_service) and not (services[0].confirmed and services[0].selects == view.new.revision)


def _tests_find_it(view: View, strategy: Canary, weight_percent: WeightPercent, services: tuple[Pointing, ...]) -> bool:
    """Whether canaryService brings requests to the new revision, wherever a step gives it pods: tests go there next."""
    at_end = view.status.step_index >= len(strategy.steps)
    if strategy.canary_service is None or view.new is None or view.stable is None or at_end:
        return True
    pointing = services[-1]
    there = pointing.confirmed and pointing.selects == view.new.revision
    return there or wanted_canary(view, strategy, weight_percent) == 0


def _lacks_a_way(view: View, strategy: Canary, services: tuple[Pointing, ...], routing: Routing) -> bool:
    """Whether a Service or a route that the spec names is missing, of no use, or not read yet: nobody knows where requests go."""
    unread = any(not isinstance(view.seen.services.get(name), ServiceSeen) for name in named_services(strategy))
    waits = (*(each.wait for each in services), routing.wait)
    return unread or any(each is not None and each.reason in NEEDS_A_PERSON | ROUTES_NEED_A_PERSON for each in waits)


def _cutovers(view: View, strategy: Canary, services: tuple[Pointing, ...]) -> RolloutStatus:
    """The memory of Services that leave a revision: stableService in either direction, with traffic routing canaryService too.

    On the way forward the stable revision counts as left when its last pod is out of the slices: its place is known, so that
    needs no memory before. On the way back what a Service selects now is noted before it changes.
    """
    new, stable, name = view.new, view.stable, strategy.stable_service
    forward = name and new is not None and services[0].selects == new.revision and not view.aborted
    left = stable is not None and stable.spec_replicas > 0 and stable.revision not in shown_revisions(view)
    if name and new is not None and stable is not None and forward and left:
        view = view.with_status(with_cutover(view, service=name, leaving=stable.revision, to=new.revision))
    names = [each for each in (strategy.stable_service, strategy.canary_service) if each]
    for service, pointing in zip(names, services, strict=True):
        if service == strategy.canary_service and strategy.traffic_routing is None:
            continue
        leaving = pointing.selects
        for intent in pointing.intents:
            if isinstance(intent, PointService) and leaving != view.status.stable_revision:
                view = view.with_status(with_cutover(view, service=service, leaving=leaving, to=intent.revision))
    return view.status


def _once_proxies_know(view: View, strategy: Canary, services: tuple[Pointing, ...]) -> tuple[Pointing, ...]:
    """The same, but a stable subset that has changed counts only when every proxy has its rule, if its old pods are few.

    A proxy learns of a DestinationRule and of a VirtualService by itself: one with the new route and the old rule would bring
    everything to the pods that `dynamicStableScale` has left.
    """
    name = strategy.stable_service
    if not name or not is_subset(name) or view.stable is None or not services[0].confirmed:
        return services
    changes = [each for each in view.status.cutovers if (each.service, each.to_revision) == (name, services[0].selects)]
    if not changes or changes[-1].confirmed_at_s is None or lasting(view.stable) >= view.promised:
        return services
    settle_s = max((each.settle_s for each in view.seen.routes.values() if isinstance(each, RouteSeen)), default=0.0)
    until_s = changes[-1].confirmed_at_s + settle_s
    if view.now_s >= until_s:
        return services
    wait = Wait(
        Reason.SERVICE_SWITCHING, f"proxies are given {settle_s:g} s to learn what {told(name)} selects", until_s
    )
    return (replace(services[0], confirmed=False, wait=wait, wake_at_s=until_s), *services[1:])


def _once_on_record(view: View, pointing: Pointing) -> Pointing:
    """The same without its change of the Service, while the cutover that it begins is not on record: a crash would forget it."""
    recorded = {(each.service, each.from_revision) for each in view.seen.status.cutovers}
    begins = {(each.service, each.from_revision) for each in view.status.cutovers} - recorded
    if not any(isinstance(each, PointService) and (each.name, pointing.selects) in begins for each in pointing.intents):
        return pointing
    return replace(pointing, intents=(), notices=())


def _reached(view: View, strategy: Canary, sizes: Sizes) -> bool:
    """Whether the sizes of the step are reached: told by what is available, and by what this pass tells the rest to be."""
    if view.new is None or view.new.deleting:
        return False
    new = at_desired(
        desired=sizes.wanted_new,
        spec=sizes.new,
        available=view.new.available_for_steps,
        threshold=strategy.replica_progress_threshold,
    )
    older_gone = strategy.traffic_routing is not None or not any(each.available for each in view.older)
    return new and sizes.stable == sizes.wanted_stable and older_gone


def _intents(view: View, sizes: Sizes, services: tuple[Pointing, ...], routing: Routing) -> tuple[Intent, ...]:
    patches: list[PatchReplicaSet | None] = []
    create: tuple[Intent, ...] = ()
    if view.stable is not None:
        patches.append(resized(view, view.stable, replicas=sizes.stable))
    if view.new is not None:
        patches.append(resized(view, view.new, replicas=sizes.new))
    elif not view.aborted:
        create = (create_new(view, replicas=sizes.new),)
    patches += [resized(view, each, replicas=size) for each, size in zip(view.older, sizes.older, strict=True)]
    return in_safe_order(view, patches, create=create, moves=(*routing.intents, *moves_of(services)))


def _wait(
    view: View, strategy: Canary, sizes: Sizes, *, reached: bool, services: tuple[Pointing, ...], routing: Routing
) -> Wait | None:
    """The first thing that keeps the current step, or the promotion, from being complete."""
    revision = view.status.current_revision
    if view.new is not None and view.new.failure:
        return Wait(Reason.REPLICA_FAILURE, view.new.failure)
    at_end = view.status.step_index >= len(strategy.steps)
    held = next((each.wait for each in services if each.wait is not None), None)
    if held is not None and held.reason in NEEDS_A_PERSON:
        return held
    if view.aborted or (routing.wait is not None and routing.wait.reason in ROUTES_NEED_A_PERSON):
        return routing.wait
    step = None if at_end else strategy.steps[view.status.step_index]
    if has_routers(strategy) and none_available(view) and (in_force(view).reaches_canary or (step and not reached)):
        return _fallen_back_wait(view)
    if not isinstance(step, Pause | PauseUntilPromoted) and not (reached and routing.arrived):
        if reached:
            return (
                routing.wait or held or Wait(Reason.TRAFFIC_SWITCHING, "waiting for the Services to follow the routes")
            )
        return draining_wait(view) or _size_wait(view, sizes)
    if not at_end:
        return _pause_wait(view, strategy)
    leaving = [each for each, size in zip(view.older, sizes.older, strict=True) if size == 0 and each.replicas > 0]
    if strategy.traffic_routing is None and view.stable is not None and view.stable.replicas > 0:
        leaving.append(view.stable)
    if leaving:
        message = f"waiting for {pods_told(leaving[0].replicas)} of revision {leaving[0].revision} to terminate"
        return Wait(Reason.OLD_PODS_LEAVING, message)
    if view.new is not None and not view.new.observed:
        return pods_wait(revision, wanted=sizes.wanted_new, available=view.new.available)
    return held


def _fallen_back_wait(view: View) -> Wait:
    pods, revision = view.new.spec_replicas if view.new else 0, view.status.current_revision
    message = f"none of the {pods} pods of revision {revision} is available: the stable revision has all traffic until they are"
    return Wait(Reason.PODS_NOT_AVAILABLE, message)


def _size_wait(view: View, sizes: Sizes) -> Wait:
    revision = view.status.current_revision
    available = lasting(view.new) if view.new is not None else 0
    if view.new is None or available < sizes.wanted_new:
        return pods_wait(revision, wanted=sizes.wanted_new, available=available)
    if older := sum(each.available for each in view.older):
        return Wait(Reason.OLD_PODS_LEAVING, f"waiting for {pods_told(older)} of older revisions to terminate")
    shrinks, wanted = (view.new, sizes.wanted_new)
    if view.new.available_for_steps <= wanted and view.stable is not None:
        shrinks, wanted = (view.stable, sizes.wanted_stable)
    message = f"waiting for revision {shrinks.revision} to shrink to {pods_told(wanted)}; it has {shrinks.replicas}"
    return Wait(Reason.SCALING_DOWN, message)


def _pause_wait(view: View, strategy: Canary) -> Wait | None:
    index = view.status.step_index
    if view.promoted_past(index):
        return None
    match _pause_at(strategy, index):
        case Pause(duration_s):
            return Wait(Reason.TIMED_PAUSE, f"step {index}: pause of {duration_s:g} s", _pause_end_s(view, strategy))
        case PauseUntilPromoted():
            gate = f"step {index}: waiting for promotion of revision {view.status.current_revision}"
            return Wait(Reason.PROMOTION_NEEDED, f"{gate}: {view.command('promote')}")
        case None:
            return None
        case never:
            assert_never(never)


def _pause_end_s(view: View, strategy: Canary) -> float | None:
    pause = _pause_at(strategy, view.status.step_index)
    if view.aborted or view.paused or not isinstance(pause, Pause):
        return None
    return (view.status.step_started_at_s or view.now_s) + pause.duration_s


def _stepped(view: View, strategy: Canary, plan: Plan, *, reached: bool, arrived: bool) -> Plan:
    """The plan with the current step done, if it is; what the next step needs follows once this is durable."""
    index = view.status.step_index
    match strategy.steps[index]:
        case SetWeight() | SetCanaryReplicas() | SetCanaryScalePercent() | MatchTrafficWeight():
            recorded = view.seen.status.weight_percent == plan.status.weight_percent  # a retry or a resume comes first
            done = reached and arrived and recorded and (plan.wait is None or plan.wait.reason not in NEEDS_A_PERSON)
        case SetHeaderRoute() | SetMirrorRoute():
            done = reached and arrived
        case Pause():
            end_s = _pause_end_s(view, strategy)
            done = view.promoted_past(index) or (end_s is not None and view.now_s >= end_s)
        case PauseUntilPromoted():
            done = view.promoted_past(index)
        case never:
            assert_never(never)
    if not done:
        return plan
    status = replace(plan.status, step_index=index + 1, step_started_at_s=view.now_s, progressed_at_s=view.now_s)
    after = view.with_status(status)
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
        wake_at_s=earliest([_pause_end_s(after, strategy), next_scale_down_s(view)]),
        notices=(*plan.notices, notice),
    )


def _promotion(view: View, strategy: Canary) -> Plan:
    """The new revision becomes the stable one; written alone, before anything follows from it."""
    old = view.status.stable_revision
    status = promoted(view.seen, view.status)
    if exchanges_roles(view, strategy):
        status = exchanged(status)
    routing = strategy.traffic_routing
    if routing is not None:
        if strategy.stable_service:
            after = view.with_status(status)
            to = status.current_revision
            status = with_cutover(after, service=strategy.stable_service, leaving=old, to=to)
        if not routing.dynamic_stable_scale:
            delayed_s = view.now_s + strategy.scale_down_delay_s
            at_s = drained_s(view.with_status(status), old, no_sooner_than_s=delayed_s)
            status = with_scale_down(status, revision=old, at_s=at_s)
    notice = Notice(
        Reason.ROLLOUT_COMPLETED, f"revision {status.revision_number} ({status.current_revision}) is stable"
    )
    return Plan(status=replace(status, weight_percent=100), notices=(notice,))
