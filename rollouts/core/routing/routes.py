"""Traffic by weights: which split the routes should have, how far it is live, and what to ask or write next.

A route says what is wanted, and its status is no proof; only the data plane knows (measured, docs/traffic-verification.md: one
status said "accepted" up to 2 s before the old weights were gone, another never said it although the route served). So a split
is live only when the data plane was asked, or, where nobody can be asked, when the settle time has passed. Until then either
split may be in effect, and every decision must be safe for both.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import assert_never

from msgspec import Struct

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest
from rollouts.core.model.changes import StatusChange, record_traffic
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskFeatures, AskRoute, Intent, MakeRoute, Notice, SetTraffic
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
from rollouts.core.routing.elsewhere import record_elsewhere, to_be_recorded
from rollouts.core.routing.services import ASK_MOST_S, ServiceSwitch, ask_again_s
from rollouts.core.routing.stickiness import as_said, sticking
from rollouts.core.routing.verification import (
    RouteVerification,
    half_way,
    managed_names,
    percent_of,
    says,
    split_text,
    verified,
)

WORTH_A_WRITE = Fraction(1, 4)
"""The smallest part of the traffic still to come back to the stable Service that gets a write of its own."""

FEATURES_AGAIN_S = 60.0
"""Upgrading a gateway changes no object that is watched, so the features of its class are read again after this time."""

ROUTES_NEED_A_PERSON = frozenset(
    {Reason.ROUTE_NOT_FOUND, Reason.ROUTE_NOT_USABLE, Reason.API_FORBIDDEN, Reason.API_REFUSED}
)


class Routing(Struct, frozen=True, kw_only=True):
    """What the routes need in this pass.

    Args:
        split: what the routes should say now; the step's own split only when the pods for it are ready.
        arrived: the data plane does what the step asks; after the last step, all traffic is back at the stable Service.
    """

    changes: tuple[StatusChange, ...] = ()
    split: Split = ALL_TO_STABLE
    intents: tuple[Intent, ...] = ()
    notices: tuple[Notice, ...] = ()
    wait: Wait | None = None
    arrived: bool = False
    wake_at_s: float | None = None


def route_traffic(
    ctx: PassContext, strategy: Canary, *, asked: Split, stable: ServiceSwitch, canary: ServiceSwitch
) -> Routing:
    """Decides on all routes for this pass.

    Args:
        asked: what the step asks for (`asked_split`).
        stable, canary: what the two Services need, and which revisions they select.
    """
    if not ctx.routed:
        return Routing(changes=() if ctx.status.traffic is None else (record_traffic(None),), arrived=True)
    want = _wanted(ctx, strategy, asked, stable=stable)
    ready = _once_ready(ctx, want, canary=canary)
    split = _within_capacity(ctx, strategy, ready)
    outcome = _settled(ctx, split)
    at_end = ctx.status.step_index >= len(strategy.steps)
    complete = split == want == ready and (not at_end or exchanges_roles(ctx, strategy) or want == ALL_TO_STABLE)
    changes = (*outcome.changes, *record_elsewhere(ctx))
    return replace(outcome, changes=changes, arrived=outcome.arrived and complete)


def exchanges_roles(ctx: PassContext, strategy: Canary) -> bool:
    """Whether the update ends with all traffic on the canary Service: with `pingPong`, unless it is the first or has no pods."""
    return strategy.ping_pong and ctx.stable is not None and ctx.spec.replicas > 0


def left_routes(ctx: PassContext) -> tuple[RouteSeen, ...]:
    """Routes that are still managed although the spec no longer names them."""
    ours = ctx.seen.rollout.name
    return tuple([each for each in ctx.unnamed_routes if isinstance(each, RouteSeen) and each.managed_by == ours])


def pods_behind(ctx: PassContext, service: ServiceSeen) -> int:
    """Available pods that a Service selects; where its EndpointSlices are watched, only those that they show."""
    # A Service without our key selects the pods of every revision.
    sets = [each for each in ctx.seen.replica_sets if service.revision in ("", each.revision)]
    pods = sum([each.staying_available for each in sets])
    if service.watched:
        pods = min(pods, sum([service.ready_by_revision.get(each.revision, 0) for each in sets]))
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
    matches: dict[str, MatchRoute] = {}
    mirrors: dict[str, MirrorRoute] = {}
    for step in strategy.steps[: step_index + 1]:
        match step:
            case SetHeaderRoute(name=name, match=wanted):
                matches.pop(name, None)
                if wanted is not None:
                    matches[name] = MatchRoute(name, wanted)
            case SetMirrorRoute(name=name, mirror=mirror):
                mirrors.pop(name, None)
                if mirror is not None:
                    mirrors[name] = mirror
            case _:
                pass
    if not matches and not mirrors:
        return (), ()
    names = routing.managed_routes
    return (
        tuple([matches[name] for name in names if name in matches]),
        tuple([mirrors[name] for name in names if name in mirrors]),
    )


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
        if stable.selects == ctx.new.revision and handed_back and not exchanges_roles(ctx, strategy):
            return ALL_TO_STABLE
        return asked
    routing = strategy.traffic_routing
    cookie = routing.sticky if routing is not None else None
    return asked if cookie is None else sticking(asked, replace(cookie, seed=ctx.new.revision))


def _once_ready(ctx: PassContext, want: Split, *, canary: ServiceSwitch) -> Split:
    """`want` when the canary Service's slices show enough pods; until then no more than the recorded split.

    A pause, or a revision that is not on record yet, raises nothing either. The canary gets nothing while none of its pods is
    available (one dead pod of several is no reason), or while its Service still selects another revision, one that was given up.
    """
    if not want.reaches_canary or ctx.new is None:
        return want
    if canary.selects != ctx.new.revision or ctx.none_available:
        return ALL_TO_STABLE
    if canary.confirmed and ctx.durable and not ctx.paused:
        return want
    traffic = ctx.status.traffic
    share = Fraction(traffic.desired_percent) / 100 if traffic is not None else Fraction(0)
    names = traffic.desired_routes if traffic is not None else ()
    matches = tuple(each for each in want.matches if each.name in names)
    mirrors = tuple(each for each in want.mirrors if each.name in names)
    return sticking(Split(min(want.share, share), matches, mirrors), want.sticky)


def _within_capacity(ctx: PassContext, strategy: Canary, split: Split) -> Split:
    """`split`, limited so that no more traffic returns to the stable Service than its pods can take.

    They can take all of it when `replicas` − `maxUnavailable` are available and in its EndpointSlices. Otherwise each pod takes
    its part of `replicas`, and the rest follows as pods come. The canary never gets more than the routes say or are to say: what
    may still be live from before raises nothing, nor does a route that nobody has read yet. Source: argo-rollouts issue 3372,
    flagger issue 635.
    """
    replicas = ctx.spec.replicas
    if replicas == 0 or split.share * 100 >= ctx.effective_weight.most_percent:
        return split
    now_share = Fraction(ctx.written_percent) / 100
    if split.share >= now_share:
        return split
    service = ctx.services_seen.get(strategy.stable_service or "")
    if service is None:
        return sticking(replace(split, share=now_share), split.sticky)
    pods = pods_behind(ctx, service)
    if pods >= ctx.enough_for_all:
        return split
    room = Fraction(min(100, 100 * pods // replicas), 100)
    share = _worth_a_write(ctx, split, share=max(split.share, min(now_share, 1 - room)))
    return sticking(replace(split, share=share), split.sticky)


def _worth_a_write(ctx: PassContext, split: Split, *, share: Fraction) -> Fraction:
    """`share`, or the share that the routes have already when the difference is too small for a write.

    So the number of writes grows with the logarithm of the pods, and the canary never has more than 4/3 of the share that it must
    keep. When all traffic can come back, it does so at once.
    """
    traffic = ctx.status.traffic
    if traffic is None or traffic.desired_routes != managed_names(split):
        return share
    told_share = Fraction(traffic.desired_percent) / 100
    rest = told_share - split.share
    return told_share if split.share < share < told_share and told_share - share < rest * WORTH_A_WRITE else share


def _settled(ctx: PassContext, split: Split) -> Routing:
    """Brings every route to `split` and finds out whether the data plane follows; `arrived` when all routes are live."""
    outcomes: list[RouteVerification] = []
    intents: list[Intent] = []
    notices: list[Notice] = []
    wakes: list[float | None] = []
    wait: Wait | None = None
    said = recorded = True
    for route in ctx.seen.routes.values():
        if not route.named:
            continue
        outcome = _one(ctx, route, split)
        outcomes.append(outcome)
        intents += outcome.intents
        notices += outcome.notices
        wakes.append(outcome.wake_at_s)
        wait = wait or outcome.wait
        said = said and outcome.said
        recorded = recorded and outcome.recorded
    said = said and bool(outcomes)
    live = said and wait is None
    return Routing(
        changes=() if said and recorded else _record(ctx, split, outcomes, said=said, live=live),
        split=split,
        intents=tuple(intents),
        notices=tuple(notices),
        wait=wait,
        arrived=live,
        wake_at_s=earliest(wakes),
    )


def _record(
    ctx: PassContext, split: Split, outcomes: list[RouteVerification], *, said: bool, live: bool
) -> tuple[StatusChange, ...]:
    """What status is to tell of the split.

    Args:
        said: every route says it.
        live: every data plane does it.
    """
    timed = [each for each in outcomes if each.timed]  # else the moment need not be known, nor a write made for it
    traffic = _recorded(ctx, split, said_at_s=ctx.now_s if said and (timed or live) else None)
    if live:
        traffic = _observed(traffic, outcomes)
    return () if ctx.status.traffic == traffic else (record_traffic(traffic),)


def _observed(traffic: Traffic, outcomes: Iterable[RouteVerification]) -> Traffic:
    """The record that `split` is live, with how that was verified; unchanged when it says so already."""
    if traffic.verified_by is not None:
        return traffic
    return replace(
        traffic,
        observed_percent=traffic.desired_percent,
        observed_routes=traffic.desired_routes,
        verified_by=max([each.verified_by for each in outcomes], key=_order),
    )


def _one(ctx: PassContext, route: Route, split: Split) -> RouteVerification:
    match route:
        case RouteUnasked(route=name):
            return RouteVerification(intents=(AskRoute(name),), wait=_reading(name))
        case RouteAbsent():
            return _absent(ctx, route, split)
        case RouteSeen():
            outcome = _one_seen(ctx, route, split)
            unusable = outcome.wait is not None and outcome.wait.reason is Reason.ROUTE_NOT_USABLE
            if unusable and not route.managed_by:  # not watched: no event comes when its user repairs it
                return replace(outcome, wake_at_s=ctx.now_s + ASK_MOST_S)
            return outcome
        case never:
            assert_never(never)


def not_there_yet(ctx: PassContext, route: Route) -> Wait | None:
    """Why a route cannot be used now, whatever it is to say: it is not read yet, missing, another's, or cannot be managed."""
    match route:
        case RouteUnasked(route=name):
            return _reading(name)
        case RouteAbsent(ours=True):
            refused = still_refused(ctx, route, ALL_TO_STABLE)
            return None if refused is None else Wait(refused.reason, refused.message)
        case RouteAbsent():
            return _missing(route)
        case RouteSeen():
            if route.managed_by not in ("", ctx.seen.rollout.name):
                return _of_another(route)
            return None if route.split is not None or route.anew else _unreadable(route)
        case never:
            assert_never(never)


