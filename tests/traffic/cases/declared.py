"""Two routers by declaration alone: no code of their own, and the same laws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Feature
from rollouts.errors import SpecInvalid
from rollouts.objects import Manifest
from rollouts.traffic.declared.codec import declared
from tests.traffic.cases import other_routers
from tests.traffic.cases.case import Case
from tests.traffic.situation import CONTEXT


def _apisix(stable: int, canary: int) -> Manifest:
    names = ({"serviceName": "stable", "weight": stable}, {"serviceName": "canary", "weight": canary})
    return {"metadata": {"name": "test"}, "spec": {"http": [{"name": "r", "backends": list(names)}]}}


def _gloo(stable: int, canary: int) -> Manifest:
    destinations = [
        {"destination": {"kube": {"ref": {"name": name}}}, "weight": weight}
        for name, weight in (("stable", stable), ("canary", canary))
    ]
    routes = [{"routeAction": {"multi": {"destinations": destinations}}}]
    return {"metadata": {"name": "test"}, "spec": {"routes": routes}}


APISIX: dict[str, Any] = {
    "name": "my-apisix",
    "match": {"group": "apisix.apache.org", "kind": "ApisixRoute", "plural": "apisixroutes", "versions": ["v2"]},
    "backends": "spec.http[].backends[]",
    "service": "serviceName",
    "weight": {"path": "weight", "absent": 100},
    "accepted": {"conditions": "status.conditions", "type": "ResourcesAvailable"},
    "tests": [{"object": _apisix(100, 0), "canaryPercent": 10, "result": _apisix(90, 10)}],
}
GLOO: dict[str, Any] = {
    "name": "my-gloo",
    "match": {"group": "gateway.solo.io", "kind": "RouteTable", "plural": "routetables", "versions": ["v1"]},
    "backends": "spec.routes[].routeAction.multi.destinations[]",
    "service": "destination.kube.ref.name",
    "serviceNamespace": {"path": "destination.kube.ref.namespace"},
    "weight": {"absent": 0},
    "tests": [{"object": _gloo(1, 0), "canaryPercent": 25, "result": _gloo(3, 1)}],
}
IN_CEL: dict[str, Any] = {
    **APISIX,
    "name": "cel-apisix",
    "service": {"cel": "item.serviceName.lowerAscii()"},
    "accepted": {"cel": "object.status.conditions.exists(c, c.type == 'ResourcesAvailable' && c.status == 'True')"},
}
_HEADERS = {
    "insert": "first",
    "regex": True,
    "template": {
        "name": {"cel": "rule.name + '-' + name"},
        "priority": {"cel": "(has(rule.priority) ? rule.priority : 0) + 1"},
        "match": {
            "exprs": {
                "cel": "(has(rule.match) && has(rule.match.exprs) ? rule.match.exprs : []) + headers.map(h, "
                "{'subject': {'scope': 'Header', 'name': h.name}, "
                "'op': h.kind == 'exact' ? 'Equal' : 'RegexMatch', 'value': h.value})"
            }
        },
    },
}


def _apisix_copy(name: str, op: str, value: str) -> Manifest:
    expressions = [{"subject": {"scope": "Header", "name": name}, "op": op, "value": value}]
    backends = [{"serviceName": "canary", "weight": 1}]
    return {"name": "r-test", "priority": 1, "match": {"exprs": expressions}, "backends": backends}


def _with_copy(copy: Manifest, *, first: bool) -> Manifest:
    managed = _apisix(90, 10)
    rules = managed["spec"]["http"]
    return {**managed, "spec": {"http": [copy, *rules] if first else [*rules, copy]}}


def with_headers(*, first: bool = True) -> dict[str, Any]:
    """A router that goes by headers, in the order of its rules or not."""
    tried = (("exact", "1", "Equal", "1"), ("prefix", "a.", "RegexMatch", "^a\\..*$"))
    tests = [
        {
            "object": _apisix(100, 0),
            "canaryPercent": 10,
            "headers": [{"name": "X-Beta", kind: value}],
            "result": _with_copy(_apisix_copy("x-beta", op, said), first=first),
        }
        for kind, value, op, said in tried
    ]
    tests.append({**tests[1], "headers": [{"name": "x-beta", "regex": "^a\\..*$"}]})
    header = {**_HEADERS, "insert": "first" if first else "last"}
    return {**APISIX, "name": f"headers-{'first' if first else 'last'}", "header": header, "tests": tests}


def assert_refused(declaration: Mapping[str, Any], told: str) -> None:
    """One of its problems begins so."""
    with pytest.raises(SpecInvalid) as error:
        declared(declaration)
    assert [each for each in error.value.problems if str(each).startswith(told)], error.value.problems


def _with_both(user: Manifest) -> Manifest:
    """A name that is computed cannot be written, so the canary's backend is the user's."""
    stable, canary = CONTEXT.stable_service, CONTEXT.canary_service
    rules = []
    for rule in user["spec"]["http"]:
        backends = {each["serviceName"]: each for each in rule.get("backends") or ()}
        alone = stable in backends and canary not in backends
        more = [{**backends[stable], "serviceName": canary, "weight": 0}] if alone else []
        rules.append({**rule, "backends": [*rule["backends"], *more]} if more else rule)
    return {**user, "spec": {**user["spec"], "http": rules}}


_BY_NAME = {case.name: case for case in other_routers.CASES}
_HEADER = frozenset({Feature.HEADER, Feature.HEADER_REGEX, Feature.SEVERAL_CONDITIONS, Feature.SEVERAL_ROUTES})


def _case(kind: str, how: str, declaration: Mapping[str, Any], features: frozenset[Feature] = frozenset()) -> Case:
    provider = declared(declaration)
    return replace(
        _BY_NAME[kind], name=f"declared {kind}{how}", provider=provider, settings={"name": "cart"}, features=features
    )


_OF_CEL = _case("ApisixRoute", " in CEL", IN_CEL)
CASES: tuple[Case, ...] = (
    _case("ApisixRoute", "", APISIX),
    _case("RouteTable", "", GLOO),
    _case("ApisixRoute", " with headers, first", with_headers(first=True), _HEADER),
    _case("ApisixRoute", " with headers, last", with_headers(first=False), _HEADER),
    replace(_OF_CEL, users=_OF_CEL.users.map(_with_both)),
)
