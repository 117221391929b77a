"""Promise: the two sizes of a canary by the ratio of pods are the nearest to its weight, and both sides keep a pod."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.scale.replicas import Pair, target_pair

REPLICAS = st.integers(1, 300)
WEIGHTS = st.integers(0, 100)
SURGES = st.integers(0, 5)


@pytest.mark.parametrize(
    ("replicas", "weight_percent", "surge", "canary", "stable"),
    [
        (1, 49, 0, 0, 1),
        (1, 50, 0, 1, 0),
        (1, 1, 1, 1, 1),
        (1, 99, 1, 1, 1),
        (1, 100, 1, 1, 0),
        (2, 1, 0, 1, 1),
        (2, 1, 1, 1, 2),
        (2, 99, 1, 2, 1),
        (3, 34, 0, 1, 2),
        (3, 50, 0, 2, 1),
        (3, 10, 1, 1, 3),
        (3, 33, 1, 1, 2),
        (3, 49, 1, 2, 2),
        (10, 14, 0, 1, 9),
        (10, 15, 0, 2, 8),
        (10, 99, 0, 9, 1),
        (10, 1, 1, 1, 10),
        (10, 18, 1, 2, 9),
        (10, 20, 1, 2, 8),
        (10, 24, 1, 3, 8),
        (10, 99, 1, 10, 1),
    ],
)
def test_a_weight_becomes_the_pair_that_argo_rollouts_picks(
    replicas: int, weight_percent: int, surge: int, canary: int, stable: int
) -> None:
    """A manifest moved from Argo Rollouts scales the same way here (Argo Rollouts, docs/features/canary)."""
    assert target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge) == Pair(canary, stable)


@pytest.mark.parametrize(("replicas", "weight_percent"), [(2, 75), (10, 95), (50, 99)])
def test_a_tie_whose_larger_canary_would_be_everything_leaves_stable_its_pod(
    replicas: int, weight_percent: int
) -> None:
    """Half a pod rounds to the canary, but never takes stable's last pod while stable still has a share of the traffic."""
    pair = target_pair(replicas=replicas, weight_percent=weight_percent, surge=0)

    assert pair == Pair(replicas - 1, 1)


@given(weight_percent=WEIGHTS, surge=SURGES)
def test_no_replicas_means_no_pods_on_either_side(weight_percent: int, surge: int) -> None:
    """A Rollout scaled to zero runs nothing, not even the pod that surge would allow."""
    assert target_pair(replicas=0, weight_percent=weight_percent, surge=surge) == Pair(0, 0)


@given(replicas=REPLICAS, surge=SURGES)
def test_the_ends_of_the_scale_give_one_side_everything(replicas: int, surge: int) -> None:
    """Weight 0 is how an abort is written and 100 how a promotion is: nothing may be left on the other side."""
    assert target_pair(replicas=replicas, weight_percent=0, surge=surge) == Pair(0, replicas)
    assert target_pair(replicas=replicas, weight_percent=100, surge=surge) == Pair(replicas, 0)


@given(replicas=REPLICAS, weight_percent=st.integers(1, 99), surge=SURGES)
def test_a_weight_between_the_ends_leaves_each_side_a_pod(replicas: int, weight_percent: int, surge: int) -> None:
    """1 % that reaches no pod would be a canary that measures nothing; one pod without surge can be on one side only."""
    pair = target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge)

    if replicas == 1 and surge == 0:
        assert sorted((pair.canary, pair.stable)) == [0, 1]
    else:
        assert min(pair.canary, pair.stable) >= 1


@given(replicas=REPLICAS, weight_percent=WEIGHTS, surge=SURGES)
def test_the_pair_has_all_replicas_and_at_most_one_more(replicas: int, weight_percent: int, surge: int) -> None:
    """Rounding may cost one pod where surge allows it, and never capacity."""
    pair = target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge)

    assert replicas <= pair.canary + pair.stable <= replicas + min(surge, 1)


@given(replicas=REPLICAS, weight_percent=st.integers(1, 99))
def test_no_other_pair_of_the_same_sum_is_nearer_to_the_weight(replicas: int, weight_percent: int) -> None:
    """Checked against every pair there is, in exact fractions, so no rule of rounding can hide an error."""
    pair = target_pair(replicas=replicas, weight_percent=weight_percent, surge=1)
    total = pair.canary + pair.stable

    nearest = min(abs(Fraction(canary, total) - Fraction(weight_percent, 100)) for canary in range(1, total))

    assert abs(Fraction(pair.canary, total) - Fraction(weight_percent, 100)) == nearest


@given(replicas=REPLICAS, weights=st.tuples(WEIGHTS, WEIGHTS))
def test_more_weight_never_means_fewer_canary_pods(replicas: int, weights: list[int]) -> None:
    """Steps that rise may not take canary pods away in between."""
    lower, higher = sorted(weights)

    at_lower = target_pair(replicas=replicas, weight_percent=lower, surge=0)
    at_higher = target_pair(replicas=replicas, weight_percent=higher, surge=0)

    assert at_lower.canary <= at_higher.canary
