"""Promise: while the preview's pods start its Service leads to none, status says so and when tests may begin, and nothing warns.

Argo Rollouts issue 2641 reports the empty Service as a fault. It stays empty: a test that asks until something answers must not
meet the old version.
"""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.status import Condition, Phase
from tests.core.model import World, annotated
from tests.core.updates import condition, pods_fail, updating
from tests.core.worlds import edited, reconciled, running, settled, slices_caught_up, steps_of

MANUAL = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)


def _ready(there: World) -> Condition:
    return condition(there, "PreviewReady")


def _starting(strategy: BlueGreen = MANUAL) -> World:
    """Revision b has its ReplicaSet, and no pod of it gets ready."""
    return settled(edited(replace(running(strategy), bad=frozenset("b")), revision="b"), seconds=5)


def test_while_its_pods_start_the_wait_and_the_condition_say_that_the_preview_is_empty() -> None:
    """Whoever opens the preview then gets an error, and reads here that it is no fault."""
    there = _starting()

    assert (_ready(there).status, _ready(there).reason) == (False, Reason.PREVIEW_STARTING)
    assert "Service cart-preview has no ready pod until then" in there.status.message
    assert "PreviewReady" in there.status.message
    assert not any(each.warning for each in there.notices)


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
    """The Service goes back to the stable revision: a test that still waits must not pass with that one."""
    there = settled(annotated(updating(MANUAL), "abort", "true"))

    assert there.status.phase is Phase.ABORTED
    assert (_ready(there).status, _ready(there).reason) == (False, Reason.ROLLOUT_ABORTED)


def test_without_a_preview_service_there_is_no_such_condition() -> None:
    """There is nothing to wait for, and `kubectl wait` says that the condition is missing."""
    there = _starting(replace(MANUAL, preview_service=None))

    assert "PreviewReady" not in {each.type for each in there.status.conditions}
