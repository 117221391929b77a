"""Contour: weights of `spec.routes[].services` in an HTTPProxy. A managed route is a copy with more conditions.

Contour splits a route evenly when all weights are 0 or left out, so a pair without weights is refused. Of two routes with the
same conditions it uses the last, so a mirror of all requests of a route is put into the route itself.
Source: Contour v1.33.8, HTTPProxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from rollouts.core.model.traffic import (
    Acceptance,
    Answer,
    Feature,
    MirrorRoute,
    RequestMatch,
)
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Objects, Target
from rollouts.traffic.contour.conditions import cookie, header, is_path, path_of, query, request_of
from rollouts.traffic.rules.rule_paths import RulePath
from rollouts.traffic.rules.steering import Dialect, Rules, Side
from rollouts.traffic.rules.text_matches import both
from rollouts.traffic.settings import SettingsReader

KINDS = (Kind("projectcontour.io", "v1", "HTTPProxy", "httpproxies"),)
_FEATURES = frozenset(Feature) - {Feature.METHOD}


@dataclass(frozen=True, slots=True)
class _HttpProxy(Dialect):
    backends: ClassVar[str] = "services"
    weight_most: ClassVar[int] = 2**31 - 1
    below: ClassVar[bool] = True

    def lists(self, user: Manifest) -> tuple[RulePath, ...]:
        return (("spec", "routes"),)

    def side(self, backend: Manifest) -> Side | None:
        if backend.get("mirror") or self.target.namespace != self.context.namespace:
            return None
        return self.side_of(backend.get("name"))

    def weight_of(self, backend: Manifest, rule: Manifest) -> int:
        return int(backend.get("weight") or 0) or (1 if len(rule["services"]) == 1 else 0)

    def identity(self, rule: Manifest) -> Any:
        return rule.get("conditions")

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        if len(matches) != 1 or matches[0].method:
            raise Unroutable(f"an HTTPProxy's route has one match, without a method; change the match of {name}")
        (want,) = matches
        own: list[Manifest] = rule.get("conditions") or []
        path = both(path_of(own), want.path, of="paths")
        if path is None:
            return None
        if path != path_of(own):
            own = [*(each for each in own if not is_path(each)), {path.kind.value: path.value}]
        more = [*map(header, want.headers), *map(cookie, want.cookies), *map(query, want.query)]
        return {**rule, "conditions": [*own, *(each for each in more if each not in own)]}

    def mirrored(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest:
        services = rule["services"]
        if any(each.get("mirror") for each in services):
            raise Unroutable("a route mirrors already, and it can have one mirror; remove yours while a step mirrors")
        weight = {"weight": mirror.percent} if mirror.percent < 100 else {}
        return {**rule, "services": [*services, {**self._weighted(canary, None), "mirror": True, **weight}]}

    def mirrored_in_place(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest | None:
        own = rule.get("conditions") or []
        narrowed = [self.narrowed(rule, (match,), mirror.name) for match in mirror.matches]
        of_all = not mirror.matches or any(each is not None and each["conditions"] == own for each in narrowed)
        return self.mirrored(rule, mirror, canary) if of_all else None

    def unmirrored(self, rule: Manifest) -> Manifest:
        services = rule.get("services") or []
        kept = [
            each for each in services if not (each.get("mirror") and each.get("name") == self.context.canary_service)
        ]
        return rule if len(kept) == len(services) else {**rule, "services": kept}

    def requests_of(self, rule: Manifest) -> tuple[RequestMatch, ...]:
        return (request_of(rule.get("conditions") or []),)

    def copied_percents(self, rule: Manifest) -> tuple[Fraction, ...]:
        return tuple(
            Fraction(each.get("weight") or 100)
            for each in rule.get("services") or ()
            if each.get("mirror") and each.get("name") == self.context.canary_service
        )

    def check(self, user: Manifest) -> None:
        conditions = [each.get("conditions") for each in user["spec"].get("routes") or ()]
        if any(each in conditions[:at] for at, each in enumerate(conditions)):
            raise Unroutable(
                "two routes would have the same conditions, and Contour uses only one of them; change the match"
            )


class _Contour(Rules):
    name = "contour"
    dialect = _HttpProxy

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = SettingsReader(settings)
        proxies = read.parts("httpProxies")
        found = tuple(
            Target(kinds=KINDS, namespace=namespace, name=each.object_name("name", needed=True)) for each in proxies
        )
        for each in proxies:
            each.done()
        if not proxies:
            read.refuse("httpProxies", "is required: [{name: …}]")
        read.done()
        return found

    def supported(self, target: Target) -> frozenset[Feature]:
        return _FEATURES

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        generation = objects.user.get("metadata", {}).get("generation", 0)
        conditions = (objects.user.get("status") or {}).get("conditions") or ()
        valid: Manifest = next((each for each in conditions if each.get("type") == "Valid"), {})
        if valid.get("observedGeneration", -1) < generation:
            return Acceptance(Answer.UNKNOWN, f"Contour has not processed generation {generation} yet")
        if valid.get("status") == "True":
            return Acceptance(Answer.YES)
        told = [valid.get("message"), *(each.get("message") for each in valid.get("errors") or ())]
        return Acceptance(Answer.NO, f"Contour says: {'; '.join(filter(None, told))}")


PROVIDER = _Contour()
