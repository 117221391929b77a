"""Istio: weights of `route[].destination` in the http, tls and tcp routes of a VirtualService. Settings as in Argo Rollouts.

Istio tries routes in order, so a managed route goes right before the one that it copies. Other destinations stay as they are.
The two sides are two hosts, or two subsets of one host that a DestinationRule has (`subsets.py`).
Istio writes no status by default (PILOT_ENABLE_STATUS), and its webhook refuses invalid objects, so each counts as accepted.
Source: istio.io/api v1.28, networking/v1 VirtualService: weights are relative, and one destination alone needs none; all
conditions of one HTTPMatchRequest must hold, and one of several of them. Cookies are one header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rollouts.core.model.traffic import Feature, MatchKind, MirrorRoute, NamedMatch, RequestMatch, TextMatch
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, Destination, Objects, Op, Target
from rollouts.traffic.istio.settings import SERVICE_KINDS, RuleName, targets_of
from rollouts.traffic.istio.subsets import RULE_KINDS, released, service_of_host
from rollouts.traffic.rules.provider import Rules
from rollouts.traffic.rules.rule_paths import RulePath, rules_at
from rollouts.traffic.rules.steering import Dialect, Side
from rollouts.traffic.rules.text_matches import both, cookie_pattern

KINDS: Mapping[str, tuple[Kind, ...]] = {"virtualService": SERVICE_KINDS, "destinationRule": RULE_KINDS}


@dataclass(frozen=True, slots=True)
class _VirtualService(Dialect):
    backends: ClassVar[str] = "route"
    weight_alone: ClassVar[int] = 100

    def lists(self, user: Manifest) -> tuple[RulePath, ...]:
        if _is_rule(self.target):
            raise Unroutable("a DestinationRule has no weights; they are in a VirtualService")
        return tuple(("spec", name) for name in ("http", "tls", "tcp"))

    def is_named(self, rule: Manifest, path: RulePath, name: RuleName) -> bool:
        return name.means(rule, of=str(path[-1]))

    def names_for(self, path: RulePath) -> tuple[RuleName, ...]:
        return tuple([each for each in self.named() if each.of == path[-1]])

    def no_rule_named(self, name: RuleName, user: Manifest) -> str:
        if rules_at(user, ("spec", name.of)):
            return Dialect.no_rule_named(self, name, user)
        return (
            f"it has no {name.of} routes: remove `{name.field}` from the spec; "
            "its other routes with both Services need no name"
        )

    def side(self, backend: Manifest) -> Side | None:
        destination = backend.get("destination", {})
        host = str(destination.get("host", ""))
        if "." not in host and self.target.namespace != self.context.namespace:
            return None
        subset = str(destination.get("subset", "")) if self.context.stable.subset else ""
        sides = {self.context.stable: Side.STABLE, self.context.canary: Side.CANARY}
        return sides.get(Destination(service_of_host(host, namespace=self.context.namespace), subset))

    def beside(self, stable: Manifest, to: Destination) -> Manifest:
        destination = stable["destination"]
        host = str(destination["host"]).replace(self.context.stable_service, to.service, 1)
        # No DestinationRule has subsets for the Service of an Experiment.
        subset = to.subset or (destination.get("subset") if to == self.context.canary else None)
        there = {**destination, "host": host, "subset": subset}
        kept = {name: value for name, value in there.items() if name != "subset" or value is not None}
        return {**self._weighted(stable, None), "destination": kept}

    def takes_requests(self, path: RulePath) -> bool:
        return path[-1] == "http"

    def weight_of(self, backend: Manifest, rule: Manifest) -> int:
        found = backend.get("weight")
        return int(found) if found else 100 if len(rule["route"]) == 1 else 0

    def identity(self, rule: Manifest) -> Any:
        return [rule.get(name) for name in ("name", "match", "mirror", "mirrors")]

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        if not matches:
            return {**rule, "name": name}
        found = [_narrower(own, want) for own in rule.get("match") or [{}] for want in matches]
        kept = [each for each in found if each is not None]
        return {**rule, "name": name, "match": kept} if kept else None

    def mirrored(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest:
        if "mirror" in rule:
            raise Unroutable("a route has mirror already; write it as mirrors, which can hold several")
        to, percent = canary["destination"], {"value": float(mirror.percent)}
        if "mirrors" in rule:
            return {**rule, "mirrors": [*rule["mirrors"], {"destination": to, "percentage": percent}]}
        return {**rule, "mirror": to, "mirrorPercentage": percent}


class _Istio(Rules):
    name = "istio"
    dialect = _VirtualService
    supported_features = frozenset(Feature) - {Feature.SEVERAL_COOKIES}  # all cookies are one header, matched once

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        return targets_of(settings, namespace=namespace)

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        return released(objects.user) if _is_rule(target) else super().release(objects, target, context)

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        http = (objects.user.get("spec") or {}).get("http")
        return self.supported(target) if http else frozenset({Feature.EXPERIMENT})

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        named = (objects.user.get("spec") or {}).get("gateways") or ()
        return tuple(each if "/" in each else f"{target.namespace}/{each}" for each in named if each != "mesh")


def _narrower(own: Manifest, want: RequestMatch) -> Manifest | None:
    """One match for the requests that match both; None when no request can. Raises: Unroutable when that cannot be known."""
    cookies = (NamedMatch("cookie", TextMatch(MatchKind.REGEX, cookie_pattern(each))) for each in want.cookies)
    headers = [*want.headers, *cookies]
    found = dict(own)
    for field, text in (("uri", want.path), ("method", want.method)):
        if text is not None and not _add(found, field, text):
            return None
    for field, named in (("headers", headers), ("queryParams", want.query)):
        conditions = dict(own.get(field) or {})
        for each in named:
            if not _add(conditions, each.name, each.value):
                return None
        found |= {field: conditions} if conditions else {}
    return found


def _add(conditions: Manifest, name: str, want: TextMatch) -> bool:
    own = conditions.get(name)
    has = next((TextMatch(kind, own[kind.value]) for kind in MatchKind if own and kind.value in own), None)
    text = both(has, want, of=name)
    if text is not None:
        conditions[name] = {text.kind.value: text.value}
    return text is not None


def _is_rule(target: Target) -> bool:
    return target.kinds[0].kind == RULE_KINDS[0].kind


PROVIDER = _Istio()
