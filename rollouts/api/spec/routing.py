"""Checks `trafficRouting` and the steps that make routes, and turns them into the core's values.

The settings of a router are only passed on: its codec checks them (`traffic/`). Which routers exist is not known here: the
controller and `rollouts lint` look the names up in the registry. Other code checks that a router names the routes that
`trafficRouting.own` makes.

Routers put names and texts by which requests are matched into the configuration of their proxies. So each must be one line
without control characters, and follow its grammar if it has one. Regular expressions are not checked, because their grammar
depends on the router (RE2, PCRE).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Any

from rollouts.api.problems import Problems, path_of
from rollouts.api.spec.json_values import json_value
from rollouts.api.spec.metadata import check_entries
from rollouts.api.spec.reading import check_exactly_one, check_needed
from rollouts.api.v1alpha1.rollout import CanaryStep, CanaryStrategy
from rollouts.api.v1alpha1.traffic import (
    IstioDestinationRule,
    SetHeaderRouteWire,
    SetMirrorRouteWire,
    StringMatch,
    TrafficRoutingWire,
)
from rollouts.api.v1alpha1.wire import Wire, wire_name
from rollouts.core.model import steps
from rollouts.core.model.grammar import is_snippet
from rollouts.core.model.rollout import Router, TrafficRouting
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import MatchKind, MirrorRoute, NamedMatch, RequestMatch, Sticky, TextMatch
from rollouts.core.routing.stickiness import STICKY_ROUTE

CANARY_PATH = "spec.strategy.canary"
ROUTING_PATH = f"{CANARY_PATH}.trafficRouting"
DEFAULT_MAX_WEIGHT = 100
MAX_WEIGHT = 1_000_000
"""The largest maxTrafficWeight: the largest weight of the Gateway API. Status can hold fractions of so many parts exactly."""
HEX_DIGITS = "0123456789abcdef"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""RFC 9110, section 5.6.2; the names of cookies are tokens too (RFC 6265, section 4.1.1)."""

_TOKENS = {
    "headerName": "is not a valid header name (RFC 9110)",
    "cookieName": "is not a valid cookie name (RFC 6265)",
    "method": "is not a valid HTTP method (RFC 9110)",
}
_ONE_LINE = "must be one line without control characters"

_OWN_FIELDS = ("apiVersion", "kind", "metadata", "spec")
_OWN_METADATA = ("name", "namespace", "labels", "annotations")
_NO_ROUTERS = frozenset({"plugins", "managed_routes", "stickiness", "max_traffic_weight", "own"})
_ROUTER_FIELDS = tuple(
    (attribute, wire_name(TrafficRoutingWire, attribute))
    for attribute in TrafficRoutingWire.model_fields
    if attribute not in _NO_ROUTERS
)


def traffic_routing(canary: CanaryStrategy) -> TrafficRouting | None:
    """The core's value of `trafficRouting`; None for the ratio of pods. `check_routing` has found no problem."""
    wire = canary.traffic_routing
    if wire is None:
        return None
    cookie = wire.stickiness
    return TrafficRouting(
        routers=tuple(Router(name, json_value(part)) for name, _, part in _routers(wire)),
        managed_routes=_managed_routes(wire),
        min_pods_per_replica_set=canary.min_pods_per_replica_set or 0,
        dynamic_stable_scale=bool(canary.dynamic_stable_scale),
        sticky=None if cookie is None else Sticky(cookie.cookie_name or "", cookie.digits or HEX_DIGITS),
        own=tuple(map(json_value, wire.own or ())),
    )


def router_path(name: str) -> str:
    """The path of a router's settings in a spec, as `kubectl explain` writes it."""
    if any(name == field for _, field in _ROUTER_FIELDS):
        return f"{ROUTING_PATH}.{name}"
    return path_of(("plugins", name), root=ROUTING_PATH)


def pair_of(canary: CanaryStrategy) -> tuple[ServiceRef | None, ServiceRef | None]:
    """Names of the stable and the canary Service; with a DestinationRule, names of its subsets."""
    if canary.ping_pong is not None:
        return canary.ping_pong.ping_service, canary.ping_pong.pong_service
    rule = destination_rule(canary)
    if rule is not None:
        # A name that is missing is a problem that is reported elsewhere.
        subsets = (rule.stable_subset_name or "", rule.canary_subset_name or "")
        stable, other = (SubsetName(rule.name or "", subset) for subset in subsets)
        return stable, other
    return canary.stable_service, canary.canary_service


