"""Promise: routes bring traffic only where pods are, and pods go only when the data plane has let go of them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import SetTraffic
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Percent, ProgressThreshold
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import (
    PauseUntilPromoted,
    SetCanaryReplicas,
    SetHeaderRoute,
    SetMirrorRoute,
    SetWeight,
    Step,
)
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    Feature,
    MatchKind,
    MirrorRoute,
    NamedMatch,
    RequestMatch,
    RouteName,
    Split,
    TextMatch,
    VerifiedBy,
)
from tests.core.model import World, annotated, snapshot, world
from tests.core.updates import (
    ASKED,
    GATE,
    TIMED,
    pods_fail,
    pods_there,
    questions_about_routes,
    routed,
    traffic,
    updating,
    waiting,
    waits_for,
    without_gateways,
)
from tests.core.worlds import (
    edited,
    gateways_caught_up,
    later,
    looks_again_in_s,
    reconciled,
    running,
    settled,
    sizes,
    slices_caught_up,
    steps_of,
    with_route,
)

MATCH = RequestMatch(headers=(NamedMatch("x-canary", TextMatch(MatchKind.EXACT, "yes")),))


def plane(there: World, name: RouteName = ASKED) -> Split:
    """What the data plane does."""
    return there.planes[name]


def films(there: World) -> Iterator[World]:
    """Every world on the way to rest."""
    yield there
    yield from steps_of(there)


@pytest.mark.parametrize("name", [ASKED, TIMED])
def test_a_canary_goes_through_each_set_weight_and_hands_all_back_to_stable(name: RouteName) -> None:
    """The whole way: each weight is what the data plane does when its step ends, and at rest the stable Service has all."""
    there = running(routed(SetWeight(5), GATE, SetWeight(50), GATE, by=(name,)))
    assert traffic(there).observed_percent == 0

    there = settled(edited(there, revision="b"))
    assert plane(there, name) == Split(Fraction(1, 20))
    assert sizes(there) == {"a": 4, "b": 1}
    there = settled(annotated(there, "promote", "b@1"))
    assert plane(there, name) == Split(Fraction(1, 2))
    assert sizes(there) == {"a": 4, "b": 2}
    there = settled(annotated(there, "promote", "b@3"))

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")
    assert plane(there, name) == ALL_TO_STABLE
    assert there.services["cart"].revision == "b"
    assert sizes(there) == {"b": 4}


def test_the_stable_service_changes_only_when_nothing_reaches_it() -> None:
    """`weight 100 confirmed` comes before the switch: with a data plane that never follows there is none."""
    there = running(routed(SetWeight(50)))
    there = settled(edited(there, revision="b", strategy=routed(SetWeight(50), GATE)))
    there = without_gateways(annotated(there, "promote", "b@full"))

    assert there.routes[ASKED].split == Split(Fraction(1))
    assert plane(there) == Split(Fraction(1, 2))
    assert there.services["cart"].revision == "a"
    assert sizes(there) == {"a": 4, "b": 4}
    assert waits_for(there) is Reason.TRAFFIC_SWITCHING


@pytest.mark.parametrize("name", [ASKED, TIMED])
def test_a_step_is_not_done_before_its_weight_is_live(name: RouteName) -> None:
    """A route that says 50 % is a wish. Traefik served the old weights for two seconds after its status had accepted the new."""
    there = running(routed(SetWeight(50), GATE, by=(name,)))

    there = without_gateways(edited(there, revision="b"))

    assert there.routes[name].split == Split(Fraction(1, 2))
    assert there.status.step_index == 0
    assert (traffic(there).desired_percent, traffic(there).observed_percent) == (50, 0)


@pytest.mark.parametrize("names", [(TIMED,), (TIMED, ASKED)], ids=["alone", "beside one that is asked"])
def test_where_nobody_can_be_asked_the_settle_time_is_waited(names: tuple[RouteName, ...]) -> None:
    """The declared last resort, and it says so: verifiedBy is SettleTime, and the wait has a deadline."""
    there = running(routed(SetWeight(50), GATE, by=names))
    there = without_gateways(edited(there, revision="b"))
    there = reconciled(gateways_caught_up(there))

    assert waiting(there).deadline_s == there.now_s + 5.0
    assert settled(there, seconds=4.9).status.step_index == 0
    there = settled(there)
    assert there.status.step_index == 1
    assert traffic(there).verified_by is VerifiedBy.SETTLE_TIME


def test_an_abort_brings_all_back_first_and_the_canary_goes_last() -> None:
    """DESIGN: the first write after the abort is durable puts everything on stable and removes header and mirror routes."""
    mirror = MirrorRoute("copies")
    steps = (SetWeight(50), SetHeaderRoute("insiders", MATCH), SetMirrorRoute("copies", mirror), GATE)
    there = updating(routed(*steps, abort_scale_down_delay_s=10))
    assert plane(there).matches[0].name == "insiders"
    assert plane(there).mirrors == (mirror,)

    there = reconciled(annotated(there, "abort", "b"))
    assert there.status.abort is not None
    decision = decide(snapshot(there))
    assert [type(each) for each in decision.intents if not hasattr(each, "verb")] == [SetTraffic]
    held = without_gateways(there)
    assert held.routes[ASKED].split == ALL_TO_STABLE
    assert sizes(held)["b"] == 2, "requests still reach it: the data plane has not followed"
    assert held.services["cart-canary"].revision == "b"

    there = settled(held)
    assert there.status.phase is Phase.ABORTED
    assert there.services["cart-canary"].revision == "a"
    assert sizes(there) == {"a": 4}


@pytest.mark.parametrize("threshold", [None, ProgressThreshold(Percent(25))], ids=["", "replicaProgressThreshold"])
def test_an_abort_gives_a_shrunk_stable_only_what_its_pods_can_take(threshold: ProgressThreshold | None) -> None:
    """Flagger issue 635 and Argo Rollouts issue 3372: all traffic went to a primary that had been scaled down.

    A threshold is for steps: Argo Rollouts brings everything back as soon as it is met, to a quarter of the pods here.
    """
    there = at_weight(75, dynamic=True, threshold=threshold)
    assert sizes(there) == {"a": 1, "b": 3}

    shares = []
    for film in films(annotated(there, "abort", "true")):
        there, split = film, set_split(film)
        assert (1 - split.share) * 4 <= max(ready(there, "a"), 1), f"{split} with {ready(there, 'a')} stable pods"
        shares.append(split.share)
    assert shares == sorted(shares, reverse=True)
    assert set_split(there) == plane(there) == ALL_TO_STABLE


@pytest.mark.parametrize("dynamic", [False, True], ids=["", "dynamicStableScale"])
def test_a_new_revision_in_the_middle_takes_the_traffic_off_the_old_one_first(dynamic: bool) -> None:
    """Argo Rollouts issue 3372 (P14): the canary Service went to the third revision while it still had half of the traffic."""
    there = updating(routed(SetWeight(50), GATE, dynamic=dynamic))

    held = without_gateways(edited(there, revision="c"))
    assert sizes(held) == {"a": 4, "b": 2, "c": 2}, "stable has every pod back before a weight leaves the second one"
    for film in films(edited(there, revision="c")):
        there, share = film, plane(film).share
        selected = there.services["cart-canary"].revision
        assert ready(there, selected) >= 2 or not share, f"{share} goes to {ready(there, selected)} pods of {selected}"
    assert plane(there) == Split(Fraction(1, 2))
    assert there.services["cart-canary"].revision == "c"
    assert sizes(there) == {"a": 2 if dynamic else 4, "c": 2}


def test_a_change_by_hand_is_set_again_and_told() -> None:
    """F47, F49: GitOps writes its own weights back; the Rollout says so in an Event and puts its own there again."""
    there = updating(routed(SetWeight(50), GATE))
    stolen = replace(there.routes[ASKED], split=ALL_TO_STABLE, resource_version="by-hand")
    there = replace(there, routes={ASKED: stolen}, notices=())

    there = settled(there)

    assert plane(there) == Split(Fraction(1, 2))
    assert [each.reason for each in there.notices if each.warning] == [Reason.ROUTE_DRIFTED]
    assert there.status.step_index == 1


@pytest.mark.parametrize(
    ("there_is", "no_more"),
    [
        (SetHeaderRoute("insiders", MATCH), SetHeaderRoute("insiders", None)),
        (SetMirrorRoute("copies", MirrorRoute("copies")), SetMirrorRoute("copies", None)),
    ],
    ids=["setHeaderRoute", "setMirrorRoute"],
)
def test_set_header_route_and_set_mirror_route_find_a_pod_even_at_weight_0(there_is: Step, no_more: Step) -> None:
    """A route to a canary without pods answers 503 to exactly the people who were asked to try it."""
    there = updating(routed(there_is, GATE, no_more, GATE))

    assert sizes(there) == {"a": 4, "b": 1}
    assert len((*plane(there).matches, *plane(there).mirrors)) == 1
    there = settled(annotated(there, "promote", "b@1"))
    assert plane(there) == ALL_TO_STABLE


@pytest.mark.parametrize(
    ("steps", "share"),
    [
        ((SetCanaryReplicas(1), SetWeight(50), GATE), Fraction(1, 2)),
        ((SetWeight(Fraction(1, 10)), GATE), Fraction(1, 1000)),
    ],
    ids=["setCanaryScale is the user's own word", "maxTrafficWeight 1000, setWeight 1"],
)
def test_a_share_and_its_pods_are_what_the_steps_say(steps: tuple[Step, ...], share: Fraction) -> None:
    """One pod may get half of the traffic, and parts of a percent are exact."""
    there = updating(routed(*steps))

    assert (plane(there), sizes(there)) == (Split(share), {"a": 4, "b": 1})


@pytest.mark.parametrize("name", [ASKED, TIMED])
def test_a_route_that_was_put_right_is_found_by_itself(name: RouteName) -> None:
    """Nobody watches one that is not managed yet: its user mends it, and no event tells."""
    there = world(routed(SetWeight(50), GATE, by=(name,)))
    there = settled(with_route(there, name, split=None), seconds=5)
    assert waits_for(there) is Reason.ROUTE_NOT_USABLE
    assert looks_again_in_s(there) <= 10

    there = settled(later(with_route(there, name, split=ALL_TO_STABLE), 10.1))

    assert (there.status.phase, there.routes[name].managed_by) == (Phase.HEALTHY, "cart")


def test_a_data_plane_is_not_asked_all_the_time() -> None:
    """Fifty milliseconds first, then ever more slowly: at most a question a second."""
    there = running(routed(SetWeight(50), GATE))
    there = without_gateways(edited(there, revision="b"))
    assert 50 <= questions_about_routes(there, seconds=60) <= 100


def test_traffic_comes_back_to_the_stable_service_only_when_its_slices_show_the_new_pods() -> None:
    """A selector is a wish: until its slices follow the stable Service would bring requests to pods on their way out."""
    there = running(routed(SetWeight(50)))
    there = gateways_caught_up(settled(edited(there, revision="b", strategy=routed(SetWeight(50), GATE))))
    there = annotated(there, "promote", "b@full")
    for _ in range(40):  # everything but the slices of the stable Service
        there = gateways_caught_up(pods_there(there))
        there = reconciled(slices_caught_up(there, "cart-canary"))

    assert there.services["cart"].revision == "b"
    assert set(there.services["cart"].ready_by_revision) == {"a"}
    assert plane(there) == Split(Fraction(1))
    both = replace(there.services["cart"], ready_by_revision={"a": 1, "b": 4})
    assert reconciled(replace(there, services={**there.services, "cart": both})).routes[ASKED].split == plane(there)
    assert plane(settled(there)) == ALL_TO_STABLE


@pytest.mark.parametrize("ping_pong", [False, True], ids=["", "pingPong"])
def test_no_service_changes_what_it_selects_while_it_has_traffic(ping_pong: bool) -> None:
    """The canary's end is where peers drop requests: a selector that changes under traffic loses what its slices are late for.

    With `pingPong` the Services take turns: the traffic stays where it is, so that no load balancer registers pods anew.
    """
    there = running(routed(SetWeight(50), ping_pong=ping_pong))
    for revision in "bc":
        before = there
        for film in films(edited(there, revision=revision)):
            there = film
            for name, share in (("cart", 1 - plane(before).share), ("cart-canary", plane(before).share)):
                changed = there.services[name].revision != before.services[name].revision
                assert not (changed and share), f"{name} changes with {share} of the traffic"
            before = there
        turned = ping_pong and revision == "b"
        assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, revision)
        assert there.services["cart-canary" if turned else "cart"].revision == revision
        assert plane(there) == (Split(Fraction(1)) if turned else ALL_TO_STABLE)
        assert there.status.pong_is_stable == turned
        assert sizes(there) == {revision: 4}


def test_an_abort_brings_ping_pong_back_to_the_service_that_is_stable_now() -> None:
    """After one update pongService is the stable one: an abort of the next goes there."""
    there = updating(routed(SetWeight(50), ping_pong=True))
    there = settled(edited(there, revision="c", strategy=routed(SetWeight(50), GATE, ping_pong=True)))
    assert plane(there) == Split(Fraction(1, 2))

    there = settled(annotated(there, "abort", "true"))

    assert plane(there) == Split(Fraction(1))
    assert there.services["cart-canary"].revision == "b"
    assert sizes(there) == {"b": 4}


def test_a_route_is_told_nothing_that_its_gateways_do_not_know() -> None:
    """Traefik accepted a mirror that it does not know, and answered every request with 500."""
    steps = (SetWeight(25), SetMirrorRoute("copies", MirrorRoute("copies", percent=10)), GATE)
    there = replace(running(routed(*steps)), supported=frozenset({Feature.HEADER, Feature.MIRROR}))

    there = settled(edited(there, revision="b"), seconds=60)

    assert plane(there) == Split(Fraction(1, 4))
    assert waits_for(there) is Reason.ROUTE_NOT_USABLE
    assert "mirror-percent" in waiting(there).message
    assert looks_again_in_s(there) <= 60, "an upgrade of the gateway changes no object of ours"

    there = settled(annotated(there, "abort", "true"))
    assert plane(there) == ALL_TO_STABLE


def test_canary_pods_that_die_do_not_move_the_weight_by_themselves() -> None:
    """Health is the analysis' and the deadline's business; a weight that follows readiness would flap."""
    there = updating(routed(SetWeight(50), GATE))
    there = settled(pods_fail(replace(there, bad=frozenset("b")), "b", limit=1), seconds=5)

    assert plane(there) == Split(Fraction(1, 2))


@pytest.mark.parametrize("dynamic", [False, True])
def test_with_no_canary_pod_left_traffic_goes_back_to_stable_at_once(dynamic: bool) -> None:
    """A pause may last an hour, and nobody could answer the requests meanwhile. When all pods are back, so is the weight."""
    there = updating(routed(SetWeight(75), GATE, dynamic=dynamic))
    assert plane(there) == Split(Fraction(3, 4))
    there = pods_fail(replace(there, bad=frozenset("b")), "b")

    gone = settled(there, seconds=5)
    assert plane(gone) == ALL_TO_STABLE
    assert (gone.status.step_index, sizes(gone)["a"]) == (1, 4)
    assert "revision b has 3 pods and none is available" in waiting(gone).message

    back = settled(replace(gone, bad=frozenset()), seconds=5)
    assert (plane(back), back.status.phase) == (Split(Fraction(3, 4)), Phase.PAUSED)


def at_weight(percent: int, *, dynamic: bool = False, threshold: ProgressThreshold | None = None) -> World:
    """Four replicas that wait with the canary at this weight."""
    gate = PauseUntilPromoted()
    there = updating(
        routed(SetWeight(percent), gate, dynamic=dynamic, max_unavailable=0, replica_progress_threshold=threshold)
    )
    assert set_split(there) == Split(Fraction(percent, 100))
    return there


def set_split(there: World) -> Split:
    """What the route says."""
    split = there.routes[ASKED].split
    assert split is not None
    return split


def ready(there: World, revision: str) -> int:
    """Its ready pods."""
    return sum(pod.ready for pod in there.pods if pod.revision == revision)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_full_promotion_holds_the_weight_until_every_pod_is_there(dynamic: bool) -> None:
    """With dynamicStableScale Argo Rollouts lets it grow pod by pod; a weight that is held is a weight that was looked at."""
    there = at_weight(25, dynamic=dynamic)
    shares = set()

    for film in steps_of(annotated(there, "promote", "b@full")):
        there = film
        if ready(there, "b") < 4:
            shares.add(set_split(there).share)

    assert shares == {Fraction(1, 4)}
    assert (there.status.stable_revision, set_split(there)) == ("b", ALL_TO_STABLE)
