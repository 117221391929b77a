"""Promise: `rollouts plan` tells what happens to the traffic with the routes of the file, and what is missing of them."""

from __future__ import annotations

from rollouts.objects import Kind, Manifest
from rollouts.sim.network.gateway_types import GROUP, HTTP_ROUTE
from tests.build import backend, http_rule, manifest
from tests.cli.shop import Shop
from tests.cli.test_the_plan_tells_what_will_happen import cart, rules

ROUTED: Manifest = {
    "canary": {
        "stableService": "cart",
        "canaryService": "cart-canary",
        "steps": [{"setWeight": 5}, {"pause": {}}],
        "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "maxTrafficWeight": 1000},
    }
}
BACKENDS = [backend("cart", 1), backend("cart-canary", 0)]
ROUTE = manifest(HTTP_ROUTE, "cart", spec={"parentRefs": [{"name": "public"}], "rules": [http_rule(*BACKENDS)]})


def written(empty: Shop, *more: Manifest, strategy: Manifest = ROUTED) -> list[Manifest]:
    """A file with a Rollout, its Services, and more."""
    return [cart(strategy=strategy), empty.service(), empty.service("cart-canary"), *more]


def stuck(plan: Manifest) -> Manifest:
    """The finding about what the update would wait for."""
    (found,) = [each for each in plan["findings"] if each["rule"] == "Stuck"]
    return dict(found)


async def test_a_route_of_the_file_is_taken_as_it_will_be(empty: Shop) -> None:
    """All of it is applied together: no gateway has seen it yet, and one will. So is a route that the Rollout brings along."""
    routing = {**ROUTED["canary"]["trafficRouting"], "own": [ROUTE]}
    own = {"canary": {**ROUTED["canary"], "trafficRouting": routing}}
    for file in (written(empty, ROUTE), written(empty, strategy=own)):
        plan = await empty.planned(*file)

        assert "Stuck" not in rules(plan, "unsafe"), plan["findings"]
        assert 0.5 in [step["weightPercent"] for step in plan["steps"]]


async def test_a_route_that_is_missing_or_may_not_be_read_is_what_the_update_would_wait_for(empty: Shop) -> None:
    """Better to know before. Not to be allowed to look is not to have seen that nothing is there."""
    missing = stuck(await empty.planned(*written(empty)))
    empty.door.refused = (GROUP,)
    unread = stuck(await empty.planned(*written(empty)))

    assert (missing["severity"], "HTTPRoute cart" in missing["what"]) == ("unsafe", True)
    assert "is unknown: you may not read it" in unread["what"]


ISTIO = ("networking.istio.io", "v1")
OF_CART = [{"name": "stable"}, {"name": "canary", "labels": {"app": "cart"}}]
RULE, SERVICES = (Kind(*ISTIO, each, f"{each.lower()}s") for each in ("DestinationRule", "VirtualService"))
SUBSETS = manifest(RULE, "cart-subsets", spec={"host": "cart", "subsets": OF_CART})
SHARES = [
    {"destination": {"host": "cart", "subset": subset}, "weight": weight}
    for subset, weight in (("stable", 100), ("canary", 0))
]
VIRTUAL = manifest(SERVICES, "cart", spec={"hosts": ["cart"], "http": [{"route": SHARES}]})
NAMES = {"name": "cart-subsets", "stableSubsetName": "stable", "canarySubsetName": "canary"}
BY_SUBSETS = {
    "canary": {
        "steps": [{"setWeight": 25}, {"pause": {}}],
        "trafficRouting": {"istio": {"virtualService": {"name": "cart"}, "destinationRule": NAMES}},
    }
}


async def test_subsets_of_the_file_are_taken_as_they_will_be(empty: Shop) -> None:
    """One Service, two subsets of it, and no complaint that it selects both revisions."""
    plan = await empty.planned(cart(strategy=BY_SUBSETS), empty.service(), VIRTUAL, SUBSETS)

    assert rules(plan, "unsafe") == set(), plan["findings"]
    assert "BesideTheSwitch" not in {each["rule"] for each in plan["findings"]}
    assert 25 in [step["weightPercent"] for step in plan["steps"]]


async def test_a_rule_that_is_missing_is_what_the_update_would_wait_for(empty: Shop) -> None:
    """Nothing is said of a VirtualService before it is known which host its subsets are of."""
    plan = await empty.planned(cart(strategy=BY_SUBSETS), empty.service(), VIRTUAL)

    assert "DestinationRule" in stuck(plan)["what"]