def _reading(name: RouteName) -> Wait:
    return Wait(Reason.TRAFFIC_SWITCHING, f"reading {name}")


def _missing(route: RouteAbsent) -> Wait:
    message = route.message or f"{route.route} does not exist: create it, or remove it from trafficRouting"
    return Wait(Reason.ROUTE_NOT_FOUND, message)


def _of_another(route: RouteSeen) -> Wait:
    message = f"{route.route} belongs to Rollout {route.managed_by}: name another one in trafficRouting"
    return Wait(Reason.ROUTE_NOT_USABLE, message, spec_is_wrong=True)


def _unreadable(route: RouteSeen) -> Wait:
    return Wait(Reason.ROUTE_NOT_USABLE, f"{route.route}: {route.problem}")


def _absent(ctx: PassContext, route: RouteAbsent, split: Split) -> RouteVerification:
    if route.ours:
        made = _by_weight(split)
        if (refused := still_refused(ctx, route, made)) is not None:
            return _refused(refused)
        notice = Notice(Reason.ROUTE_MADE, f"creating {route.route} with {split_text(made)}")
        wait = Wait(Reason.TRAFFIC_SWITCHING, f"creating {route.route}")
        return RouteVerification(intents=(MakeRoute(route.route, made),), notices=(notice,), wait=wait)
    wait = _missing(route)
    again_s = ask_again_s(ctx, wait.reason, asked_at_s=route.at_s)
    if ctx.now_s >= again_s:
        return RouteVerification(intents=(AskRoute(route.route),), wait=wait)
    return RouteVerification(wait=wait, wake_at_s=again_s)


