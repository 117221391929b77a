"""Promise: a route of another namespace is changed only when status records that this Rollout manages it.

Whoever owns a route can write any Rollout's name into its annotations; with the record a mark is believed, without it is not.
"""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskRoute, ReleaseRoute, SetTraffic
from rollouts.core.model.rollout import TrafficRouting
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.traffic import ALL_TO_STABLE, RouteAbsent, RouteName, RouteUnasked
from tests.core.model import World, route, router, snapshot
from tests.core.updates import updating, with_services
from tests.core.worlds import edited, running, settled, steps_of
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
def test_after_a_restart_the_route_on_record_is_asked_for(named: bool) -> None:
    """Nobody watches its kind yet: that it is not seen does not mean that it is gone."""
    there = at_half() if named else edited(at_half(), strategy=BY_PODS)
    seen = replace(snapshot(there), routes={EDGE: RouteUnasked(EDGE, named)})

    decision = decide(seen)

    assert AskRoute(EDGE) in decision.intents
    assert decision.status.elsewhere == (EDGE,)


def test_a_record_goes_when_its_route_is_gone() -> None:
    """Whoever makes another one of its name has no hold on this Rollout."""
    there = edited(at_half(), strategy=BY_PODS)
    seen: Snapshot = replace(snapshot(there), routes={EDGE: RouteAbsent(EDGE, at_s=there.now_s, named=False)})

    assert decide(seen).status.elsewhere == ()


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
