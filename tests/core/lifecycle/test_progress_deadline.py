"""Promise: what should move and does not is told after `progressDeadlineSeconds`, aborted on request; a pause does not count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World
from tests.core.updates import TIMED, pods_fail, routed, waiting
from tests.core.worlds import (
    edited,
    pods_ready,
    reconciled,
    replica_sets_caught_up,
    running,
    settled,
    sizes,
    slices_caught_up,
)

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
BLUE_GREEN = BlueGreen(active_service="cart", preview_service="cart-preview")


def _bad_update(strategy: Strategy, *, abort: bool) -> World:
    there = running(strategy, progress_deadline_s=100, progress_deadline_abort=abort)
    return edited(replace(there, bad=frozenset("b")), revision="b")


@pytest.mark.parametrize("strategy", [CANARY, BLUE_GREEN])
def test_after_progress_deadline_seconds_a_revision_whose_pods_never_come_is_degraded_and_says_why(
    strategy: Strategy,
) -> None:
    """Phase, conditions and an Event; the running revision stays whole. With `progressDeadlineAbort` it is aborted."""
    there = settled(_bad_update(strategy, abort=False), seconds=99)
    assert there.status.phase is Phase.PROGRESSING

    there = settled(there, seconds=10)

    assert there.status.phase is Phase.DEGRADED
    conditions = {each.type: each for each in there.status.conditions}
    assert conditions["Progressing"].reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    assert conditions["Stalled"].status
    assert [each.reason for each in there.notices].count(Reason.PROGRESS_DEADLINE_EXCEEDED) == 1
    assert sizes(there)["a"] >= 3

    there = settled(_bad_update(strategy, abort=True))
    assert (there.status.phase, sizes(there)) == (Phase.ABORTED, {"a": 4})
    assert there.status.abort is not None and there.status.abort.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_a_manual_gate_has_no_deadline() -> None:
    """People may sleep."""
    there = running(CANARY, progress_deadline_s=100, progress_deadline_abort=True)

    there = settled(edited(there, revision="b"), seconds=1_000)

    assert there.status.phase is Phase.PAUSED


def test_a_finished_rollout_that_loses_its_pods_is_degraded_and_not_aborted() -> None:
    """There is nothing to go back to."""
    there = running(CANARY, progress_deadline_s=100, progress_deadline_abort=True)
    there = pods_fail(replace(there, bad=frozenset("a")), "a")

    there = settled(there, seconds=300)

    assert (there.status.phase, there.status.abort) == (Phase.DEGRADED, None)


SLOW = (
    Canary(steps=()),
    Canary(steps=(), max_surge=1, max_unavailable=0),
    Canary(steps=(), max_surge=0, max_unavailable=1, stable_service="cart"),
    Canary(steps=(SetWeight(25), SetWeight(50), SetWeight(75))),
    Canary(steps=(SetWeight(50),), traffic_routing=TrafficRouting()),
    BLUE_GREEN,
    BlueGreen(active_service="cart", preview_service="cart-preview", preview_replica_count=1),
)
DEADLINE_S = 5.0
TICK_S = 0.5
UPDATES = given(
    strategy=st.sampled_from(SLOW),
    replicas=st.integers(1, 6),
    gaps_s=st.lists(st.floats(0.1, DEADLINE_S - TICK_S), min_size=12, max_size=12),
    forgotten=st.sets(st.integers(0, 11)),
    written=st.sets(st.integers(0, 11)),
)


def _begun(strategy: Strategy, replicas: int) -> World:
    """An update that has just begun, whose pods become ready one at a time and by hand, and whose counts are held back."""
    there = running(strategy, replicas=replicas, progress_deadline_s=DEADLINE_S, progress_deadline_abort=True)
    return _passes(edited(replace(there, bad=frozenset("b"), patient=True), revision="b"))


def _passes(there: World) -> World:
    """Passes and all that happens by itself, until both have nothing more to do now."""
    for _ in range(30):
        after = slices_caught_up(replica_sets_caught_up(reconciled(there)))
        if after == there:
            return there
        there = after
    raise AssertionError(f"no end: {there.status}")


def _waited(there: World, seconds: float) -> World:
    """Time passes, with a pass each half second and one at the end."""
    until_s = there.now_s + seconds
    while there.now_s < until_s:
        there = _passes(replace(there, now_s=min(until_s, there.now_s + TICK_S)))
    return there


def _one_more_ready(there: World, *, forgotten: bool = False, written: bool = False) -> World:
    """A pod becomes ready, after what was held back of the counts was forgotten or written."""
    there = replace(there, held=None) if forgotten else there
    there = replace(reconciled(replace(there, patient=False)), patient=True) if written else there
    after = pods_ready(replace(there, bad=frozenset()), limit=1)
    return _passes(replica_sets_caught_up(replace(after, bad=frozenset("b"))))


@pytest.mark.long
@UPDATES
@settings(max_examples=60, deadline=None)
def test_an_update_is_not_aborted_while_pods_become_ready_within_the_deadline(
    strategy: Strategy, replicas: int, gaps_s: list[float], forgotten: set[int], written: set[int]
) -> None:
    """Whatever of the counts was written, held back or forgotten by a restart: a shrink must not hide what has grown."""
    there = _begun(strategy, replicas)
    for number, gap_s in enumerate(gaps_s):
        there = _one_more_ready(_waited(there, gap_s), forgotten=number in forgotten, written=number in written)

        assert there.status.abort is None, there.status.abort


@UPDATES
@settings(max_examples=60, deadline=None)
def test_an_update_is_aborted_when_the_deadline_has_passed_since_the_last_pod_became_ready(
    strategy: Strategy, replicas: int, gaps_s: list[float], forgotten: set[int], written: set[int]
) -> None:
    """No later, though the counts are held back: the deadline runs from what was seen, not from what was written."""
    del forgotten
    there = _begun(strategy, replicas)
    moved_s = there.now_s
    for number, gap_s in enumerate(gaps_s[: max(0, replicas - 1)]):
        there = _waited(there, gap_s)
        there, moved_s = _one_more_ready(there, written=number in written), there.now_s
    if there.status.current_revision == there.status.stable_revision:
        return

    there = _waited(there, moved_s + DEADLINE_S - 0.001 - there.now_s)
    assert there.status.abort is None
    there = _waited(there, TICK_S)

    assert there.status.abort is not None
    assert there.status.abort.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_a_wait_that_knows_its_end_is_given_until_then() -> None:
    """A router's settle time may be longer than the deadline; status says when it is over."""
    strategy = routed(SetWeight(50), PauseUntilPromoted(), by=(TIMED,))
    there = running(strategy, progress_deadline_s=100, progress_deadline_abort=True)
    there = replace(there, routes={TIMED: replace(there.routes[TIMED], settle_s=300.0)})

    there = settled(edited(there, revision="b"), seconds=290)
    assert (there.status.phase, waiting(there).reason) == (Phase.PROGRESSING, Reason.TRAFFIC_SWITCHING)

    assert settled(there, seconds=20).status.phase is Phase.PAUSED
