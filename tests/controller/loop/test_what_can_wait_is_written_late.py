"""Counts in status cost a write each, so they wait for one another; but never for ever, and not longer than there is a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.controller.loop.deferred import (
    COUNTERS_DEFERRED_S,
    CROWDED_MAX_S,
    HELD_MAX_S,
    HELD_WRITES_PER_S,
    DeferredStatus,
)
from rollouts.core.model.status import RolloutStatus
from rollouts.objects import Key
from tests.cluster.tables import HandClock

CART = Key("shop", "cart")


@pytest.fixture
def clock() -> HandClock:
    """Stands still until it is told to go on."""
    return HandClock()


@pytest.fixture
def deferred(clock: HandClock) -> DeferredStatus:
    """Nothing waits yet."""
    return DeferredStatus(clock=clock)


def test_a_count_is_due_when_its_patience_is_over(clock: HandClock, deferred: DeferredStatus) -> None:
    """A lasting difference reaches people within the patience, from when it was first seen."""
    assert deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S) == COUNTERS_DEFERRED_S

    clock.at_s += COUNTERS_DEFERRED_S - 1
    assert deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S) == 1
    clock.at_s += 1
    assert deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S) == 0


@pytest.mark.parametrize("happens", [DeferredStatus.acted, DeferredStatus.forget], ids=["an act", "a write"])
def test_what_comes_after_an_act_or_a_write_has_all_of_its_patience(
    happens: Callable[[DeferredStatus, Key], None], clock: HandClock, deferred: DeferredStatus
) -> None:
    """Between two acts of one update the counts change again within moments; what is written is forgotten."""
    deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S)

    clock.at_s += COUNTERS_DEFERRED_S - 1
    happens(deferred, CART)

    assert deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S) == COUNTERS_DEFERRED_S


def test_a_rollout_that_never_rests_is_written_all_the_same(clock: HandClock, deferred: DeferredStatus) -> None:
    """An autoscaler that changes its mind every second must not hide the counts for ever."""
    for _ in range(int(HELD_MAX_S)):
        assert deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S) > 0
        clock.at_s += 1
        deferred.acted(CART)

    assert deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S) == 0


@pytest.mark.parametrize(
    ("others", "wait_s"), [(0, COUNTERS_DEFERRED_S), (199, 200 / HELD_WRITES_PER_S), (10_000, CROWDED_MAX_S)]
)
def test_counts_of_many_rollouts_share_a_budget(others: int, wait_s: float, deferred: DeferredStatus) -> None:
    """When a thousand Rollouts move at once, their counts must not take the API server's time from their pods."""
    for number in range(others):
        deferred.wait_s(Key("shop", f"other-{number}"), patience_s=COUNTERS_DEFERRED_S)

    assert deferred.wait_s(CART, patience_s=COUNTERS_DEFERRED_S) == wait_s


def test_what_waits_to_be_written_is_not_forgotten_by_the_next_pass(deferred: DeferredStatus) -> None:
    """The progress deadline is judged by it: it would run from the last write, long before the last pod became ready."""
    read, decided = RolloutStatus(updated_replicas=1), RolloutStatus(updated_replicas=2, progressed_at_s=7.0)
    assert deferred.last_decided(CART, read) is read

    deferred.keep(CART, read, decided)

    assert deferred.last_decided(CART, RolloutStatus(updated_replicas=1)) is decided


@pytest.mark.parametrize("change", ["written", "edited"])
def test_what_was_decided_on_another_status_is_forgotten(change: str, deferred: DeferredStatus) -> None:
    """Once it is written, or somebody else writes the status, what is there holds."""
    read, decided = RolloutStatus(updated_replicas=1), RolloutStatus(updated_replicas=2)
    deferred.keep(CART, read, decided)

    if change == "written":
        deferred.forget(CART)
    else:
        read = RolloutStatus(updated_replicas=1, restarted_at_s=7.0)

    assert deferred.last_decided(CART, read) is read
