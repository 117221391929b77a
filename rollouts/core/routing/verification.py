"""Finds out whether the data plane does what a route says: by asking it, by counting requests, or by waiting."""

from __future__ import annotations

import math
from fractions import Fraction

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.model.intents import AskLive
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import ExperimentWeight, Traffic
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import Answer, MatchRoute, MirrorRoute, Pace, RouteSeen, Split, VerifiedBy

LIVE_FIRST_S, LIVE_MOST_S = 0.05, 1.0
"""A data plane that does not follow yet is asked again after 50 ms, then after half the time waited so far, at most 1 s."""

COUNTED_S = 60.0
"""How long to wait for counters that show nothing: two scrapes of a slow Prometheus. After that the settle time decides."""

COUNT_AGAIN_S = 5.0
"""Prometheus has nothing new before the next scrape."""

_NOT_YET = "its data plane does not follow yet"


class RouteVerification(Contribution, frozen=True, kw_only=True):
    """The result for one route.

    Args:
        said: it says what is wanted.
        recorded: status tells already that its data plane does that.
        wait: None when its data plane is known to do that.
        timed: its settle time runs.
    """

    said: bool = False
    recorded: bool = False
    timed: bool = False
    verified_by: VerifiedBy = VerifiedBy.SETTLE_TIME


def verify(ctx: PassContext, route: RouteSeen, split: Split) -> RouteVerification:
    """Whether the data plane does what the route says, which is `split`: `wait` is None when it does."""
    traffic = ctx.status.traffic
    since_s = ctx.now_s  # when all routes were first seen to say it; now when that is not on record
    if traffic is not None and says(traffic, split):
        if traffic.verified_by is not None:
            recorded = traffic.seen_at_s is not None
            return RouteVerification(said=True, recorded=recorded, verified_by=traffic.verified_by)
        since_s = since_s if traffic.seen_at_s is None else traffic.seen_at_s
    if not route.can_be_asked or split.sticky:  # how a proxy matches cookies is not compared (`probes/verdict.py`)
        return _by_settle_time(ctx, route, split, since_s=since_s)
    return _by_counters(ctx, route, split, since_s=since_s) if route.counted else _by_asking(ctx, route, split)


def verify_intermediate(ctx: PassContext, route: RouteSeen, split: Split) -> RouteVerification:
    """Verifies an intermediate split; status records only the wait, nothing of the split."""
    if route.can_be_asked and not route.counted and not split.sticky:
        return _by_asking(ctx, route, split)
    since_s = ctx.waiting_since_s(Reason.TRAFFIC_SWITCHING, default_s=ctx.now_s)
    return _by_settle_time(ctx, route, split, since_s=since_s)


def _by_asking(ctx: PassContext, route: RouteSeen, split: Split) -> RouteVerification:
    """Asks the data plane alone: a route's status may come too early, or never."""
    live = route.live if route.live is not None and route.live.resource_version == route.resource_version else None
    if live is not None and live.live:
        return RouteVerification(said=True, verified_by=live.by)
    since_s = ctx.waiting_since_s(Reason.TRAFFIC_SWITCHING, default_s=ctx.now_s)
    pace = Pace(since_s=since_s, first_s=LIVE_FIRST_S, most_s=LIVE_MOST_S)
    follows = "asking its data plane" if live is None else live.message or _NOT_YET
    wait = Wait(Reason.TRAFFIC_SWITCHING, f"{route.route} says {split_text(split)}; {follows}")
    if live is not None and ctx.now_s < (again_s := pace.again_s(live)):
        return RouteVerification(said=True, wait=wait, wake_at_s=again_s)
    ask = AskLive(route=route.route, resource_version=route.resource_version, split=split, pace=pace)
    return RouteVerification(said=True, intents=(ask,), wait=wait)


