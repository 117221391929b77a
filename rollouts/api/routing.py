"""`trafficRouting` and the steps that make routes: their rules, and core's words for them.

What a router's own part says is for its codec to judge (`traffic/`), so here it is only carried on. Which routers there are is
not known here either: the controller and `rollouts lint` hold the names against the registry.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from rollouts.api.problems import Problems, path_of
from rollouts.api.v1alpha1 import CanaryStep, CanaryStrategy
from rollouts.api.v1alpha1_traffic import RouteMatch, SetHeaderRoute, SetMirrorRoute, StringMatch
from rollouts.api.v1alpha1_traffic import TrafficRouting as TrafficRoutingWire
from rollouts.api.wire import Wire, wire_name
from rollouts.core import steps
from rollouts.core.revision import canonical_json
from rollouts.core.rollout import Router, TrafficRouting
from rollouts.core.steps import WeightPercent
from rollouts.core.traffic import MatchKind, MirrorRoute, NamedMatch, RequestMatch, TextMatch

ROUTING_PATH = "spec.strategy.canary.trafficRouting"
DEFAULT_MAX_WEIGHT = 100
MAX_WEIGHT = 1_000_000
"""The most parts that a weight may be counted in: the largest weight of the Gateway API, and status can hold their fractions."""

_NO_ROUTERS = frozenset({"plugins", "managed_routes", "max_traffic_weight"})
_ROUTER_FIELDS = tuple(
    (attribute, wire_name(TrafficRoutingWire, attribute))
    for attribute in TrafficRoutingWire.model_fields
    if attribute not in _NO_ROUTERS
)


def traffic_routing(canary: CanaryStrategy) -> TrafficRouting | None:
    """Who moves the traffic, None for the ratio of pods; `check_routing` has found nothing wrong with it."""
    wire = canary.traffic_routing
    if wire is None:
        return None
    return TrafficRouting(
        routers=tuple(Router(name, canonical_json(part)) for name, _, part in _routers(wire)),
        managed_routes=_managed_routes(wire),
        min_pods_per_replica_set=canary.min_pods_per_replica_set or 0,
        dynamic_stable_scale=bool(canary.dynamic_stable_scale),
    )


def router_path(name: str) -> str:
    """Where a spec has the part of the router of that name, as `kubectl explain` writes it."""
    if any(name == field for _, field in _ROUTER_FIELDS):
        return f"{ROUTING_PATH}.{name}"
    return path_of(("plugins", name), root=ROUTING_PATH)


def weight_percent(parts: int, canary: CanaryStrategy) -> WeightPercent:
    """`setWeight` as an exact percentage: an int where it is whole."""
    percent = Fraction(100 * parts, max_weight(canary))
    return percent.numerator if percent.denominator == 1 else percent


def max_weight(canary: CanaryStrategy) -> int:
    """What `setWeight` is a part of."""
    routing = canary.traffic_routing
    given = None if routing is None else routing.max_traffic_weight
    return DEFAULT_MAX_WEIGHT if given is None else given


def header_route(wire: SetHeaderRoute) -> steps.SetHeaderRoute:
    """The step; all of its headers must match."""
    match = RequestMatch(headers=tuple(_header(each.header_name, each.header_value) for each in wire.match or ()))
    return steps.SetHeaderRoute(wire.name or "", match if wire.match else None)


def mirror_route(wire: SetMirrorRoute) -> steps.SetMirrorRoute:
    """The step; an entry without any condition matches every request, and so no other says more."""
    if not wire.match:
        return steps.SetMirrorRoute(wire.name or "", None)
    matches = tuple(map(_request_match, wire.match))
    percent = 100 if wire.percentage is None else wire.percentage
    mirror = MirrorRoute(wire.name or "", () if RequestMatch() in matches else matches, percent)
    return steps.SetMirrorRoute(wire.name or "", mirror)


def check_routing(canary: CanaryStrategy, problems: Problems) -> None:
    """Adds every rule that `trafficRouting` and the steps that make routes break."""
    wire = canary.traffic_routing
    _check_ping_pong(canary, problems)
    if wire is not None:
        _check_routers(canary, wire, problems)
        _check_managed_routes(wire, problems)
    most = max_weight(canary)
    kinds: dict[str, str] = {}
    for index, step in enumerate(canary.steps or ()):
        path = f"spec.strategy.canary.steps[{index}]"
        if step.set_weight is not None and step.set_weight > most:
            problems.add(f"{path}.setWeight", f"must be {most} or less, not {step.set_weight}")
        _check_route_step(step, path, wire, kinds, problems)


def _check_ping_pong(canary: CanaryStrategy, problems: Problems) -> None:
    """Two Services, and routes between them: without routes no Service could be given the traffic of the other."""
    pair = canary.ping_pong
    if pair is None:
        return
    path = "spec.strategy.canary.pingPong"
    if pair.ping_service is not None and pair.ping_service == pair.pong_service:
        problems.add(f"{path}.pongService", "must not be the pingService too")
    for field, service in (("stableService", canary.stable_service), ("canaryService", canary.canary_service)):
        if service is not None:
            problems.add(f"spec.strategy.canary.{field}", "and pingPong exclude each other; leave it out")
    if canary.traffic_routing is None or not list(_routers(canary.traffic_routing)):
        problems.add(path, "needs a router in trafficRouting, which moves the traffic from one Service to the other")


def _check_routers(canary: CanaryStrategy, wire: TrafficRoutingWire, problems: Problems) -> None:
    if wire.max_traffic_weight is not None and not 1 <= wire.max_traffic_weight <= MAX_WEIGHT:
        problems.add(
            f"{ROUTING_PATH}.maxTrafficWeight", f"must be from 1 to {MAX_WEIGHT}, not {wire.max_traffic_weight}"
        )
    seen: dict[str, str] = {}
    for name, path, _ in _routers(wire):
        if name in seen:
            problems.add(path, f"is given as {seen[name]} too; it can only be in one of them")
        seen.setdefault(name, path)
    if not seen or canary.ping_pong is not None:
        return
    for field, service in (("stableService", canary.stable_service), ("canaryService", canary.canary_service)):
        if service is None:
            message = f"is required with trafficRouting.{next(iter(seen))}: its weights are between two Services"
            problems.add_missing(f"spec.strategy.canary.{field}", message)


def _check_managed_routes(wire: TrafficRoutingWire, problems: Problems) -> None:
    seen: set[str] = set()
    for index, route in enumerate(wire.managed_routes or ()):
        path = f"{ROUTING_PATH}.managedRoutes[{index}].name"
        if route.name is None:
            problems.add_missing(path, "is required")
        elif route.name in seen:
            problems.add(path, f"{route.name!r} is the name of another managed route too")
        else:
            seen.add(route.name)


def _check_route_step(
    step: CanaryStep, path: str, wire: TrafficRoutingWire | None, kinds: dict[str, str], problems: Problems
) -> None:
    for field, route in (("setHeaderRoute", step.set_header_route), ("setMirrorRoute", step.set_mirror_route)):
        if route is None:
            continue
        where = f"{path}.{field}"
        if wire is None or not any(_routers(wire)):
            problems.add(where, "needs a router in trafficRouting that makes the route")
        if route.name is None:
            problems.add_missing(f"{where}.name", "is required: one of trafficRouting.managedRoutes")
        elif wire is not None and route.name not in _managed_routes(wire):
            problems.add(f"{where}.name", f"{route.name!r} is not among trafficRouting.managedRoutes")
        elif kinds.setdefault(route.name, field) != field:
            problems.add(
                f"{where}.name", f"{route.name!r} is made by a {kinds[route.name]} step; a route is one or other"
            )
    if step.set_header_route is not None:
        _check_headers(step.set_header_route, f"{path}.setHeaderRoute", problems)
    if step.set_mirror_route is not None:
        _check_mirror(step.set_mirror_route, f"{path}.setMirrorRoute", problems)


def _check_headers(wire: SetHeaderRoute, path: str, problems: Problems) -> None:
    seen: set[str] = set()
    for index, match in enumerate(wire.match or ()):
        where = f"{path}.match[{index}]"
        if match.header_name is None:
            problems.add_missing(f"{where}.headerName", "is required")
        elif match.header_name.lower() in seen:
            problems.add(
                f"{where}.headerName", f"{match.header_name!r} is there twice; all headers of a route must match"
            )
        else:
            seen.add(match.header_name.lower())
        if match.header_value is None:
            problems.add_missing(f"{where}.headerValue", "is required")
        else:
            _check_text(match.header_value, f"{where}.headerValue", problems)


def _check_mirror(wire: SetMirrorRoute, path: str, problems: Problems) -> None:
    if wire.percentage is not None and not 1 <= wire.percentage <= 100:
        problems.add(f"{path}.percentage", f"must be from 1 to 100, not {wire.percentage}")
    for index, match in enumerate(wire.match or ()):
        where = f"{path}.match[{index}]"
        for field, text in (("method", match.method), ("path", match.path)):
            if text is not None:
                _check_text(text, f"{where}.{field}", problems)
        for name, text in (match.headers or {}).items():
            _check_text(text, path_of(("headers", name), root=where), problems)


def _check_text(wire: StringMatch, path: str, problems: Problems) -> None:
    given = [kind.value for kind in MatchKind if getattr(wire, kind.value) is not None]
    if not given:
        problems.add_missing(path, "needs exactly one of exact, prefix and regex; it has none")
    elif len(given) > 1:
        problems.add(path, f"needs exactly one of exact, prefix and regex; it has {' and '.join(given)}")


def _routers(wire: TrafficRoutingWire) -> Iterator[tuple[str, str, Any]]:
    """Name, path and settings of every router that the spec names: the fields in order, then the plugins."""
    for attribute, name in _ROUTER_FIELDS:
        part: Wire | None = getattr(wire, attribute)
        if part is not None:
            yield name, f"{ROUTING_PATH}.{name}", part.model_dump(by_alias=True, exclude_none=True)
    for name, settings in (wire.plugins or {}).items():
        yield name, path_of(("plugins", name), root=ROUTING_PATH), settings


def _managed_routes(wire: TrafficRoutingWire) -> tuple[str, ...]:
    return tuple(route.name for route in wire.managed_routes or () if route.name is not None)


def _request_match(wire: RouteMatch) -> RequestMatch:
    return RequestMatch(
        method=None if wire.method is None else _text(wire.method),
        path=None if wire.path is None else _text(wire.path),
        headers=tuple(_header(name, value) for name, value in sorted((wire.headers or {}).items())),
    )


def _header(name: str | None, value: StringMatch | None) -> NamedMatch:
    return NamedMatch((name or "").lower(), _text(value or StringMatch()))


def _text(wire: StringMatch) -> TextMatch:
    for kind in MatchKind:
        if (value := getattr(wire, kind.value)) is not None:
            return TextMatch(kind, value)
    return TextMatch(MatchKind.EXACT, "")
