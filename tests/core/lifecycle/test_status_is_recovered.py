"""Promise: a status, or an owner of ReplicaSets, that is lost costs steps, never pods that serve: what is there is read.

ReplicaSets that nobody controls are adopted before anything else is decided; a stranger's is left alone and told.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.snapshot import OrphanedReplicaSet
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, snapshot
from tests.core.updates import condition, updating
from tests.core.worlds import applied_again, edited, reconciled, running, settled, sizes, status_wiped, steps_of

STEPS = Canary(steps=(SetWeight(25), PauseUntilPromoted()))
SERVICES = replace(STEPS, stable_service="cart", canary_service="cart-canary")
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
EVERY = pytest.mark.parametrize("strategy", [STEPS, SERVICES, replace(STEPS, traffic_routing=TrafficRouting()), GREEN])


LOST = pytest.mark.parametrize("lost", [status_wiped, applied_again], ids=["the status", "the object"])
"""Backup and restore, or a hand that replaced the object; `kubectl delete --cascade=orphan` and `kubectl apply`."""


@LOST
@EVERY
def test_a_finished_rollout_is_healthy_again_without_a_pod_moved(
    strategy: Strategy, lost: Callable[[World], World]
) -> None:
    """Its status is what it was: finished, no update."""
    there = running(strategy)
    pods = there.pods

    there = settled(lost(there))

    assert (there.pods, there.orphaned) == (pods, frozenset())
    assert (there.status.phase, there.status.stable_revision, there.status.revision_number) == (Phase.HEALTHY, "a", 1)


@LOST
@EVERY
def test_an_update_under_way_begins_again_from_the_revision_that_served(
    strategy: Strategy, lost: Callable[[World], World]
) -> None:
    """The new one is not promoted for want of memory."""
    there = updating(strategy)
    before = sizes(there)

    for after in steps_of(lost(there)):
        assert sum(pod.ready for pod in after.pods) >= 3
        there = after

    assert (there.status.stable_revision, there.status.current_revision) == ("a", "b")
    assert (there.status.phase, sizes(there)) == (Phase.PAUSED, before)
    assert settled(annotated(there, "promote", "b@full")).status.phase is Phase.HEALTHY


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


@pytest.mark.parametrize(
    ("available", "stable"),
    [({"a": 3, "b": 1}, "a"), ({"a": 1, "b": 3}, "b"), ({"a": 2, "b": 2}, "a"), ({"a": 0, "b": 0}, "a")],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_of_several_revisions_the_one_that_serves_most_is_the_stable_one(
    available: dict[str, int], stable: str, newest_first: bool
) -> None:
    """The older one where nothing tells them apart: it was stable before the other began. The order of a list means nothing."""
    there = reconciled(status_wiped(edited(updating(STEPS), revision="c")))
    assert there.status.stable_revision == ""  # it has asked which pods there are
    sets = [replace(each, spec_replicas=4, available=available[each.revision]) for each in there.replica_sets]
    seen = snapshot(replace(there, replica_sets=tuple(sets[::-1] if newest_first else sets)))

    assert decide(seen).status.stable_revision == stable


STRANGER = OrphanedReplicaSet(
    name="cart-x", uid="uid-x", resource_version="1", revision="x", problem="its selector is another"
)


def test_a_rollout_that_is_going_adopts_nothing() -> None:
    """What it adopted would go with it."""
    there = applied_again(running(Canary()))
    there = replace(there, rollout=replace(there.rollout, deleting=True))

    assert decide(snapshot(there)).intents == ()


def test_a_strangers_replica_set_is_told_once_and_left_alone() -> None:
    """A label can be put on anything."""
    seen = snapshot(running(Canary()))

    told = decide(replace(seen, orphans=(STRANGER,)))
    again = decide(replace(seen, orphans=(STRANGER,), status=told.status))

    found = condition(told, "ReplicaSetNotAdopted")
    assert (found.reason, told.intents) == (Reason.NOT_ADOPTED, ())
    assert all(part in found.message for part in ("cart-x", STRANGER.problem, "remove the label"))
    assert ([each.reason for each in told.notices], again.notices) == ([Reason.NOT_ADOPTED], ())
    assert told.status.phase is Phase.HEALTHY