def _by_counters(ctx: PassContext, route: RouteSeen, split: Split, *, since_s: float) -> RouteVerification:
    """Verifies by counters of requests: what they show decides; when they show nothing, the settle time does.

    They count from the moment the gateways accept the route. They cannot tell the requests of a managed route from others, and
    show nothing of those that an Experiment gets: a split with managed routes waits for the settle time, and so does any while
    an Experiment keeps its pods for requests.
    """
    beside = split.experiments or any(math.isinf(run.kept_until_s) for run in ctx.seen.runs)
    if split.matches or split.mirrors or beside or route.accepted.answer is not Answer.YES:
        return _by_settle_time(ctx, route, split, since_s=since_s)
    until_s = since_s + max(route.settle_s, COUNTED_S)
    pace = Pace(since_s=since_s, first_s=COUNT_AGAIN_S, most_s=COUNT_AGAIN_S)
    live = route.live
    says = f"{route.route} says {split_text(split)}"
    if live is None or live.resource_version != route.resource_version or live.at_s < since_s:
        wait = Wait(Reason.TRAFFIC_SWITCHING, f"{says}; counting its requests", until_s)
    elif live.live:
        return RouteVerification(said=True, timed=True, verified_by=live.by)
    elif not live.evidence and ctx.now_s >= until_s:
        return _by_settle_time(ctx, route, split, since_s=since_s)
    else:
        # Evidence against the route gets no deadline here: a person must look, and the progress deadline reports it.
        deadline_s = None if live.evidence else until_s
        wait = Wait(Reason.TRAFFIC_SWITCHING, f"{says}; {live.message or _NOT_YET}", deadline_s)
        again_s = pace.again_s(live)
        if ctx.now_s < again_s:
            return RouteVerification(said=True, timed=True, wait=wait, wake_at_s=again_s)
    observed = ctx.status.traffic.observed_percent if ctx.status.traffic is not None else None
    ask = AskLive(
        route=route.route,
        resource_version=route.resource_version,
        split=split,
        pace=pace,
        since_s=since_s,
        before=None if observed is None else Fraction(observed) / 100,
    )
    return RouteVerification(said=True, timed=True, intents=(ask,), wait=wait)


def _by_settle_time(ctx: PassContext, route: RouteSeen, split: Split, *, since_s: float) -> RouteVerification:
    """Waits where nobody can be asked: until the gateways accept the route, and then for its settle time."""
    accepted = route.accepted
    if accepted.answer is not Answer.YES:
        message = f"{route.route} is not accepted yet: {accepted.message}".removesuffix(": ")
        if accepted.answer is Answer.NO:
            message = f"{route.route} was not accepted: {accepted.message}"
        return RouteVerification(said=True, wait=Wait(Reason.ROUTE_NOT_ACCEPTED, message))
    until_s = since_s + route.settle_s
    if ctx.now_s >= until_s:
        return RouteVerification(said=True, timed=True)
    message = f"{route.route} says {split_text(split)}; waiting {route.settle_s:g} s for its data plane to follow"
    wait = Wait(Reason.TRAFFIC_SWITCHING, message, until_s)
    return RouteVerification(said=True, timed=True, wait=wait, wake_at_s=until_s)


def says(traffic: Traffic, split: Split) -> bool:
    """Whether the record says that `split` is wanted."""
    if (traffic.desired_percent, traffic.desired_routes) != (percent_of(split.share), managed_names(split)):
        return False
    if not split.experiments:
        return not traffic.desired_experiments
    return traffic.desired_experiments == experiment_weights(split)


def percent_of(share: Fraction) -> WeightPercent:
    """A share in percent."""
    percent = share * 100
    return int(percent) if percent.denominator == 1 else percent


def experiment_weights(split: Split) -> tuple[ExperimentWeight, ...]:
    """The shares of Experiments, in percent."""
    if not split.experiments:
        return ()
    return tuple([ExperimentWeight(each.service, percent_of(each.share)) for each in split.experiments])


def managed_names(split: Split) -> tuple[str, ...]:
    """Names of its managed routes."""
    if not split.matches and not split.mirrors:
        return ()
    managed: tuple[MatchRoute | MirrorRoute, ...] = (*split.matches, *split.mirrors)
    return tuple([route.name for route in managed])


def split_text(split: Split) -> str:
    """The split in words, for messages."""
    names = managed_names(split)
    routes = f" with managed route{'' if len(names) == 1 else 's'} {', '.join(names)}" if names else ""
    clients = f" of the clients, by cookie {split.sticky.cookie}," if split.sticky is not None else ""
    beside = "".join(f", {float(each.share * 100):g} % for {each.service}" for each in split.experiments)
    return f"{float(split.share * 100):g} %{clients} for the canary{beside}{routes}"
