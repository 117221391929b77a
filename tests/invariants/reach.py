"""What proxies may be sending to the canary Service now, by all that is on record and all that the routes say."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteSeen, RouteUnasked


class Reach(Struct, frozen=True):
    """The canary Service gets a share between these two; `reaches_canary`: or some requests, or copies, in another way."""

    least_percent: WeightPercent
    most_percent: WeightPercent
    reaches_canary: bool


def reach(seen: Snapshot) -> Reach:
    """Nothing that may be so is left out: a proxy may still do what was there before the last write, or do the next one early."""
    percents, traffic = list(_percents(seen)), seen.status.traffic
    splits = [each.split for each in seen.routes.values() if isinstance(each, RouteSeen) and each.split is not None]
    on_record = traffic is not None and (traffic.desired_routes or traffic.observed_routes)
    others = bool(on_record or seen.status.given_back or any(each.reaches_canary for each in splits))
    most = max(percents, default=0)
    return Reach(min(percents, default=0), most, reaches_canary=others or most > 0)


def _percents(seen: Snapshot) -> Iterator[WeightPercent]:
    traffic, routes = seen.status.traffic, seen.routes.values()
    if traffic is not None:
        yield traffic.desired_percent
    if traffic is not None and traffic.observed_percent is not None:
        yield traffic.observed_percent
    elif any(not isinstance(each, RouteSeen) or each.named for each in routes):  # nobody knows what proxies do
        yield from (0, 100)
    for given in seen.status.given_back:
        yield from (0, given.percent)
    for route in routes:
        if isinstance(route, RouteUnasked):
            yield from (0, 100)
        if isinstance(route, RouteSeen) and route.split is not None:
            yield route.split.share * 100
            if not route.named:
                yield 0
