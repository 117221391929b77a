"""Promise: the strategy and its steps may change at any time; the pods that serve go on serving."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import world
from tests.core.updates import updating
from tests.core.worlds import edited, running, settled, sizes

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


def test_other_steps_in_the_middle_of_an_update_start_from_the_first() -> None:
    """An index into steps that are gone means nothing."""
    there = updating(CANARY)
    assert there.status.step_index == 1

    there = settled(edited(there, strategy=Canary(steps=(PauseUntilPromoted(), SetWeight(50)), stable_service="cart")))

    assert (there.status.step_index, there.status.weight_percent, sizes(there)) == (0, 0, {"a": 4})


def test_other_steps_do_not_start_a_finished_rollout_again() -> None:
    """There is nothing to roll out."""
    there = settled(edited(running(CANARY), strategy=Canary(steps=(SetWeight(10), PauseUntilPromoted()))))

    assert (there.status.phase, there.status.step_index) == (Phase.HEALTHY, 2)
    assert there.status.finished_at_s is not None


def test_other_steps_do_not_hold_the_first_revision() -> None:
    """Nothing serves yet that steps could protect, so it skips the new ones too."""
    there = replace(world(CANARY), bad=frozenset("a"))
    there = settled(
        edited(settled(there, seconds=60), strategy=replace(CANARY, steps=(PauseUntilPromoted(), SetWeight(50))))
    )

    there = settled(replace(there, bad=frozenset()))

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "a")