def weight_percent(parts: int, canary: CanaryStrategy) -> WeightPercent:
    """`setWeight` as an exact percentage: an int where it is whole."""
    percent = Fraction(100 * parts, max_weight(canary))
    return percent.numerator if percent.denominator == 1 else percent


def max_weight(canary: CanaryStrategy) -> int:
    """The weight that means all of the traffic: `maxTrafficWeight`, or its default."""
    routing = canary.traffic_routing
    given = None if routing is None else routing.max_traffic_weight
    return DEFAULT_MAX_WEIGHT if given is None else given


def header_route(wire: SetHeaderRouteWire) -> steps.SetHeaderRoute:
    """The core's value of a setHeaderRoute step, whose conditions must all hold."""
    matches = wire.match or ()
    match = RequestMatch(
        method=next((_text(part.method) for part in matches if part.method is not None), None),
        path=next((_text(part.path) for part in matches if part.path is not None), None),
        headers=_named((part.header_name and part.header_name.lower(), part.header_value) for part in matches),
        cookies=_named((part.cookie_name, part.cookie_value) for part in matches),
        query=_named((part.query_param_name, part.query_param_value) for part in matches),
    )
    return steps.SetHeaderRoute(wire.name or "", match if matches else None)


def mirror_route(wire: SetMirrorRouteWire) -> steps.SetMirrorRoute:
    """The core's value of a setMirrorRoute step. With an entry without conditions it matches every request."""
    if not wire.match:
        return steps.SetMirrorRoute(wire.name or "", None)
    matches = tuple(
        RequestMatch(
            method=None if match.method is None else _text(match.method),
            path=None if match.path is None else _text(match.path),
            headers=_named((name.lower(), value) for name, value in sorted((match.headers or {}).items())),
            cookies=_named(sorted((match.cookies or {}).items(), key=itemgetter(0))),
            query=_named(sorted((match.query_params or {}).items(), key=itemgetter(0))),
        )
        for match in wire.match
    )
    percent = 100 if wire.percentage is None else wire.percentage
    mirror = MirrorRoute(wire.name or "", () if RequestMatch() in matches else matches, percent)
    return steps.SetMirrorRoute(wire.name or "", mirror)


def check_routing(canary: CanaryStrategy, problems: Problems) -> None:
    """Adds a problem for every rule that `trafficRouting` and the steps that make routes break."""
    wire = canary.traffic_routing
    _check_ping_pong(canary, problems)
    _check_subsets(canary, problems)
    _check_experiment_weights(canary, problems)
    _check_sums(canary, problems)
    if wire is not None:
        _check_routers(canary, wire, problems)
        _check_managed_routes(wire, problems)
        _check_stickiness(canary, wire, problems)
        for index, manifest in enumerate(wire.own or ()):
            _check_own_route(manifest, f"{ROUTING_PATH}.own[{index}]", problems)
    most = max_weight(canary)
    kinds: dict[str, str] = {}
    for index, step in enumerate(canary.steps or ()):
        path = f"{CANARY_PATH}.steps[{index}]"
        if step.set_weight is not None and step.set_weight > most:
            problems.add(f"{path}.setWeight", f"must be {most} or less, not {step.set_weight}")
        _check_route_step(step, path, wire, kinds, problems)


def weighted_templates(canary: CanaryStrategy) -> Iterator[str]:
    """The paths of the templates of experiments that get requests."""
    for index, step in enumerate(canary.steps or ()):
        for number, group in enumerate((step.experiment and step.experiment.templates) or ()):
            if group.weight:
                yield f"{CANARY_PATH}.steps[{index}].experiment.templates[{number}]"


