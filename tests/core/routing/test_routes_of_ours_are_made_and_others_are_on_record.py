"""Promise: a route of another namespace is changed only when status records that this Rollout manages it; one of `own` is made.

Whoever owns a route can write any Rollout's name into its annotations; with the record a mark is believed, without it is not. A
route of `trafficRouting.own` that is missing is made, and an update goes through it as through any other.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskRoute, MakeRoute, ReleaseRoute, SetTraffic
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.traffic import ALL_TO_STABLE, Route, RouteAbsent, RouteName, RouteUnasked, Split
from tests.core.api_server import applied
from tests.core.model import World, annotated, route, router, snapshot, world
from tests.core.updates import routed, updating, with_services
from tests.core.worlds import edited, reconciled, running, settled, steps_of, without_route
from tests.invariants.every import broken_by

EDGE = RouteName("gatewayAPI", "HTTPRoute", "edge", "asked-cart")
OTHER = RouteName("gatewayAPI", "HTTPRoute", "edge", "asked-other")
ROUTER = router("gatewayAPI", "edge/asked-cart")
STRATEGY = with_services(SetWeight(50), PauseUntilPromoted(), traffic_routing=TrafficRouting(routers=(ROUTER,)))
BY_PODS = replace(STRATEGY, traffic_routing=None)


def at_half() -> World:
    """Half of the requests come to the canary, by a route of another namespace."""
    return updating(STRATEGY)


def test_the_record_comes_before_the_first_write() -> None:
    """A crash between the two leaves a record of nothing, and never a route that nobody knows to be ours."""
    marked = [each for each in steps_of(edited(running(STRATEGY), revision="b")) if each.routes[EDGE].managed_by]

    assert marked
    assert all(EDGE in each.status.elsewhere for each in marked)


def test_a_route_that_the_spec_drops_is_given_back_and_its_record_goes() -> None:
    """By its record it is known as ours, as one of the Rollout's own namespace is by its mark."""
    there = settled(edited(at_half(), strategy=BY_PODS))

    assert there.routes[EDGE].managed_by == ""
    assert there.routes[EDGE].split == ALL_TO_STABLE
    assert there.status.elsewhere == ()
    assert there.status.phase in (Phase.PAUSED, Phase.HEALTHY)


@pytest.mark.parametrize("named", [True, False])
def test_after_a_restart_the_route_on_record_is_asked_for_until_it_is_known_to_be_gone(named: bool) -> None:
    """Nobody watches its kind yet: that it is not seen does not mean that it is gone.

    Whoever makes another one of its name has no hold on this Rollout.
    """
    there = at_half() if named else edited(at_half(), strategy=BY_PODS)
    unasked = decide(replace(snapshot(there), routes={EDGE: RouteUnasked(EDGE, named)}))
    gone: Route = RouteAbsent(EDGE, at_s=there.now_s, named=named)

    assert AskRoute(EDGE) in unasked.intents
    assert unasked.status.elsewhere == (EDGE,)
    assert named or decide(replace(snapshot(there), routes={EDGE: gone})).status.elsewhere == ()


def test_a_write_without_a_record_is_a_broken_invariant() -> None:
    """What the simulation and the models hold every pass to."""
    there = at_half()
    seen = snapshot(replace(there, status=replace(there.status, elsewhere=())))
    found = there.routes[EDGE]
    for intent in (
        SetTraffic(route=EDGE, uid=found.uid, resource_version=found.resource_version, split=ALL_TO_STABLE),
        ReleaseRoute(route=EDGE, uid=found.uid, resource_version=found.resource_version),
    ):
        broken = broken_by(seen, replace(decide(seen), intents=(intent,)))
        assert "S13" in {each.rule for each in broken}


def test_a_marked_route_elsewhere_without_a_record_is_none_of_ours() -> None:
    """The model's reader brings it to nobody, and the update ends as without it."""
    there = running(STRATEGY)
    marked = route(OTHER, managed_by="cart")
    there = replace(there, routes={**there.routes, OTHER: marked})

    there = settled(edited(there, revision="b"))

    untouched = replace(there.routes[OTHER], accepted=marked.accepted)  # its gateway's word for it
    assert untouched == marked
    assert there.status.phase is Phase.PAUSED


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


def test_a_route_of_ours_whose_manifest_changes_is_written_again_with_the_share_it_has() -> None:
    """No request moves by that, so it waits for nothing; an Event says why."""
    there = updating(routed(SetWeight(25), PauseUntilPromoted(), by=(OURS,)))
    changed = replace(there.routes[OURS], rewrite_because="differs from the spec")
    decision = decide(snapshot(replace(there, routes={OURS: changed})))

    (write,) = (each for each in decision.intents if isinstance(each, SetTraffic))
    assert (write.rewrite, write.split, write.resource_version) == (True, changed.split, changed.resource_version)
    told = "HTTPRoute own-cart differs from the spec: writing it again with 25 % for the canary"
    assert [each.message for each in decision.notices if each.reason is Reason.ROUTE_MADE] == [told]


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
