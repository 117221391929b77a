"""Writes down what the real data planes say of themselves, for the tests of those who read it.

`python -m tests.gateways tests/gateways/record.py`: fills tests/probes/recorded/GATEWAY/SITUATION.json. Not a part of
`make gateways`: it is run when a gateway's version changes.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.core.model.traffic import ExperimentShare, Split
from rollouts.traffic.codec import Context, Destination, Objects, PatchUser
from rollouts.traffic.registry import registry
from tests.e2e.stage import Stage
from tests.gateways.asking import Asking, asking
from tests.gateways.gateway import Gateway
from tests.gateways.routes import CANARY, STABLE, WEIGHTED, Manifest, Route, pair, version_behind
from tests.lab.control_plane import ControlPlane
from tests.node.real_node import RealNode
from tests.node.workload import NAME

FOLDER = Path(__file__).parent.parent / "probes" / "recorded"
EXPERIMENT = f"{NAME}-experiment"
NAMESPACE = "shop"  # the name that the test's namespace gets in what is written down

ENVOY = {
    "routes": "/config_dump?resource=dynamic_route_configs",
    "endpoints": "/config_dump?include_eds&resource=dynamic_endpoint_configs",
}
TRAEFIK = {"raw": "/api/rawdata"}

_OTHERS = re.compile(r"test-[0-9a-f]{8}")
_OF_ONE_RUN = frozenset({"last_updated", "version_info"})  # nobody reads them, and they differ each time
_RULES = {"HTTPRoute": "/spec/rules", "HTTPProxy": "/spec/routes"}


@pytest.mark.parametrize("route", WEIGHTED, indirect=True)
def test_record(node: RealNode, two_versions: Route) -> None:
    """Weights 0, 5 and 100; then a header rule and a mirror, where the kind has such."""
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
        if "header" in route.features:
            node.plane.patch(route.path, _rules(route, _with_header(route)), form="json")
            until_mixed(clients)
            write_down(node, route, "header-route")
        if "mirror" in route.features:
            node.plane.patch(route.path, _rules(route, _with_mirror(route)), form="json")
            until_mixed(clients)
            write_down(node, route, "mirror")


@pytest.mark.parametrize("route", WEIGHTED, indirect=True)
def test_record_an_experiment(node: RealNode, two_versions: Route) -> None:
    """As the codec writes it: at 0 and at 5 percent, and then at 0 and gone, with no request lost."""
    route, plane = two_versions, node.plane
    stage = Stage(plane, route.namespace)
    stage.apply(*version_behind("3", EXPERIMENT))
    stage.kubectl("rollout", "status", f"deployment/{EXPERIMENT}", "--timeout=55s")
    some = Fraction(5, 100)
    wanted = Split(some, experiments=(ExperimentShare(EXPERIMENT, some),))
    with asking(route.url) as clients:
        clients.until_only("1")
        begun = len(clients.answers)
        assert write(plane, route, wanted)
        until_mixed(clients)
        write_down(node, route, "experiment-0")
        assert write(plane, route, wanted)
        until_mixed(clients, "1", "2", "3")
        write_down(node, route, "experiment-5")
        assert write(plane, route, Split(some))
        until_mixed(clients)
        assert write(plane, route, Split(some))
        assert not write(plane, route, Split(some))
        until_mixed(clients)
        assert [one for one in clients.answers[begun:] if one.status != 200] == []


def write(plane: ControlPlane, route: Route, split: Split) -> bool:
    """The codec's next write on the way to the split; False when there is none."""
    ((name, settings),) = route.router.items()
    provider = registry()[name]
    (target,) = provider.targets(settings, namespace=route.namespace)
    context = Context(rollout=NAME, namespace=route.namespace, stable=Destination(STABLE), canary=Destination(CANARY))
    ops = provider.plan(Objects(route.read(plane)), target, context, split)
    for op in ops:
        assert isinstance(op, PatchUser)
        plane.patch(route.path, list(op.operations), form="json")
    return bool(ops)


def until_mixed(clients: Asking, *versions: str) -> None:
    """Waits until all those versions are among the last answers and no other; the stable and the canary one by default."""
    now, mixed = len(clients.answers), set(versions or ("1", "2"))
    clients.until(
        lambda all_: (
            len(all_) > now + 200 and {one.version for one in all_[max(now + 100, len(all_) - 400) :]} == mixed
        ),
        within_s=20,
    )


def _rules(route: Route, rules: list[Manifest]) -> list[Manifest]:
    """The change that replaces the rules of an HTTPRoute or the routes of an HTTPProxy."""
    return [{"op": "replace", "path": _RULES[route.kind], "value": rules}]


def write_down(node: RealNode, route: Route, situation: str) -> None:
    """What the data plane says of this route, and the route itself, without what differs from run to run."""
    folder = FOLDER / route.gateway.name
    folder.mkdir(parents=True, exist_ok=True)
    read = route.read(node.plane)
    named = {key: read["metadata"][key] for key in ("name", "namespace")}
    said = {"object": {**{key: read[key] for key in ("apiVersion", "kind", "spec")}, "metadata": named}}
    said |= _said(route.gateway, route.namespace)
    text = json.dumps(said, indent=1, sort_keys=True).replace(route.namespace, NAMESPACE)
    (folder / f"{route.kind.lower()}-{situation}.json").write_text(f"{text}\n")


def _said(gateway: Gateway, namespace: str) -> dict[str, Any]:
    paths = TRAEFIK if gateway.name == "traefik" else ENVOY
    said = {name: httpx.get(gateway.admin + path, trust_env=False).raise_for_status() for name, path in paths.items()}
    return {name: _about(answer.json(), namespace) for name, answer in said.items()}


def _about(said: Any, namespace: str) -> Any:
    """What was said, without what is about other tests' namespaces alone."""

    def is_ours(one: Any) -> bool:
        named = set(_OTHERS.findall(json.dumps(one)))
        return not named or namespace in named

    if isinstance(said, dict):
        ours = {key: value for key, value in said.items() if is_ours(key) and key not in _OF_ONE_RUN}
        return {key: _about(value, namespace) for key, value in ours.items()}
    return [_about(one, namespace) for one in said if is_ours(one)] if isinstance(said, list) else said


def _with_header(route: Route) -> list[Manifest]:
    """5 percent for the canary, and everything with the header."""
    if route.kind == "HTTPProxy":
        condition = {"header": {"name": "x-canary", "exact": "always"}}
        return [{"conditions": [condition], "services": pair(0, 100)}, {"services": pair(95, 5)}]
    header = {"headers": [{"name": "x-canary", "value": "always", "type": "Exact"}]}
    return [{"matches": [header], "backendRefs": pair(0, 100)}, {"backendRefs": pair(95, 5)}]


def _with_mirror(route: Route) -> list[Manifest]:
    """10 percent for the canary, and copies of half of the requests."""
    to = {"name": CANARY, "port": 80}
    if route.kind == "HTTPProxy":
        return [{"services": [*pair(90, 10), {**to, "mirror": True, "weight": 50}]}]
    mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": to, "percent": 50}}
    return [{"backendRefs": pair(90, 10), "filters": [mirror]}]
