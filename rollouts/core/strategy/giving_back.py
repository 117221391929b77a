"""Routes that the spec no longer names, in the middle of an update or not: given back as their users wrote them, without a loss.

To give a route back is to send what it brings to the stable Service at once, and from then on nobody can ask, or read, what its
proxies do. So first the stable revision gets its pods; what the canary Service may still get is on record; then comes the one
write; and then the longest settle time of any router and the drain are waited, in which the canary keeps its pods. A route that
brings the canary Service nothing is given back at once.

Where other routes go on, the update goes on: `in_force` holds for these too. Where none is left (another strategy, or
`trafficRouting` gone) sizes no longer follow any route, so the update stands still until this is over. What the route brings to
the stable Service from then on is as little ours to size for as what comes there from anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.drain.cutover import numbers_of
from rollouts.core.model.drain import DrainMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskRoute, Intent, ReleaseRoute
from rollouts.core.model.plan import Plan, View, Wait, earliest
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen
from rollouts.core.model.status import GivenBack
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteSeen, RouteUnasked
from rollouts.core.routing.elsewhere import without_gone
from rollouts.core.routing.routes import has_routers, left_routes, pods_behind
from rollouts.core.routing.services import lasting, point
from rollouts.core.scale.sizing import moves_of, resized

LATEST_S = 60.0
"""What the slowest router takes to do what its object says (`traffic/alb/codec.py`).

