"""How a gateway reads routes: which rule matches a request, and to which Service the rule sends it.

It follows the Gateway API's text (HTTPRouteRule, GEP-1294), and does not share code with `rollouts.traffic` on purpose: it must
not repeat a mistake of the controller. Hostnames, redirects and rewrites are left out, because clients here use one host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.objects import Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE

ServiceKey: TypeAlias = tuple[str, str]
"""Namespace and name."""
RuleIndex: TypeAlias = tuple[ServiceKey, int]
"""A route and the number of one of its rules."""


class WebRequest(Struct, frozen=True):
    """A request of a client. Header names are lower case; a gRPC call is a POST to `/service/method`."""

    path: str = "/"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()


PLAIN = WebRequest()


class Copies(Struct, frozen=True):
    """A RequestMirror filter: `part` of the requests, 0..1, also goes to `service`."""

    service: ServiceKey
    part: Fraction


class Backend(Struct, frozen=True):
    """A Service and its weight; its share is the weight divided by the sum of the rule's weights."""

    service: ServiceKey
    weight: int


@dataclass
class ProxyRule:
    """One rule of one route, as one proxy carries it out.

    Args:
        route: namespace and name of the route.
        backends: in the order of the manifest; no weight is negative.
        copies: the copies that are made.
        matches: as in the manifest.
        number: its index in the route's list.
    """

    route: ServiceKey
    backends: tuple[Backend, ...]
    copies: tuple[Copies, ...]
    matches: tuple[Manifest, ...] = ()
    number: int = 0
    _owed: list[int] = field(default_factory=list)
    _copied: list[Fraction] = field(default_factory=list)

    def asks_for(self, header: str) -> bool:
        """Whether each of its matches asks for a header of that name."""
        headers = [match.get("headers") or () for match in self.matches]
        return bool(headers) and all(any(each["name"].lower() == header for each in some) for some in headers)

    def shares(self) -> dict[ServiceKey, Fraction]:
        """The share of the requests that each Service gets; empty when no weight is above 0."""
        total = sum(each.weight for each in self.backends)
        shares: dict[ServiceKey, Fraction] = {}
        for each in self.backends:
            if each.weight:
                shares[each.service] = shares.get(each.service, Fraction(0)) + Fraction(each.weight, total)
        return shares

    def next_service(self) -> ServiceKey | None:
        """The Service of the next request, by weight and not at random; None when no weight is above 0.

        The algorithm is nginx's smooth weighted round robin: of n × total requests each backend gets exactly n × its weight.
        """
        total = sum(each.weight for each in self.backends)
        if not total:
            return None
        if not self._owed:
            self._owed = [0] * len(self.backends)
        for index, each in enumerate(self.backends):
            self._owed[index] += each.weight
        best = max(range(len(self.backends)), key=self._owed.__getitem__)
        self._owed[best] -= total
        return self.backends[best].service

    def next_copies(self) -> list[ServiceKey]:
        """The Services that get copies of the next request, by the same algorithm."""
        if not self._copied:
            self._copied = [Fraction(0)] * len(self.copies)
        chosen = []
        for index, each in enumerate(self.copies):
            self._copied[index] += each.part
            if self._copied[index] >= 1:
                self._copied[index] -= 1
                chosen.append(each.service)
        return chosen


_Rank: TypeAlias = tuple[int, int, int, int, int]


class _Entry(Struct, frozen=True):
    """One match of one rule; a lower rank is tried first."""

    rank: _Rank
    match: Manifest
    is_grpc: bool
    rule: ProxyRule


class RouteTable:
    """The rules of one proxy.

    Args:
        routes: HTTPRoute and GRPCRoute manifests as the API server has them, defaults filled in.
    """

    def __init__(self, routes: Iterable[Manifest]) -> None:
        self._entries: list[_Entry] = []
        self.generations: dict[ServiceKey, tuple[str, int]] = {}
        """uid and generation of each route in this table."""
        for manifest in sorted(routes, key=_age):
            self.generations[_key(manifest)] = (manifest["metadata"]["uid"], manifest["metadata"]["generation"])
            for number, rule in enumerate(manifest["spec"].get("rules") or ()):
                self._entries += _entries(manifest, rule, number)
        self._entries.sort(key=lambda entry: entry.rank)  # stable: the oldest route first, then the order of the rules

    def find(self, request: WebRequest) -> ProxyRule | None:
        """The rule that matches a request; None when no route does."""
        return next((each.rule for each in self._entries if _matches(each, request)), None)

    def places(self) -> set[RuleIndex]:
        """Every route with the numbers of its rules."""
        return {(each.rule.route, each.rule.number) for each in self._entries}

    def rules_of(self, route: ServiceKey) -> Iterator[ProxyRule]:
        """Every rule of a route, each once."""
        seen: list[ProxyRule] = []
        for each in self._entries:
            if each.rule.route == route and not any(each.rule is other for other in seen):
                seen.append(each.rule)
        yield from seen


