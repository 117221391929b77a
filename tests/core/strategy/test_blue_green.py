"""Promise: the preview grows whole beside the active revision, takes its Service at once, and the old side waits its time."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import SwitchService
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.status import Phase
from tests.core.model import World, annotated
from tests.core.updates import pods_fail, waiting
from tests.core.worlds import edited, later, one, reconciled, running, settled, sizes, steps_of

MANUAL = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
TIMED = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_s=30)


def _selects(there: World) -> tuple[str, str]:
    return there.services["cart"].revision, there.services["cart-preview"].revision


def _previewed(strategy: BlueGreen) -> World:
    return settled(edited(running(strategy), revision="b"), seconds=5)


def test_a_new_revision_is_previewed_beside_the_active_one() -> None:
    """All its pods, its own Service, and none of the users' traffic. An autoscaler measures the pods that serve."""
    there = _previewed(MANUAL)

    assert (_selects(there), sizes(there), there.status.phase) == (("a", "b"), {"a": 4, "b": 4}, Phase.PAUSED)
    assert (there.status.replicas, there.status.available_replicas) == (4, 4)
    assert there.status.selector == "app=cart,rollouts.dev/revision=a"


def test_preview_replica_count_makes_a_preview_smaller_until_it_is_promoted() -> None:
    """`previewReplicaCount`; the switch waits for every pod."""
    there = _previewed(replace(MANUAL, preview_replica_count=1))
    assert sizes(there) == {"a": 4, "b": 1}

    for after in steps_of(annotated(there, "promote", "b")):
        if after.services["cart"].revision == "b" and there.services["cart"].revision == "a":
            assert one(there, "b").available == 4
        there = after

    assert (there.status.phase, sizes(there)) == (Phase.HEALTHY, {"b": 4})


@pytest.mark.parametrize(("elapsed_s", "active"), [(20, "a"), (31, "b")])
def test_auto_promotion_seconds_promote_it_by_time(elapsed_s: float, active: str) -> None:
    """`autoPromotionSeconds`, counted from the moment the preview was available."""
    there = settled(_previewed(TIMED), seconds=elapsed_s)

    assert there.services["cart"].revision == active


def test_scale_down_delay_revision_limit_lets_only_so_many_old_sides_wait() -> None:
    """`scaleDownDelayRevisionLimit`."""
    strategy = replace(TIMED, auto_promotion_s=0.0, scale_down_delay_s=1000, scale_down_delay_revision_limit=1)
    there = running(strategy)
    for revision in ("b", "c"):
        there = settled(later(edited(there, revision=revision), 1), seconds=20)

    assert sizes(there) == {"b": 4, "c": 4}


def test_an_abort_of_a_preview_leaves_the_active_side_alone() -> None:
    """And the preview goes after `abortScaleDownDelaySeconds`, its Service back on the stable revision."""
    there = settled(annotated(_previewed(MANUAL), "abort", "b"), seconds=20)
    assert sizes(there) == {"a": 4, "b": 4}

    there = settled(there)

    assert (_selects(there), sizes(there), there.status.phase) == (("a", "a"), {"a": 4}, Phase.ABORTED)


def test_an_abort_after_the_switch_takes_the_service_back_at_once() -> None:
    """The old side is whole until the promotion, so one write brings it back."""
    there = annotated(_previewed(MANUAL), "promote", "b")
    while there.services["cart"].revision == "a":
        there = reconciled(there)
    assert there.status.stable_revision == "a"

    there = reconciled(annotated(there, "abort", "b"))
    there = reconciled(there)

    assert there.services["cart"].revision == "a"
    assert settled(there).status.phase is Phase.ABORTED


def test_each_service_is_pointed_once() -> None:
    """A selector that flaps breaks connections (argo-rollouts issue 3078)."""
    there = edited(running(MANUAL), revision="b")
    there = settled(annotated(settled(there), "promote", "b"))

    assert there.writes.count(SwitchService.__name__) == 2


@pytest.mark.parametrize("by_itself", [True, False])
def test_old_pods_that_are_ready_outlive_their_delay_while_the_promoted_revision_has_failed(by_itself: bool) -> None:
    """They are all that could serve; a clock alone takes no capacity away. Status says why, and how to go back, at once."""
    strategy = BlueGreen(active_service="cart", scale_down_delay_s=30, auto_promotion_enabled=by_itself)
    there = edited(later(running(strategy, replicas=3), 10), revision="b")
    there = settled(annotated(there, "promote", "b"), seconds=10)
    assert (there.status.stable_revision, sizes(there)) == ("b", {"a": 3, "b": 3})
    there = pods_fail(replace(there, bad=frozenset("b")), "b")

    there = settled(there, seconds=120)
    assert sizes(there) == {"a": 3, "b": 3}
    assert "revision a keeps its 3 pods" in waiting(there).message
    assert "rollback" in waiting(there).message

    back = settled(annotated(there, "rollback", "true"), seconds=5)
    assert back.services["cart"].revision == "a"

    well = settled(replace(there, bad=frozenset()))
    assert (well.status.phase, sizes(well)) == (Phase.HEALTHY, {"b": 3})
