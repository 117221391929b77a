"""Two routers by declaration alone: no code of their own, and the same laws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rollouts.objects import Manifest
from rollouts.traffic.declared import declared
from tests.traffic.cases import other_routers
from tests.traffic.cases.case import Case


def _apisix(stable: int, canary: int) -> Manifest:
    names = ({"serviceName": "stable", "weight": stable}, {"serviceName": "canary", "weight": canary})
    return {"metadata": {"name": "test"}, "spec": {"http": [{"name": "r", "backends": list(names)}]}}


def _gloo(stable: int, canary: int) -> Manifest:
    destinations = [
        {"destination": {"kube": {"ref": {"name": name}}}, "weight": weight}
        for name, weight in (("stable", stable), ("canary", canary))
    ]
    return {
        "metadata": {"name": "test"},
        "spec": {"routes": [{"routeAction": {"multi": {"destinations": destinations}}}]},
    }


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
    "weight": {"absent": 0},
    "tests": [{"object": _gloo(1, 0), "canaryPercent": 25, "result": _gloo(3, 1)}],
}
_BY_NAME = {case.name: case for case in other_routers.CASES}
CASES: tuple[Case, ...] = tuple(
    replace(
        _BY_NAME[kind],
        name=f"declared {kind}",
        provider=declared(text),
        settings={"name": "cart"},
        features=frozenset(),
    )
    for kind, text in (("ApisixRoute", APISIX), ("RouteTable", GLOO))
)
