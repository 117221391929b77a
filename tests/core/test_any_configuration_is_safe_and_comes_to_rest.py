"""Promise: whatever happens to ConfigMaps, pods have what their revision says, no copy is lost or left, and no edit is missed.

The same worlds as in test_any_world_is_safe_and_comes_to_rest.py, with more edits. `ROLLOUTS_DEEP=1` looks at many more of them.
"""

from __future__ import annotations

from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from rollouts.core.model.config import ConfigVersioning
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.config_moves import CONFIGURATION, OF_SECRETS
from tests.core.config_worlds import CRED, REFS, WITH_SECRET, source_written
from tests.core.model import World, world
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    ANALYSED,
    BLUE_GREENS,
    CANARIES,
    ENVIRONMENT,
    MORE,
    PASSES,
    PEOPLE,
    WITH_ROUTES,
    played,
    upgraded,
)
from tests.core.worlds import settled

STRATEGIES = (CANARIES[0], CANARIES[1], WITH_ROUTES[2], BLUE_GREENS[0], BLUE_GREENS[1], ANALYSED[0])


def _tapes(*more: str) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    """What happens, with these moves besides."""
    names = [
        st.sampled_from(sorted(PASSES)),
        st.sampled_from(sorted(CONFIGURATION)),
        st.just("all pods are ready"),
        st.just("time passes"),
        st.just("a source is edited, or created"),
        st.sampled_from(sorted({**ENVIRONMENT, **PEOPLE})),
        st.just("pass"),
        *map(st.just, more),
    ]
    return st.lists(st.tuples(st.one_of(names), st.integers(0, 7), st.integers(0, 7)), max_size=60)


TAPES, SECRET_TAPES = _tapes(), _tapes(*OF_SECRETS)


@cache
def _start(number: int, *, from_before: bool, secrets: bool = False) -> World:
    """The first content is rolled out; `from_before` by a version of this program that made no copies."""
    refs = WITH_SECRET if secrets else REFS
    versioning = ConfigVersioning(secrets=secrets)
    there = world(STRATEGIES[number], replicas=2, config_refs=() if from_before else refs, config_versioning=versioning)
    there = settled(source_written(source_written(there, "v1"), "v1", CRED.name))
    return upgraded(there) if from_before else there


ORPHANED_AFTER_AN_EDIT = [
    ("pass", 0, 0),
    ("a source is edited, or created", 1, 0),
    ("crash", 1, 0),
    ("a replica set loses its owner", 0, 0),
]
"""While nobody owns the ReplicaSet, its note of what the pods read is not seen; the update that follows is a true one."""


@MORE
@given(number=st.sampled_from(range(len(STRATEGIES))), from_before=st.booleans(), tape=TAPES)
@example(number=0, from_before=True, tape=ORPHANED_AFTER_AN_EDIT)
def test_any_sequence_of_edits_is_safe_and_comes_to_rest(
    number: int, from_before: bool, tape: list[tuple[str, int, int]]
) -> None:
    """Edits, deletions, reverts, updates, aborts, crashes, lost copies and reads that fail, are slow or out of date."""
    assert_comes_to_rest(played(_start(number, from_before=from_before), tape))


WITHOUT_ITS_CONTENT = [
    ("a replica set is deleted", 0, 0),
    ("pass", 0, 0),
    ("the Secret is rotated, or created", 1, 0),
]
"""The stable revision's ReplicaSet is made again, and the content of its copy is nowhere any more."""


@MORE
@given(number=st.sampled_from(range(len(STRATEGIES))), tape=SECRET_TAPES)
@example(number=0, tape=WITHOUT_ITS_CONTENT)
def test_any_sequence_with_a_secret_is_safe_and_comes_to_rest(number: int, tape: list[tuple[str, int, int]]) -> None:
    """The same for a Rollout that versions a Secret, too: no pod begins before its copy, and no note is a lie."""
    assert_comes_to_rest(played(_start(number, from_before=False, secrets=True), tape))
