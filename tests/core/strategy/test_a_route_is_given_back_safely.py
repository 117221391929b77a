"""Promise: a route that the spec drops in the middle of an update is given back without a loss.

Giving it back sends its requests to the stable Service at once, as its user wrote it: that Service's pods are there first, and
the canary's stay until no proxy sends them anything by that route any more.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import chain
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision, Intent, PatchReplicaSet, ReleaseRoute, SwitchService
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Strategy, TrafficRouting
from rollouts.core.model.snapshot import ServiceSeen, Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetHeaderRoute, SetWeight
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    MatchKind,
    NamedMatch,
    RequestMatch,
    RouteRefused,
    RouteSeen,
    TextMatch,
)
from tests.core.model import World, annotated, deleted, snapshot
from tests.core.updates import ASKED, TIMED, pods_there, routed, updating, waiting, waits_for, without_gateways
from tests.core.worlds import (
    edited,
    gateways_caught_up,
    later,
    one,
    reconciled,
    running,
    settled,
    sizes,
    status_wiped,
    steps_of,
)
from tests.invariants.every import broken_by

STEPS = (SetWeight(75), PauseUntilPromoted())
BEFORE = routed(*STEPS, dynamic=True, max_unavailable=0)
ANOTHER_ROUTER = routed(*STEPS, by=(TIMED,), dynamic=True, max_unavailable=0)
BOTH_ROUTERS = routed(*STEPS, by=(ASKED, TIMED), dynamic=True, max_unavailable=0)
BY_PODS = replace(BEFORE, traffic_routing=None)
NO_SERVICES = replace(BY_PODS, stable_service=None, canary_service=None)
OUTSIDE = replace(BEFORE, traffic_routing=TrafficRouting())
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", preview_replica_count=1, max_unavailable=0)
OTHER_NAMES = replace(GREEN, active_service="shop")
AFTER: dict[str, Strategy] = {
    "another router": ANOTHER_ROUTER,
    "by pods": BY_PODS,
    "no Services": NO_SERVICES,
    "outside": OUTSIDE,
    "blue-green": GREEN,
    "blue-green with another Service": OTHER_NAMES,
}
STRATEGIES = pytest.mark.parametrize("after", AFTER.values(), ids=AFTER.keys())


@cache
def at_75_percent() -> World:
    """One stable pod of four, three of the canary; all requests come by one route."""
    there = updating(BEFORE)
    assert sizes(there) == {"a": 1, "b": 3}
    return there


def ready(there: World, service: str) -> int:
    """Ready pods that a Service's slices show."""
    return sum(there.services[service].ready_by_revision.values())


def given_back(there: World) -> World:
    """The world right after the release."""
    return next(each for each in steps_of(there) if each.routes[ASKED].split == ALL_TO_STABLE)


@STRATEGIES
def test_requests_come_back_only_to_pods_that_are_there(after: Strategy) -> None:
    """One pod of four got all of them at once: the release looked at no pod, and `dynamicStableScale` had left one.

    It is one write, however long its time takes.
    """
    released = given_back(edited(at_75_percent(), strategy=after))
    assert ready(released, "cart") >= 4
    assert sizes(released)["b"] == 3

    there = settled(released)
    assert (there.routes[ASKED].managed_by, there.status.given_back) == ("", ())
    assert there.status.phase is not Phase.DEGRADED
    assert there.writes.count("ReleaseRoute") == 1
    assert not any(isinstance(each, ReleaseRoute) for each in decide(snapshot(later(there, 100))).intents)


@STRATEGIES
def test_a_route_that_cannot_be_read_is_given_back_no_sooner(after: Strategy) -> None:
    """It may send what is on record."""
    managed = [each for each in steps_of(edited(at_75_percent(), strategy=after)) if each.routes[ASKED].managed_by]
    assert len(managed) > 1
    for each in managed:
        unread = replace(each.routes[ASKED], split=None, problem="it is broken")
        there = replace(each, routes={**each.routes, ASKED: unread})
        assert decide(snapshot(there)).intents == decide(snapshot(each)).intents


@STRATEGIES
def test_the_canarys_pods_stay_until_the_data_plane_has_let_go(after: Strategy) -> None:
    """A route that was given back is nobody's to ask; until its time is over three quarters may still come to the canary."""
    there = without_gateways(edited(at_75_percent(), strategy=after))

    assert there.routes[ASKED].managed_by == ""
    assert there.planes[ASKED].share == Fraction(3, 4)
    assert sizes(there) == {"a": 4, "b": 3}
    assert ready(there, "cart-canary") >= 3
    there = without_gateways(later(there, 59.0))
    assert sizes(there)["b"] >= 3


