"""Promise: whatever happens to ConfigMaps, pods have what their revision says, no copy is lost or left, and no edit is missed.

The same worlds as in test_any_world_is_safe_and_comes_to_rest.py, with more edits. `ROLLOUTS_DEEP=1` looks at many more of them.
"""

from __future__ import annotations

from functools import lru_cache

from hypothesis import given
from hypothesis import strategies as st

from tests.core.config_moves import CONFIGURATION
from tests.core.config_worlds import REFS, source_written
from tests.core.model import World, world
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    ANALYSED,
    BLUE_GREENS,
    CANARIES,
    ENVIRONMENT,
    PASSES,
    PEOPLE,
    UNHURRIED,
    WITH_ROUTES,
    assert_comes_to_rest,
    played,
    upgraded,
)
from tests.core.worlds import settled

STRATEGIES = (CANARIES[0], CANARIES[1], WITH_ROUTES[2], BLUE_GREENS[0], BLUE_GREENS[1], ANALYSED[0])
TAPES = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(sorted(PASSES)),
            st.sampled_from(sorted(CONFIGURATION)),
            st.just("all pods are ready"),
            st.just("time passes"),
            st.just("a source is edited, or created"),
            st.sampled_from(sorted({**ENVIRONMENT, **PEOPLE})),
            st.just("pass"),
        ),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=60,
)


@lru_cache
def _start(number: int, *, from_before: bool) -> World:
    """The first content is rolled out; `from_before` by a version of this program that made no copies."""
    there = world(STRATEGIES[number], replicas=2, config_refs=() if from_before else REFS)
    there = settled(source_written(there, "v1"))
    return upgraded(there) if from_before else there


@UNHURRIED
@given(number=st.sampled_from(range(len(STRATEGIES))), from_before=st.booleans(), tape=TAPES)
def test_any_sequence_of_edits_is_safe_and_comes_to_rest(
    number: int, from_before: bool, tape: list[tuple[str, int, int]]
) -> None:
    """Edits, deletions, reverts, updates, aborts, crashes, lost copies and reads that fail, are slow or out of date."""
    assert_comes_to_rest(played(_start(number, from_before=from_before), tape))
