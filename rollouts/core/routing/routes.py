"""Traffic by weights: which split the routes should have, how far it is live, and what to ask or write next.

A route says what is wanted, and its status is no proof; only the data plane knows (measured, docs/traffic-verification.md: one
status said "accepted" up to 2 s before the old weights were gone, another never said it although the route served). So a split
is live only when the data plane was asked, or, where nobody can be asked, when the settle time has passed. Until then either
split may be in effect, and every decision must be safe for both.

A split has four names on its way to the routes (`route_traffic`):

- `asked`: what the step asks for
- `wanted`: that, or all to stable, as after an abort and at the end
- `ready`: no more than the record while the canary's pods or its Service are not there yet
- `split`: what the routes should say now, which returns no more to the stable Service than its pods can take

A route *says* `route.split`. `status.traffic` records what was to be said (`desired`) and what was last live (`observed`);
`ctx.effective_weight` is the range that may be in effect.

A route that says something else gets no write in this pass while

- it is not read, is missing, or belongs to another Rollout (`not_there_yet`);
- the features of its gateway are unknown, or one is lacking (`_lacking`);
- status does not say yet which share an Experiment gets;
- it is in another namespace, and status does not say yet that this Rollout manages it;
- the same write was refused a moment ago (`still_refused`);
- some of its rules are idle, and the data plane must have them so first (`_reconcile_seen`).
"""

from __future__ import annotations

from fractions import Fraction

from msgspec.structs import astuple

from rollouts.core.context.contribution import Contribution, joined
from rollouts.core.context.effective_weight import written_percent
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.model.changes import StatusChange, record_routes_elsewhere, record_traffic
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskFeatures, AskRoute, MakeRoute, Notice, SetTraffic
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ServiceSeen
from rollouts.core.model.status import Traffic
from rollouts.core.model.steps import SetHeaderRoute, SetMirrorRoute, WeightPercent
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    MatchRoute,
    MirrorRoute,
    Route,
    RouteAbsent,
    RouteName,
    RouteRefused,
    RouteSeen,
    RouteUnasked,
    Split,
    VerifiedBy,
    features_needed,
)
from rollouts.core.routing.services import ASK_MOST_S, ServiceSwitch, ask_again_s
from rollouts.core.routing.stickiness import as_said, sticking
from rollouts.core.routing.verification import (
    RouteVerification,
    experiment_weights,
    managed_names,
    percent_of,
    says,
    split_text,
    verify,
    verify_intermediate,
)

WORTH_A_WRITE = Fraction(1, 4)
"""The smallest part of the traffic still to come back to the stable Service that gets a write of its own."""

FEATURES_AGAIN_S = 60.0
"""Upgrading a gateway changes no object that is watched, so the features of its class are read again after this time."""

ROUTES_NEED_A_PERSON = frozenset(
    {Reason.ROUTE_NOT_FOUND, Reason.ROUTE_NOT_USABLE, Reason.API_FORBIDDEN, Reason.API_REFUSED}
)


class Routing(Contribution, frozen=True, kw_only=True):
    """What the routes need in this pass.

    Args:
        split: what the routes should say now; the step's own split only when the pods for it are ready.
        arrived: the data plane does what the step asks; after the last step, all traffic is back at the stable Service.
    """

    split: Split = ALL_TO_STABLE
    arrived: bool = False


def route_traffic(
    ctx: PassContext, strategy: Canary, *, asked: Split, stable: ServiceSwitch, canary: ServiceSwitch
) -> Routing:
    """Brings every route to the split that is safe now, and finds out whether the data plane follows."""
    if not ctx.routed:
        return Routing(changes=() if ctx.status.traffic is None else (record_traffic(None),), arrived=True)
    wanted = _wanted(ctx, strategy, asked, stable=stable)
    ready = _once_ready(ctx, wanted, canary=canary)
    split = _within_capacity(ctx, strategy, ready)
    if split.experiments and sum([each.share for each in split.experiments], split.share) > 1:
        # The canary keeps more than its step leaves them: stable takes theirs, and has the pods for all that the canary leaves.
        split = replace(split, experiments=())
    at_end = ctx.status.step_index >= len(strategy.steps)
    complete = split == wanted == ready and (not at_end or exchanges_roles(ctx) or wanted == ALL_TO_STABLE)
    outcomes = [_reconcile_route(ctx, route, split) for route in ctx.seen.routes.values() if route.named]
    whole, said, recorded = joined(outcomes), bool(outcomes), True
    for outcome in outcomes:
        said = said and outcome.said
        recorded = recorded and outcome.recorded
    live = said and whole.wait is None
    changes = record_elsewhere(ctx)
    if not (said and recorded):
        traffic = _recorded(ctx, split, outcomes, said=said, live=live)
        if traffic != ctx.status.traffic:
            changes = (record_traffic(traffic), *changes)
    return Routing(
        changes=changes,
        split=split,
        intents=whole.intents,
        notices=whole.notices,
        wait=whole.wait,
        arrived=live and complete,
        wake_at_s=whole.wake_at_s,
    )