def _check_experiment_weights(canary: CanaryStrategy, problems: Problems) -> None:
    """Checks who sends requests to the pods of experiments."""
    routing = canary.traffic_routing
    reasons = (
        (
            routing is None or not any(_routers(routing)),
            "needs a router in trafficRouting, which sends requests to the pods of the template",
        ),
        (canary.ping_pong, "cannot be combined with pingPong: only two Services change roles; leave it out"),
        (
            destination_rule(canary),
            "cannot be combined with istio.destinationRule: its pods have a Service of their own, no subset",
        ),
        (
            routing and routing.stickiness,
            "cannot be combined with stickiness: it is a share of requests, not of clients; leave it out",
        ),
    )
    why = next((why for applies, why in reasons if applies), "")
    if why and (weighted := next(weighted_templates(canary), None)) is not None:
        problems.add(f"{weighted}.weight", why)


def _check_sums(canary: CanaryStrategy, problems: Problems) -> None:
    """Checks that the templates of an experiment and the canary get no more than all requests together."""
    weight, most = 0, max_weight(canary)
    for index, step in enumerate(canary.steps or ()):
        weight = weight if step.set_weight is None else step.set_weight
        elsewhere = sum(group.weight or 0 for group in (step.experiment and step.experiment.templates) or ())
        if elsewhere and weight + elsewhere > most:
            told = f"the templates of the experiment get {elsewhere} and the canary {weight}: together at most {most}"
            problems.add(f"{CANARY_PATH}.steps[{index}].experiment.templates", f"{told}; lower one of them")


def _check_ping_pong(canary: CanaryStrategy, problems: Problems) -> None:
    """Checks `pingPong`: it needs two Services and routes that move the traffic between them."""
    pair = canary.ping_pong
    if pair is None:
        return
    path = f"{CANARY_PATH}.pingPong"
    if pair.ping_service is not None and pair.ping_service == pair.pong_service:
        problems.add(f"{path}.pongService", "must differ from pingService")
    for field in _services(canary, given=True):
        message = (
            "cannot be combined with pingPong: only one pair of Services gets the traffic; remove this field if alb or "
            "istio moved the traffic in Argo Rollouts, and pingPong if another router did"
        )
        problems.add(f"{CANARY_PATH}.{field}", message)
    if canary.traffic_routing is None or not any(_routers(canary.traffic_routing)):
        problems.add(path, "needs a router in trafficRouting, which moves the traffic from one Service to the other")


def _services(canary: CanaryStrategy, *, given: bool) -> list[str]:
    """Which fields with the name of a Service are given, or are not."""
    services = {"stableService": canary.stable_service, "canaryService": canary.canary_service}
    return [field for field, service in services.items() if (service is not None) is given]


def destination_rule(canary: CanaryStrategy) -> IstioDestinationRule | None:
    """The DestinationRule whose subsets take the place of two Services; None without one."""
    istio = canary.traffic_routing.istio if canary.traffic_routing is not None else None
    return istio.destination_rule if istio is not None else None


def _check_subsets(canary: CanaryStrategy, problems: Problems) -> None:
    """Checks a DestinationRule: its subsets replace the two Services, and only Istio supports subsets."""
    if destination_rule(canary) is None or canary.traffic_routing is None:
        return
    path = f"{ROUTING_PATH}.istio.destinationRule"
    for field in _services(canary, given=True):
        message = "cannot be combined with istio.destinationRule: its subsets replace the Services; remove this field"
        problems.add(f"{CANARY_PATH}.{field}", message)
    if canary.ping_pong is not None:
        problems.add(path, "cannot be combined with pingPong: the subsets of one Service cannot change roles")
    for name, _, _ in _routers(canary.traffic_routing):
        if name != "istio":
            problems.add(path, f"cannot be combined with {name}: its weights are for two Services, not for subsets")


def _check_routers(canary: CanaryStrategy, wire: TrafficRoutingWire, problems: Problems) -> None:
    if wire.max_traffic_weight is not None and not 1 <= wire.max_traffic_weight <= MAX_WEIGHT:
        problems.add(
            f"{ROUTING_PATH}.maxTrafficWeight", f"must be from 1 to {MAX_WEIGHT}, not {wire.max_traffic_weight}"
        )
    seen: dict[str, str] = {}
    for name, path, _ in _routers(wire):
        if name in seen:
            problems.add(path, f"is given as {seen[name]} too; remove one of them")
        seen.setdefault(name, path)
    if not seen or canary.ping_pong is not None or destination_rule(canary) is not None:
        return
    for field in _services(canary, given=False):
        message = f"is required with trafficRouting.{next(iter(seen))}: its weights are for two Services"
        problems.add_missing(f"{CANARY_PATH}.{field}", message)


