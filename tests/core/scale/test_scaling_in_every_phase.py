"""Promise: people and autoscalers may change `replicas` at any time, and every phase follows without losing its place."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated
from tests.core.updates import updating
from tests.core.worlds import edited, running, settled, sizes, steps_of

STEPS = (SetWeight(50), PauseUntilPromoted())
RATIO = Canary(steps=STEPS)
ROUTED = Canary(steps=STEPS, traffic_routing=TrafficRouting())
PREVIEW = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)


@pytest.mark.parametrize(
    ("strategy", "at_4", "at_7", "at_2"),
    [
        (RATIO, {"a": 2, "b": 2}, {"a": 4, "b": 4}, {"a": 1, "b": 1}),
        (ROUTED, {"a": 4, "b": 2}, {"a": 7, "b": 4}, {"a": 2, "b": 1}),
        (PREVIEW, {"a": 4, "b": 4}, {"a": 7, "b": 7}, {"a": 2, "b": 2}),
    ],
)
def test_both_sides_follow_at_a_gate(
    strategy: Strategy, at_4: dict[str, int], at_7: dict[str, int], at_2: dict[str, int]
) -> None:
    """4 → 7 → 2 in the middle of a step, which stays what it was."""
    there = updating(strategy)
    assert sizes(there) == at_4
    for replicas, wanted in ((7, at_7), (2, at_2), (4, at_4)):
        step = there.status.step_index
        there = settled(edited(there, replicas=replicas))
        assert (sizes(there), there.status.step_index, there.status.phase) == (wanted, step, Phase.PAUSED)


@pytest.mark.parametrize("how", ["spec", "annotation"])
def test_an_autoscaler_acts_during_a_hold(how: str) -> None:
    """Argo Rollouts issue 4261: a paused canary did not scale at all."""
    there = updating(RATIO)
    there = annotated(there, "pause", "true") if how == "annotation" else edited(there, paused=True)

    there = settled(edited(there, replicas=8), seconds=60)

    assert sum(sizes(there).values()) == 8
    assert there.status.phase is Phase.PAUSED


@pytest.mark.parametrize("strategy", [RATIO, ROUTED, PREVIEW])
def test_p15_an_autoscaler_in_the_middle_of_an_update_never_empties_the_stable_side(strategy: Strategy) -> None:
    """Argo Rollouts issue 1415: an event of the autoscaler scaled stable to zero."""
    there = updating(strategy, replicas=5)
    for replicas in (6, 1, 3, 10, 2):
        for after in steps_of(edited(there, replicas=replicas)):
            assert sizes(after)["a"] >= 1
            there = after


@pytest.mark.parametrize("strategy", [RATIO, ROUTED, PREVIEW])
def test_scaling_acts_after_an_abort(strategy: Strategy) -> None:
    """The stable side serves, so it scales."""
    there = settled(annotated(updating(strategy), "abort", "b"))

    there = settled(edited(there, replicas=9))

    assert (sizes(there), there.status.phase) == ({"a": 9}, Phase.ABORTED)


@pytest.mark.parametrize("strategy", [RATIO, ROUTED, PREVIEW])
def test_zero_replicas_and_back(strategy: Strategy) -> None:
    """A Rollout switched off overnight is Healthy, updates while off, and comes back at its newest revision."""
    there = settled(edited(running(strategy), replicas=0))
    assert (sizes(there), there.status.phase) == ({}, Phase.HEALTHY)
    there = settled(annotated(settled(edited(there, revision="b")), "promote", "b@full"))

    there = settled(edited(there, replicas=3))

    assert (sizes(there), there.status.phase, there.status.stable_revision) == ({"b": 3}, Phase.HEALTHY, "b")


def test_the_end_of_a_long_update_counts_the_replicas_of_that_moment() -> None:
    """Scaled while the last pods come."""
    there = edited(running(replace(RATIO, steps=())), revision="b")
    there = _some_rounds(there, 3)

    there = settled(edited(there, replicas=6))

    assert (sizes(there), there.status.phase) == ({"b": 6}, Phase.HEALTHY)


def _some_rounds(there: World, count: int) -> World:
    for _, after in zip(range(count), steps_of(there), strict=False):
        there = after
    return there