Which router it was may not be known any more.
"""


def give_back(view: View) -> Plan:
    """What the routes that the spec no longer names need now: the memory of them, their release, and what they wait for."""
    left = left_routes(view)
    recorded = {each.route for each in view.seen.status.given_back if each.gone_at_s is None}
    entries: list[GivenBack] = []
    intents: list[Intent] = []
    waits: list[Wait] = []
    ready = _wait_for_pods(view)
    for route in left:
        percent = _brings_percent(view, route)
        if percent is None:
            intents.append(_release(route))
            continue
        place = route.route.place
        entries.append(GivenBack(route=place, percent=percent, settle_s=max(LATEST_S, route.settle_s)))
        if ready is not None:
            waits.append(replace(ready, message=f"{route.route} is given back when {ready.message}"))
        elif place in recorded:
            intents.append(_release(route))
        else:
            waits.append(Wait(Reason.TRAFFIC_SWITCHING, f"{route.route} is given back as its user wrote it"))
    for entry in _gone(view, left):
        until_s = (entry.gone_at_s or view.now_s) + entry.settle_s + _drain_s(view)
        if view.now_s < until_s:
            entries.append(entry)
            message = f"{entry.display_name} was given back; until its proxies have let go the canary keeps its pods"
            waits.append(Wait(Reason.TRAFFIC_SWITCHING, message, until_s))
    # Those that only the record tells of are watched by nobody yet, just after a start.
    unasked = (each for each in view.seen.routes.values() if isinstance(each, RouteUnasked) and not each.named)
    intents += [AskRoute(each.route) for each in unasked]
    status = without_gone(view, view.status)
    if not _has_routers(view) and status.traffic is not None:
        percent = _known_percent(view)
        if percent is not None and not entries:
            unseen = GivenBack(route=None, percent=percent, settle_s=LATEST_S)
            entries.append(unseen)
            waits.append(Wait(Reason.TRAFFIC_SWITCHING, f"waiting for a look at {unseen.display_name}"))
        status = replace(status, traffic=None)
    after = tuple(entries)
    return Plan(
        status=status if after == status.given_back else replace(status, given_back=after),
        intents=tuple(intents),
        wait=next(iter(waits), None),
        wake_at_s=earliest(each.deadline_s for each in waits),
    )


def stands_still(view: View) -> bool:
    """The update waits: a route is to be given back, or was just now, and there is no other that sizes could follow.

    That it is over counts when it is on record; Services that the spec no longer names are given back with that record.
    """
    if _has_routers(view):
        return False
    if view.status.given_back or view.seen.status.given_back or _known_percent(view) is not None:
        return True
    return any(_brings_percent(view, each) is not None for each in left_routes(view))


def plan_standing_still(view: View) -> Plan:
    """The stable revision gets all of its pods. Nothing shrinks, and only a Service changes whose revision has gone for good."""
    stable = _stable(view)
    if stable is None:
        return Plan(status=view.status)
    grown = resized(view, stable, replicas=max(stable.spec_replicas, view.spec.replicas))
    kept = {each.revision for each in view.seen.replica_sets}
    stranded = [each.name for each in _takers(view) if each.revision not in kept]
    moves = moves_of(point(view, name, stable, at_least=max(1, view.promised)) for name in stranded)
    return Plan(status=view.status, intents=(*(() if grown is None else (grown,)), *moves))


def _has_routers(view: View) -> bool:
    strategy = view.spec.strategy
    return isinstance(strategy, Canary) and has_routers(strategy)


def _known_percent(view: View) -> WeightPercent | None:
    """The most that status tells of as coming to the canary Service; None for nothing, or nothing to be careful with."""
    traffic = view.seen.status.traffic
    if traffic is None or _stable(view) is None or view.spec.replicas == 0:
        return None
    most = max(traffic.desired_percent, traffic.observed_percent or 0)
    return most if most > 0 or traffic.desired_routes or traffic.observed_routes else None


def _brings_percent(view: View, route: RouteSeen) -> WeightPercent | None:
    """The most that the route may be bringing the canary Service; None for nothing, or nothing to be careful with."""
    if _stable(view) is None or view.spec.replicas == 0:
        return None
    known = [each for each in (_known_percent(view), *_recorded_percents(view, route)) if each is not None]
    if route.split is None:
        nothing = not known and view.seen.status.traffic is not None
        return None if nothing else max(known, default=100)
    share_percent = route.split.share * 100
    return max([share_percent, *known]) if route.split.reaches_canary or known else None


def _recorded_percents(view: View, route: RouteSeen) -> tuple[WeightPercent, ...]:
    return tuple(each.percent for each in view.status.given_back if each.route == route.route.place)


def _wait_for_pods(view: View) -> Wait | None:
    """Until the pods are there that take what comes back; None when they are."""
    strategy, status = view.spec.strategy, view.status
    unfinished = status.current_revision != status.stable_revision
    if isinstance(strategy, Canary) and strategy.ping_pong and status.pong_is_stable and unfinished:
        # Its user wrote it for the other roles: all of it would go to the new revision.
        return Wait(Reason.TRAFFIC_SWITCHING, "the update is over, which ends on the other Service")
    enough = max(1, view.promised)
    takers = _takers(view)
    stable = _stable(view)
    pods = min((pods_behind(view, each) for each in takers), default=0 if stable is None else lasting(stable))
    if pods >= enough:
        return None
    return Wait(
        Reason.PODS_NOT_AVAILABLE, f"{enough} pods of revision {status.stable_revision} can take what it brings"
    )


def _takers(view: View) -> list[ServiceSeen]:
    """The Services of ours to which it may come back: those that select the stable revision.

    Near the end of an update the stable Service selects the new one. Services that are not ours select what their users say.
    """
    strategy = view.spec.strategy
    named = strategy.stable_service if isinstance(strategy, Canary) else strategy.active_service
    ours = [
        each
        for each in view.seen.services.values()
        if isinstance(each, ServiceSeen) and each.managed_by == view.seen.rollout.name and each.watched
    ]
    return [each for each in ours if view.status.stable_revision == each.revision or each.name == named]


def _gone(view: View, left: Iterable[RouteSeen]) -> list[GivenBack]:
    """Those on record that are ours no longer, since now or since then; one that is ours and named again is left out."""
    still = {each.route.place for each in left}
    again = {
        each.route.place
        for each in view.seen.routes.values()
        if isinstance(each, RouteSeen) and each.named and each.managed_by == view.seen.rollout.name
    }
    return [
        each if each.gone_at_s is not None else replace(each, gone_at_s=view.now_s)
        for each in view.status.given_back
        if each.route not in still and (each.route not in again or each.gone_at_s is not None)
    ]


def _drain_s(view: View) -> float:
    return 0.0 if view.spec.drain.mode is DrainMode.OFF else numbers_of(view).drain_s


def _stable(view: View) -> ReplicaSet | None:
    """Of the revision that serves, also when no update is under way."""
    revision = view.status.stable_revision
    return next((each for each in view.seen.replica_sets if each.revision == revision and not each.deleting), None)


def _release(route: RouteSeen) -> ReleaseRoute:
    return ReleaseRoute(route=route.route, uid=route.uid, resource_version=route.resource_version)
