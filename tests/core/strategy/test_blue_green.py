"""Promise: the preview grows whole beside the active revision, takes its Service at once, and the old side waits its time.

While the preview's pods start, its Service leads to none; status says so and when tests may begin, and nothing warns. It stays
empty (Argo Rollouts issue 2641 calls that a fault): a test that asks until something answers must not meet the old version.
"""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.config import ConfigVersioning
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.status import Condition, Phase
from tests.core.config_worlds import REFS, source_written
from tests.core.model import World, annotated, snapshot
from tests.core.updates import condition, pods_fail, updating, waiting
from tests.core.worlds import (
    deleting,
    edited,
    later,
    one,
    reconciled,
    running,
    settled,
    sizes,
    slices_caught_up,
    status_wiped,
    steps_of,
)

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


def test_nothing_is_said_of_a_preview_while_its_revision_is_not_known() -> None:
    """The status is lost while somebody deletes the ReplicaSet, and a revision has its name once its ConfigMaps are read."""
    begun = edited(running(MANUAL), config_refs=REFS, config_versioning=ConfigVersioning())
    there = status_wiped(source_written(deleting(begun, "a"), "v1"))

    status = decide(snapshot(there)).status

    assert (status.current_revision, status.active_revision) == ("", "")
    assert "PreviewReady" not in {each.type for each in status.conditions}
    assert status.selector == "app=cart"


def test_preview_replica_count_makes_a_preview_smaller_until_it_is_promoted() -> None:
    """`previewReplicaCount`; the switch waits for every pod."""
    there = _previewed(replace(MANUAL, preview_replica_count=1))
    assert sizes(there) == {"a": 4, "b": 1}

    for after in steps_of(annotated(there, "promote", "b")):
        if after.services["cart"].revision == "b" and there.services["cart"].revision == "a":
            assert one(there, "b").available == 4
        there = after

    assert (there.status.phase, sizes(there)) == (Phase.HEALTHY, {"b": 4})
    assert there.writes.count("SwitchService") == 2, (
        "a selector that flaps breaks connections (argo-rollouts issue 3078)"
    )


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


def _ready(there: World) -> Condition:
    return condition(there, "PreviewReady")


def _starting(strategy: BlueGreen = MANUAL) -> World:
    """Revision b has its ReplicaSet, and no pod of it gets ready."""
    return settled(edited(replace(running(strategy), bad=frozenset("b")), revision="b"), seconds=5)


def test_while_its_pods_start_the_wait_and_the_condition_say_that_the_preview_is_empty() -> None:
    """Whoever opens the preview then gets an error, and reads here that it is no fault. Without one there is no condition."""
    there = _starting()

    assert (_ready(there).status, _ready(there).reason) == (False, Reason.PREVIEW_STARTING)
    assert "Service cart-preview has no ready pod until then" in there.status.message
    assert "PreviewReady" in there.status.message
    assert not any(each.warning for each in there.notices)
    without = _starting(replace(MANUAL, preview_service=None))
    assert "PreviewReady" not in {each.type for each in without.status.conditions}


@pytest.mark.parametrize("count", [None, 1])
def test_tests_begin_when_the_preview_leads_to_the_new_revision_alone(count: int | None) -> None:
    """In every state on the way: True only while the slices show pods of revision b and of no other."""
    there = running(replace(MANUAL, preview_replica_count=count))
    seen = set()
    for each in steps_of(edited(there, revision="b")):
        ready, shown = _ready(each).status, each.services["cart-preview"].ready_by_revision
        if each.status.current_revision == "b" and ready:
            assert {key for key, pods in shown.items() if pods} == {"b"}
        seen.add((each.status.current_revision, ready))

    assert ("b", True) in seen and ("b", False) in seen


def test_a_preview_whose_pods_are_lost_is_not_ready_any_more() -> None:
    """A test that fails then has a reason that it can read."""
    there = updating(MANUAL)
    assert _ready(there).status

    lost = pods_fail(replace(there, bad=frozenset("b")), "b")
    lost = reconciled(slices_caught_up(lost))

    assert not _ready(lost).status


def test_the_gate_says_that_a_revision_is_previewed_only_when_the_preview_leads_to_it() -> None:
    """In every state on the way; and without a preview Service nobody sees the revision before its promotion."""
    for each in steps_of(edited(running(MANUAL), revision="b")):
        if "waiting for promotion" in each.status.message:
            assert ("which is previewed" in each.status.message) is _ready(each).status
    assert "which is previewed" not in updating(replace(MANUAL, preview_service=None)).status.message


