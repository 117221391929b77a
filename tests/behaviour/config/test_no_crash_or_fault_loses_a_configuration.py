"""Promise: wherever the controller dies and whatever one write suffers, pods answer as without it, and every copy is there.

`ROLLOUTS_DEEP=1` plays all of them.
"""

from __future__ import annotations

from functools import cache

import pytest

from rollouts.sim.faults import (
    Conflict,
    CrashAfter,
    CrashBefore,
    DropReply,
    DropRequest,
    Fault,
    Slow,
    Unavailable,
)
from tests.behaviour.branches import DEEP, distinct, each_fault, places
from tests.behaviour.configured import CONFIGURED, MANIFESTS, watched
from tests.behaviour.stage import Run, play

CRASHES: dict[str, Fault] = {"before": CrashBefore(), "after": CrashAfter()}
FAULTS = distinct(
    {
        "conflict": Conflict(),
        "500": Unavailable(500),
        "lost request": DropRequest(),
        "lost reply": DropReply(),
        "slow": Slow(3.0),
    }
)
HELD_UP_S = 4.0  # the longest of them, and the back-off after it


@cache
def undisturbed(name: str) -> Run:
    """The scenario without any fault."""
    return play(MANIFESTS, CONFIGURED[name], alongside=watched())


def assert_as_without(name: str, fault: Fault, *, grace_s: float) -> None:
    """The same end, within the invariants, whichever write meets the fault."""
    without = undisturbed(name)

    for branch in each_fault(
        lambda tape: play(MANIFESTS, CONFIGURED[name], tape=tape, grace_s=grace_s, alongside=watched()),
        fault,
        places=places(without, fault),
    ):
        run, where = branch.outcome, f"{fault} at write {branch.place}"
        assert run.violations == [], where
        assert run.unexpected == [], where
        assert run.end == without.end, where


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("name", CONFIGURED)
def test_a_crash_at_any_write_ends_as_without(name: str, crash: str) -> None:
    """Before and after each copy, each ReplicaSet that names one, each status: who comes next does the rest."""
    assert_as_without(name, CRASHES[crash], grace_s=0.001)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", CONFIGURED if DEEP else ["edited", "reverted"])
def test_a_fault_of_any_one_write_changes_nothing(name: str, fault: str) -> None:
    """Refused, failed, lost on the way there or back, or late."""
    assert_as_without(name, FAULTS[fault], grace_s=HELD_UP_S)
