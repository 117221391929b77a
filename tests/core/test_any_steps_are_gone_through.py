"""Promise: whatever steps a canary has, an update that nothing disturbs comes to each, and is promoted after the last one.

Somebody promotes at each pause, and may scale there. The worlds that are disturbed have few lists of steps; here they are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from rollouts.core.model.rollout import Canary, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import (
    MatchTrafficWeight,
    Pause,
    RunExperiment,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetWeight,
    Step,
)
from tests.core.deployments import deployed, scaled, template_changed
from tests.core.model import World, annotated
from tests.core.stateful_sets import new_template, rescaled, stateful
from tests.core.test_any_world_is_safe_and_comes_to_rest import CHECKED, DYNAMIC, MORE
from tests.core.updates import GATE, TIMED, routed, updating, with_services
from tests.core.worlds import edited, settled

MOVES: list[st.SearchStrategy[Step]] = [
    st.sampled_from([0, 1, 5, 10, 25, 33, 50, 66, 75, 90, 99, 100]).map(SetWeight),
    st.sampled_from([GATE, Pause(5)]),
]
TRIES: list[st.SearchStrategy[Step]] = [*MOVES, st.just(RunExperiment(CHECKED))]
"""Not for a StatefulSet, whose spec must not have it."""
SCALES: list[st.SearchStrategy[Step]] = [
    st.sampled_from([0, 1, 2, 3, 5, 9]).map(SetCanaryReplicas),
    st.sampled_from([0, 10, 25, 50, 75, 100]).map(SetCanaryScalePercent),
    st.just(MatchTrafficWeight()),
]


def by_ratio(steps: list[st.SearchStrategy[Step]]) -> st.SearchStrategy[Canary]:
    """A canary without a router."""
    return st.builds(
        lambda steps, limits: Canary(steps=tuple(steps), max_surge=limits[0], max_unavailable=limits[1]),
        st.lists(st.one_of(steps), min_size=1, max_size=6),
        st.sampled_from([(1, 0), (0, 1), (2, 1)]),
    )


BY_RATIO = by_ratio(TRIES)
KINDS = {
    "followed": lambda steps: with_services(*steps, traffic_routing=TrafficRouting(min_pods_per_replica_set=2)),
    "followed, dynamic": lambda steps: with_services(*steps, traffic_routing=DYNAMIC),
    "routed": lambda steps: routed(*steps, max_surge=1, max_unavailable=0),
    "routed, dynamic": lambda steps: routed(*steps, dynamic=True),
    "ping and pong": lambda steps: routed(*steps, by=(TIMED,), dynamic=True, ping_pong=True),
}
ROUTED = st.builds(
    lambda kind, steps: KINDS[kind](steps),
    st.sampled_from(sorted(KINDS)),
    st.lists(st.one_of(*TRIES, *SCALES), min_size=1, max_size=6),
)


Scaled = Callable[[World, int], World]


def assert_gone_through(there: World, scale: Scaled, scaled_to: list[int]) -> None:
    """Somebody scales at the first pause, and promotes at each."""
    for each in scaled_to:
        if there.status.phase is not Phase.PAUSED:
            break
        there = settled(scale(there, each))
    while there.status.phase is Phase.PAUSED:
        index = there.status.step_index
        there = settled(annotated(there, "promote", f"b@{index}"))
        assert there.status.step_index > index

    assert there.status.phase is Phase.HEALTHY, there.status.message
    assert Counter(pod.revision for pod in there.pods) == Counter({"b": there.rollout.spec.replicas})


@MORE
@example(KINDS["routed"]([SetCanaryReplicas(0), SetWeight(50)]), 4, []).via("no pod for half of the requests")
@example(KINDS["routed, dynamic"]([SetCanaryReplicas(1), SetWeight(75)]), 7, []).via("the floor keeps stable pods")
@example(KINDS["routed, dynamic"]([SetWeight(66), SetWeight(10)]), 6, []).via("stable shrank as it was to grow")
@given(
    strategy=st.one_of(BY_RATIO, ROUTED), replicas=st.integers(1, 8), scaled_to=st.lists(st.integers(0, 8), max_size=4)
)
def test_an_update_is_promoted_after_its_last_step(strategy: Canary, replicas: int, scaled_to: list[int]) -> None:
    """Each pass keeps the invariants. The update waited for ever at some of these."""
    there = updating(strategy, replicas=replicas)

    assert_gone_through(there, lambda there, size: edited(there, replicas=size), scaled_to)


@MORE
@given(
    strategy=st.one_of(BY_RATIO, ROUTED), replicas=st.integers(1, 8), scaled_to=st.lists(st.integers(0, 8), max_size=4)
)
def test_so_is_that_of_a_deployment(strategy: Canary, replicas: int, scaled_to: list[int]) -> None:
    """In place by the ratio of pods; beside it where traffic is routed."""
    there = settled(template_changed(settled(deployed(strategy, replicas=replicas)), "b"))

    assert_gone_through(there, scaled, scaled_to)


@MORE
@example(Canary(steps=(GATE, SetWeight(90), SetWeight(25))), 7, True, [1]).via("nothing goes back to the old revision")
@given(
    strategy=by_ratio(MOVES),
    replicas=st.integers(1, 8),
    ordered=st.booleans(),
    scaled_to=st.lists(st.integers(0, 8), max_size=4),
)
def test_so_is_that_of_a_stateful_set(strategy: Canary, replicas: int, ordered: bool, scaled_to: list[int]) -> None:
    """Once all of its pods are new, its controller makes no old one any more."""
    there = settled(new_template(settled(stateful(strategy, replicas=replicas, ordered=ordered)), "b"))

    assert_gone_through(there, rescaled, scaled_to)
