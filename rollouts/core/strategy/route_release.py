"""Routes that the spec no longer names, in the middle of an update or not: given back as their users wrote them, without a loss.

To give a route back is to send what it brings to the stable Service at once, and from then on nobody can ask, or read, what its
proxies do. So first the stable revision gets its pods; what the canary Service may still get is on record; then comes the one
write; and then the longest settle time of any router and the drain are waited, in which the canary keeps its pods. A route that
brings the canary Service nothing is given back at once.

Where other routes go on, the update goes on: the effective weight counts these too. Where none is left (another strategy, or
`trafficRouting` gone) sizes no longer follow any route, so the update stands still until this is over. What the route brings to
the stable Service from then on is as little ours to size for as what comes there from anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest, pods_text
from rollouts.core.model.changes import RecordReleased, RecordTraffic, StatusChange
from rollouts.core.model.drain import DrainMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskRoute, Intent, ReleaseRoute
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen
from rollouts.core.model.status import GivenBack
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteSeen, RouteUnasked
from rollouts.core.routing.elsewhere import forget_elsewhere
from rollouts.core.routing.routes import left_routes, pods_behind
from rollouts.core.routing.services import switch_to
from rollouts.core.scale.sizing import moves_of, resized

LATEST_S = 60.0
"""What the slowest router takes to do what its object says (`traffic/alb/codec.py`).

Which router it was may not be known any more.
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """What one route that the spec no longer names needs."""

    entry: GivenBack | None = None
    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None


def give_back(ctx: PassContext) -> Contribution:
    """What the routes that the spec no longer names need now: the record of them, their release, and what they wait for."""
    if not ctx.unnamed_routes and not ctx.status.given_back and (ctx.routed or ctx.status.traffic is None):
        return Contribution()
    left = left_routes(ctx)
    parts = [*_of_left(ctx, left), *_of_gone(ctx, left), *_of_unasked(ctx)]
    no_traffic: tuple[StatusChange, ...] = ()
    if not ctx.routed and ctx.status.traffic is not None:
        no_traffic = (RecordTraffic(None),)
        parts.append(_unseen(ctx, parts))
    changes = (*forget_elsewhere(ctx), *no_traffic, *_record(ctx, parts))
    waits = [each.wait for each in parts if each.wait is not None]
    return Contribution(
        changes=changes,
        intents=tuple([intent for each in parts for intent in each.intents]),
        wait=waits[0] if waits else None,
        wake_at_s=earliest([each.deadline_s for each in waits]),
    )


def _of_left(ctx: PassContext, left: tuple[RouteSeen, ...]) -> list[_Part]:
    """Routes that are still ours."""
    if not left:
        return []
    pods = _wait_for_pods(ctx)
    return [_leaving(ctx, each, pods) for each in left]


def _leaving(ctx: PassContext, route: RouteSeen, pods: Wait | None) -> _Part:
    """A route that is still ours: released at once when it brings nothing, else once the pods are there and it is on record."""
    percent = _brings_percent(ctx, route)
    if percent is None:
        return _Part(intents=(_release(route),))
    place = route.route.place
    entry = GivenBack(route=place, percent=percent, settle_s=max(LATEST_S, route.settle_s))
    if pods is not None:
        return _Part(entry, wait=replace(pods, message=f"{route.route} is given back when {pods.message}"))
    if any(each.route == place and each.gone_at_s is None for each in ctx.recorded.given_back):
        return _Part(entry, intents=(_release(route),))
    return _Part(entry, wait=Wait(Reason.TRAFFIC_SWITCHING, f"{route.route} is given back as its user wrote it"))


def _of_gone(ctx: PassContext, left: tuple[RouteSeen, ...]) -> list[_Part]:
    """Routes on record that are ours no longer."""
    return [_letting_go(ctx, each) for each in _gone(ctx, left)]


def _letting_go(ctx: PassContext, entry: GivenBack) -> _Part:
    """A route that was released: the canary keeps its pods until its proxies have let go."""
    until_s = (entry.gone_at_s or ctx.now_s) + entry.settle_s + _drain_s(ctx)
    if ctx.now_s >= until_s:
        return _Part()
    message = f"{entry.display_name} was given back; the canary keeps its pods until the proxies have followed"
    return _Part(entry, wait=Wait(Reason.TRAFFIC_SWITCHING, message, until_s))


def _of_unasked(ctx: PassContext) -> list[_Part]:
    """Routes that only the record tells of are watched by nobody yet, just after a start."""
    return [_Part(intents=(AskRoute(each.route),)) for each in ctx.unnamed_routes if isinstance(each, RouteUnasked)]


def _record(ctx: PassContext, parts: Iterable[_Part]) -> tuple[StatusChange, ...]:
    entries = tuple([each.entry for each in parts if each.entry is not None])
    return () if entries == ctx.status.given_back else (RecordReleased(entries),)


def _unseen(ctx: PassContext, others: Iterable[_Part]) -> _Part:
    """What status tells of when no route is seen."""
    percent = _known_percent(ctx)
    if percent is None or any(each.entry is not None for each in others):
        return _Part()
    entry = GivenBack(route=None, percent=percent, settle_s=LATEST_S)
    return _Part(entry, wait=Wait(Reason.TRAFFIC_SWITCHING, f"waiting until {entry.display_name} is read"))


