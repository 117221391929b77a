"""Promise: a pause lasts as long as was asked for, from its durable start; a held Rollout takes no step and gives no traffic."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Pause, SetWeight
from tests.core.model import World, annotated, snapshot
from tests.core.updates import condition, waiting, waits_for
from tests.core.worlds import edited, later, reconciled, running, settled, sizes

TIMED = Canary(steps=(SetWeight(25), Pause(60), SetWeight(50)))


def _pausing() -> World:
    return settled(edited(running(TIMED), revision="b"), seconds=1)


@pytest.mark.parametrize(("elapsed_s", "index"), [(0, 1), (57, 1), (61, 2), (3600, 2), (-900, 1)])
def test_a_timed_pause_ends_when_its_duration_has_passed(elapsed_s: float, index: int) -> None:
    """Measured from the start of the step, not from the last pass, and without polling. A clock that goes back lengthens it."""
    there = _pausing()

    assert reconciled(later(there, elapsed_s)).status.step_index == index
    wakes_s = decide(snapshot(there)).requeue_at_s
    assert wakes_s == waiting(there).deadline_s == (there.status.step_started_at_s or 0) + 60


def _hold(there: World, how: str) -> World:
    return annotated(there, "pause", "true") if how == "annotation" else edited(there, paused=True)


def test_a_hold_in_the_middle_of_scaling_is_no_failure() -> None:
    """The progress deadline does not run, though pods are missing, and nothing is aborted."""
    strategy = Canary(steps=(SetWeight(75),), max_surge=0, max_unavailable=1)
    there = running(strategy, progress_deadline_s=60, progress_deadline_abort=True)
    there = reconciled(edited(there, revision="b"))

    there = settled(_hold(there, "annotation"), seconds=3600)

    assert there.status.phase is Phase.PAUSED
    assert waits_for(there) is Reason.PAUSED_BY_USER
    assert settled(annotated(there, "pause", None)).status.phase is Phase.HEALTHY


def test_a_held_blue_green_neither_switches_nor_counts_down() -> None:
    """The preview may grow; the active Service stays."""
    there = running(BlueGreen(active_service="cart", auto_promotion_s=30))

    there = settled(_hold(edited(there, revision="b"), "spec"), seconds=3600)

    assert (there.services["cart"].revision, there.status.phase) == ("a", Phase.PAUSED)


def test_an_abort_acts_during_a_hold() -> None:
    """Going back to safety needs no resume."""
    there = annotated(_hold(_pausing(), "spec"), "abort", "b")

    there = settled(there)

    assert (there.status.phase, sizes(there)) == (Phase.ABORTED, {"a": 4})


def test_pause_takes_no_other_value_than_true() -> None:
    """`yes` is not understood, and said so; nothing is held."""
    there = settled(annotated(_pausing(), "pause", "yes"))

    assert there.status.phase is Phase.HEALTHY
    assert condition(there, "InvalidCommand").reason is Reason.COMMAND_INVALID
