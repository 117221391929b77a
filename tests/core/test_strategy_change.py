"""Promise: the strategy and its steps may change at any time; the pods that serve go on serving."""

from __future__ import annotations

import pytest

from rollouts.core.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.status import Phase
from rollouts.core.steps import PauseUntilPromoted, SetWeight
from tests.core.model import annotated
from tests.core.worlds import edited, running, settled, sizes, steps_of

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()), stable_service="cart")
GREEN = BlueGreen(active_service="cart", auto_promotion_enabled=False)
ROUTED = Canary(steps=(SetWeight(50), PauseUntilPromoted()), traffic_routing=TrafficRouting())
PAIRS = pytest.mark.parametrize(
    ("before", "after"), [(CANARY, GREEN), (GREEN, CANARY), (CANARY, ROUTED), (ROUTED, GREEN), (GREEN, ROUTED)]
)


@PAIRS
def test_a_finished_rollout_changes_nothing_but_its_memory(before: Strategy, after: Strategy) -> None:
    """No pod is replaced because somebody wants the next update done otherwise."""
    there = running(before)
    uids = {pod.uid for pod in there.pods}

    there = settled(edited(there, strategy=after))

    assert (there.status.phase, {pod.uid for pod in there.pods}) == (Phase.HEALTHY, uids)


@PAIRS
def test_an_update_under_way_starts_over_in_the_new_strategy(before: Strategy, after: Strategy) -> None:
    """And is finished in it, with enough pods all the time."""
    there = settled(edited(running(before), revision="b"))

    for each in steps_of(edited(there, strategy=after)):
        assert sum(pod.ready for pod in each.pods) >= 3
        there = each
    assert there.status.phase is Phase.PAUSED

    there = settled(annotated(there, "promote", "b@full"))
    assert (there.status.phase, there.status.stable_revision, sizes(there)) == (Phase.HEALTHY, "b", {"b": 4})


def test_other_steps_in_the_middle_of_an_update_start_from_the_first() -> None:
    """An index into steps that are gone means nothing."""
    there = settled(edited(running(CANARY), revision="b"))
    assert there.status.step_index == 1

    there = settled(edited(there, strategy=Canary(steps=(PauseUntilPromoted(), SetWeight(50)), stable_service="cart")))

    assert (there.status.step_index, there.status.weight_percent, sizes(there)) == (0, 0, {"a": 4})


def test_other_steps_do_not_start_a_finished_rollout_again() -> None:
    """There is nothing to roll out."""
    there = settled(edited(running(CANARY), strategy=Canary(steps=(SetWeight(10), PauseUntilPromoted()))))

    assert (there.status.phase, there.status.step_index) == (Phase.HEALTHY, 2)
    assert there.status.finished_at_s is not None