def services_of(manifest: Manifest) -> list[ServiceKey]:
    """Every Service that a route names, copies included, each once, in its order."""
    found: dict[ServiceKey, None] = {}
    for rule in manifest["spec"].get("rules") or ():
        parsed = _rule(manifest, rule)
        found.update(dict.fromkeys(each.service for each in parsed.backends))
        found.update(dict.fromkeys(each.service for each in parsed.copies))
    return list(found)


def _key(manifest: Manifest) -> ServiceKey:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _age(manifest: Manifest) -> tuple[str, ServiceKey]:
    return manifest["metadata"]["creationTimestamp"], _key(manifest)


def _entries(manifest: Manifest, rule: Manifest, number: int) -> list[_Entry]:
    is_grpc = manifest["kind"] != HTTP_ROUTE.kind
    parsed = _rule(manifest, rule, number)
    matches = rule.get("matches") or [{}]
    rank = _grpc_rank if is_grpc else _http_rank
    return [_Entry(rank(match), match, is_grpc, parsed) for match in matches]


def _rule(manifest: Manifest, rule: Manifest, number: int = 0) -> ProxyRule:
    home = manifest["metadata"]["namespace"]
    backends = tuple(Backend(_service(each, home), each.get("weight", 1)) for each in rule.get("backendRefs") or ())
    mirrors = [each["requestMirror"] for each in rule.get("filters") or () if each["type"] == "RequestMirror"]
    copies = tuple(Copies(_service(each["backendRef"], home), _part(each)) for each in mirrors)
    return ProxyRule(_key(manifest), backends, copies, tuple(rule.get("matches") or ()), number)


def _service(reference: Manifest, home: str) -> ServiceKey:
    return reference.get("namespace") or home, reference["name"]


def _part(mirror: Manifest) -> Fraction:
    if "fraction" in mirror:
        return Fraction(mirror["fraction"]["numerator"], mirror["fraction"].get("denominator", 100))
    return Fraction(mirror.get("percent", 100), 100)


def _http_rank(match: Manifest) -> _Rank:
    """Exact path, expression, longest prefix; then a method; then the number of headers; then of query parameters."""
    path = match.get("path") or {}
    kind, value = path.get("type", "PathPrefix"), path.get("value", "/")
    order = {"Exact": 0, "RegularExpression": 1, "PathPrefix": 2}[kind]
    headers, query = match.get("headers") or (), match.get("queryParams") or ()
    return order, -len(value), 0 if "method" in match else 1, -len(headers), -len(query)


def _grpc_rank(match: Manifest) -> _Rank:
    method = match.get("method") or {}
    return 0, -len(method.get("service", "")), -len(method.get("method", "")), -len(match.get("headers") or ()), 0


def _matches(entry: _Entry, request: WebRequest) -> bool:
    match = entry.match
    where = _grpc_place(match, request) if entry.is_grpc else _http_place(match, request)
    return (
        where
        and _all_match(match.get("headers") or (), request.headers, lower=True)
        and _all_match(match.get("queryParams") or (), request.query, lower=False)
    )


def _http_place(match: Manifest, request: WebRequest) -> bool:
    path = match.get("path") or {}
    value = path.get("value", "/")
    match path.get("type", "PathPrefix"):
        case "Exact":
            fits = request.path == value
        case "RegularExpression":
            fits = re.fullmatch(value, request.path) is not None
        case _:
            prefix = value.rstrip("/")
            fits = request.path == prefix or request.path.startswith(prefix + "/")
    return fits and bool(match.get("method", request.method) == request.method)


def _grpc_place(match: Manifest, request: WebRequest) -> bool:
    _, service, method = (*request.path.split("/", 2), "", "")[:3]
    wanted = match.get("method") or {}
    is_pattern = wanted.get("type", "Exact") == "RegularExpression"
    return all(
        name not in wanted or _fits(wanted[name], found, is_pattern=is_pattern)
        for name, found in (("service", service), ("method", method))
    )


def _all_match(wanted: Iterable[Any], given: tuple[tuple[str, str], ...], *, lower: bool) -> bool:
    for each in wanted:
        name = each["name"].lower() if lower else each["name"]
        is_pattern = each.get("type", "Exact") == "RegularExpression"
        if not any(key == name and _fits(each["value"], value, is_pattern=is_pattern) for key, value in given):
            return False
    return True


def _fits(wanted: str, value: str, *, is_pattern: bool) -> bool:
    # Header expressions are searched for as a whole, as Envoy's safe_regex does.
    return re.fullmatch(wanted, value) is not None if is_pattern else wanted == value