def _check_stickiness(canary: CanaryStrategy, wire: TrafficRoutingWire, problems: Problems) -> None:
    cookie, path = wire.stickiness, f"{ROUTING_PATH}.stickiness"
    if cookie is None:
        return
    if canary.dynamic_stable_scale:
        problems.add(path, "cannot be combined with dynamicStableScale: all clients without the cookie go to stable")
    if not any(_routers(wire)):
        problems.add(path, "needs a router in trafficRouting that tells clients apart")
    check_needed(cookie, path, problems)
    _check_name("cookieName", cookie.cookie_name, f"{path}.cookieName", problems)
    if cookie.digits is not None and len(set(cookie.digits)) != len(cookie.digits):
        problems.add(f"{path}.digits", "has a character twice; each must be as frequent as the others")
    if STICKY_ROUTE in _managed_routes(wire):
        problems.add(path, f"makes a route of the name {STICKY_ROUTE}; rename the managed route of that name")


def _check_managed_routes(wire: TrafficRoutingWire, problems: Problems) -> None:
    seen: set[str] = set()
    for index, route in enumerate(wire.managed_routes or ()):
        path = f"{ROUTING_PATH}.managedRoutes[{index}]"
        check_needed(route, path, problems)
        if route.name in seen:
            problems.add(f"{path}.name", f"another managed route has the name {route.name!r} too")
        elif _check_name("name", route.name, f"{path}.name", problems) and route.name is not None:
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
        check_needed(route, where, problems)
        if route.name is None:
            continue
        if wire is not None and route.name not in _managed_routes(wire):
            problems.add(f"{where}.name", f"{route.name!r} is not among trafficRouting.managedRoutes")
        elif kinds.setdefault(route.name, field) != field:
            problems.add(
                f"{where}.name",
                f"{route.name!r} is made by a {kinds[route.name]} step too; a route can only be of one kind",
            )
    if step.set_header_route is not None:
        _check_conditions(step.set_header_route, f"{path}.setHeaderRoute", problems)
    if step.set_mirror_route is not None:
        _check_mirror(step.set_mirror_route, f"{path}.setMirrorRoute", problems)


_CONDITIONS: Mapping[str, tuple[str, str]] = {
    "headerName": ("header_name", "header_value"),
    "cookieName": ("cookie_name", "cookie_value"),
    "queryParamName": ("query_param_name", "query_param_value"),
    "path": ("", "path"),
    "method": ("", "method"),
}
"""For each kind of condition, by its field: the attributes with its name, and with the text to match."""


def _check_conditions(wire: SetHeaderRouteWire, path: str, problems: Problems) -> None:
    """Checks the conditions of a header route: one in each entry, and no two on the same name."""
    seen: set[tuple[str, str]] = set()
    for index, match in enumerate(wire.match or ()):
        where = f"{path}.match[{index}]"
        parts = {kind: (getattr(match, name, None), getattr(match, text)) for kind, (name, text) in _CONDITIONS.items()}
        given = {kind: part for kind, part in parts.items() if part != (None, None)}
        if len(given) != 1:
            has = f"it has {' and '.join(given)}" if given else "it has none"
            problems.add(where, f"needs exactly one of {', '.join(_CONDITIONS)}; {has}")
        for kind, (name, value) in given.items():
            _check_condition(kind, name, value, where, problems)
            same = (kind, name.lower() if name and kind == "headerName" else name or "")
            if same in seen:
                what = f"{name!r} is given" if name else "is given"
                problems.add(f"{where}.{kind}", f"{what} twice; all conditions of a route must hold")
            seen.add(same)


def _check_condition(kind: str, name: str | None, value: StringMatch | None, path: str, problems: Problems) -> None:
    values = kind
    if kind.endswith("Name"):
        values = kind.removesuffix("Name") + "Value"
        if name is None:
            problems.add_missing(f"{path}.{kind}", "is required")
        _check_name(kind, name, f"{path}.{kind}", problems)
        if value is None:
            problems.add_missing(f"{path}.{values}", "is required")
    if value is not None:
        _check_text(values, value, f"{path}.{values}", problems)