def test_after_an_abort_the_preview_is_not_that_of_the_revision() -> None:
    """The Service returns to the stable revision: a test that still waits must not pass with that one."""
    there = settled(annotated(updating(MANUAL), "abort", "true"))

    assert there.status.phase is Phase.ABORTED
    assert (_ready(there).status, _ready(there).reason) == (False, Reason.ROLLOUT_ABORTED)


def _shows(there: World, *, selects: str = "b", **ready: int) -> World:
    """The preview Service selects that revision, its slices show so many ready pods of each, and another pass has seen that."""
    preview = replace(there.services["cart-preview"], revision=selects, ready_by_revision=ready)
    return reconciled(replace(there, services={**there.services, "cart-preview": preview}))


@pytest.mark.parametrize(
    ("there", "reason", "says"),
    [
        (running(MANUAL), Reason.PREVIEW_READY, "leads to revision a alone"),
        (_starting(), Reason.PREVIEW_STARTING, "leads to no other revision than b, whose pods are not all ready"),
        (updating(MANUAL), Reason.PREVIEW_READY, "leads to revision b alone"),
        (_shows(_starting(), b=1), Reason.PREVIEW_STARTING, "whose pods are not all ready"),
        (_shows(updating(MANUAL), b=4, selects=""), Reason.PREVIEW_STARTING, "leads to no other revision than b"),
        (
            settled(annotated(status_wiped(running(MANUAL)), "pause", "true")),
            Reason.PREVIEW_READY,
            "leads to revision a alone",
        ),
        (_shows(updating(MANUAL), b=4, a=0), Reason.PREVIEW_READY, "leads to revision b alone"),
        (
            _shows(updating(MANUAL), b=4, a=1),
            Reason.PREVIEW_STARTING,
            "still leads to other pods than those of revision b",
        ),
        (settled(annotated(updating(MANUAL), "abort", "b")), Reason.ROLLOUT_ABORTED, "returns to the stable revision"),
    ],
    ids=[
        "no update",
        "no pod yet",
        "previewed",
        "one pod",
        "it selects any",
        "its status was lost while it is paused",
        "an empty slice is left",
        "a pod of before is left",
        "aborted",
    ],
)
def test_the_condition_says_what_the_preview_leads_to(there: World, reason: Reason, says: str) -> None:
    """Whoever waits for it reads why it does not hold, by the name of the Service."""
    assert (_ready(there).status, _ready(there).reason) == (reason is Reason.PREVIEW_READY, reason)
    assert "Service cart-preview " in _ready(there).message
    assert says in _ready(there).message


def test_the_preview_stays_ready_while_its_revision_is_promoted() -> None:
    """Tests may go on until they have their answer; no moment of the promotion takes it from them, nor tells them to wait."""
    there = annotated(updating(MANUAL), "promote", "b")
    for each in steps_of(there):
        assert _ready(each).status
        assert "PreviewReady" not in each.status.message


def test_only_a_preview_without_a_pod_is_called_empty() -> None:
    """Neither one whose first pod is ready, nor that of a revision whose tests are over, though its pods fail again."""
    started = _shows(_starting(), b=1)
    promoted = annotated(updating(MANUAL), "promote", "b")
    while not promoted.status.gate_passed:
        promoted = reconciled(promoted)
    failing = reconciled(slices_caught_up(pods_fail(replace(promoted, bad=frozenset("b")), "b")))

    for there in (started, failing):
        assert waiting(there).reason is Reason.PODS_NOT_AVAILABLE
        assert "has no ready pod" not in there.status.message


def test_a_revision_that_skips_its_steps_is_ready_as_soon_as_the_preview_leads_to_it() -> None:
    """A rollback within the window waits for nobody, and the preview leads to it before it serves."""
    there = edited(later(running(MANUAL, rollback_window_revisions=1), 10), revision="b")
    there = settled(annotated(settled(there), "promote", "b"))
    back = [each for each in steps_of(edited(later(there, 10), revision="a")) if each.status.stable_revision == "b"]

    assert back[-1].status.gate_passed
    assert any(_ready(each).status and each.status.current_revision == "a" for each in back)