def stands_still(ctx: PassContext) -> bool:
    """The update waits: a route is to be given back, or was just now, and there is no other that sizes could follow.

    That it is over counts when it is on record; Services that the spec no longer names are given back with that record.
    """
    if ctx.routed:
        return False
    if ctx.status.given_back or ctx.recorded.given_back or _known_percent(ctx) is not None:
        return True
    return any(_brings_percent(ctx, each) is not None for each in left_routes(ctx))


def plan_standing_still(ctx: PassContext) -> Contribution:
    """The stable revision gets all of its pods. Nothing shrinks, and only a Service changes whose revision has gone for good."""
    stable = _stable(ctx)
    if stable is None:
        return Contribution()
    grown = resized(ctx, stable, replicas=max(stable.spec_replicas, ctx.spec.replicas))
    kept = {each.revision for each in ctx.seen.replica_sets}
    stranded = [each.name for each in _takers(ctx) if each.revision not in kept]
    moves = moves_of(switch_to(ctx, name, stable, at_least=ctx.enough_for_all) for name in stranded)
    return Contribution(intents=(*(() if grown is None else (grown,)), *moves))


def _known_percent(ctx: PassContext) -> WeightPercent | None:
    """The most that status tells of as coming to the canary Service; None for nothing, or nothing to be careful with."""
    traffic = ctx.recorded.traffic
    if traffic is None or _stable(ctx) is None or ctx.spec.replicas == 0:
        return None
    most = max(traffic.desired_percent, traffic.observed_percent or 0)
    return most if most > 0 or traffic.desired_routes or traffic.observed_routes else None


def _brings_percent(ctx: PassContext, route: RouteSeen) -> WeightPercent | None:
    """The most that the route may be bringing the canary Service; None for nothing, or nothing to be careful with."""
    if _stable(ctx) is None or ctx.spec.replicas == 0:
        return None
    known = [each for each in (_known_percent(ctx), *_recorded_percents(ctx, route)) if each is not None]
    if route.split is None:
        nothing = not known and ctx.recorded.traffic is not None
        return None if nothing else max(known, default=100)
    share_percent = route.split.share * 100
    return max([share_percent, *known]) if route.split.reaches_canary or known else None


def _recorded_percents(ctx: PassContext, route: RouteSeen) -> tuple[WeightPercent, ...]:
    return tuple(each.percent for each in ctx.status.given_back if each.route == route.route.place)


def _wait_for_pods(ctx: PassContext) -> Wait | None:
    """Until the pods are there that take what comes back; None when they are."""
    strategy, status = ctx.spec.strategy, ctx.status
    unfinished = status.current_revision != status.stable_revision
    if strategy.ping_pong and status.pong_is_stable and unfinished:
        # Its user wrote it for the other roles: all of it would go to the new revision.
        return Wait(Reason.TRAFFIC_SWITCHING, "the update is over; it ends on the other Service")
    enough = ctx.enough_for_all
    takers = _takers(ctx)
    stable = _stable(ctx)
    pods = min((pods_behind(ctx, each) for each in takers), default=0 if stable is None else stable.staying_available)
    if pods >= enough:
        return None
    return Wait(
        Reason.PODS_NOT_AVAILABLE, f"{pods_text(enough)} of revision {status.stable_revision} can take its requests"
    )


def _takers(ctx: PassContext) -> list[ServiceSeen]:
    """The Services of ours to which it may come back: those that select the stable revision.

    Near the end of an update the stable Service selects the new one. Services that are not ours select what their users say.
    """
    named = ctx.spec.strategy.serving_service
    ours = [each for each in ctx.services_seen.values() if each.managed_by == ctx.seen.rollout.name and each.watched]
    return [each for each in ours if ctx.status.stable_revision == each.revision or each.name == named]


def _gone(ctx: PassContext, left: Iterable[RouteSeen]) -> list[GivenBack]:
    """Those on record that are ours no longer, since now or since then; one that is ours and named again is left out."""
    still = {each.route.place for each in left}
    again = {
        each.route.place
        for each in ctx.seen.routes.values()
        if isinstance(each, RouteSeen) and each.named and each.managed_by == ctx.seen.rollout.name
    }
    return [
        each if each.gone_at_s is not None else replace(each, gone_at_s=ctx.now_s)
        for each in ctx.status.given_back
        if each.route not in still and (each.route not in again or each.gone_at_s is not None)
    ]


def _drain_s(ctx: PassContext) -> float:
    return 0.0 if ctx.spec.drain.mode is DrainMode.OFF else ctx.drain_numbers.drain_s


def _stable(ctx: PassContext) -> ReplicaSet | None:
    """Of the revision that serves, also when no update is under way."""
    revision = ctx.status.stable_revision
    return next((each for each in ctx.seen.replica_sets if each.revision == revision and not each.deleting), None)


def _release(route: RouteSeen) -> ReleaseRoute:
    return ReleaseRoute(route=route.route, uid=route.uid, resource_version=route.resource_version)