def exchanges_roles(ctx: PassContext) -> bool:
    """Whether the update ends with all traffic on the canary Service: with `pingPong`, unless it is the first or has no pods."""
    return ctx.spec.strategy.ping_pong and ctx.stable is not None and ctx.spec.replicas > 0


def left_routes(ctx: PassContext) -> tuple[RouteSeen, ...]:
    """Routes that are still managed although the spec no longer names them."""
    ours = ctx.seen.rollout.name
    return tuple([route for route in ctx.unnamed_routes if isinstance(route, RouteSeen) and route.managed_by == ours])


def pods_behind(ctx: PassContext, service: ServiceSeen) -> int:
    """Available pods that a Service selects; where its EndpointSlices are watched, only those that they show."""
    # A Service without our key selects the pods of every revision.
    sets = [replica_set for replica_set in ctx.seen.replica_sets if service.revision in ("", replica_set.revision)]
    pods = sum([replica_set.staying_available for replica_set in sets])
    if service.watched:
        pods = min(pods, sum([service.ready_by_revision.get(replica_set.revision, 0) for replica_set in sets]))
    return pods


def asked_split(strategy: Canary, step_index: int, weight_percent: WeightPercent) -> Split:
    """What a step asks of the routes: its weight, and the managed routes in force at it; of requests, not of clients."""
    matches, mirrors = routed_splits(strategy, step_index)
    return Split(Fraction(weight_percent) / 100, matches, mirrors)


def routed_splits(strategy: Canary, step_index: int) -> tuple[tuple[MatchRoute, ...], tuple[MirrorRoute, ...]]:
    """The managed routes in effect at a step, in the order of `managedRoutes`; none after the last step."""
    routing = strategy.traffic_routing
    if routing is None or step_index >= len(strategy.steps):
        return (), ()
    matches: dict[str, MatchRoute | None] = {}  # by name; None for one that a later step has removed
    mirrors: dict[str, MirrorRoute | None] = {}
    for step in strategy.steps[: step_index + 1]:
        if isinstance(step, SetHeaderRoute):
            matches[step.name] = None if step.match is None else MatchRoute(step.name, step.match)
        elif isinstance(step, SetMirrorRoute):
            mirrors[step.name] = step.mirror
    if not matches and not mirrors:
        return (), ()
    names = routing.managed_routes
    in_force = [route for name in names if (route := matches.get(name)) is not None]
    return tuple(in_force), tuple([mirror for name in names if (mirror := mirrors.get(name)) is not None])


def _wanted(ctx: PassContext, strategy: Canary, asked: Split, *, stable: ServiceSwitch) -> Split:
    """The split that the step asks for.

    At the end all traffic goes to the canary Service, then the stable Service changes its selector, then all traffic comes back
    to it: no Service that has traffic ever changes what it selects. With `pingPong` it stays there and the Services change roles.
    """
    if ctx.stable is None or ctx.aborted or ctx.new is None or ctx.spec.replicas == 0:
        return ALL_TO_STABLE
    if ctx.status.step_index >= len(strategy.steps):
        traffic = ctx.status.traffic
        handed_back = stable.confirmed or (traffic is not None and traffic.desired_percent == 0)
        if stable.selects == ctx.new.revision and handed_back and not exchanges_roles(ctx):
            return ALL_TO_STABLE
        return asked
    routing = strategy.traffic_routing
    cookie = routing.sticky if routing is not None else None
    return asked if cookie is None else sticking(asked, replace(cookie, seed=ctx.new.revision))


