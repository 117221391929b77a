"""Promise: a route of `trafficRouting.own` that is missing is made, and an update goes through it as through any other."""

from __future__ import annotations

from fractions import Fraction

from rollouts.core.decide import decide
from rollouts.core.model.intents import MakeRoute
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import SetWeight
from rollouts.core.model.traffic import ALL_TO_STABLE, RouteName, Split
from tests.core.api_server import applied
from tests.core.model import World, annotated, snapshot, world
from tests.core.updates import routed
from tests.core.worlds import edited, reconciled, running, settled, without_route

OURS = RouteName("istio", "HTTPRoute", "shop", "own-cart")
CANARY = routed(SetWeight(25), by=(OURS,))


def _making() -> tuple[World, MakeRoute]:
    """The world at the pass that makes the route, and the write."""
    there = world(CANARY)
    for _ in range(5):
        found = [each for each in decide(snapshot(there)).intents if isinstance(each, MakeRoute)]
        if found:
            return there, found[0]
        there = reconciled(there)
    raise AssertionError(there.status)


def test_a_missing_route_is_made_with_all_for_the_stable_service() -> None:
    """It is ours from its first version on."""
    there, intent = _making()

    made = applied(there, intent).routes[OURS]

    assert (intent.route, intent.split) == (OURS, ALL_TO_STABLE)
    assert (made.split, made.managed_by) == (ALL_TO_STABLE, "cart")


def test_a_route_of_ours_that_somebody_deletes_during_an_update_is_made_again() -> None:
    """With the share that its step asks for: an update that stands at 25 % stays there."""
    held = annotated(edited(running(CANARY), revision="b"), "pause", None)
    for _ in range(200):
        if held.planes.get(OURS) == Split(Fraction(1, 4)):
            break
        held = settled(held, seconds=0.5)

    there = settled(without_route(held, OURS))

    assert there.writes.count("MakeRoute") == 1
    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")
