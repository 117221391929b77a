"""Apache APISIX: weights of `spec.http[].backends` in an ApisixRoute.

A managed route is a copy with more `exprs` and a higher priority. Weights of `backends` and of `upstreams` (ApisixUpstreams) are
one sum, and one that is left out is 100. Source: apache/apisix-ingress-controller 2.2.0, apisix.apache.org/v2 ApisixRoute,
internal/adc/translator/apisixroute.go `buildUpstream`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rollouts.core.model.traffic import Acceptance, Feature, MatchKind, NamedMatch, RequestMatch
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Objects, Target, accepted_by_conditions
from rollouts.traffic.rules.provider import Rules
from rollouts.traffic.rules.rule_paths import RulePath
from rollouts.traffic.rules.steering import Dialect
from rollouts.traffic.settings import SettingsReader

KINDS = (Kind("apisix.apache.org", "v2", "ApisixRoute", "apisixroutes"),)


@dataclass(frozen=True, slots=True)
class _ApisixRoute(Dialect):
    backends: ClassVar[str] = "backends"
    service_name: ClassVar[str] = "serviceName"
    weight_absent: ClassVar[int] = 100
    weight_alone: ClassVar[int] = 100
    path: ClassVar[RulePath] = ("spec", "http")

    def has_others(self, rule: Manifest) -> bool:
        upstreams = rule.get("upstreams") or ()
        return any(each.get("weight") != 0 for each in upstreams)

    def identity(self, rule: Manifest) -> Any:
        return [rule.get("name"), rule.get("match")]

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        if len(matches) != 1:
            raise Unroutable(f"an ApisixRoute cannot mirror; remove {name} from the steps")
        (want,) = matches
        if want.path or want.method:
            raise Unroutable(f"an ApisixRoute's exprs cannot match paths or methods; change the match of {name}")
        scopes = (("Header", want.headers), ("Cookie", want.cookies), ("Query", want.query))
        more = [_expression(scope, each) for scope, named in scopes for each in named]
        own = rule.get("match") or {}
        return {
            **{field: value for field, value in rule.items() if field != "upstreams"},  # they would share its requests
            "name": f"{rule.get('name', '')}-{name}",
            "priority": int(rule.get("priority") or 0) + 1,
            "match": {**own, "exprs": [*(own.get("exprs") or ()), *more]},
        }


class _Apisix(Rules):
    name = "apisix"
    dialect = _ApisixRoute
    supported_features = frozenset(Feature) - {Feature.PATH, Feature.METHOD, Feature.MIRROR, Feature.MIRROR_PERCENT}

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = SettingsReader(settings)
        route = read.part("route")
        if route is None:
            read.refuse("route", "is required")
            read.done()
            return ()
        options = {"rules": route.texts("rules")}
        found = Target(kinds=KINDS, namespace=namespace, name=route.object_name("name", needed=True), options=options)
        route.done()
        read.done()
        return (found,)

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        return accepted_by_conditions(objects.user, "Accepted", "ResourcesAvailable", router="APISIX")


def _expression(scope: str, want: NamedMatch) -> Manifest:
    subject = {"scope": scope, "name": want.name}
    match want.value.kind:
        case MatchKind.EXACT:
            return {"subject": subject, "op": "Equal", "value": want.value.value}
        case MatchKind.PREFIX:
            return {"subject": subject, "op": "RegexMatch", "value": f"^{re.escape(want.value.value)}.*"}
        case MatchKind.REGEX:
            return {"subject": subject, "op": "RegexMatch", "value": want.value.value}


PROVIDER = _Apisix()
