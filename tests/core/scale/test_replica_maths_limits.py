"""Promise: limits, thresholds and sizes are rounded to the safe side; by the ratio of pods to the nearest to the weight."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.model.limits import resolved_surge, resolved_unavailable, surge_and_unavailable
from rollouts.core.model.rollout import Percent, ProgressThreshold
from rollouts.core.model.steps import SetCanaryReplicas, SetCanaryScalePercent
from rollouts.core.scale.replicas import (
    Pair,
    at_desired,
    least_met,
    routed_canary_replicas,
    routed_stable_replicas,
    target_pair,
)

WEIGHTS = st.integers(0, 100)
REPLICAS = st.integers(0, 200)


@pytest.mark.parametrize(
    ("limit", "replicas", "surge", "unavailable"),
    [
        (Percent(25), 10, 3, 2), (Percent(25), 4, 1, 1), (Percent(25), 1, 1, 0), (Percent(0), 10, 0, 0),
        (Percent(100), 10, 10, 10), (Percent(25), 0, 0, 0), (3, 10, 3, 3), (3, 2, 3, 2), (3, 0, 3, 0),
    ],
)  # fmt: skip
def test_max_surge_rounds_up_and_max_unavailable_rounds_down_and_stays_within_the_replicas(
    limit: int | Percent, replicas: int, surge: int, unavailable: int
) -> None:
    """As for a Deployment: rounding may cost a pod more, never a pod less in service."""
    assert resolved_surge(limit, replicas=replicas) == surge
    assert resolved_unavailable(limit, replicas=replicas) == unavailable


@pytest.mark.parametrize(
    ("max_surge", "max_unavailable", "replicas", "expected"),
    [
        (0, 0, 10, (0, 1)),
        (Percent(0), Percent(9), 10, (0, 1)),
        (Percent(25), Percent(25), 1, (1, 0)),
        (0, 1, 10, (0, 1)),
        (0, 0, 0, (0, 0)),
        (Percent(25), Percent(25), 0, (0, 0)),
    ],
)
def test_one_pod_may_be_unavailable_when_max_surge_and_max_unavailable_come_to_nothing(
    max_surge: int | Percent, max_unavailable: int | Percent, replicas: int, expected: tuple[int, int]
) -> None:
    """Otherwise no pod could ever be replaced; without replicas there is no pod to be unavailable."""
    assert surge_and_unavailable(max_surge=max_surge, max_unavailable=max_unavailable, replicas=replicas) == expected


@pytest.mark.parametrize(
    ("weight_percent", "min_pods", "pinned", "pods"),
    [
        (0, 0, None, 0), (1, 0, None, 1), (20, 0, None, 2), (21, 0, None, 3), (100, 0, None, 10), (10, 2, None, 2),
        (30, 2, None, 3), (10, 50, None, 10), (0, 2, None, 0), (20, 0, SetCanaryReplicas(7), 7),
        (20, 3, SetCanaryReplicas(1), 1), (20, 3, SetCanaryReplicas(0), 0), (20, 0, SetCanaryScalePercent(55), 6),
        (20, 3, SetCanaryScalePercent(5), 3), (20, 3, SetCanaryScalePercent(0), 0),
    ],
)  # fmt: skip
def test_a_routed_canary_has_pods_for_its_share_or_what_a_step_pinned(
    weight_percent: int, min_pods: int, pinned: SetCanaryReplicas | SetCanaryScalePercent | None, pods: int
) -> None:
    """Traffic sent by weight must find the pods for it; a number pinned by setCanaryScale is taken at its word."""
    assert routed_canary_replicas(replicas=10, weight_percent=weight_percent, min_pods=min_pods, pinned=pinned) == pods


@given(replicas=REPLICAS, weight_percent=WEIGHTS, recorded=WEIGHTS)
def test_stable_keeps_all_its_pods_unless_it_is_dynamic(replicas: int, weight_percent: int, recorded: int) -> None:
    """An abort then has the capacity for all traffic at once, which is what the pods are paid for."""
    assert (
        routed_stable_replicas(
            replicas=replicas, weight_percent=weight_percent, recorded_weight_percent=recorded, dynamic=False
        )
        == replicas
    )


@pytest.mark.parametrize(
    ("weight_percent", "recorded", "pods"),
    [
        (0, 0, 10), (20, 0, 10), (20, 20, 8), (25, 25, 8), (50, 20, 8), (20, 50, 8), (100, 75, 3), (100, 100, 0),
        (0, 100, 10),
    ],
)  # fmt: skip
def test_a_dynamic_stable_shrinks_after_its_traffic_has_moved_and_grows_before_it_returns(
    weight_percent: int, recorded: int, pods: int
) -> None:
    """It has pods for the larger of what it serves and what it is to serve."""
    assert (
        routed_stable_replicas(
            replicas=10, weight_percent=weight_percent, recorded_weight_percent=recorded, dynamic=True
        )
        == pods
    )


@given(replicas=REPLICAS, weight_percent=WEIGHTS, recorded=WEIGHTS)
def test_a_routed_pair_has_pods_for_all_traffic(replicas: int, weight_percent: int, recorded: int) -> None:
    """Both sides round up, so the sum never falls short of the replicas that the user asked for."""
    canary = routed_canary_replicas(replicas=replicas, weight_percent=weight_percent, min_pods=0, pinned=None)
    stable = routed_stable_replicas(
        replicas=replicas, weight_percent=weight_percent, recorded_weight_percent=recorded, dynamic=True
    )

    assert canary + stable >= replicas


@pytest.mark.parametrize(
    ("threshold", "desired", "available", "met"),
    [
        (None, 10, 9, False), (None, 10, 10, True), (None, 0, 0, True), (Percent(90), 10, 8, False),
        (Percent(90), 10, 9, True), (Percent(90), 3, 2, False), (Percent(90), 0, 0, True), (Percent(0), 10, 0, True),
        (Percent(-1), 10, 9, False), (4, 10, 3, False), (4, 10, 4, True), (4, 2, 1, False), (4, 2, 2, True),
        (0, 10, 0, True), (-1, 10, 9, False),
    ],
)  # fmt: skip
def test_a_replica_progress_threshold_is_met_by_its_part_of_the_desired_pods(
    threshold: int | Percent | None, desired: int, available: int, met: bool
) -> None:
    """A part of nothing is met, less than 0 is no threshold, and more pods than desired can never be asked for."""
    given_threshold = None if threshold is None else ProgressThreshold(threshold)

    assert (available >= least_met(desired=desired, threshold=given_threshold)) is met


@pytest.mark.parametrize(
    ("spec", "available", "threshold", "reached"),
    [
        (4, 4, None, True), (4, 3, None, False), (4, 5, None, False), (5, 4, None, False), (3, 4, None, False),
        (4, 3, Percent(75), True), (4, 2, Percent(75), False), (5, 3, Percent(75), False), (4, 3, Percent(-1), False),
        (4, 5, Percent(-1), False), (4, 4, -1, True), (4, 0, Percent(0), True), (4, 3, 3, True),
    ],
)  # fmt: skip
def test_a_replica_set_is_at_its_size_when_told_so_and_its_pods_are_there(
    spec: int, available: int, threshold: int | Percent | None, reached: bool
) -> None:
    """Availability seen before the ReplicaSet was told its size says nothing about that size; 4 pods are desired."""
    given_threshold = None if threshold is None else ProgressThreshold(threshold)

    assert at_desired(desired=4, spec=spec, available=available, threshold=given_threshold) is reached


REPLICAS_THERE = st.integers(1, 300)
SURGES = st.integers(0, 5)


@pytest.mark.parametrize(
    ("replicas", "weight_percent", "surge", "canary", "stable"),
    [
        (1, 49, 0, 0, 1), (1, 50, 0, 1, 0), (1, 1, 1, 1, 1), (1, 99, 1, 1, 1), (1, 100, 1, 1, 0), (2, 1, 0, 1, 1),
        (2, 1, 1, 1, 2), (2, 99, 1, 2, 1), (3, 34, 0, 1, 2), (3, 50, 0, 2, 1), (3, 10, 1, 1, 3), (3, 33, 1, 1, 2),
        (3, 49, 1, 2, 2), (10, 14, 0, 1, 9), (10, 15, 0, 2, 8), (10, 99, 0, 9, 1), (10, 1, 1, 1, 10),
        (10, 18, 1, 2, 9), (10, 20, 1, 2, 8), (10, 24, 1, 3, 8), (10, 99, 1, 10, 1), (2, 75, 0, 1, 1),
        (10, 95, 0, 9, 1), (50, 99, 0, 49, 1),
    ],
)  # fmt: skip
def test_a_weight_becomes_the_pair_that_argo_rollouts_picks(
    replicas: int, weight_percent: int, surge: int, canary: int, stable: int
) -> None:
    """A manifest moved from there scales the same way here. A tie never takes the last pod of a side that has a share."""
    assert target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge) == Pair(canary, stable)


@given(replicas=REPLICAS_THERE, weight_percent=WEIGHTS, surge=SURGES)
def test_the_pair_has_all_replicas_and_each_side_a_pod(replicas: int, weight_percent: int, surge: int) -> None:
    """Rounding may cost one pod where surge allows it, and never capacity. 1 % that reaches no pod would measure nothing.

    Weight 0 is how an abort is written and 100 how a promotion is: nothing may be left on the other side.
    """
    pair = target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge)

    assert replicas <= pair.canary + pair.stable <= replicas + min(surge, 1)
    if weight_percent in (0, 100):
        assert pair == (Pair(0, replicas) if weight_percent == 0 else Pair(replicas, 0))
    elif replicas == 1 and surge == 0:
        assert sorted((pair.canary, pair.stable)) == [0, 1]
    else:
        assert min(pair.canary, pair.stable) >= 1
    assert target_pair(replicas=0, weight_percent=weight_percent, surge=surge) == Pair(0, 0)


@pytest.mark.parametrize("surge", [0, 1])
def test_no_other_pair_is_nearer_to_the_weight(surge: int) -> None:
    """Against every pair there is, in exact fractions, so no rule of rounding can hide an error; of equal ones few pods win."""
    for replicas, weight_percent in product(range(1, 31), range(1, 100)):
        totals = (replicas, replicas + 1) if surge else (replicas,)
        least = 0 if replicas == 1 and surge == 0 else 1
        pairs = [(total, canary) for total in totals for canary in range(least, total + 1 - least)]
        errors = {
            (abs(Fraction(canary, total) - Fraction(weight_percent, 100)), total, -canary): Pair(canary, total - canary)
            for total, canary in pairs
        }

        assert target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge) == errors[min(errors)]


@given(replicas=REPLICAS_THERE, weights=st.tuples(WEIGHTS, WEIGHTS))
def test_more_weight_never_means_fewer_canary_pods(replicas: int, weights: list[int]) -> None:
    """Steps that rise may not take canary pods away in between."""
    lower, higher = sorted(weights)

    at_lower = target_pair(replicas=replicas, weight_percent=lower, surge=0)
    at_higher = target_pair(replicas=replicas, weight_percent=higher, surge=0)

    assert at_lower.canary <= at_higher.canary
