"""Promise: whatever autoscalers and containers show, no step ends against the last answer, and an update ends when all is well.

The same worlds as in test_any_world_is_safe_and_comes_to_rest.py. `ROLLOUTS_DEEP=1` looks at many more of them.
"""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.load_moves import GATES, LOAD
from tests.core.model import World, world
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    ENVIRONMENT,
    EVERY,
    MORE,
    PASSES,
    PEOPLE,
    played,
)
from tests.core.worlds import edited, settled

TAPES = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(sorted(PASSES)),
            st.sampled_from(sorted(LOAD)),
            st.just("all pods are ready"),
            st.just("time passes"),
            st.sampled_from(sorted({**ENVIRONMENT, **PEOPLE})),
            st.just("pass"),
        ),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=60,
)


@cache
def gated(number: int, replicas: int, gate: int) -> World:
    """A new template comes to a Rollout whose steps wait for its autoscaler."""
    return edited(settled(world(EVERY[number], replicas=replicas, autoscaling=GATES[gate])), revision="b")


@MORE
@given(number=st.sampled_from(range(len(EVERY))), replicas=st.integers(1, 6), gate=st.integers(0, 2), tape=TAPES)
def test_an_update_that_waits_for_its_autoscaler_is_safe_and_comes_to_rest(
    number: int, replicas: int, gate: int, tape: list[tuple[str, int, int]]
) -> None:
    """Answers that change at any time, are old, partial, impossible or missing, and a gate that changes while it is asked."""
    assert_comes_to_rest(played(gated(number, replicas, gate), tape))
