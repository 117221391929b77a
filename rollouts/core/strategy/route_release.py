"""Releases routes that the spec no longer names, during an update or not: as their users wrote them, without a lost request.

A release sends all requests of the route to the stable Service at once. After that, nobody can ask or read what its proxies
do. So the order is: the stable revision gets its pods; status records the share that the canary Service may still get; one
write releases the route; the canary keeps its pods for the longest settle time of any router and the drain. A route that sends
nothing to the canary Service is released at once.

If the spec names other routes, the update goes on: the effective weight counts the released routes too. If it names none (another
strategy, or no `trafficRouting`), sizes no longer follow any route, so the update stops until the release is over. From then on,
no size depends on the requests that the route sends to the stable Service, as with any other requests there.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.context.contribution import Contribution, joined
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest, pods_text
from rollouts.core.model.changes import StatusChange, record_released, record_traffic
from rollouts.core.model.drain import DrainMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskRoute, ReleaseRoute
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen
from rollouts.core.model.status import GivenBack
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteSeen, RouteUnasked
from rollouts.core.routing.routes import forget_elsewhere, left_routes, pods_behind, still_refused
from rollouts.core.routing.services import switch_to
from rollouts.core.scale.sizing import resized

LATEST_S = 60.0
"""Seconds that the slowest router needs to do what its object says (`traffic/alb/codec.py`).

