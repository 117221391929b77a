"""Promise: `rollouts plan` tells what happens to the traffic with the routes of the file, and what is missing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.cli.demo_manifests import service
from rollouts.objects import Manifest
from rollouts.sim.gateway_types import GROUP, HTTP_ROUTE
from tests.cli.test_the_plan_tells_what_will_happen import cart, planned, rules, shop, text_of

ROUTED = {
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
    assert "may not be read" in stuck["what"]
