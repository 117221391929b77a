"""Promise: a canary goes through its steps in order, each one durable before the next, with few writes."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, Percent, ProgressThreshold, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import MatchTrafficWeight, Pause, PauseUntilPromoted, SetCanaryReplicas, SetWeight
from tests.core.model import annotated
from tests.core.updates import updating, waits_for
from tests.core.worlds import edited, pods_ready, reconciled, replica_sets_caught_up, running, settled, sizes, steps_of


def test_each_set_weight_has_its_share_of_the_pods_and_the_last_promotes() -> None:
    """The sizes of `setWeight` 25, 50 and of the end, in that order, and nothing in between that goes back."""
    strategy = Canary(steps=(SetWeight(25), Pause(60), SetWeight(50), Pause(60)), max_surge=1, max_unavailable=0)
    there = edited(running(strategy, replicas=4), revision="b")
    seen = []
    for after in steps_of(there):
        if after.status.step_index != there.status.step_index:
            seen.append((after.status.step_index, sizes(there).get("b", 0), after.status.weight_percent))
        there = after

    assert seen == [(0, 0, 25), (1, 1, 25), (2, 1, 50), (3, 2, 50), (4, 2, 100)]
    assert (there.status.phase, there.status.stable_revision, sizes(there)) == (Phase.HEALTHY, "b", {"b": 4})


def test_an_update_by_one_step_of_half_the_pods_takes_seven_writes() -> None:
    """The API server is the limit. Argo Rollouts takes 14 or 15; the promise is at most 8, Events apart."""
    there = running(Canary(steps=(SetWeight(50),)), replicas=2)

    there = settled(replace(edited(there, revision="b"), patient=True))

    assert there.status.phase is Phase.HEALTHY
    assert len(there.writes) == 7, there.writes


def test_a_step_is_written_once_it_is_reached_and_not_before() -> None:
    """Pods that exist but are not available are no share of anything."""
    there = replace(running(Canary(steps=(SetWeight(50), PauseUntilPromoted()))), bad=frozenset("b"))

    there = settled(edited(there, revision="b"), seconds=120)

    assert (there.status.step_index, there.status.phase) == (0, Phase.PROGRESSING)
    assert waits_for(there) is Reason.PODS_NOT_AVAILABLE


def test_set_canary_scale_pins_the_pods_until_they_match_the_weight_again() -> None:
    """With traffic routing the canary may have pods before it has traffic."""
    strategy = Canary(
        steps=(SetCanaryReplicas(3), PauseUntilPromoted(), SetWeight(10), MatchTrafficWeight(), PauseUntilPromoted()),
        traffic_routing=TrafficRouting(),
    )
    there = updating(strategy, replicas=10)
    assert (sizes(there), there.status.weight_percent) == ({"a": 10, "b": 3}, 0)

    there = settled(annotated(there, "promote", "b@1"))
    assert (sizes(there), there.status.weight_percent, there.status.step_index) == ({"a": 10, "b": 1}, 10, 4)


def test_dynamic_stable_scale_gives_the_stable_side_its_share_and_keeps_room_for_the_way_back() -> None:
    """Stable shrinks only after the weight was recorded, and is whole again after an abort."""
    routing = TrafficRouting(dynamic_stable_scale=True)
    strategy = Canary(steps=(SetWeight(70), PauseUntilPromoted()), traffic_routing=routing)
    there = updating(strategy, replicas=10)
    assert sizes(there) == {"a": 3, "b": 7}

    there = settled(annotated(there, "abort", "b"))
    assert (sizes(there), there.status.phase) == ({"a": 10}, Phase.ABORTED)


@pytest.mark.parametrize(
    ("threshold", "index"), [(None, 0), (ProgressThreshold(Percent(50)), 1), (ProgressThreshold(1), 1)]
)
def test_a_replica_progress_threshold_lets_a_step_go_on_with_fewer_pods(
    threshold: ProgressThreshold | None, index: int
) -> None:
    """`replicaProgressThreshold`: one slow pod of two need not stop the update."""
    strategy = Canary(
        steps=(SetWeight(50), PauseUntilPromoted()),
        traffic_routing=TrafficRouting(),
        replica_progress_threshold=threshold,
    )
    there = replica_sets_caught_up(reconciled(edited(running(strategy, replicas=4), revision="b")))
    there = replace(replica_sets_caught_up(pods_ready(there, limit=1)), bad=frozenset("b"))

    there = settled(there, seconds=5)

    assert there.status.step_index == index


@pytest.mark.parametrize("routing", [None, TrafficRouting()])
def test_a_step_is_done_when_the_canary_service_brings_requests_to_its_pods(routing: TrafficRouting | None) -> None:
    """Who waits for the step tests the canary next: recorded any sooner, those requests would still go to the stable pods."""
    strategy = Canary(
        steps=(SetWeight(25), PauseUntilPromoted()), canary_service="cart-canary", traffic_routing=routing
    )

    for there in steps_of(edited(running(strategy), revision="b")):
        if there.status.step_index == 1:
            assert there.services["cart-canary"].revision == "b"
            assert set(there.services["cart-canary"].ready_by_revision) == {"b"}


TO_100 = (SetWeight(50), SetWeight(100), PauseUntilPromoted())
RATIO = Canary(steps=TO_100, max_surge=1, max_unavailable=0)
SERVICES = replace(RATIO, stable_service="cart", canary_service="cart-canary")
STRATEGIES: dict[str, Canary] = {
    "by the ratio of pods": RATIO,
    "with Services": SERVICES,
    "with Services and no surge": replace(SERVICES, max_surge=0, max_unavailable=1),
    "with a stable Service alone": replace(SERVICES, canary_service=None),
    "routed": replace(SERVICES, traffic_routing=TrafficRouting()),
    "routed, dynamic stable": replace(SERVICES, traffic_routing=TrafficRouting(dynamic_stable_scale=True)),
}


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("name", STRATEGIES)
def test_set_weight_100_comes_to_the_gate_behind_it_and_to_its_end(name: str, replicas: int) -> None:
    """Many canaries end in a step to 100: it must not wait for a pod that the stable Service keeps until the steps are over."""
    at_gate = updating(STRATEGIES[name], replicas=replicas)

    assert (at_gate.status.step_index, at_gate.status.phase) == (2, Phase.PAUSED)

    done = updating(replace(STRATEGIES[name], steps=TO_100[:2]), replicas=replicas)

    assert (done.status.phase, sizes(done)) == (Phase.HEALTHY, {"b": replicas})