@STRATEGIES
def test_a_service_whose_revision_has_gone_for_good_does_not_wait_for_it(after: Strategy) -> None:
    """The stable ReplicaSet was deleted, and the status with it: the release waited for that Service, which served nothing."""
    there = edited(status_wiped(deleted(at_75_percent(), "a")), strategy=after)

    there = settled(edited(there, revision="d"))

    assert there.status.phase in (Phase.HEALTHY, Phase.PAUSED)
    assert there.services["cart"].revision in ("", there.status.stable_revision)
    assert there.routes[ASKED].managed_by == ""


@STRATEGIES
def test_what_it_waits_for_is_told(after: Strategy) -> None:
    """First for pods, with the reason and the number; then for the proxies, with the moment when they are given up on."""
    there = edited(at_75_percent(), strategy=after)
    for _ in range(3):  # no pod comes
        there = reconciled(there)
    assert waits_for(there) is (Reason.PROMOTION_NEEDED if after is ANOTHER_ROUTER else Reason.PODS_NOT_AVAILABLE)
    assert "HTTPRoute asked-cart is given back when 4 pods" in waiting(there).message

    there = without_gateways(there, rounds=10)
    if after is not ANOTHER_ROUTER:  # else the update stands at its gate meanwhile
        assert (waits_for(there), waiting(there).deadline_s) == (Reason.TRAFFIC_SWITCHING, there.now_s + 60)
    assert "HTTPRoute shop/asked-cart was given back" in waiting(there).message


@STRATEGIES
def test_an_abort_meanwhile_loses_nothing(after: Strategy) -> None:
    """Who takes a broken router out aborts as well: the canary still gets what the proxies have not let go of."""
    there = reconciled(edited(at_75_percent(), strategy=after))
    there = without_gateways(annotated(there, "abort", "b"))

    assert there.status.abort is not None
    assert there.planes[ASKED].share > 0
    assert sizes(there)["b"] >= 3
    there = settled(gateways_caught_up(there))
    assert there.status.phase is Phase.ABORTED
    assert sizes(there) == {"a": 4}


def test_a_way_in_by_header_is_let_go_of_too() -> None:
    """Its weight is 0, and its one pod serves those who have the header."""
    match = RequestMatch(headers=(NamedMatch("x-canary", TextMatch(MatchKind.EXACT, "yes")),))
    there = updating(routed(SetHeaderRoute("insiders", match), PauseUntilPromoted(), dynamic=True))
    assert sizes(there) == {"a": 4, "b": 1}

    there = without_gateways(edited(there, strategy=replace(GREEN, preview_replica_count=0)))

    assert there.planes[ASKED].matches
    assert sizes(there) == {"a": 4, "b": 1}


@STRATEGIES
def test_a_route_that_brings_the_canary_nothing_is_given_back_at_once(after: Strategy) -> None:
    """Nothing comes back, so nothing is waited for, and no record is kept."""
    there = running(BEFORE)

    there = reconciled(edited(there, strategy=after))

    assert there.routes[ASKED].managed_by == ""
    assert there.status.given_back == ()


@pytest.mark.parametrize("after", [BY_PODS, GREEN, OUTSIDE], ids=["by pods", "blue-green", "outside"])
def test_a_route_that_is_not_seen_yet_is_not_taken_for_none(after: Strategy) -> None:
    """Just after a restart nobody watches a kind that no spec names; status tells that requests come by some route."""
    there = edited(at_75_percent(), strategy=after)
    for _ in range(3):
        there = reconciled(there, seen=replace(snapshot(there), routes={}))
    assert sizes(there) == {"a": 4, "b": 3}
    assert there.status.given_back

    released = given_back(there)
    assert (ready(released, "cart") >= 4, sizes(released)["b"]) == (True, 3)
    assert settled(released).status.given_back == ()


def test_a_route_that_the_spec_names_again_stays() -> None:
    """Somebody took it out by mistake and puts it back before its pods were there."""
    there = reconciled(reconciled(edited(at_75_percent(), strategy=BY_PODS)))
    assert there.status.given_back

    there = reconciled(edited(there, strategy=BEFORE))
    assert there.status.given_back == ()

    there = settled(there)
    assert there.status.given_back == ()
    assert there.planes[ASKED].share > 0
    assert sizes(there) == {"a": 1, "b": 3}


def test_pods_that_the_slices_do_not_show_take_nothing() -> None:
    """Proxies follow EndpointSlices: what is only available in a ReplicaSet's status gets no request."""
    there = edited(at_75_percent(), strategy=BY_PODS)
    for _ in range(20):
        there = reconciled(pods_there(there))

    assert one(there, "a").available == 4
    assert there.routes[ASKED].managed_by == "cart"
    assert without_gateways(there).routes[ASKED].managed_by == ""


