"""Promise: with all requests at the canary Service, the stable Service keeps its last pod; if it has none, nothing is held up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from rollouts.core.model.analysis import Analysis
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Analyze, PauseUntilPromoted, SetWeight, Step
from rollouts.core.model.traffic import RouteName
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.model import World, annotated
from tests.core.updates import ASKED, COUNTED, TIMED, measuring, pods_fail, routed, updating
from tests.core.worlds import edited, one, settled, sizes, steps_of

OWN = RouteName("traefik", "HTTPRoute", "shop", "own-cart")
ROUTES = {"asked": ASKED, "timed": TIMED, "counted": COUNTED, "our own": OWN}
CHECKED = Analysis(path="spec.strategy.canary.steps[1].analysis", settings={}, templates=("good",))
LASTS: dict[str, Step] = {"at a pause": PauseUntilPromoted(), "at an analysis": Analyze(CHECKED)}
EVERY = pytest.mark.parametrize(("name", "last", "ping_pong"), [*product(ROUTES, LASTS, (False, True))])


def at_all_the_traffic(name: str, last: str, *, ping_pong: bool) -> World:
    """Weight 100 is live, `dynamicStableScale` has left one stable pod, and the step behind it waits."""
    there = measuring(routed(SetWeight(100), LASTS[last], by=(ROUTES[name],), dynamic=True, ping_pong=ping_pong))
    assert (there.status.step_index, sizes(there)) == (1, {"a": 1, "b": 4})
    return there


def without_it(there: World) -> World:
    """The last stable pod fails its probe."""
    return pods_fail(there, "a")


def while_it_selects(there: World) -> Iterator[World]:
    """Each world until nothing happens any more, as long as the stable Service selects the stable revision."""
    for each in steps_of(there):
        if each.services["cart"].revision != "a":
            return
        yield each


@EVERY
def test_a_stable_pod_that_fails_for_a_moment_is_not_taken_away(name: str, last: str, *, ping_pong: bool) -> None:
    """It was: its ReplicaSet went to 0, the Service had no pod any more, and with `pingPong` the update waited forever."""
    there = without_it(at_all_the_traffic(name, last, ping_pong=ping_pong))

    assert {one(each, "a").spec_replicas for each in while_it_selects(there)} == {1}
    assert one(settled(there), "a").available == 1
    assert_comes_to_rest(replace(there, unmeasured=False))


@EVERY
def test_a_stable_revision_that_stays_broken_holds_up_no_promotion(name: str, last: str, *, ping_pong: bool) -> None:
    """No request reaches its Service. Which pods that one shows is not asked any more when the Services change roles."""
    there = replace(at_all_the_traffic(name, last, ping_pong=ping_pong), bad=frozenset("a"), unmeasured=False)
    there = without_it(there)

    done = settled(annotated(settled(there), "promote", "b@full"))

    assert (done.status.phase, done.status.stable_revision, sizes(done)) == (Phase.HEALTHY, "b", {"b": 4})
    assert {name: each.revision for name, each in done.services.items()} == {"cart": "b", "cart-canary": "b"}


@EVERY
def test_the_stable_service_has_a_pod_again_after_0_replicas(name: str, last: str, *, ping_pong: bool) -> None:
    """An autoscaler or a person took `replicas` to 0 and back while the step waited."""
    at_0 = settled(edited(at_all_the_traffic(name, last, ping_pong=ping_pong), replicas=0))
    assert sizes(at_0) == {}

    back = settled(edited(at_0, replicas=3))

    assert (back.status.step_index, sizes(back)) == (1, {"a": 1, "b": 3})
    assert one(back, "a").available == 1
    assert_comes_to_rest(replace(back, unmeasured=False))


@EVERY
def test_an_abort_without_a_stable_pod_brings_all_of_them_back(name: str, last: str, *, ping_pong: bool) -> None:
    """The last pod may have failed when somebody aborts: the traffic stays until the others are there."""
    there = without_it(at_all_the_traffic(name, last, ping_pong=ping_pong))

    done = settled(annotated(there, "abort", "b"))

    assert (done.status.phase, one(done, "a").available) == (Phase.ABORTED, 4)
    assert_comes_to_rest(replace(done, unmeasured=False))


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_pods_by_the_ratio_make_room_all_the_same(replicas: int) -> None:
    """Without routes a broken pod takes up the room that its replacement needs."""
    strategy = Canary(
        steps=(SetWeight(100), PauseUntilPromoted()), max_surge=1, max_unavailable=0, stable_service="cart"
    )
    at_gate = updating(strategy, replicas=replicas)

    there = settled(without_it(replace(at_gate, bad=frozenset("a"))))

    assert sizes(there) == {"b": replicas}
