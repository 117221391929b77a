"""Promise: a lost status costs steps, never pods that serve: what was stable is read from what is there."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import annotated
from tests.core.updates import updating
from tests.core.worlds import edited, reconciled, running, settled, sizes, status_wiped, steps_of

STEPS = (SetWeight(25), PauseUntilPromoted())
EVERY = pytest.mark.parametrize(
    "strategy",
    [
        Canary(steps=STEPS),
        Canary(steps=STEPS, stable_service="cart", canary_service="cart-canary"),
        Canary(steps=STEPS, traffic_routing=TrafficRouting()),
        BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False),
    ],
)


@EVERY
def test_a_finished_rollout_is_healthy_again_without_a_pod_moved(strategy: Strategy) -> None:
    """Backup and restore, or a hand that replaced the object."""
    there = running(strategy)
    uids = {pod.uid for pod in there.pods}

    there = settled(status_wiped(there))

    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "a")
    assert {pod.uid for pod in there.pods} == uids


@EVERY
def test_an_update_under_way_begins_again_from_the_revision_that_served(strategy: Strategy) -> None:
    """The new one is not promoted for want of memory."""
    there = updating(strategy)
    before = sizes(there)

    for after in steps_of(status_wiped(there)):
        assert sum(pod.ready for pod in after.pods) >= 3
        there = after

    assert (there.status.stable_revision, there.status.current_revision) == ("a", "b")
    assert (there.status.phase, sizes(there)) == (Phase.PAUSED, before)
    assert settled(annotated(there, "promote", "b@full")).status.phase is Phase.HEALTHY


@EVERY
@pytest.mark.parametrize("writes", range(5))
def test_a_crash_at_any_write_of_an_update_ends_in_the_same_place(strategy: Strategy, writes: int) -> None:
    """Sieve's intermediate states: the only memory is the API."""
    whole = settled(annotated(updating(strategy), "promote", "b@full"))

    there = annotated(edited(running(strategy), revision="b"), "promote", "b@full")
    for _ in range(4):
        there = reconciled(there, writes=writes)
        there = settled(there, seconds=0)
        there = reconciled(there, writes=writes)
    there = settled(there)

    assert (there.status.phase, sizes(there)) == (whole.status.phase, sizes(whole))
    assert {name: each.revision for name, each in there.services.items()} == {
        name: each.revision for name, each in whole.services.items()
    }


def test_revision_numbers_go_on_counting() -> None:
    """They are annotations of the ReplicaSets; people name revisions by them."""
    there = updating(Canary())

    there = settled(edited(status_wiped(there), revision="c"))

    assert there.status.revision_number == 3


@EVERY
def test_a_stable_revision_that_cannot_be_read_is_taken_from_the_history(strategy: Strategy) -> None:
    """Without it the Rollout would look like a first deployment, which has no steps, and the canary would be promoted."""
    there = updating(strategy)

    there = settled(replace(there, status=replace(there.status, stable_revision="")))

    assert (there.status.stable_revision, there.status.phase) == ("a", Phase.PAUSED)
