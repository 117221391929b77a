"""Gateway API: weights of `backendRefs` in HTTPRoute, GRPCRoute, TLSRoute and TCPRoute, changed in the user's route.

A managed route is a copy of each managed rule, narrowed to the requests that match, so that filters, timeouts and the order of
precedence (path, method, number of headers) stay the user's. The copy goes to the end of the rules, and a mirror of all requests
into the rule itself: gateways name what they create for a rule by its index, and create it again under traffic when the rule
moves. Where only the order decides, the copy goes before the rule. Source: gateway-api v1.6.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from rollouts.core.model.traffic import Acceptance, Feature, MirrorRoute, RequestMatch, Split
from rollouts.objects import Manifest
from rollouts.traffic.codec import Context, Objects, Op, Target
from rollouts.traffic.gateway_api.features import (
    check_limits,
    check_mirror,
    copied_percents,
    lacking,
    with_mirror,
    without_mirrors,
)
from rollouts.traffic.gateway_api.matches import are_all, idle_match, merged, narrowed_matches, outrank, request_of
from rollouts.traffic.gateway_api.parents import gateways_of, taken_by_parents
from rollouts.traffic.gateway_api.settings import ROUTE_KINDS, targets_of
from rollouts.traffic.rules.provider import Rules
from rollouts.traffic.rules.rule_paths import RulePath
from rollouts.traffic.rules.steering import Dialect, Side
from rollouts.traffic.rules.warming import Warming

KINDS = ROUTE_KINDS
_HTTP = frozenset(Feature) - {Feature.SEVERAL_COOKIES}  # all cookies are one header, matched once
_GRPC = _HTTP - {Feature.COOKIE, Feature.QUERY, Feature.METHOD, Feature.PATH}


@dataclass(frozen=True, slots=True)
class _Route(Warming):
    backends: ClassVar[str] = "backendRefs"
    weight_most: ClassVar[int] = 1_000_000
    path: ClassVar[RulePath] = ("spec", "rules")

    def side(self, backend: Manifest) -> Side | None:
        is_service = backend.get("kind", "Service") == "Service" and backend.get("group") in (None, "", "core")
        return Dialect.side(self, backend) if is_service else None

    def takes_requests(self, path: RulePath) -> bool:
        return self.target.kinds[0].kind in ("HTTPRoute", "GRPCRoute")

    def identity(self, rule: Manifest) -> Any:
        return [rule.get("matches"), rule.get("filters")]

    @property
    def grpc(self) -> bool:
        return self.target.kinds[0].kind == "GRPCRoute"

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        copy = {field: value for field, value in rule.items() if field != "name"}  # names are unique in a route
        if not matches:
            return copy
        found = narrowed_matches(rule.get("matches") or (), matches, grpc=self.grpc)
        return {**copy, "matches": found} if found else None

    def before_mirrors(self, copy: Manifest, mirrors: Sequence[MirrorRoute]) -> Manifest:
        # The mirror's path or method ranks above any number of headers, so the copy repeats them with the same precision.
        above = [match for mirror in mirrors for match in mirror.matches if match.path or match.method]
        both = self.narrowed(copy, above, "the mirror") if above else None
        return {**copy, "matches": merged(copy["matches"], both["matches"])} if both else copy

    def stands_anywhere(self, copy: Manifest, rule: Manifest) -> bool:
        return outrank(copy.get("matches") or (), rule.get("matches") or ())

    def idle(self, copy: Manifest) -> Manifest:
        return {**copy, "matches": [idle_match(grpc=self.grpc)]}

    def is_idle(self, rule: Manifest) -> bool:
        return bool(rule.get("matches") == [idle_match(grpc=self.grpc)])

    def mirrored(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest:
        return with_mirror(rule, mirror, canary)

    def mirrored_in_place(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest | None:
        empty = rule.get("filters") == []  # a release could not distinguish it from no list
        whole = are_all(mirror.matches, rule.get("matches") or (), grpc=self.grpc)
        return with_mirror(rule, mirror, canary) if whole and not empty else None

    def unmirrored(self, rule: Manifest) -> Manifest:
        return without_mirrors(rule, self._is_canary)

    def requests_of(self, rule: Manifest) -> tuple[RequestMatch, ...]:
        return tuple(request_of(each, grpc=self.grpc) for each in rule.get("matches") or [{}])

    def copied_percents(self, rule: Manifest) -> tuple[Fraction, ...]:
        return copied_percents(rule, self._is_canary)

    def _is_canary(self, backend: Manifest) -> bool:
        return self.side(backend) is Side.CANARY

    def check(self, user: Manifest) -> None:
        check_limits(user)


class _GatewayApi(Rules):
    name = "gatewayAPI"
    dialect = _Route

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        return targets_of(settings, namespace=namespace)

    def supported(self, target: Target) -> frozenset[Feature]:
        return {"HTTPRoute": _HTTP, "GRPCRoute": _GRPC}.get(target.kinds[0].kind, frozenset({Feature.EXPERIMENT}))

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        return self.supported(target) - lacking(objects.user)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        for mirror in want.mirrors:
            check_mirror(mirror, objects.user)
        return super().plan(objects, target, context, want)

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        return taken_by_parents(objects.user, namespace=target.namespace)

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        return gateways_of(objects.user, namespace=target.namespace)


PROVIDER = _GatewayApi()
