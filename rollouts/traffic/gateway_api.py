"""Gateway API: weights of `backendRefs` in HTTPRoute, GRPCRoute, TLSRoute and TCPRoute, changed in the user's route.

A managed route is a copy of each steered rule, narrowed to the requests that match, so that filters, timeouts and the order of
precedence (path, method, number of headers) stay the user's. It stands at the end of the rules, and a mirror of all requests in
the rule itself: gateways name what they make of a rule by its index, and a rule that moves is made anew under traffic. Where
only the order decides, the copy stands before the rule. Source: gateway-api v1.6.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rollouts.core.traffic import Feature, MirrorRoute, RequestMatch, Split, Verdict
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, Objects, Op, Target
from rollouts.traffic.gateway_matches import narrowed_matches, outrank
from rollouts.traffic.gateway_parents import GROUP, controllers_of, gateways_of, taken_by_parents
from rollouts.traffic.settings import Settings
from rollouts.traffic.steering import Dialect, Path, Rules, Side

_BOTH = frozenset({Feature.HEADER, Feature.HEADER_REGEX, Feature.MIRROR, Feature.MIRROR_PERCENT})
_HTTP = _BOTH | {Feature.COOKIE, Feature.QUERY, Feature.METHOD, Feature.PATH}
_RULES_MOST, _MATCHES_MOST, _MATCHES_IN_ALL, _CONDITIONS_MOST, _FILTERS_MOST, _BACKENDS_MOST = 16, 64, 128, 16, 16, 16
_LACKING = {
    "traefik.io/gateway-controller": frozenset({Feature.MIRROR, Feature.MIRROR_PERCENT}),
    "projectcontour.io/gateway-controller": frozenset({Feature.MIRROR_PERCENT}),
}
"""What products do worse than refuse, by the name that their controllers write into the status: Traefik 3.7 answers every request
of a route with a mirror with 500, Contour 1.33 mirrors all requests whatever the percentage; both accept the route."""
_CLASS_FEATURES = {
    "HTTPRouteQueryParamMatching": (Feature.QUERY,),
    "HTTPRouteMethodMatching": (Feature.METHOD,),
    "HTTPRouteRequestMirror": (Feature.MIRROR,),
    "HTTPRouteRequestPercentageMirror": (Feature.MIRROR_PERCENT,),
}


def _kinds(kind: str, plural: str, *versions: str) -> tuple[Kind, ...]:
    return tuple(Kind(GROUP, version, kind, plural) for version in versions)


KINDS: Mapping[str, tuple[Kind, ...]] = {
    "httpRoutes": _kinds("HTTPRoute", "httproutes", "v1", "v1beta1"),
    "grpcRoutes": _kinds("GRPCRoute", "grpcroutes", "v1", "v1alpha2"),
    "tlsRoutes": _kinds("TLSRoute", "tlsroutes", "v1", "v1alpha3", "v1alpha2"),
    "tcpRoutes": _kinds("TCPRoute", "tcproutes", "v1", "v1alpha2"),
}
"""Fields of the settings, and the kinds that they name routes of, in every version that can be read, the best first."""


def features_of_class(supported: Iterable[str] | None) -> frozenset[Feature]:
    """What a GatewayClass allows by its `status.supportedFeatures`: core ones always, extended ones when they are named.

    Some products publish no list (None or empty): then what is extended is not known to work. Traefik answers all requests with
    500 for a mirror that it does not know.
    """
    named = set(supported or ())
    extended = {feature for name, features in _CLASS_FEATURES.items() if name in named for feature in features}
    return frozenset({Feature.HEADER, Feature.HEADER_REGEX, Feature.COOKIE, Feature.PATH, *extended})


@dataclass(frozen=True, slots=True)
class _Route(Dialect):
    backends: ClassVar[str] = "backendRefs"
    weight_most: ClassVar[int] = 1_000_000

    def lists(self, user: Manifest) -> tuple[Path, ...]:
        return (("spec", "rules"),)

    def side(self, backend: Manifest) -> Side | None:
        here = backend.get("namespace") or self.target.namespace
        if backend.get("group") or backend.get("kind", "Service") != "Service" or here != self.context.namespace:
            return None
        sides = {self.context.stable_service: Side.STABLE, self.context.canary_service: Side.CANARY}
        return sides.get(backend.get("name", ""))

    def beside(self, stable: Manifest) -> Manifest:
        return {**self._weighted(stable, None), "name": self.context.canary_service}

    def takes_requests(self, path: Path) -> bool:
        return self.target.kinds[0].kind in ("HTTPRoute", "GRPCRoute")

    def identity(self, rule: Manifest) -> Any:
        return [rule.get("matches"), rule.get("filters")]

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        copy = {field: value for field, value in rule.items() if field != "name"}  # names are unique in a route
        if not matches:
            return copy
        found = narrowed_matches(rule.get("matches") or (), matches, grpc=self.target.kinds[0].kind == "GRPCRoute")
        return {**copy, "matches": found} if found else None

    def stands_anywhere(self, copy: Manifest, rule: Manifest) -> bool:
        return outrank(copy.get("matches") or (), rule.get("matches") or ())

    def mirrored(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest:
        to = {name: canary[name] for name in ("group", "kind", "name", "namespace", "port") if name in canary}
        percent = {"percent": mirror.percent} if mirror.percent < 100 else {}
        ours = {"type": "RequestMirror", "requestMirror": {"backendRef": to, **percent}}
        return {**rule, "filters": [*(rule.get("filters") or ()), ours]}

    def mirrored_in_place(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest | None:
        empty = rule.get("filters") == []  # could not be told from none when it is given back
        return None if mirror.matches or empty else self.mirrored(rule, mirror, canary)

    def unmirrored(self, rule: Manifest) -> Manifest:
        filters = rule.get("filters") or []
        kept = [each for each in filters if not self._to_canary(each)]
        if len(kept) == len(filters):
            return rule
        rest = {name: value for name, value in rule.items() if name != "filters"}
        return {**rest, "filters": kept} if kept else rest

    def _to_canary(self, rule_filter: Manifest) -> bool:
        mirror = rule_filter.get("requestMirror") or {}
        return self.side(mirror.get("backendRef") or {}) is Side.CANARY

    def check(self, user: Manifest) -> None:
        rules: list[Manifest] = user["spec"]["rules"]
        if any(_replaces_prefix(each) and not _has_one_prefix(each) for each in rules):
            raise Unroutable(
                "a rule with replacePrefixMatch has exactly one match, of a PathPrefix; leave exact paths, regular expressions "
                "and further matches out of the step, or name the other rules in the spec"
            )
        matches = [rule.get("matches") or [] for rule in rules]
        every = [match for some in matches for match in some]
        conditions = [match.get(name) or () for match in every for name in ("headers", "queryParams")]
        for what, count, most in (
            ("rules", len(rules), _RULES_MOST),
            ("matches in one rule", max(map(len, matches)), _MATCHES_MOST),
            ("matches in all", len(every), _MATCHES_IN_ALL),
            ("headers or query parameters in one match", max(map(len, conditions), default=0), _CONDITIONS_MOST),
            ("filters in one rule", max(len(rule.get("filters") or ()) for rule in rules), _FILTERS_MOST),
            ("backends in one rule", max(len(rule.get("backendRefs") or ()) for rule in rules), _BACKENDS_MOST),
        ):
            if count > most:
                raise Unroutable(
                    f"it would have {count} {what}, and {most} is the most; split the route in two, "
                    "or name the rules to steer in the spec"
                )


class _GatewayApi(Rules):
    name = "gatewayAPI"

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = Settings(settings)
        found: list[Target] = []
        if read.text("mode", default="patch") != "patch":
            read.refuse(
                "mode", "must be patch: a route of the Gateway API cannot point at another one that we could own"
            )
        for old, field in (
            ("httpRoute", "httpRoutes"),
            ("grpcRoute", "grpcRoutes"),
            ("tcpRoute", "tcpRoutes"),
            ("tlsRoute", "tlsRoutes"),
        ):
            if name := read.text(old):
                read.refuse(old, f"is written {field}: [{{name: {name}}}] here")
        features = read.texts("features")
        for feature in features:
            if feature not in _CLASS_FEATURES:
                read.refuse("features", f"must be of {', '.join(_CLASS_FEATURES)}, not {feature}")
        for field, kinds in KINDS.items():
            for route in read.parts(field):
                options = {"rules": route.texts("rules"), "features": features}
                where = route.text("namespace", default=namespace)
                found.append(
                    Target(kinds=kinds, namespace=where, name=route.text("name", needed=True), options=options)
                )
                route.done()
        if not found and not read.problems:
            read.refuse("", "names no route; write httpRoutes: [{name: …}]")
        read.done()
        return tuple(found)

    def dialect(self, target: Target, context: Context) -> Dialect:
        return _Route(target, context)

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        known = {"HTTPRoute": _HTTP, "GRPCRoute": _BOTH}.get(target.kinds[0].kind, frozenset())
        return known - _lacking(objects.user)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        lacking = _lacking(objects.user)
        for mirror in want.mirrors:
            if Feature.MIRROR in lacking:
                raise Unroutable(
                    f"its gateway would answer all requests with 500 for a mirror; take {mirror.name} out of the steps"
                )
            if Feature.MIRROR_PERCENT in lacking and mirror.percent < 100:
                raise Unroutable(
                    f"its gateway mirrors all requests whatever the percentage; write 100 in {mirror.name}"
                )
        return super().plan(objects, target, context, want)

    def accepted(self, objects: Objects, target: Target) -> Verdict:
        return taken_by_parents(objects.user, namespace=target.namespace)

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        return gateways_of(objects.user, namespace=target.namespace)


def _lacking(user: Manifest) -> frozenset[Feature]:
    controllers = controllers_of(user)
    return frozenset[Feature]().union(*(_LACKING.get(each, frozenset()) for each in controllers))


def _replaces_prefix(rule: Manifest) -> bool:
    rewrites = [each.get("urlRewrite") or {} for each in rule.get("filters") or ()]
    return any((each.get("path") or {}).get("type") == "ReplacePrefixMatch" for each in rewrites)


def _has_one_prefix(rule: Manifest) -> bool:
    paths = [(each.get("path") or {}).get("type", "PathPrefix") for each in rule.get("matches") or [{}]]
    return paths == ["PathPrefix"]


PROVIDER = _GatewayApi()