def _check_mirror(wire: SetMirrorRouteWire, path: str, problems: Problems) -> None:
    if wire.percentage is not None and not 1 <= wire.percentage <= 100:
        problems.add(f"{path}.percentage", f"must be from 1 to 100, not {wire.percentage}")
    for index, match in enumerate(wire.match or ()):
        where = f"{path}.match[{index}]"
        for field, text in (("method", match.method), ("path", match.path)):
            if text is not None:
                _check_text(field, text, f"{where}.{field}", problems)
        named = (
            ("headers", "headerName", match.headers),
            ("cookies", "cookieName", match.cookies),
            ("queryParams", "queryParamName", match.query_params),
        )
        for field, kind, texts in named:
            for name, text in (texts or {}).items():
                at = path_of((field, name), root=where)
                _check_name(kind, name, at, problems)
                _check_text(field, text, at, problems)


def _check_text(field: str, wire: StringMatch, path: str, problems: Problems) -> None:
    texts = {kind: text for kind in MatchKind if (text := getattr(wire, kind.value)) is not None}
    check_exactly_one(wire, path, problems, none="; it has none", several="; it has {}")
    for kind, text in texts.items():
        at, is_literal = f"{path}.{kind.value}", kind is not MatchKind.REGEX
        if not text.isprintable():
            problems.add(at, _ONE_LINE)
        elif is_literal and field == "path" and not text.startswith("/"):
            problems.add(at, f"must begin with /, as every path does: /{text[:40]}")
        elif is_literal and field == "method" and not _TOKEN.fullmatch(text):
            problems.add(at, f"{text[:40]!r} {_TOKENS['method']}")


def _check_name(kind: str, name: str | None, path: str, problems: Problems) -> bool:
    """Adds what is wrong with a name, and returns whether nothing is."""
    if name is not None and kind in _TOKENS and not _TOKEN.fullmatch(name):
        problems.add(path, f"{name[:40]!r} {_TOKENS[kind]}")
        return False
    if name is not None and not name.isprintable():
        problems.add(path, f"{name[:40]!r}: {_ONE_LINE}")
        return False
    return True


def _check_own_route(manifest: dict[str, Any], path: str, problems: Problems) -> None:
    for field in sorted(manifest.keys() - set(_OWN_FIELDS)):
        message = f"is not allowed in a manifest here; allowed are {', '.join(_OWN_FIELDS)}"
        problems.add(path_of((field,), root=path), message)
    for field in ("apiVersion", "kind"):
        if not (isinstance(manifest.get(field), str) and manifest[field]):
            problems.add(f"{path}.{field}", "is required, and a string")
    for field in ("metadata", "spec"):
        if not isinstance(manifest.get(field), dict):
            problems.add(f"{path}.{field}", "is required, and an object")
    if isinstance(metadata := manifest.get("metadata"), dict):
        _check_own_metadata(metadata, f"{path}.metadata", problems)


def _check_own_metadata(metadata: dict[str, Any], path: str, problems: Problems) -> None:
    for field in sorted(metadata.keys() - set(_OWN_METADATA)):
        message = f"is set by the API server or the controller; allowed are {', '.join(_OWN_METADATA)}"
        problems.add(path_of((field,), root=path), message)
    if not (isinstance(metadata.get("name"), str) and metadata["name"]):
        problems.add(f"{path}.name", "is required, and a string")
    if not isinstance(metadata.get("namespace", ""), str):
        problems.add(f"{path}.namespace", "must be a string")
    for field in ("labels", "annotations"):
        entries = metadata.get(field) or {}
        if isinstance(entries, dict):
            check_entries(entries, f"{path}.{field}", problems, labels=field == "labels")
            for key in filter(is_snippet, entries):
                message = "would add text to the configuration of every route of its router; remove it"
                problems.add(path_of((key,), root=f"{path}.{field}"), message)
        else:
            problems.add(f"{path}.{field}", "must be an object")


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


def _named(conditions: Iterable[tuple[str | None, StringMatch | None]]) -> tuple[NamedMatch, ...]:
    return tuple(
        NamedMatch(name, _text(value or StringMatch.empty())) for name, value in conditions if name is not None
    )


def _text(wire: StringMatch) -> TextMatch:
    for kind in MatchKind:
        if (value := getattr(wire, kind.value)) is not None:
            return TextMatch(kind, value)
    return TextMatch(MatchKind.EXACT, "")