def _once_ready(ctx: PassContext, wanted: Split, *, canary: ServiceSwitch) -> Split:
    """`wanted` when the canary Service's slices show enough pods; until then no more than the recorded split.

    A pause, or a revision that is not on record yet, raises nothing either. The canary gets nothing while none of its pods is
    available (one dead pod of several is no reason), or while its Service still selects another revision, one that was given up.
    """
    if not wanted.reaches_canary or ctx.new is None:
        return wanted
    if canary.selects != ctx.new.revision or ctx.none_available:
        return ALL_TO_STABLE
    if canary.confirmed and ctx.durable and not ctx.paused:
        return wanted
    traffic = ctx.status.traffic
    share = Fraction(traffic.desired_percent) / 100 if traffic is not None else Fraction(0)
    names = traffic.desired_routes if traffic is not None else ()
    matches = tuple(each for each in wanted.matches if each.name in names)
    mirrors = tuple(each for each in wanted.mirrors if each.name in names)
    limited = Split(min(wanted.share, share), matches, mirrors, experiments=wanted.experiments)
    return sticking(limited, wanted.sticky)


def _within_capacity(ctx: PassContext, strategy: Canary, split: Split) -> Split:
    """`split`, limited so that no more traffic returns to the stable Service than its pods can take.

    They can take all of it when `replicas` − `maxUnavailable` are available and in its EndpointSlices. Otherwise each pod takes
    its part of `replicas`, and the rest follows as pods come. The canary never gets more than the routes say or are to say: what
    may still be live from before raises nothing, nor does a route that nobody has read yet. Source: argo-rollouts issue 3372,
    flagger issue 635.

    A difference that is too small for a write is none. So the number of writes grows with the logarithm of the pods, and the
    canary never has more than 4/3 of the share that it must keep. When all traffic can come back, it does so at once.
    """
    replicas = ctx.spec.replicas
    if replicas == 0 or split.share * 100 >= ctx.effective_weight.most_percent:
        return split
    now_share = Fraction(written_percent(ctx.seen)) / 100
    if split.share >= now_share:
        return split
    service = ctx.services_seen.get(strategy.stable_service or "")
    if service is None:
        return sticking(replace(split, share=now_share), split.sticky)
    pods, traffic = pods_behind(ctx, service), ctx.status.traffic
    if pods >= ctx.enough_for_all:
        return split
    room = Fraction(min(100, 100 * pods // replicas), 100)
    share = max(split.share, min(now_share, 1 - room))
    if traffic is not None and traffic.desired_routes == managed_names(split):
        told_share = Fraction(traffic.desired_percent) / 100
        small = (told_share - split.share) * WORTH_A_WRITE
        if split.share < share < told_share and told_share - share < small:
            share = told_share
    return sticking(replace(split, share=share), split.sticky)


def _recorded(ctx: PassContext, split: Split, outcomes: list[RouteVerification], *, said: bool, live: bool) -> Traffic:
    """The record of `split`: the existing one while it is the same split and the routes still say it, else a new one."""
    # Without a settle time that runs the moment need not be known, nor a write made for it.
    said_at_s = ctx.now_s if said and (live or any(outcome.timed for outcome in outcomes)) else None
    traffic = ctx.status.traffic or Traffic(desired_percent=0)
    if ctx.status.traffic is None or said_at_s is None or not says(traffic, split):
        traffic = replace(
            traffic,
            desired_percent=percent_of(split.share),
            desired_routes=managed_names(split),
            desired_experiments=experiment_weights(split),
            seen_at_s=said_at_s,
            verified_by=None,
        )
    elif traffic.seen_at_s is None:
        traffic = replace(traffic, seen_at_s=said_at_s)
    if not live or traffic.verified_by is not None:
        return traffic
    return replace(
        traffic,
        observed_percent=traffic.desired_percent,
        observed_routes=traffic.desired_routes,
        observed_experiments=traffic.desired_experiments,
        verified_by=max([outcome.verified_by for outcome in outcomes], key=list(VerifiedBy).index),
    )


def _reconcile_route(ctx: PassContext, route: Route, split: Split) -> RouteVerification:
    if isinstance(route, RouteAbsent) and route.ours:
        made = _by_weight(split)
        if (refused := still_refused(ctx, route, made)) is not None:
            return _refused(refused)
        notice = Notice(Reason.ROUTE_MADE, f"creating {route.route} with {split_text(made)}")
        wait = Wait(Reason.TRAFFIC_SWITCHING, f"creating {route.route}")
        return RouteVerification(intents=(MakeRoute(route.route, made),), notices=(notice,), wait=wait)
    missing = not_there_yet(ctx, route)
    match route:
        case RouteUnasked(route=name):
            return RouteVerification(intents=(AskRoute(name),), wait=missing)
        case RouteAbsent(route=name, at_s=at_s):
            again_s = ask_again_s(ctx, Reason.ROUTE_NOT_FOUND, asked_at_s=at_s)
            if ctx.now_s >= again_s:
                return RouteVerification(intents=(AskRoute(name),), wait=missing)
            return RouteVerification(wait=missing, wake_at_s=again_s)
        case RouteSeen():
            seen = RouteVerification(wait=missing) if missing is not None else _reconcile_seen(ctx, route, split)
            unusable = seen.wait is not None and seen.wait.reason is Reason.ROUTE_NOT_USABLE
            if unusable and not route.managed_by:  # not watched: no event comes when its user repairs it
                return replace(seen, wake_at_s=ctx.now_s + ASK_MOST_S)
            return seen


def not_there_yet(ctx: PassContext, route: Route) -> Wait | None:
    """Why a route cannot be used now, whatever it is to say: it is not read yet, missing, another's, or cannot be managed."""
    match route:
        case RouteUnasked(route=name):
            return Wait(Reason.TRAFFIC_SWITCHING, f"reading {name}")
        case RouteAbsent(ours=True):
            refused = still_refused(ctx, route, ALL_TO_STABLE)
            return None if refused is None else Wait(refused.reason, refused.message)
        case RouteAbsent(route=name, message=message):
            missing = f"{name} does not exist: create it, or remove it from trafficRouting"
            return Wait(Reason.ROUTE_NOT_FOUND, message or missing)
        case RouteSeen(route=name, managed_by=owner) if owner not in ("", ctx.seen.rollout.name):
            another = f"{name} belongs to Rollout {owner}: name another one in trafficRouting"
            return Wait(Reason.ROUTE_NOT_USABLE, another, spec_is_wrong=True)
        case RouteSeen(split=None, rewrite_because="", route=name, problem=problem):
            return Wait(Reason.ROUTE_NOT_USABLE, f"{name}: {problem}")
        case RouteSeen():
            return None


def _reconcile_seen(ctx: PassContext, route: RouteSeen, split: Split) -> RouteVerification:
    managed = route.managed_by == ctx.seen.rollout.name
    wanted = _by_weight(split) if route.rewrite_because else split
    if managed and route.split == wanted and not route.rewrite_because:
        return verify(ctx, route, wanted)
    write = SetTraffic(route=route.route, uid=route.uid, resource_version=route.resource_version, split=wanted)
    if route.split is None or (route.rewrite_because and route.split == wanted):
        # It is written again from its manifest. No requests move: it has the wanted share already, or none is known.
        if (refused := still_refused(ctx, route, wanted)) is not None:
            return _refused(refused)
        again = Notice(
            Reason.ROUTE_MADE, f"{route.route} {route.rewrite_because}: writing it again with {split_text(wanted)}"
        )
        wait = Wait(Reason.TRAFFIC_SWITCHING, f"writing {route.route} again from the spec")
        return RouteVerification(intents=(replace(write, rewrite=True),), notices=(again,), wait=wait)
    if (lacking := _lacking(ctx, route, wanted)) is not None:
        return lacking
    if not set(experiment_weights(wanted)) <= set(ctx.recorded.experiments_on_record):
        recording = f"recording that an Experiment gets requests: {split_text(wanted)}"
        return RouteVerification(wait=Wait(Reason.TRAFFIC_SWITCHING, recording))
    if route.route.namespace != ctx.seen.rollout.namespace and route.route not in ctx.recorded.elsewhere:
        recording = f"recording that this Rollout manages {route.route}"
        return RouteVerification(wait=Wait(Reason.TRAFFIC_SWITCHING, recording))
    if (refused := still_refused(ctx, route, wanted)) is not None:
        return _refused(refused)
    wait = Wait(Reason.TRAFFIC_SWITCHING, f"writing {split_text(wanted)} into {route.route}")
    if not (managed and route.split.is_intermediate):
        return RouteVerification(intents=(write,), notices=_change(ctx, route, wanted), wait=wait)
    # Some rules are idle, or Experiments at 0, new or about to go: the data plane must have them so before the next write.
    traffic = ctx.status.traffic
    outcome = verify_intermediate(ctx, route, route.split)
    return RouteVerification(
        intents=(replace(write, settled=outcome.wait is None), *outcome.intents),
        notices=() if traffic is not None and says(traffic, wanted) else _change(ctx, route, wanted),
        wait=outcome.wait or wait,
        wake_at_s=outcome.wake_at_s,
    )


def still_refused(ctx: PassContext, route: RouteSeen | RouteAbsent, split: Split | None) -> RouteRefused | None:
    """The refusal of this very write; None when there is none, when what it was about has changed, or when it is tried again.

    Args:
        split: None for the release of the route.
    """
    refused = route.refused
    if refused is None or refused.split != split or refused.generation != ctx.seen.rollout.generation:
        return None
    version = route.resource_version if isinstance(route, RouteSeen) else ""
    return refused if refused.resource_version == version and ctx.now_s < refused.at_s + refused.again_s else None


def refused_routes(ctx: PassContext) -> list[RouteRefused]:
    """The writes of routes that are refused for now, whatever else the Rollout waits for."""
    return [
        refused
        for route in ctx.seen.routes.values()
        if isinstance(route, RouteSeen | RouteAbsent) and route.refused is not None
        if (refused := still_refused(ctx, route, route.refused.split)) is not None
    ]


def _refused(refused: RouteRefused) -> RouteVerification:
    wait = Wait(refused.reason, refused.message)
    return RouteVerification(wait=wait, wake_at_s=refused.at_s + refused.again_s)


def _by_weight(split: Split) -> Split:
    """The split by weight alone: the codec adds managed routes step by step, and gateways may not know them."""
    return Split(split.share if split.sticky is None else Fraction(0))


def _lacking(ctx: PassContext, route: RouteSeen, split: Split) -> RouteVerification | None:
    """Why the route cannot express `split`; None when it can.

    A gateway may answer every request with an error when a route uses a feature that it does not know: measured with Traefik 3.7
    and a RequestMirror filter, although its status had accepted the route.
    """
    needed = features_needed(as_said(split))
    if not needed:
        return None
    if route.features is None:
        wait = Wait(Reason.TRAFFIC_SWITCHING, f"asking what the gateways of {route.route} support")
        return RouteVerification(intents=(AskFeatures(route.route),), wait=wait)
    if not (missing := needed - route.features):
        return None
    message = (
        f"the gateways of {route.route} are not known to support {', '.join(sorted(missing))}, and a gateway without it may "
        "answer all requests with an error: remove the step, or list the feature in the router's `features` if they have it"
    )
    return RouteVerification(wait=Wait(Reason.ROUTE_NOT_USABLE, message), wake_at_s=ctx.now_s + FEATURES_AGAIN_S)


def _change(ctx: PassContext, route: RouteSeen, split: Split) -> tuple[Notice, ...]:
    if route.split == split:
        return ()
    traffic = ctx.status.traffic
    drifted = traffic is not None and traffic.verified_by is not None and says(traffic, split)
    if drifted and route.split is not None:
        message = (
            f"somebody else changed {route.route} to {split_text(route.split)}; setting it back to {split_text(split)}"
        )
        return (Notice(Reason.ROUTE_DRIFTED, message, warning=True),)
    return (Notice(Reason.TRAFFIC_WEIGHT_UPDATED, f"{route.route}: {split_text(split)}"),)


# --- routes in other namespaces than the Rollout's: one is changed only when status records that this Rollout manages it
#
# The mark on a route is no proof, because the route's owner can write any Rollout's name into it. The record comes from the spec,
# before the first write. So a crash does not lose a route that the spec dropped, and no route is ever taken by its mark alone.


def record_elsewhere(ctx: PassContext) -> tuple[StatusChange, ...]:
    """Records every route in another namespace that the spec names and that can be managed."""
    before, more = ctx.status.elsewhere, set[RouteName]()
    for route in ctx.seen.routes.values():
        usable = isinstance(route, RouteSeen) and route.named and route.split is not None
        if usable and route.route.namespace != ctx.seen.rollout.namespace and route.route not in before:
            more.add(route.route)
    return (record_routes_elsewhere(tuple(sorted({*before, *more}, key=astuple))),) if more else ()


def forget_elsewhere(ctx: PassContext) -> tuple[StatusChange, ...]:
    """Forgets routes that the spec no longer names and that were seen without our mark."""
    if not ctx.status.elsewhere:
        return ()
    ours = ctx.seen.rollout.name
    gone = {
        route.route
        for route in ctx.unnamed_routes
        if isinstance(route, RouteAbsent) or (isinstance(route, RouteSeen) and route.managed_by != ours)
    }
    kept = tuple([name for name in ctx.status.elsewhere if name not in gone])
    return () if kept == ctx.status.elsewhere else (record_routes_elsewhere(kept),)