def _one_seen(ctx: PassContext, route: RouteSeen, split: Split) -> RouteVerification:
    ours = ctx.seen.rollout.name
    if route.managed_by not in ("", ours):
        return RouteVerification(wait=_of_another(route))
    if route.anew:
        split = _by_weight(split)
        if route.split is None or route.split == split:
            refused = still_refused(ctx, route, split)
            return _anew(route, split) if refused is None else _refused(refused)
    if route.split is None:
        return RouteVerification(wait=_unreadable(route))
    if route.split == split and route.managed_by == ours:
        return verified(ctx, route, split)
    if (lacking := _lacking(ctx, route, split)) is not None:
        return lacking
    if to_be_recorded(ctx, route.route):
        return RouteVerification(
            wait=Wait(Reason.TRAFFIC_SWITCHING, f"recording that this Rollout manages {route.route}")
        )
    if (refused := still_refused(ctx, route, split)) is not None:
        return _refused(refused)
    intent = SetTraffic(route=route.route, uid=route.uid, resource_version=route.resource_version, split=split)
    wait = Wait(Reason.TRAFFIC_SWITCHING, f"writing {split_text(split)} into {route.route}")
    if route.split.idle and route.managed_by == ours:
        return _on_the_way(ctx, route, route.split, replace(intent, settled=False), wait)
    return RouteVerification(intents=(intent,), notices=_change(ctx, route, split), wait=wait)


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
        for each in ctx.seen.routes.values()
        if isinstance(each, RouteSeen | RouteAbsent) and each.refused is not None
        if (refused := still_refused(ctx, each, each.refused.split)) is not None
    ]


