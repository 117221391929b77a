"""Promise: whatever one request or the watches suffer in an update with an analysis, it ends as without any fault."""

from __future__ import annotations

import random
from functools import partial

import pytest

from tests.behaviour.analysed import ANALYSED, IN_ANY_LANE, played, undisturbed
from tests.behaviour.branches import each_fault, places
from tests.behaviour.faults.test_a_fault_of_the_api_is_survived import (
    FAULTS,
    HELD_UP_S,
    MORE_REFUSED,
    MORE_WRITES,
    REFUSED_WHILE_BEHIND,
)
from tests.behaviour.stage import Run
from tests.behaviour.troubles import TROUBLES, in_trouble

MEASURED = "PATCH analysisruns/status"
REFUSED_OF_TWO = 2 * REFUSED_WHILE_BEHIND
"""Passes and looks at runs each have a view of their own to be behind."""


def writes(run: Run) -> int:
    """Those that took effect, but for what was measured: an update that is held up is measured for longer."""
    return run.accepted - run.effects[MEASURED]


def assert_as_without(
    run: Run, name: str, where: str, *, refused: int, explained: frozenset[str] = frozenset()
) -> None:
    """The same end, within the invariants, by about as many writes."""
    assert run.end == undisturbed(name).end, where
    assert run.violations == [], where
    assert [each for each in run.unexpected if not any(f'"{error}"' in each for error in explained)] == [], where
    assert writes(run) <= writes(undisturbed(name)) + MORE_WRITES, where
    assert run.refused <= refused, where


@pytest.mark.long
@pytest.mark.parametrize("name", ANALYSED)
def test_a_fault_of_any_one_write_changes_nothing(name: str) -> None:
    """Of a pass and of a look: refused, throttled, failed, lost on the way there or back, or late."""
    for branch in each_fault(partial(played, name, grace_s=HELD_UP_S), places(undisturbed(name), FAULTS)):
        assert_as_without(branch.outcome, name, str(branch), refused=MORE_REFUSED)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", IN_ANY_LANE)
def test_trouble_of_the_watches_changes_nothing(name: str, trouble: str) -> None:
    """Events of runs and of Rollouts late, twice or lost, connections that break, 410, lists from the past."""
    what, rng = TROUBLES[trouble], random.Random(name)  # noqa: S311 - a test's seed
    between, forgets = in_trouble(what, rng)

    run = ANALYSED[name].play(between=between, alongside=forgets, grace_s=what.late_s)

    # These updates take so long that a watch is seen to be in trouble; then the old view is not acted on.
    explained = frozenset({"WatchFailed"}) if what.forget_every_s else what.explained
    assert_as_without(run, name, trouble, refused=REFUSED_OF_TWO, explained=explained)
