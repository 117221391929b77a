"""Gateway API: weights of `backendRefs` in HTTPRoute, GRPCRoute, TLSRoute and TCPRoute, changed in the user's route.

A managed route is a copy of each steered rule, placed before it and narrowed to the requests that match, so that filters,
timeouts and the order of precedence (path, method, number of headers) stay the user's. Source: gateway-api v1.6.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rollouts.core.traffic import Answer, Feature, MirrorRoute, RequestMatch, Verdict
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, Objects, Target
from rollouts.traffic.gateway_matches import narrowed_matches
from rollouts.traffic.settings import Settings
from rollouts.traffic.steering import Dialect, Path, Rules, Side

GROUP = "gateway.networking.k8s.io"
_BOTH = frozenset({Feature.HEADER, Feature.HEADER_REGEX, Feature.MIRROR, Feature.MIRROR_PERCENT})
_HTTP = _BOTH | {Feature.COOKIE, Feature.QUERY, Feature.METHOD, Feature.PATH}
_RULES_MOST, _MATCHES_MOST, _MATCHES_IN_ALL, _CONDITIONS_MOST, _FILTERS_MOST, _BACKENDS_MOST = 16, 64, 128, 16, 16, 16
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

    def mirrored(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest:
        to = {name: canary[name] for name in ("group", "kind", "name", "namespace", "port") if name in canary}
        percent = {"percent": mirror.percent} if mirror.percent < 100 else {}
        ours = {"type": "RequestMirror", "requestMirror": {"backendRef": to, **percent}}
        return {**rule, "filters": [*(rule.get("filters") or ()), ours]}

    def check(self, user: Manifest) -> None:
        rules: list[Manifest] = user["spec"]["rules"]
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
        for field, kinds in KINDS.items():
            for route in read.parts(field):
                options = {"rules": route.texts("rules")}
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
        return {"HTTPRoute": _HTTP, "GRPCRoute": _BOTH}.get(target.kinds[0].kind, frozenset())

    def accepted(self, objects: Objects, target: Target) -> Verdict:
        spec, status = objects.user.get("spec") or {}, objects.user.get("status") or {}
        generation = objects.user.get("metadata", {}).get("generation", 0)
        parents = spec.get("parentRefs") or ()
        verdicts = [_parent(each, status.get("parents") or (), target, generation) for each in parents]
        if not verdicts:
            return Verdict(Answer.UNKNOWN, "it names no parent")
        worst = {answer: verdict for verdict in reversed(verdicts) for answer in (verdict.answer,)}
        return worst.get(Answer.NO) or worst.get(Answer.UNKNOWN) or worst[Answer.YES]

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        parents = [_reference(each, target.namespace) for each in objects.user.get("spec", {}).get("parentRefs") or ()]
        found = [f"{each['namespace']}/{each['name']}" for each in parents if each["kind"] == "Gateway"]
        return tuple(dict.fromkeys(found))


def _reference(reference: Manifest, namespace: str) -> Manifest:
    return {"group": GROUP, "kind": "Gateway", "namespace": namespace, **reference}


def _parent(reference: Manifest, entries: Iterable[Manifest], target: Target, generation: int) -> Verdict:
    """The best that any controller says of this parent: a controller that is gone leaves its entry for ever."""
    wanted = _reference(reference, target.namespace)
    name = f"{wanted['kind']} {wanted['name']}"
    found = [
        _entry(each, name, generation)
        for each in entries
        if _reference(each.get("parentRef") or {}, target.namespace) == wanted
    ]
    by_answer = {verdict.answer: verdict for verdict in reversed(found)}
    nobody = Verdict(
        Answer.UNKNOWN, f"{name} has not said anything yet; does it exist, and does a controller serve it?"
    )
    return by_answer.get(Answer.YES) or by_answer.get(Answer.NO) or by_answer.get(Answer.UNKNOWN) or nobody


def _entry(entry: Manifest, name: str, generation: int) -> Verdict:
    conditions = {each.get("type"): each for each in entry.get("conditions") or ()}
    for kind, good in (("Accepted", "True"), ("ResolvedRefs", "True"), ("PartiallyInvalid", "False")):
        condition = conditions.get(kind)
        if condition is None and kind == "PartiallyInvalid":
            continue
        if condition is None or condition.get("observedGeneration", 0) < generation:
            return Verdict(Answer.UNKNOWN, f"{name} has not looked at generation {generation} yet")
        if condition.get("status") != good:
            told = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            return Verdict(Answer.NO, f"{name} says {kind} {condition.get('status')}: {told}")
    return Verdict(Answer.YES)


PROVIDER = _GatewayApi()