def _refused(refused: RouteRefused) -> RouteVerification:
    wait = Wait(refused.reason, refused.message)
    return RouteVerification(wait=wait, wake_at_s=refused.at_s + refused.again_s)


def _anew(route: RouteSeen, split: Split) -> RouteVerification:
    """Writes the route again from its manifest. No requests move: it has the wanted share already, or none is known."""
    notice = Notice(Reason.ROUTE_MADE, f"{route.route} {route.anew}: writing it again with {split_text(split)}")
    version = route.resource_version
    intent = SetTraffic(route=route.route, uid=route.uid, resource_version=version, split=split, anew=True)
    return RouteVerification(
        intents=(intent,),
        notices=(notice,),
        wait=Wait(Reason.TRAFFIC_SWITCHING, f"writing {route.route} again from the spec"),
    )


def _by_weight(split: Split) -> Split:
    """The split by weight alone: the codec adds managed routes step by step, and gateways may not know them."""
    return Split(split.share if split.sticky is None else Fraction(0))


def _on_the_way(ctx: PassContext, route: RouteSeen, there: Split, intent: SetTraffic, wait: Wait) -> RouteVerification:
    """Some rules of the route are idle, new or about to go: the data plane must have them so before the next write."""
    traffic = ctx.status.traffic
    known = traffic is not None and says(traffic, intent.split)
    outcome = half_way(ctx, route, there)
    return RouteVerification(
        intents=(replace(intent, settled=outcome.wait is None), *outcome.intents),
        notices=() if known else _change(ctx, route, intent.split),
        wait=outcome.wait or wait,
        wake_at_s=outcome.wake_at_s,
    )


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


def _recorded(ctx: PassContext, split: Split, *, said_at_s: float | None) -> Traffic:
    """The record of `split`: the existing one while it is the same split and the routes still say it, else a new one."""
    before = ctx.status.traffic
    if before is not None and says(before, split) and said_at_s is not None:
        return before if before.seen_at_s is not None else replace(before, seen_at_s=said_at_s)
    return replace(
        before or Traffic(desired_percent=0),
        desired_percent=percent_of(split),
        desired_routes=managed_names(split),
        seen_at_s=said_at_s,
        verified_by=None,
    )


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


def _order(by: VerifiedBy) -> int:
    return list(VerifiedBy).index(by)
