"""Promise: what should move and does not is told after `progressDeadlineSeconds`, aborted on request; a pause does not count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rollouts.core.reasons import Reason
from rollouts.core.rollout import BlueGreen, Canary, Strategy
from rollouts.core.status import Phase
from rollouts.core.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World
from tests.core.worlds import (
    edited,
    later,
    pods_ready,
    pods_unready,
    reconciled,
    replica_sets_caught_up,
    running,
    settled,
    sizes,
)

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
BLUE_GREEN = BlueGreen(active_service="cart", preview_service="cart-preview")


def _bad_update(strategy: Strategy, *, abort: bool) -> World:
    there = running(strategy, progress_deadline_s=100, progress_deadline_abort=abort)
    return edited(replace(there, bad=frozenset("b")), revision="b")


@pytest.mark.parametrize("strategy", [CANARY, BLUE_GREEN])
def test_a_revision_whose_pods_never_come_is_degraded_and_says_why(strategy: Strategy) -> None:
    """Phase, conditions and an Event; the running revision stays whole."""
    there = settled(_bad_update(strategy, abort=False), seconds=99)
    assert there.status.phase is Phase.PROGRESSING

    there = settled(there, seconds=10)

    assert there.status.phase is Phase.DEGRADED
    conditions = {each.type: each for each in there.status.conditions}
    assert conditions["Progressing"].reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    assert conditions["Stalled"].status
    assert [each.reason for each in there.notices].count(Reason.PROGRESS_DEADLINE_EXCEEDED) == 1
    assert sizes(there)["a"] >= 3


@pytest.mark.parametrize("strategy", [CANARY, BLUE_GREEN])
def test_with_progress_deadline_abort_it_is_aborted(strategy: Strategy) -> None:
    """`progressDeadlineAbort`."""
    there = settled(_bad_update(strategy, abort=True))

    assert (there.status.phase, sizes(there)) == (Phase.ABORTED, {"a": 4})
    assert there.status.abort is not None
    assert there.status.abort.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_a_preview_of_which_a_part_is_available_is_aborted_too() -> None:
    """Blue-green's status counts the active side; the pods that the preview has must not hide those it lacks."""
    there = running(BLUE_GREEN, progress_deadline_s=100, progress_deadline_abort=True)
    there = replica_sets_caught_up(reconciled(edited(there, revision="b")))
    there = replace(replica_sets_caught_up(pods_ready(there, limit=2)), bad=frozenset("b"))

    assert settled(there).status.phase is Phase.ABORTED


def test_it_recovers_by_itself_when_the_pods_come_after_all() -> None:
    """Degraded is a state of health, not of the update."""
    there = settled(_bad_update(CANARY, abort=False), seconds=200)

    there = settled(replace(there, bad=frozenset()))

    assert (there.status.phase, there.status.step_index) == (Phase.PAUSED, 1)


def test_every_pod_that_becomes_available_starts_the_deadline_anew() -> None:
    """Slow is not stuck."""
    there = running(Canary(steps=()), replicas=4, progress_deadline_s=100, progress_deadline_abort=True)
    there = replica_sets_caught_up(reconciled(edited(replace(there, bad=frozenset("b")), revision="b")))
    for _ in range(12):
        there = replace(later(there, 90), bad=frozenset())
        there = replace(replica_sets_caught_up(pods_ready(there, limit=1)), bad=frozenset("b"))
        for _ in range(3):
            there = replica_sets_caught_up(reconciled(there))
        assert there.status.phase in (Phase.PROGRESSING, Phase.HEALTHY)

    assert there.status.phase is Phase.HEALTHY


@pytest.mark.parametrize("pause_s", [1_000.0])
def test_a_manual_gate_has_no_deadline(pause_s: float) -> None:
    """People may sleep."""
    there = running(CANARY, progress_deadline_s=100, progress_deadline_abort=True)

    there = settled(edited(there, revision="b"), seconds=pause_s)

    assert there.status.phase is Phase.PAUSED


def test_a_finished_rollout_that_loses_its_pods_is_degraded_and_not_aborted() -> None:
    """There is nothing to go back to."""
    there = running(CANARY, progress_deadline_s=100, progress_deadline_abort=True)
    there = replica_sets_caught_up(pods_unready(replace(there, bad=frozenset("a")), "a"))

    there = settled(there, seconds=300)

    assert (there.status.phase, there.status.abort) == (Phase.DEGRADED, None)
