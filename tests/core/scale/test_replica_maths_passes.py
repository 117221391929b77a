"""Promise: one pass of a canary by the ratio of pods scales what Argo Rollouts scales (docs/features/canary)."""

from __future__ import annotations

import pytest

from rollouts.core.model.rollout import Percent
from rollouts.core.scale.replicas import CanaryPass, Size, canary_pass


def size(text: str) -> Size:
    """`7/8`: told to have 7, 8 available."""
    spec, available = text.split("/")
    return Size(int(spec), int(available))


@pytest.mark.parametrize(
    ("replicas", "weight_percent", "surge", "unavailable", "stable", "canary", "stable_after", "canary_after"),
    [
        (10, 20, 2, 0, "10/10", "0/0", 10, 2),
        (10, 20, Percent(20), 0, "10/10", "2/2", 8, 2),
        (10, 20, 0, 2, "10/10", "0/0", 8, 0),
        (10, 50, 2, 1, "10/10", "0/0", 9, 2),
        (10, 100, 3, 0, "7/8", "6/3", 7, 6),
        (10, 30, 0, 3, "8/5", "4/4", 7, 3),
        (10, 100, 1, 0, "10/2", "10/8", 2, 9),
        (1, 51, 0, 1, "1/1", "0/0", 0, 0),
        (1, 51, 0, 1, "0/0", "0/0", 0, 1),
        (3, 99, 0, 2, "3/3", "0/0", 1, 0),
        (3, 99, 0, 2, "1/1", "0/0", 1, 2),
        (4, 100, 1, 0, "4/1", "1/1", 3, 1),
        (4, 0, 1, 0, "0/0", "4/4", 1, 4),
        (4, 0, 1, 0, "1/0", "4/4", 1, 4),
        (4, 0, 1, 0, "1/1", "4/4", 1, 3),
        (4, 100, 3, 0, "4/4", "0/0", 4, 3),
        (10, 10, Percent(0), Percent(0), "10/10", "0/0", 9, 0),
    ],
)
def test_a_pass_scales_the_pair_as_argo_rollouts_does(
    replicas: int,
    weight_percent: int,
    surge: int,
    unavailable: int,
    stable: str,
    canary: str,
    stable_after: int,
    canary_after: int,
) -> None:
    """Each row is one pass, told from what was seen; the next row of the same rollout starts where it ended."""
    after = canary_pass(
        replicas=replicas,
        weight_percent=weight_percent,
        max_surge=surge,
        max_unavailable=unavailable,
        canary=size(canary),
        stable=size(stable),
        older=[],
    )

    assert after == CanaryPass(canary=canary_after, stable=stable_after, older=())


@pytest.mark.parametrize(
    ("surge", "unavailable", "stable", "canary", "older", "expected"),
    [
        (1, 0, "1/1", "0/0", ["3/3"], CanaryPass(canary=1, stable=7, older=(3,))),
        (0, 1, "8/6", "4/2", ["3/3"], CanaryPass(canary=4, stable=8, older=(1,))),
    ],
)
def test_while_old_revisions_have_pods_the_pair_grows_and_does_not_shrink(
    surge: int, unavailable: int, stable: str, canary: str, older: list[str], expected: CanaryPass
) -> None:
    """Old revisions go first: what the pair gave up now it would only have to start again."""
    after = canary_pass(
        replicas=10,
        weight_percent=30,
        max_surge=surge,
        max_unavailable=unavailable,
        canary=size(canary),
        stable=size(stable),
        older=[size(text) for text in older],
    )

    assert after == expected


@pytest.mark.parametrize(
    ("older", "after"),
    [
        (["3/3", "3/3"], (1, 3)),
        (["1/1", "5/5"], (0, 4)),
        (["4/2", "5/4"], (0, 4)),
        (["4/0", "3/0"], (0, 0)),
        (["2/3", "6/4"], (0, 4)),
    ],
)
def test_old_revisions_lose_unavailable_pods_first_and_then_the_oldest_lose_what_can_be_spared(
    older: list[str], after: tuple[int, ...]
) -> None:
    """Unavailable pods serve nobody and cost room; the floor of 8 (10 minus 2) is kept by stable's 4 and the newest old pods."""
    result = canary_pass(
        replicas=10,
        weight_percent=50,
        max_surge=0,
        max_unavailable=2,
        canary=Size(0, 0),
        stable=Size(4, 4),
        older=[size(text) for text in older],
    )

    assert result.older == after


