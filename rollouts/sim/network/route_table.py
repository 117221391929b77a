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
    """One rule of one route, as one proxy carries it out; backends and matches are as in the manifest, no weight negative."""

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
        return bool(headers) and all(any(wanted["name"].lower() == header for wanted in some) for some in headers)

    def shares(self) -> dict[ServiceKey, Fraction]:
        """The share of the requests that each Service gets; empty when no weight is above 0."""
        total = sum(backend.weight for backend in self.backends)
        shares: dict[ServiceKey, Fraction] = {}
        for backend in self.backends:
            if backend.weight:
                shares[backend.service] = shares.get(backend.service, Fraction(0)) + Fraction(backend.weight, total)
        return shares

    def weight_of(self, service: ServiceKey) -> int:
        """The weights of a Service together."""
        return sum(backend.weight for backend in self.backends if backend.service == service)

    def next_service(self) -> ServiceKey | None:
        """The Service of the next request, by weight and not at random; None when no weight is above 0.

        The algorithm is nginx's smooth weighted round robin: of n × total requests each backend gets exactly n × its weight.
        """
        total = sum(backend.weight for backend in self.backends)
        if not total:
            return None
        if not self._owed:
            self._owed = [0] * len(self.backends)
        for index, backend in enumerate(self.backends):
            self._owed[index] += backend.weight
        best = max(range(len(self.backends)), key=self._owed.__getitem__)
        self._owed[best] -= total
        return self.backends[best].service

    def next_copies(self) -> list[ServiceKey]:
        """The Services that get copies of the next request, by the same algorithm."""
        if not self._copied:
            self._copied = [Fraction(0)] * len(self.copies)
        chosen = []
        for index, copies in enumerate(self.copies):
            self._copied[index] += copies.part
            if self._copied[index] >= 1:
                self._copied[index] -= 1
                chosen.append(copies.service)
        return chosen


class _Entry(Struct, frozen=True):
    match: Manifest
    is_grpc: bool
    rule: ProxyRule

    def rank(self) -> tuple[int, int, int, int, int]:
        """A lower one is tried first.

        Exact path, expression, longest prefix; then a method; then the number of headers; then of query parameters.
        """
        headers, query = self.match.get("headers") or (), self.match.get("queryParams") or ()
        if self.is_grpc:
            method = self.match.get("method") or {}
            return 0, -len(method.get("service", "")), -len(method.get("method", "")), -len(headers), 0
        path = self.match.get("path") or {}
        order = {"Exact": 0, "RegularExpression": 1, "PathPrefix": 2}[path.get("type", "PathPrefix")]
        return order, -len(path.get("value", "/")), 0 if "method" in self.match else 1, -len(headers), -len(query)

    def matches(self, request: WebRequest) -> bool:
        return (
            (self._is_called_by(request) if self.is_grpc else self._is_at(request))
            and _all_match(self.match.get("headers") or (), request.headers, lower=True)
            and _all_match(self.match.get("queryParams") or (), request.query, lower=False)
        )

    def _is_at(self, request: WebRequest) -> bool:
        path = self.match.get("path") or {}
        value = path.get("value", "/")
        match path.get("type", "PathPrefix"):
            case "Exact":
                fits = request.path == value
            case "RegularExpression":
                fits = re.fullmatch(value, request.path) is not None
            case _:
                prefix = value.rstrip("/")
                fits = request.path == prefix or request.path.startswith(prefix + "/")
        return fits and bool(self.match.get("method", request.method) == request.method)

    def _is_called_by(self, request: WebRequest) -> bool:
        _, service, method = (*request.path.split("/", 2), "", "")[:3]
        wanted = self.match.get("method") or {}
        is_pattern = wanted.get("type", "Exact") == "RegularExpression"
        called = {"service": service, "method": method}
        return all(name not in wanted or _fits(wanted[name], called[name], is_pattern=is_pattern) for name in called)


class RouteTable:
    """The rules of one proxy, from HTTPRoutes and GRPCRoutes as the API server has them, with defaults."""

    def __init__(self, routes: Iterable[Manifest]) -> None:
        self._entries: list[_Entry] = []
        for manifest in sorted(
            routes, key=lambda manifest: (manifest["metadata"]["creationTimestamp"], _key(manifest))
        ):
            is_grpc = manifest["kind"] != HTTP_ROUTE.kind
            for number, rule in enumerate(manifest["spec"].get("rules") or ()):
                parsed = _rule(manifest, rule, number)
                matches = rule.get("matches") or [{}]
                self._entries += [_Entry(match, is_grpc, parsed) for match in matches]
        self._entries.sort(key=_Entry.rank)  # stable: the oldest route first, then the order of the rules

    def find(self, request: WebRequest) -> ProxyRule | None:
        """The rule that matches a request; None when no route does."""
        return next((entry.rule for entry in self._entries if entry.matches(request)), None)

    def places(self) -> set[RuleIndex]:
        """Every route with the numbers of its rules."""
        return {(entry.rule.route, entry.rule.number) for entry in self._entries}

    def rules_of(self, route: ServiceKey) -> Iterator[ProxyRule]:
        """Every rule of a route, each once."""
        by_id = {id(entry.rule): entry.rule for entry in self._entries if entry.rule.route == route}
        yield from by_id.values()


def services_of(manifest: Manifest) -> list[ServiceKey]:
    """Every Service that a route names, copies included, each once, in its order."""
    services: dict[ServiceKey, None] = {}
    for rule in manifest["spec"].get("rules") or ():
        parsed = _rule(manifest, rule)
        services |= dict.fromkeys(backend.service for backend in parsed.backends)
        services |= dict.fromkeys(copies.service for copies in parsed.copies)
    return list(services)


def _key(manifest: Manifest) -> ServiceKey:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _rule(manifest: Manifest, rule: Manifest, number: int = 0) -> ProxyRule:
    home = manifest["metadata"]["namespace"]
    backends = tuple(Backend(_service(ref, home), ref.get("weight", 1)) for ref in rule.get("backendRefs") or ())
    copies = []
    for mirror in [route["requestMirror"] for route in rule.get("filters") or () if route["type"] == "RequestMirror"]:
        part = mirror.get("fraction") or {"numerator": mirror.get("percent", 100)}
        share = Fraction(part["numerator"], part.get("denominator", 100))
        copies.append(Copies(_service(mirror["backendRef"], home), share))
    return ProxyRule(_key(manifest), backends, tuple(copies), tuple(rule.get("matches") or ()), number)


def _service(reference: Manifest, home: str) -> ServiceKey:
    return reference.get("namespace") or home, reference["name"]


def _all_match(wanted: Iterable[Any], given: tuple[tuple[str, str], ...], *, lower: bool) -> bool:
    for match in wanted:
        name = match["name"].lower() if lower else match["name"]
        is_pattern = match.get("type", "Exact") == "RegularExpression"
        if not any(key == name and _fits(match["value"], value, is_pattern=is_pattern) for key, value in given):
            return False
    return True


def _fits(wanted: str, value: str, *, is_pattern: bool) -> bool:
    # Header expressions are searched for as a whole, as Envoy's safe_regex does.
    return re.fullmatch(wanted, value) is not None if is_pattern else wanted == value
