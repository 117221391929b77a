"""Writes down what the real data planes say of themselves, for the tests of those who read it.

`python -m tests.gateways tests/gateways/record.py`: fills tests/probes/recorded/GATEWAY/SITUATION.json. Not a part of
`make gateways`: it is run when a gateway's version changes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateways.asking import Asking, asking
from tests.gateways.gateway import Gateway
from tests.gateways.routes import CANARY, STABLE, Manifest, Route, through
from tests.node.real_node import RealNode

FOLDER = Path(__file__).parent.parent / "probes" / "recorded"
NAMESPACE = "shop"
"""The name that the test's namespace gets in what is written down."""

ENVOY = {
    "routes": "/config_dump?resource=dynamic_route_configs",
    "clusters": "/config_dump?resource=dynamic_active_clusters",
    "endpoints": "/config_dump?include_eds&resource=dynamic_endpoint_configs",
    "hosts": "/clusters?format=json",
    "active": "/stats?format=json&filter=%5C.upstream_rq_active%24",
}
TRAEFIK = {
    "services": "/api/http/services",
    "routers": "/api/http/routers",
    "raw": "/api/rawdata",
    "metrics": "/metrics",
}

_OTHERS = re.compile(r"test-[0-9a-f]{8}")
by_header = {"headers": [{"name": "x-canary", "value": "always", "type": "Exact"}]}
mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": CANARY, "port": 80}, "percent": 50}}


@pytest.mark.parametrize(
    "route",
    [
        through("envoy-gateway", "HTTPRoute"),
        through("contour", "HTTPRoute"),
        through("contour", "HTTPProxy"),
        through("traefik", "HTTPRoute"),
        through("traefik", "TraefikService"),
    ],
    indirect=True,
)
def test_record(node: RealNode, two_versions: Route) -> None:
    """Weights 0, 5 and 100; then, on an HTTPRoute, a header rule and a mirror."""
    route = two_versions
    with asking(route.url) as clients:
        clients.until_only("1")
        write_down(node, route, "weight-0")
        route.set_weights(node.plane, 95, 5)
        until_mixed(clients)
        write_down(node, route, "weight-5")
        route.set_weights(node.plane, 0, 100)
        clients.until_only("2")
        write_down(node, route, "weight-100")
        if route.kind == "HTTPRoute":
            set_rules(node, route, [_rule(matches=[by_header]), _rule(95, 5)])
            until_mixed(clients)
            write_down(node, route, "header-route")
        if "mirror" in route.gateway.features and route.kind == "HTTPRoute":
            set_rules(node, route, [_rule(90, 10, filters=[mirror])])
            until_mixed(clients)
            write_down(node, route, "mirror")


def until_mixed(clients: Asking) -> None:
    """Waits until both versions are among the last answers, one after the other."""
    now = len(clients.answers)
    clients.until(
        lambda all_: len(all_) > now + 200 and {one.version for one in all_[now + 100 :]} == {"1", "2"}, within_s=20
    )


def set_rules(node: RealNode, route: Route, rules: list[Manifest]) -> None:
    """Replaces the HTTPRoute's rules."""
    change = [{"op": "replace", "path": "/spec/rules", "value": rules}]
    headers = {"Content-Type": "application/json-patch+json"}
    node.plane.api.patch(route.path, json=change, headers=headers).raise_for_status()


def write_down(node: RealNode, route: Route, situation: str) -> None:
    """Everything that the data plane says of this route."""
    folder = FOLDER / route.gateway.name
    folder.mkdir(parents=True, exist_ok=True)
    said = {"object": route.read(node.plane), **_said(route.gateway, route.namespace)}
    text = json.dumps(said, indent=1, sort_keys=True).replace(route.namespace, NAMESPACE)
    (folder / f"{route.kind.lower()}-{situation}.json").write_text(f"{text}\n")


def _said(gateway: Gateway, namespace: str) -> dict[str, Any]:
    paths = TRAEFIK if gateway.name == "traefik" else ENVOY
    said: dict[str, Any] = {}
    for name, path in paths.items():
        answer = httpx.get(gateway.admin + path, trust_env=False).raise_for_status()
        said[name] = answer.text.splitlines() if name == "metrics" else answer.json()
    return {name: _about(value, namespace) for name, value in said.items()}


def _about(said: Any, namespace: str) -> Any:
    """What was said, without the entries of lists that are about another test's namespace; of metrics only what is about this."""
    if isinstance(said, dict):
        ours = {key: value for key, value in said.items() if set(_OTHERS.findall(key)) <= {namespace}}
        return {key: _about(value, namespace) for key, value in ours.items()}
    if not isinstance(said, list):
        return said
    if said and isinstance(said[0], str) and said[0].startswith("# HELP"):
        return [line for line in said if namespace in line or line.startswith("traefik_config")]
    return [_about(one, namespace) for one in said if set(_OTHERS.findall(json.dumps(one))) <= {namespace}]


def _rule(stable: int = 0, canary: int = 100, **fields: Any) -> Manifest:
    backends = [{"name": STABLE, "port": 80, "weight": stable}, {"name": CANARY, "port": 80, "weight": canary}]
    return {"backendRefs": backends, **fields}