Used for all routers, because the router of a released route may be unknown.
"""


class _Part(Contribution, frozen=True, kw_only=True):
    """What one route that the spec no longer names contributes, and its record."""

    entry: GivenBack | None = None


def release_routes(ctx: PassContext) -> Contribution:
    """Records and releases the routes that the spec no longer names, and finds what their release waits for."""
    if not ctx.unnamed_routes and not ctx.status.given_back and (ctx.routed or ctx.status.traffic is None):
        return Contribution()
    changes: list[StatusChange] = [*forget_elsewhere(ctx)]
    parts = _parts(ctx)
    if not ctx.routed and ctx.status.traffic is not None:
        changes.append(record_traffic(None))
        percent = _known_percent(ctx)
        if percent is not None and all(part.entry is None for part in parts):  # it goes by a route that was not seen
            entry = GivenBack(route=None, percent=percent, settle_s=LATEST_S)
            wait = Wait(Reason.TRAFFIC_SWITCHING, f"waiting until {entry.display_name} is read")
            parts.append(_Part(entry=entry, wait=wait))
    entries = tuple([part.entry for part in parts if part.entry is not None])
    if entries != ctx.status.given_back:
        changes.append(record_released(entries))
    wake_at_s = earliest([part.wait.deadline_s for part in parts if part.wait is not None])
    return replace(joined(parts), changes=tuple(changes), wake_at_s=wake_at_s)


def _parts(ctx: PassContext) -> list[_Part]:
    """The parts for routes that are still managed, for those on record that no longer are, and for those not read yet."""
    left = left_routes(ctx)
    pods = _wait_for_pods(ctx) if left else None
    parts = [_leaving(ctx, route, pods) for route in left]
    # The canary keeps its pods until the proxies have followed a released route and the drain is over.
    drain_s = 0.0 if ctx.spec.drain.mode is DrainMode.OFF else ctx.drain_numbers.drain_s
    for entry in _gone(ctx, left):
        until_s = (entry.gone_at_s or ctx.now_s) + entry.settle_s + drain_s
        if ctx.now_s < until_s:
            message = f"{entry.display_name} was given back; the canary keeps its pods until the proxies have followed"
            parts.append(_Part(entry=entry, wait=Wait(Reason.TRAFFIC_SWITCHING, message, until_s)))
    # Just after the controller starts, routes that only status names are not watched yet.
    unasked = [route for route in ctx.unnamed_routes if isinstance(route, RouteUnasked)]
    return [*parts, *(_Part(intents=(AskRoute(route.route),)) for route in unasked)]


def _leaving(ctx: PassContext, route: RouteSeen, pods: Wait | None) -> _Part:
    """Releases a managed route: at once if it sends the canary nothing, else when the pods are available and it is on record."""
    percent, place, entry = _brings_percent(ctx, route), route.route.place, None
    if percent is not None:
        entry = GivenBack(route=place, percent=percent, settle_s=max(LATEST_S, route.settle_s))
        if pods is not None:
            return _Part(entry=entry, wait=replace(pods, message=f"{route.route} is given back when {pods.message}"))
        if not any(recorded.route == place and recorded.gone_at_s is None for recorded in ctx.recorded.given_back):
            message = f"{route.route} is given back as its user wrote it"
            return _Part(entry=entry, wait=Wait(Reason.TRAFFIC_SWITCHING, message))
    if (refused := still_refused(ctx, route, None)) is not None:
        return _Part(entry=entry, wait=Wait(refused.reason, refused.message))
    release = ReleaseRoute(route=route.route, uid=route.uid, resource_version=route.resource_version)
    return _Part(entry=entry, intents=(release,))


def stands_still(ctx: PassContext) -> bool:
    """Whether the update stops: a route must be released, or was just now, and the spec names no route for sizes to follow.

    The release is over only when status records that; Services that the spec no longer names are released with that record.
    """
    if ctx.routed:
        return False
    if ctx.status.given_back or ctx.recorded.given_back or _known_percent(ctx) is not None:
        return True
    return any(_brings_percent(ctx, route) is not None for route in left_routes(ctx))


def plan_standing_still(ctx: PassContext) -> Contribution:
    """Grows the stable revision to `replicas`. Nothing shrinks; a Service changes only if its revision has no available pod."""
    stable = _stable(ctx)
    if stable is None:
        return Contribution()
    grown = resized(ctx, stable, replicas=max(stable.spec_replicas, ctx.spec.replicas))
    serving = {replica_set.revision for replica_set in ctx.seen.replica_sets if replica_set.available}
    stranded = [service.name for service in _takers(ctx) if service.revision not in serving]
    moves = joined([switch_to(ctx, name, stable, at_least=ctx.enough_for_all) for name in stranded])
    return Contribution(intents=(*(() if grown is None else (grown,)), *moves.intents))


def _known_percent(ctx: PassContext) -> WeightPercent | None:
    """The largest canary share in status; None if all requests go to stable, without its ReplicaSet, and with 0 replicas."""
    traffic = ctx.recorded.traffic
    if traffic is None or _stable(ctx) is None or ctx.spec.replicas == 0:
        return None
    most = max(traffic.desired_percent, traffic.observed_percent or 0)
    reaches = traffic.desired_routes or traffic.observed_routes or traffic.reaches_experiment
    return most if most > 0 or reaches else None


def _brings_percent(ctx: PassContext, route: RouteSeen) -> WeightPercent | None:
    """The largest canary share that the route may send; None where it sends all to stable, and as in `_known_percent`."""
    if _stable(ctx) is None or ctx.spec.replicas == 0:
        return None
    recorded = [entry.percent for entry in ctx.status.given_back if entry.route == route.route.place]
    known = [percent for percent in (_known_percent(ctx), *recorded) if percent is not None]
    if route.split is None:
        nothing = not known and ctx.recorded.traffic is not None
        return None if nothing else max(known, default=100)
    share_percent = route.split.share * 100
    brings = route.split.reaches_canary or known
    return max([share_percent, *known]) if brings else None


def _wait_for_pods(ctx: PassContext) -> Wait | None:
    """The wait for stable pods that can take the returning requests."""
    strategy, status = ctx.spec.strategy, ctx.status
    unfinished = status.current_revision != status.stable_revision
    if strategy.ping_pong and status.pong_is_stable and unfinished:
        # The user wrote the route for the other roles: all its requests would go to the new revision.
        return Wait(Reason.TRAFFIC_SWITCHING, "the update is over; it ends on the other Service")
    stable = _stable(ctx)
    available = 0 if stable is None else stable.staying_available
    if min((pods_behind(ctx, service) for service in _takers(ctx)), default=available) >= ctx.enough_for_all:
        return None
    enough = f"{pods_text(ctx.enough_for_all)} of revision {status.stable_revision}"
    return Wait(Reason.PODS_NOT_AVAILABLE, f"{enough} can take its requests")


def _takers(ctx: PassContext) -> list[ServiceSeen]:
    """The managed Services to which requests may return: those that select the stable revision, and the stable Service.

    Near the end of an update, the stable Service selects the new revision. Unmanaged Services select what their users say.
    """
    named, ours, stable = ctx.spec.strategy.serving_service, ctx.seen.rollout.name, ctx.status.stable_revision
    managed = [service for service in ctx.services_seen.values() if service.managed_by == ours and service.watched]
    return [service for service in managed if service.revision == stable or service.name == named]


def _gone(ctx: PassContext, left: Iterable[RouteSeen]) -> list[GivenBack]:
    """Routes on record that are no longer managed, and since when; without routes that are named and managed again."""
    still = {route.route.place for route in left}
    again = {
        route.route.place
        for route in ctx.seen.routes.values()
        if isinstance(route, RouteSeen) and route.named and route.managed_by == ctx.seen.rollout.name
    }
    return [
        entry if entry.gone_at_s is not None else replace(entry, gone_at_s=ctx.now_s)
        for entry in ctx.status.given_back
        if entry.route not in still and (entry.route not in again or entry.gone_at_s is not None)
    ]


def _stable(ctx: PassContext) -> ReplicaSet | None:
    """The ReplicaSet of the stable revision, also when no update is under way; None when it is missing or being deleted."""
    for replica_set in ctx.seen.replica_sets:
        if replica_set.revision == ctx.status.stable_revision and not replica_set.deleting:
            return replica_set
    return None
