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

from rollouts.core.model.traffic import Acceptance, Feature, MatchKind, MirrorRoute, NamedMatch, RequestMatch, TextMatch
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Objects, Target, accepted_by_conditions
from rollouts.traffic.rules.provider import Rules, listed_targets
from rollouts.traffic.rules.rule_paths import RulePath
from rollouts.traffic.rules.steering import Dialect, Side
from rollouts.traffic.rules.text_matches import as_regex, both, cookie_pattern

KINDS = (Kind("projectcontour.io", "v1", "HTTPProxy", "httpproxies"),)


@dataclass(frozen=True, slots=True)
class _HttpProxy(Dialect):
    backends: ClassVar[str] = "services"
    path: ClassVar[RulePath] = ("spec", "routes")
    below: ClassVar[bool] = True

    def side(self, backend: Manifest) -> Side | None:
        return None if backend.get("mirror") else Dialect.side(self, backend)

    def weight_of(self, backend: Manifest, rule: Manifest) -> int:
        return int(backend.get("weight") or 0) or (1 if len(rule["services"]) == 1 else 0)

    def identity(self, rule: Manifest) -> Any:
        return rule.get("conditions")

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        if len(matches) != 1 or matches[0].method:
            raise Unroutable(f"an HTTPProxy's route has one match, without a method; change the match of {name}")
        (want,) = matches
        own: list[Manifest] = rule.get("conditions") or []
        path = both(_path_of(own), want.path, of="paths")
        if path is None:
            return None
        if path != _path_of(own):
            own = [*(each for each in own if not _is_path(each)), {path.kind.value: path.value}]
        cookies = [{"name": "cookie", "regex": cookie_pattern(each)} for each in want.cookies]
        query = [{"name": each.name, each.value.kind.value: each.value.value} for each in want.query]
        more = [{"header": condition} for condition in (*map(_header, want.headers), *cookies)]
        more += [{"queryParameter": condition} for condition in query]
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
        conditions: list[Manifest] = rule.get("conditions") or []
        path = _path_of(conditions)
        headers = [_named(each["header"]) for each in conditions if each.get("header")]
        match = RequestMatch(
            path=None if path == TextMatch(MatchKind.PREFIX, "/") else path,
            headers=tuple([NamedMatch(each.name.lower(), each.value) for each in headers]),
            query=tuple([_named(each["queryParameter"]) for each in conditions if each.get("queryParameter")]),
        )
        return (match,)

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


def _is_path(condition: Manifest) -> bool:
    return any(kind.value in condition for kind in MatchKind)


def _path_of(conditions: list[Manifest]) -> TextMatch:
    found = next(filter(_is_path, conditions), {"prefix": "/"})
    return next(TextMatch(kind, found[kind.value]) for kind in MatchKind if kind.value in found)


def _named(condition: Manifest) -> NamedMatch:
    """A condition by header or query parameter; every kind but `exact` is a pattern, which Contour writes in its own way."""
    name, exact = str(condition.get("name", "")), condition.get("exact")
    return NamedMatch(name, TextMatch(MatchKind.REGEX, "") if exact is None else TextMatch(MatchKind.EXACT, str(exact)))


def _header(want: NamedMatch) -> Manifest:
    if want.value.kind is MatchKind.EXACT:
        return {"name": want.name, "exact": want.value.value}
    return {"name": want.name, "regex": as_regex(want.value)}


class _Contour(Rules):
    name = "contour"
    dialect = _HttpProxy
    supported_features = frozenset(Feature) - {Feature.METHOD}

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        return listed_targets(settings, "httpProxies", KINDS, namespace=namespace)

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        return accepted_by_conditions(objects.user, "Valid", router="Contour")


PROVIDER = _Contour()