def test_without_a_stable_revision_the_canary_takes_over_from_the_old_ones() -> None:
    """A first rollout that was replaced before it was stable: no weight applies, and capacity moves as in a rolling update."""
    after = canary_pass(
        replicas=10,
        weight_percent=5,
        max_surge=2,
        max_unavailable=1,
        canary=Size(3, 3),
        stable=None,
        older=[Size(3, 3), Size(5, 5)],
    )

    assert after == CanaryPass(canary=4, stable=0, older=(1, 5))


def test_a_first_rollout_starts_all_its_pods_at_once() -> None:
    """There is nothing to compare with and nobody to protect, so steps and weights do not slow it."""
    after = canary_pass(
        replicas=10,
        weight_percent=5,
        max_surge=0,
        max_unavailable=1,
        canary=Size(0, 0),
        stable=None,
        older=[],
    )

    assert after == CanaryPass(canary=10, stable=0, older=())


def test_a_rollout_scaled_down_mid_step_is_cut_to_its_new_size_on_both_sides() -> None:
    """From 10 to 4 replicas at 50 %: the pair shrinks at once, because 2 and 2 are available pods enough."""
    after = canary_pass(
        replicas=4,
        weight_percent=50,
        max_surge=0,
        max_unavailable=1,
        canary=Size(6, 6),
        stable=Size(12, 12),
        older=[],
    )

    assert after == CanaryPass(canary=2, stable=2, older=())


@pytest.mark.parametrize(
    ("stable", "stable_after", "canary_after"),
    [
        ("10/10", 9, 1),
        ("10/9", 9, 1),
        ("10/8", 8, 2),
        ("10/6", 7, 3),
    ],
)
def test_an_excess_is_not_taken_from_available_pods_that_the_floor_needs(
    stable: str, stable_after: int, canary_after: int
) -> None:
    """Surge was lowered to 0 under a crashing canary: its pods make up for what stable (floor 9) cannot give.

    Pods that are unavailable are never given back: with 6 of stable's 10 available, the 3 of the excess are unavailable ones.
    """
    after = canary_pass(
        replicas=10,
        weight_percent=20,
        max_surge=0,
        max_unavailable=1,
        canary=Size(4, 0),
        stable=size(stable),
        older=[],
    )

    assert after == CanaryPass(canary=canary_after, stable=stable_after, older=())


def test_a_broken_stable_revision_does_not_hold_the_room_that_its_replacement_needs() -> None:
    """With an old revision serving and stable crashing nothing could move; stable's unavailable pod makes room for the fix."""
    after = canary_pass(
        replicas=10,
        weight_percent=100,
        max_surge=1,
        max_unavailable=0,
        canary=Size(0, 0),
        stable=Size(5, 0),
        older=[Size(6, 6)],
    )

    assert after == CanaryPass(canary=0, stable=4, older=(6,))


def test_an_excess_beside_old_revisions_is_paid_with_unavailable_pods() -> None:
    """13 pods where 10 may be, 8 available and 9 the floor: only the 5 that crash can go, and 3 of them do."""
    after = canary_pass(
        replicas=10,
        weight_percent=50,
        max_surge=0,
        max_unavailable=1,
        canary=Size(5, 5),
        stable=Size(5, 0),
        older=[Size(3, 3)],
    )

    assert after == CanaryPass(canary=5, stable=2, older=(3,))


def test_a_pair_that_can_only_wait_is_left_alone() -> None:
    """All 11 pods are in use and 8 of the 9 that the floor needs are available: moving pods across would only restart them."""
    after = canary_pass(
        replicas=10,
        weight_percent=40,
        max_surge=1,
        max_unavailable=1,
        canary=Size(3, 2),
        stable=Size(4, 2),
        older=[Size(4, 4)],
    )

    assert after == CanaryPass(canary=3, stable=4, older=(4,))
