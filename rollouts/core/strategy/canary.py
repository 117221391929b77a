"""Canary: how many pods each revision has at each step, when a step is complete, and when the canary becomes stable.

Without traffic routing, the share of traffic is the ratio of pods behind one Service. With traffic routing, the stable revision
keeps its size, and the size of the canary follows the weight. With `stableService`, the old pods leave only after the slices of
that Service show the new pods (Argo Rollouts issue 2235 shows what happens otherwise).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest
from rollouts.core.drain.cutover import begin_cutovers, draining
from rollouts.core.lifecycle.analyses import Guard, guarded
from rollouts.core.lifecycle.update import promoted
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind
from rollouts.core.model.changes import StatusChange, begin_step, exchange_roles, set_canary_weight, skip_steps
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice, PatchReplicaSet, SwitchService
from rollouts.core.model.numbering import step_number
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.status import Cutover
from rollouts.core.model.steps import (
    Analyze,
    MatchTrafficWeight,
    Pause,
    PauseUntilPromoted,
    RunExperiment,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetHeaderRoute,
    SetMirrorRoute,
    SetWeight,
    WeightPercent,
)
from rollouts.core.model.traffic import RouteSeen
from rollouts.core.routing.routes import ROUTES_NEED_A_PERSON, Routing, exchanges_roles, route_traffic
from rollouts.core.routing.services import (
    NEEDS_A_PERSON,
    ServiceSwitch,
    display_name,
    no_worse,
    one_at_a_time,
    selected_revision,
    switch_to,
)
from rollouts.core.scale.canary_sizes import Demand, Sizes, canary_sizes, most_canary_replicas
from rollouts.core.scale.replicas import at_desired, least_met
from rollouts.core.scale.sizing import keep_pods_of_stable, next_scale_down_s
from rollouts.core.strategy.canary_steps import StepGoal, asked_weight, pause_at, pause_end_s
from rollouts.core.strategy.canary_waits import autoscaling_wait, canary_wait, evidence_wait, pause_wait
from rollouts.core.strategy.guards import BACKGROUND, BEFORE_UPDATE, guarding_gates, is_judged
from rollouts.core.strategy.skeleton import Moves


class CanaryRules(Struct, frozen=True, kw_only=True):
    """The answers of a canary to the questions of `StrategyRules`."""

    strategy: Canary
    step: StepGoal
    held: Contribution | None = None

    def alone(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """Skips all steps when somebody promoted the revision past them; not while it is aborted or paused."""
        skips = ctx.promoted_full and not self.step.at_end and not ctx.aborted and not ctx.paused
        return (skip_steps(len(self.strategy.steps), ctx.now_s),) if skips else ()

    def opening(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        return ()

    def services(self, ctx: PassContext) -> tuple[ServiceSwitch, ...]:
        """The switches of stableService and canaryService, in that order, each only if it is named."""
        stable_name, canary_name = self.strategy.stable_service, self.strategy.canary_service
        canary = _canary_service(ctx, self, canary_name) if canary_name else None
        if not stable_name:
            return (canary,) if canary is not None else ()
        target = ctx.stable or ctx.new
        at_least = no_worse(ctx, stable_name, target)
        if ctx.stable is not None and _cuts_over(ctx, self):
            target, at_least = ctx.new, most_canary_replicas(ctx)
        stable = switch_to(ctx, stable_name, target, at_least=at_least)
        if canary is None or not canary_name:
            return (stable,)
        return stable, one_at_a_time(stable, canary, names=(stable_name, canary_name))

    def departures(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> Iterator[Cutover]:
        """Services that leave a revision: stableService, forward and back, and with traffic routing canaryService too.

        Forward, stableService has left the stable revision, which has pods, when no slices show one of them any more. No earlier
        record is needed, because status names the stable revision. Back, the revision that a Service selects now is recorded
        before the Service changes.
        """
        stable_service, new, stable = self.strategy.stable_service, ctx.new, ctx.stable
        if stable_service is not None and new is not None and stable is not None and not ctx.aborted:
            has_pods, shown = stable.spec_replicas > 0, stable.revision in ctx.shown_revisions
            if has_pods and not shown and services[0].selects == new.revision:
                yield Cutover(service=stable_service, from_revision=stable.revision, to_revision=new.revision)
        for name, switch in zip(ctx.named_services, services, strict=True):
            by_ratio = name == self.strategy.canary_service and ctx.by_ratio
            if by_ratio or switch.selects == ctx.status.stable_revision:
                continue
            for intent in switch.intents:
                if isinstance(intent, SwitchService):
                    yield Cutover(service=name, from_revision=switch.selects, to_revision=intent.revision)

    def observed(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[StatusChange, ...]:
        return ()

    def trusted(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[ServiceSwitch, ...]:
        """The switches. A changed subset counts once proxies know it; a write waits for the record of its cutover."""
        switches = _once_proxies_know(ctx, self.strategy, services)
        if ctx.status.cutovers == ctx.recorded.cutovers:
            return switches
        recorded = {(cutover.service, cutover.from_revision) for cutover in ctx.recorded.cutovers}
        begins = {(cutover.service, cutover.from_revision) for cutover in ctx.status.cutovers} - recorded
        trusted = []
        for switch in switches:
            writes = [intent for intent in switch.intents if isinstance(intent, SwitchService)]
            if any((write.name, switch.selects) in begins for write in writes):  # a crash would lose the cutover
                switch = replace(switch, intents=())  # noqa: PLW2901
            trusted.append(switch)
        return tuple(trusted)

    def routing(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> Routing:
        """What the routes should say. The step has arrived only when tests at canaryService reach the new revision, too."""
        stable, canary = services if len(services) > 1 else (ServiceSwitch(), ServiceSwitch())
        routing = route_traffic(ctx, self.strategy, asked=self.step.split, stable=stable, canary=canary)
        if not routing.arrived or self.strategy.canary_service is None or ctx.new is None or ctx.stable is None:
            return routing
        reached = services[-1].confirmed and services[-1].selects == ctx.new.revision
        if reached or self.step.at_end or self.step.canary_replicas == 0:
            return routing
        return replace(routing, arrived=False)

    def sizes(self, ctx: PassContext, services: tuple[ServiceSwitch, ...], routing: Routing) -> Sizes:
        """The sizes for the ratio of pods, or for the traffic that routes may send now or after the writes of this pass."""
        # It is unknown where requests go while a Service or route of the spec is missing, unusable or not read yet.
        unread = [name for name in ctx.named_services if name not in ctx.services_seen]
        route_missing = routing.wait is not None and routing.wait.reason in ROUTES_NEED_A_PERSON
        demand = Demand(
            weight_percent=self.step.weight_percent,
            canary_replicas=self.step.canary_replicas,
            canary_traffic=ctx.effective_weight.and_soon(routing.split),
            holding=_holds_stable(ctx, self.strategy, services),
            lacking=bool(unread) or route_missing or _unusable(services),
        )
        return canary_sizes(ctx, self.strategy, demand)

    def reached(self, ctx: PassContext, sizes: Sizes) -> bool:
        """Whether enough new pods are available, this pass sets both wanted sizes, and, by ratio, no older pod is available."""
        if ctx.new is None or ctx.new.deleting:
            return False
        new = at_desired(
            desired=sizes.wanted_new,
            spec=sizes.new,
            available=ctx.new.available_for_steps,
            threshold=self.strategy.replica_progress_threshold,
        )
        older_gone = not ctx.by_ratio or not any(replica_set.available for replica_set in ctx.older)
        return new and sizes.stable == sizes.wanted_stable and older_gone

    def guards(self, ctx: PassContext, moves: Moves) -> tuple[Guard, ...]:
        """The analyses of this step and of the background; each begins when the revision gets the requests that it measures."""
        at_step = moves.routing.arrived and moves.reached and not ctx.none_available and not _unusable(moves.services)
        guards = []
        for gate in guarding_gates(ctx):
            if gate == BEFORE_UPDATE:  # the update has begun
                continue
            begins = _gets_requests(ctx, self.strategy) if gate == BACKGROUND else at_step
            guards.append(guarded(ctx, gate, begins=begins))
        return tuple(guards)

    def wait(self, ctx: PassContext, moves: Moves) -> Wait | None:
        return canary_wait(ctx, self.step, moves)

    def weight(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        return _weight_change(ctx, self.step.weight_percent)

    def wake_at_s(self, ctx: PassContext) -> float | None:
        return pause_end_s(ctx, self.step.pause)

    def complete(self, ctx: PassContext, moves: Moves, plan: Contribution) -> Contribution:
        """The plan with the step done, or the promotion. Work for the next step begins when this is on record."""
        if not ctx.durable or (moves.guards and any(guard.holds for guard in moves.guards)):
            return plan
        if not self.step.at_end:
            done = _step_is_done(ctx, self, moves, plan.wait)
            if not done or (evidence_wait(self.step, moves) or autoscaling_wait(ctx, self.step)) is not None:
                return plan
            return _stepped(ctx, self, plan)
        background = next((guard for guard in moves.guards if guard.gate == BACKGROUND), None)
        if background is not None and background.wait is not None and plan.wait is background.wait:
            return replace(plan, intents=(*plan.intents, *background.ending))
        if plan.wait is None and ctx.status.current_revision != ctx.status.stable_revision:
            return _promotion(ctx, self.strategy, plan)
        return plan


def _unusable(services: tuple[ServiceSwitch, ...]) -> bool:
    return bool([wait for switch in services if (wait := switch.wait) is not None and wait.reason in NEEDS_A_PERSON])


def _canary_service(ctx: PassContext, rules: CanaryRules, name: ServiceRef) -> ServiceSwitch:
    """The switch of the canary Service.

    With routers the Service changes only while no request reaches it, and the new revision needs enough pods for its step.
    """
    strategy, step = rules.strategy, rules.step
    new_serves = ctx.new_available > 0 and not ctx.aborted and step.canary_replicas != 0
    target = ctx.new if new_serves or ctx.stable is None else ctx.stable
    at_least = min(1, ctx.spec.replicas)
    if ctx.routed:
        selected = selected_revision(ctx, name)
        if selected and ctx.effective_weight.reaches_canary:
            target = ctx.of_revision(selected) or target
        if target is not None and target is ctx.new and ctx.stable is not None and not ctx.aborted:
            enough = least_met(desired=step.canary_replicas, threshold=strategy.replica_progress_threshold)
            at_least = max(at_least, enough)
    return switch_to(ctx, name, target, at_least=at_least)


def _cuts_over(ctx: PassContext, rules: CanaryRules) -> bool:
    """Whether the stable Service should select the new revision: all steps are done, and all new pods that fit are available.

    With routers, it must also be certain that no request reaches the stable Service any more.
    """
    early = ctx.aborted or rules.step.weight_percent < 100 or not rules.step.at_end
    if ctx.new is None or early or exchanges_roles(ctx):
        return False
    switched = selected_revision(ctx, rules.strategy.stable_service) == ctx.new.revision
    left = not ctx.routed or ctx.effective_weight.least_percent == 100 or ctx.spec.replicas == 0
    return switched or (left and ctx.new_available >= most_canary_replicas(ctx) and not ctx.paused)


def _holds_stable(ctx: PassContext, strategy: Canary, services: tuple[ServiceSwitch, ...]) -> bool:
    """Whether a stable pod must stay: until the stable Service's slices show only new pods, and stable has drained.

    By the ratio of pods, unavailable ones make room for their replacement. With routes there is room, and a pod may recover.
    """
    if ctx.stable is None or ctx.new is None or (ctx.by_ratio and not ctx.stable.available):
        return False
    if draining(ctx, ctx.stable.revision) is not None:  # maybe from a Service that an earlier spec named
        return True
    return bool(strategy.stable_service) and not (services[0].confirmed and services[0].selects == ctx.new.revision)


def _once_proxies_know(
    ctx: PassContext, strategy: Canary, services: tuple[ServiceSwitch, ...]
) -> tuple[ServiceSwitch, ...]:
    """The switches, but a changed stable subset is confirmed only after the settle time, if too few old pods are left.

    A proxy learns of a DestinationRule and of a VirtualService separately. A proxy with the new route and the old rule would
    send all requests to the old pods that `dynamicStableScale` has left.
    """
    name = strategy.stable_service
    if ctx.stable is None or not ctx.status.cutovers or not isinstance(name, SubsetName) or not services[0].confirmed:
        return services
    to = (name, services[0].selects)
    changes = [cutover for cutover in ctx.status.cutovers if (cutover.service, cutover.to_revision) == to]
    if not changes or changes[-1].confirmed_at_s is None or ctx.stable_available >= ctx.promised:
        return services
    routes = ctx.seen.routes.values()
    settle_s = max((route.settle_s for route in routes if isinstance(route, RouteSeen)), default=0.0)
    until_s = changes[-1].confirmed_at_s + settle_s
    if ctx.now_s >= until_s:
        return services
    learn = f"proxies are given {settle_s:g} s to learn what {display_name(name)} selects"
    wait = Wait(Reason.SERVICE_SWITCHING, learn, until_s)
    return (replace(services[0], confirmed=False, wait=wait, wake_at_s=until_s), *services[1:])


def _step_is_done(ctx: PassContext, rules: CanaryRules, moves: Moves, wait: Wait | None) -> bool:
    index = ctx.status.step_index
    match rules.strategy.steps[index]:
        case SetWeight() | SetCanaryReplicas() | SetCanaryScalePercent() | MatchTrafficWeight():
            if (wait is not None and wait.reason in NEEDS_A_PERSON) or rules.step.analyzes:
                return False
            recorded = ctx.recorded.weight_percent == rules.step.weight_percent  # a retry or a resume sets it first
            return recorded and moves.routing.arrived and moves.reached
        case SetHeaderRoute() | SetMirrorRoute():
            return moves.routing.arrived and moves.reached
        case Pause() as pause:
            end_s = pause_end_s(ctx, pause)
            return ctx.promoted_past(index) or (end_s is not None and ctx.now_s >= end_s)
        case PauseUntilPromoted():
            return ctx.promoted_past(index)
        case Analyze():
            return is_judged(ctx, AnalysisGate(AnalysisKind.STEP, index))
        case RunExperiment():
            return is_judged(ctx, AnalysisGate(AnalysisKind.EXPERIMENT, index))


def _gets_requests(ctx: PassContext, strategy: Canary) -> bool:
    """Whether requests reach the new revision: a background analysis measures nothing before.

    A weight that is live may still be that of the revision before, whose update this one takes the place of. The stable Service
    may lead to the new revision already: it goes there at 0 replicas.
    """
    if ctx.by_ratio or ctx.stable is None:
        return ctx.new_available > 0
    if not ctx.routed:
        return ctx.new_available > 0 and bool(ctx.recorded.weight_percent)
    traffic, revision, service = ctx.recorded.traffic, ctx.status.current_revision, strategy.canary_service
    if traffic is None:
        return False
    if selected_revision(ctx, strategy.stable_service) == revision and traffic.observed_percent not in (None, 100):
        return ctx.new_available > 0
    reached = not service or selected_revision(ctx, service) == revision
    return reached and bool(traffic.observed_percent or traffic.observed_routes)


def _stepped(ctx: PassContext, rules: CanaryRules, plan: Contribution) -> Contribution:
    """The plan, with the current step recorded as done and the wait of the next step."""
    strategy, index, steps = rules.strategy, ctx.status.step_index, len(rules.strategy.steps)
    done = (*plan.changes, begin_step(index + 1, ctx.now_s))
    next_step = ctx.recording(done)
    weight_percent = asked_weight(next_step, strategy)
    done = (*done, *_weight_change(next_step, weight_percent))
    pause = pause_at(strategy, index + 1)
    begins = Wait(Reason.PODS_NOT_AVAILABLE, f"step {step_number(index + 1)} begins")
    message = f"step {step_number(index)} of {steps} of revision {ctx.status.current_revision} is done"
    intents, stable = plan.intents, ctx.stable
    if weight_percent < rules.step.weight_percent and stable is not None:  # it keeps the pods that it needs again
        resizes = (each for each in intents if isinstance(each, PatchReplicaSet) and each.uid == stable.uid)
        shrinks = [each for each in resizes if each.replicas is not None and each.replicas < stable.spec_replicas]
        intents = tuple([each for each in intents if each not in shrinks])
    return replace(
        plan,
        intents=intents,
        changes=done,
        wait=pause_wait(next_step, pause) or begins,
        wake_at_s=earliest([pause_end_s(next_step, pause), next_scale_down_s(ctx)]),
        notices=(*plan.notices, Notice(Reason.STEP_COMPLETED, message)),
    )


def _weight_change(ctx: PassContext, weight_percent: WeightPercent) -> tuple[StatusChange, ...]:
    return () if ctx.status.weight_percent == weight_percent else (set_canary_weight(weight_percent),)


def _promotion(ctx: PassContext, strategy: Canary, plan: Contribution) -> Contribution:
    """The promotion. With traffic routing the old pods drain; without `dynamicStableScale` they also stay for their delay."""
    routing, old, new = strategy.traffic_routing, ctx.status.stable_revision, ctx.status.current_revision
    exchange = (exchange_roles,) if exchanges_roles(ctx) else ()
    drains: tuple[StatusChange, ...] = ()
    if routing is not None and strategy.stable_service:
        drains = begin_cutovers(ctx, (Cutover(service=strategy.stable_service, from_revision=old, to_revision=new),))
    kept: tuple[StatusChange, ...] = ()
    if routing is not None and not routing.dynamic_stable_scale:
        kept = keep_pods_of_stable(ctx.recording(drains), delay_s=strategy.scale_down_delay_s)
    return promoted(ctx, plan, after=(*exchange, *drains, *kept, set_canary_weight(100)))
