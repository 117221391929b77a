"""Promise: whatever comes after a promotion without a verdict, it passes that one analysis, and the update comes to rest."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.frozen import replace
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.measured_runs import UNJUDGED
from tests.core.model import World
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    ANALYSED,
    EVERY,
    TAPES,
    UNHURRIED,
    played,
)
from tests.core.worlds import edited, running, settled


@cache
def measuring(number: int, replicas: int) -> World:
    """The world in which the analyses of an update measure, and say nothing yet; `number` of EVERY."""
    there = edited(replace(running(EVERY[number], replicas=replicas), unmeasured=True), revision="b")
    return replace(settled(there), unmeasured=False)


FIRST = len(EVERY) - len(ANALYSED)


@UNHURRIED
@given(number=st.sampled_from(range(FIRST, len(EVERY))), replicas=st.integers(1, 6), tape=TAPES)
def test_an_update_that_a_person_takes_on_without_a_verdict(
    number: int, replicas: int, tape: list[tuple[str, int, int]]
) -> None:
    """Crashes, stale views, edits, runs that end meanwhile and other commands; the invariants look at every decision."""
    there = measuring(number, replicas)
    waits_for = [each.gate for each in there.status.analyses if each.gate.kind is not AnalysisKind.BACKGROUND]
    named = [f"b@skip-{each.promoted_as}" for each in waits_for]
    skips = [("promote without a verdict", UNJUDGED.index(each), 0) for each in named if each in UNJUDGED]

    assert_comes_to_rest(played(there, [*skips, *tape]))
