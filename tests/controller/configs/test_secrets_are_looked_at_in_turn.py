"""Promise: Secrets are looked at every 30 seconds, 10 a second at most, and no tenant waits for another's many."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.controller.configs.sources import LOOK_AGAIN_S, LOOKS_PER_S, look_again_s


@pytest.mark.parametrize(
    ("followed", "namespace", "again_s"),
    [
        ({"shop": 1}, "shop", 30.0),
        ({"shop": 300}, "shop", 30.0),
        ({"shop": 600}, "shop", 60.0),
        ({"shop": 3, "crowd": 30_000}, "shop", 30.0),
        ({"shop": 3, "crowd": 3_000}, "crowd", 3_000 / 9.9),
        ({"shop": 300, "crowd": 300}, "shop", 60.0),
        ({"shop": 200, "crowd": 2_000, "other": 2_000}, "shop", 60.0),
    ],
)
def test_a_large_namespace_waits_for_itself(followed: Mapping[str, int], namespace: str, again_s: float) -> None:
    """A Rollout may name Secrets that do not exist, as many as it likes; a rotation elsewhere is seen all the same."""
    assert look_again_s(followed, namespace) == pytest.approx(again_s)


@given(followed=st.dictionaries(st.text(max_size=3), st.integers(1, 100_000), min_size=1, max_size=20))
def test_all_looks_together_are_bounded(followed: Mapping[str, int]) -> None:
    """The API server answers these beside everything else."""
    looks_per_s = sum(count / look_again_s(followed, namespace) for namespace, count in followed.items())

    assert looks_per_s <= LOOKS_PER_S * 1.001
    assert all(look_again_s(followed, namespace) >= LOOK_AGAIN_S for namespace in followed)
