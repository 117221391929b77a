"""Promise: old ReplicaSets go beyond `revisionHistoryLimit`, oldest first, and never one that may still be needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.changes import HISTORY_LIMIT
from rollouts.core.model.intents import DeleteReplicaSet
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, snapshot
from tests.core.worlds import edited, later, running, settled


def _after(count: int, *, limit: int) -> World:
    there = running(Canary(), revision_history_limit=limit)
    for number in range(count):
        there = settled(edited(later(there, 1), revision=f"r{number}"))
    return there


@pytest.mark.parametrize(
    ("limit", "kept"), [(0, ["r4"]), (2, ["r2", "r3", "r4"]), (10, ["a", "r0", "r1", "r2", "r3", "r4"])]
)
def test_so_many_old_replica_sets_are_kept(limit: int, kept: list[str]) -> None:
    """The newest, as a Deployment does."""
    there = _after(5, limit=limit)

    assert [each.revision for each in sorted(there.replica_sets, key=lambda each: each.number)] == kept


def test_a_delete_is_bound_to_what_was_seen() -> None:
    """uid and resourceVersion: a ReplicaSet that was scaled up meanwhile stays."""
    there = edited(_after(2, limit=10), revision_history_limit=0)
    deletes = [each for each in decide(snapshot(there)).intents if isinstance(each, DeleteReplicaSet)]

    assert {(each.uid, each.resource_version) for each in deletes} == {
        (each.uid, each.resource_version) for each in there.replica_sets if each.revision in ("a", "r0")
    }


def test_one_with_pods_is_not_deleted() -> None:
    """Whatever the limit: pods first, and while they leave nothing is tidied."""
    there = _after(2, limit=10)
    sets = tuple(replace(each, replicas=1) if each.revision == "a" else each for each in there.replica_sets)
    there = edited(replace(there, replica_sets=sets), revision_history_limit=0)

    deletes = [each.name for each in decide(snapshot(there)).intents if isinstance(each, DeleteReplicaSet)]

    assert deletes == []
    assert {each.revision for each in settled(there).replica_sets} == {"r1"}


def test_what_a_rollback_names_is_kept_and_so_is_what_it_came_from() -> None:
    """Both ends may be asked for again."""
    strategy = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
    there = settled(edited(running(strategy), revision="b"))
    there = settled(later(annotated(there, "promote", "b@full"), 1))

    there = settled(edited(annotated(there, "rollback", "a"), revision_history_limit=0))
    there = settled(annotated(there, "promote", "a@full"))

    assert {each.revision for each in there.replica_sets} == {"a", "b"}
    assert there.status.stable_revision == "a"


def test_the_history_in_status_is_bounded() -> None:
    """It is part of an object of limited size."""
    there = _after(HISTORY_LIMIT + 3, limit=2)

    assert len(there.status.history) == HISTORY_LIMIT
    assert there.status.history[-1].revision == f"r{HISTORY_LIMIT + 2}"
