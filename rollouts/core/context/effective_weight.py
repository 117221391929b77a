"""How much of the traffic the canary may get now, on any proxy."""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteAbsent, RouteSeen, RouteUnasked, Split


class EffectiveWeight(Struct, frozen=True):
    """The range of the traffic that the canary Service may get.

    Args:
        least_percent, most_percent: the limits of its share of the requests.
        reaches_canary: some request, or a copy of one, may reach the canary Service.
    """

    least_percent: WeightPercent
    most_percent: WeightPercent
    reaches_canary: bool

    def and_soon(self, split: Split) -> EffectiveWeight:
        """The range, extended for proxies that do what `split` says already."""
        percent = split.share * 100
        return EffectiveWeight(
            min(self.least_percent, percent),
            max(self.most_percent, percent),
            self.reaches_canary or split.reaches_canary,
        )


def effective_weight(seen: Snapshot) -> EffectiveWeight:
    """The whole possible range, from status and from what the routes say.

    A route that was not read yet may say anything. If status has no split that was found live (a new Rollout, or a wiped
    status), proxies may do anything. A route that was released, or will be, sends its former share or nothing.
    """
    traffic, routes = seen.status.traffic, seen.routes.values()
    percents: list[WeightPercent] = [] if traffic is None else [traffic.desired_percent]
    if traffic is not None and traffic.observed_percent is not None:
        percents.append(traffic.observed_percent)
    elif any(not isinstance(route, RouteSeen) or route.named for route in routes):
        percents += (0, 100)
    for released in seen.status.given_back:
        percents += (0, released.percent)
    managed = traffic is not None and bool(traffic.desired_routes or traffic.observed_routes)
    reaches = managed or bool(seen.status.given_back)
    for route in routes:
        match route:
            case RouteSeen(split=Split() as split, named=named):
                percents += (split.share * 100,) if named else (0, split.share * 100)
                reaches |= split.reaches_canary
            case RouteUnasked():
                percents += (0, 100)
            case RouteSeen() | RouteAbsent():
                pass
    least, most = min(percents, default=0), max(percents, default=0)
    return EffectiveWeight(least, most, reaches_canary=reaches or most > 0)


def written_percent(seen: Snapshot) -> WeightPercent:
    """The largest share that status has as wanted, or that a named route said when it was read; nothing is assumed."""
    named = [route for route in seen.routes.values() if isinstance(route, RouteSeen) and route.named]
    percents: list[WeightPercent] = [route.split.share * 100 for route in named if route.split is not None]
    if seen.status.traffic is not None:
        percents.append(seen.status.traffic.desired_percent)
    return max(percents, default=0)