def test_one_of_two_routes_comes_back_alone() -> None:
    """The other one stays at 75 %, and for the time that it takes the stable revision is whole."""
    there = updating(BOTH_ROUTERS)
    assert sizes(there) == {"a": 1, "b": 3}

    there = without_gateways(edited(there, strategy=ANOTHER_ROUTER))

    assert there.routes[ASKED].managed_by == ""
    assert ready(there, "cart") == 4
    assert there.planes[TIMED] == there.routes[TIMED].split
    there = settled(gateways_caught_up(there))
    assert there.planes[TIMED].share == Fraction(3, 4)
    assert sizes(there) == {"a": 1, "b": 3}


def test_with_exchanged_roles_it_waits_for_the_end_of_the_update() -> None:
    """`pingPong`: its user wrote it for the other roles, so that all of its requests would go to the new revision."""
    strategy = replace(BOTH_ROUTERS, ping_pong=True, steps=(SetWeight(75),))
    there = updating(strategy)
    assert there.status.pong_is_stable
    gated = replace(strategy, steps=BEFORE.steps)
    there = settled(edited(there, revision="c", strategy=gated))

    there = settled(edited(there, strategy=replace(gated, traffic_routing=ANOTHER_ROUTER.traffic_routing)))
    assert there.routes[ASKED].managed_by == "cart"

    there = settled(annotated(there, "promote", "c@full"))
    assert (there.status.phase, there.routes[ASKED].managed_by) == (Phase.HEALTHY, "")


def test_what_had_begun_is_drained_too() -> None:
    """The last request that a proxy brought may be a slow one."""
    there = without_gateways(edited(updating(BEFORE, drain=DrainSpec(max_request_s=40.0)), strategy=GREEN))

    assert (waiting(there).deadline_s or 0.0) >= there.now_s + 60 + 40


def releases(seen: Snapshot) -> bool:
    """Whether the pass gives a route back."""
    return any(isinstance(each, ReleaseRoute) for each in decide(seen).intents)


@pytest.mark.parametrize("there", [running(BEFORE), at_75_percent()], ids=["it brings nothing", "its pods are there"])
def test_a_release_that_was_refused_waits_for_its_time(there: World) -> None:
    """The API server would say the same in each pass; a right that somebody grants brings no event."""
    there = edited(there, strategy=BY_PODS)
    seen = next(seen for each in chain([there], steps_of(there)) if releases(seen := snapshot(each)))
    route = seen.routes[ASKED]
    assert isinstance(route, RouteSeen)
    refused = RouteRefused(
        at_s=seen.now_s, split=None, resource_version=route.resource_version, generation=seen.rollout.generation,
        reason=Reason.API_FORBIDDEN, message="no", again_s=30.0,
    )  # fmt: skip
    seen = replace(seen, routes={**seen.routes, ASKED: replace(route, refused=refused)})

    assert not releases(seen)
    assert releases(replace(seen, now_s=seen.now_s + 30))


def broken(seen: Snapshot, *intents: Intent) -> set[str]:
    """The rules that a decision of these intents breaks."""
    return {each.rule for each in broken_by(seen, Decision(status=seen.status, intents=intents))}


def resized(seen: Snapshot, revision: str, replicas: int) -> PatchReplicaSet:
    """A write of a size."""
    found = next(each for each in seen.replica_sets if each.revision == revision)
    bound: Any = {"name": found.name, "uid": found.uid, "resource_version": found.resource_version}
    return PatchReplicaSet(**bound, revision=revision, replicas=replicas)


@STRATEGIES
def test_the_rules_see_a_release_to_pods_that_are_not_there(after: Strategy) -> None:
    """S1 and S2, the decision as it was: at once, to one pod of four, and with nothing on record."""
    seen = snapshot(edited(at_75_percent(), strategy=after))
    route = seen.routes[ASKED]
    assert isinstance(route, RouteSeen)
    release = ReleaseRoute(route=ASKED, uid=route.uid, resource_version=route.resource_version)

    assert broken(seen, release) >= {"S1", "S2"}


@STRATEGIES
def test_the_rules_see_pods_that_go_before_the_data_plane_has_let_go(after: Strategy) -> None:
    """S2: the pods of either side, while the release is waited for and after it."""
    before = reconciled(reconciled(edited(at_75_percent(), strategy=after)))
    for there in (before, without_gateways(before)):
        assert there.status.given_back
        seen = snapshot(there)
        assert "S2" in broken(seen, resized(seen, "b", 1))
    assert "S2" in broken(seen, resized(seen, "a", 3))


@pytest.mark.parametrize("after", [GREEN, BY_PODS], ids=["blue-green", "by pods"])
def test_the_rules_see_a_service_that_changes_meanwhile(after: Strategy) -> None:
    """S2: what the canary Service gets was meant for the revision that it selects."""
    seen = snapshot(without_gateways(edited(at_75_percent(), strategy=after)))
    found = seen.services["cart-canary"]
    assert isinstance(found, ServiceSeen)

    intent = SwitchService(name=found.name, uid=found.uid, resource_version=found.resource_version, revision="a")

    assert "S2" in broken(seen, intent)
