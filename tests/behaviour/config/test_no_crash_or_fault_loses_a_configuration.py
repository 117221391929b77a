"""Promise: wherever the controller dies and whatever one write suffers, pods answer as without it, and every copy is there.

`ROLLOUTS_DEEP=1` plays all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import pytest

from rollouts.sim.faults import (
    Conflict,
    DropReply,
    DropRequest,
    Fault,
    FaultTape,
    Slow,
    Unavailable,
)
from tests.behaviour.branches import CRASHES, DEEP, distinct, each_fault, places
from tests.behaviour.configured import CONFIGURED, MANIFESTS, watched
from tests.behaviour.stage import AT_ONCE_S, Run, play

FAULTS = distinct(Conflict(), Unavailable(500), DropRequest(), DropReply(), Slow(3.0))
HELD_UP_S = 4.0  # the longest of them, and the back-off after it


def played(name: str, grace_s: float, tape: FaultTape | None = None) -> Run:
    """The scenario, with or without a fault."""
    return play(MANIFESTS, CONFIGURED[name], tape=tape, grace_s=grace_s, alongside=watched())


@cache
def undisturbed(name: str) -> Run:
    """The scenario without any fault."""
    return played(name, AT_ONCE_S)


def assert_as_without(name: str, faults: Sequence[Fault], *, grace_s: float) -> None:
    """The same end, within the invariants, whichever write meets one of the faults."""
    without = undisturbed(name)

    for branch in each_fault(partial(played, name, grace_s), places(without, faults)):
        run, where = branch.outcome, str(branch)
        assert run.violations == [], where
        assert run.unexpected == [], where
        assert run.end == without.end, where


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGURED)
def test_a_crash_at_any_write_ends_as_without(name: str) -> None:
    """Before and after each copy, each ReplicaSet that names one, each status: who comes next does the rest."""
    assert_as_without(name, CRASHES, grace_s=AT_ONCE_S)


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGURED if DEEP else ["edited", "reverted"])
def test_a_fault_of_any_one_write_changes_nothing(name: str) -> None:
    """Refused, failed, lost on the way there or back, or late."""
    assert_as_without(name, FAULTS, grace_s=HELD_UP_S)
