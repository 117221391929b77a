"""Promise: `rollouts plan` tells what happens to the traffic with the routes of the file, and what is missing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.cli.demo.manifests import service
from rollouts.objects import Manifest
from rollouts.sim.network.gateway_types import GROUP, HTTP_ROUTE
from tests.cli.test_the_plan_tells_what_will_happen import cart, planned, rules, shop, text_of

ROUTED: Manifest = {
    "canary": {
        "stableService": "cart",
        "canaryService": "cart-canary",
        "steps": [{"setWeight": 5}, {"pause": {}}],
        "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "maxTrafficWeight": 1000},
    }
}
BACKENDS = [{"name": "cart", "port": 80, "weight": 1}, {"name": "cart-canary", "port": 80, "weight": 0}]
ROUTE: Manifest = {
    "apiVersion": HTTP_ROUTE.api_version,
    "kind": HTTP_ROUTE.kind,
    "metadata": {"name": "cart"},
    "spec": {"parentRefs": [{"name": "public"}], "rules": [{"backendRefs": BACKENDS}]},
}


def written(namespace: str, *more: Manifest) -> str:
    """A file with a Rollout, its Services, and more."""
    services = [service(namespace, name, app="cart") for name in ("cart", "cart-canary")]
    return text_of(cart(strategy=ROUTED), *services, *more)


async def test_a_route_of_the_file_is_taken_as_it_will_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is applied together: no gateway has seen it yet, and one will."""
    async with shop(tmp_path) as there:
        plan = await planned(there, capsys, written(there.stage.namespace, ROUTE))

    assert "Stuck" not in rules(plan, "unsafe"), plan["findings"]
    assert 0.5 in [step["weightPercent"] for step in plan["steps"]]


async def test_a_route_that_the_rollout_brings_along_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controller makes it before it is needed, so the plan does not wait for it."""
    own = {"canary": {**ROUTED["canary"], "trafficRouting": {**ROUTED["canary"]["trafficRouting"], "own": [ROUTE]}}}
    async with shop(tmp_path) as there:
        services = [service(there.stage.namespace, name, app="cart") for name in ("cart", "cart-canary")]
        plan = await planned(there, capsys, text_of(cart(strategy=own), *services))

    assert "Stuck" not in rules(plan, "unsafe"), plan["findings"]
    assert 0.5 in [step["weightPercent"] for step in plan["steps"]]


async def test_a_route_that_is_missing_is_what_the_update_would_wait_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controller would wait for it too: better to know before."""
    async with shop(tmp_path) as there:
        plan = await planned(there, capsys, written(there.stage.namespace))

    (stuck,) = [each for each in plan["findings"] if each["rule"] == "Stuck"]
    assert (stuck["severity"], "HTTPRoute cart" in stuck["what"]) == ("unsafe", True)


async def test_a_route_that_may_not_be_read_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not to be allowed to look is not to have seen that nothing is there."""
    async with shop(tmp_path) as there:
        there.door.refused = (GROUP,)
        plan = await planned(there, capsys, written(there.stage.namespace))

    (stuck,) = [each for each in plan["findings"] if each["rule"] == "Stuck"]
    assert "is unknown: you may not read it" in stuck["what"]


MESH = "networking.istio.io/v1"
SUBSETS: Manifest = {
    "apiVersion": MESH,
    "kind": "DestinationRule",
    "metadata": {"name": "cart-subsets"},
    "spec": {"host": "cart", "subsets": [{"name": "stable"}, {"name": "canary", "labels": {"app": "cart"}}]},
}
VIRTUAL: Manifest = {
    "apiVersion": MESH,
    "kind": "VirtualService",
    "metadata": {"name": "cart"},
    "spec": {
        "hosts": ["cart"],
        "http": [
            {
                "route": [
                    {"destination": {"host": "cart", "subset": "stable"}, "weight": 100},
                    {"destination": {"host": "cart", "subset": "canary"}, "weight": 0},
                ]
            }
        ],
    },
}
BY_SUBSETS = {
    "canary": {
        "steps": [{"setWeight": 25}, {"pause": {}}],
        "trafficRouting": {
            "istio": {
                "virtualService": {"name": "cart"},
                "destinationRule": {
                    "name": "cart-subsets",
                    "stableSubsetName": "stable",
                    "canarySubsetName": "canary",
                },
            }
        },
    }
}


async def test_subsets_of_the_file_are_taken_as_they_will_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One Service, two subsets of it, and no complaint that it selects both revisions."""
    async with shop(tmp_path) as there:
        host = service(there.stage.namespace, "cart", app="cart")
        plan = await planned(there, capsys, text_of(cart(strategy=BY_SUBSETS), host, VIRTUAL, SUBSETS))

    assert rules(plan, "unsafe") == set(), plan["findings"]
    assert "BesideTheSwitch" not in {each["rule"] for each in plan["findings"]}
    assert 25 in [step["weightPercent"] for step in plan["steps"]]


async def test_a_rule_that_is_missing_is_what_the_update_would_wait_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said of a VirtualService before it is known which host its subsets are of."""
    async with shop(tmp_path) as there:
        host = service(there.stage.namespace, "cart", app="cart")
        plan = await planned(there, capsys, text_of(cart(strategy=BY_SUBSETS), host, VIRTUAL))

    (stuck,) = [each for each in plan["findings"] if each["rule"] == "Stuck"]
    assert "DestinationRule" in stuck["what"]
