"""Promise: old ReplicaSets go beyond `revisionHistoryLimit`, never one that may be needed; the history says who did what."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import DeleteReplicaSet
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Outcome
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, snapshot
from tests.core.updates import updating
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
    there = updating(strategy)
    there = settled(later(annotated(there, "promote", "b@full"), 1))

    there = settled(edited(annotated(there, "rollback", "a"), revision_history_limit=0))
    there = settled(annotated(there, "promote", "a@full"))

    assert {each.revision for each in there.replica_sets} == {"a", "b"}
    assert there.status.stable_revision == "a"


@pytest.mark.parametrize("limit", [3, 4, 10])
def test_the_history_in_status_is_bounded(limit: int) -> None:
    """It is part of an object of limited size; `spec.history.limit` says how much of it people want."""
    there = running(Canary(), history_limit=limit)
    for number in range(12):
        there = settled(edited(later(there, 1), revision=f"r{number}"))

    assert [each.revision for each in there.status.history] == [f"r{number}" for number in range(12)][-limit:]


def test_a_lower_limit_counts_from_the_next_update_on() -> None:
    """What was recorded stays until there is something newer to record."""
    there = edited(_after(5, limit=2), history_limit=3)
    assert len(settled(there).status.history) == 6

    there = settled(edited(there, revision="b"))

    assert [each.revision for each in there.status.history] == ["r3", "r4", "b"]


def _aborted(there: World, *revisions: str) -> World:
    for revision in revisions:
        there = settled(annotated(settled(edited(later(there, 1), revision=revision)), "abort", "true"))
    return there


GATED = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


@pytest.mark.parametrize("limit", [1, 2])
def test_what_was_stable_before_stays_whatever_was_aborted_since(limit: int) -> None:
    """S15: it is what a rollback goes back to. Updates that came to nothing do not push it out, nor its entry of the history."""
    there = running(GATED, revision_history_limit=limit, history_limit=3)
    there = settled(annotated(_aborted(there, "b", "c", "d"), "abort", None))
    there = settled(annotated(settled(edited(there, revision="e")), "promote", "e@full"))
    there = _aborted(there, "f", "g", "h")

    assert {"a", "e"} <= {each.revision for each in there.replica_sets}
    there = settled(edited(there, revision="e"))
    there = settled(annotated(there, "rollback", "true"))
    there = settled(annotated(there, "promote", "a@full"))

    assert there.status.stable_revision == "a"


GATES = Canary(steps=(SetWeight(20), PauseUntilPromoted(), SetWeight(40), PauseUntilPromoted()))


def given(there: World, user: str, verb: str, value: str = "true") -> World:
    """The world after that user gave a command and it was carried out."""
    author = Author(user, AuthorKind.USER)
    there = annotated(there, verb, value)
    there = replace(there, rollout=replace(there.rollout, annotated_by={verb: author}))
    there = settled(later(settled(there), 1))
    return replace(there, rollout=replace(there.rollout, annotated_by={}))


def told(there: World) -> tuple[Outcome, list[str]]:
    """The last entry of the history."""
    entry = there.status.history[-1]
    return entry.outcome, [f"{each.verb} by {each.by}" for each in entry.authors]


def at_gate(there: World, revision: str = "b") -> World:
    """Waiting for the first promotion."""
    return settled(edited(later(there, 10), revision=revision))


def test_a_promoted_update_names_all_who_promoted_it() -> None:
    """Each gate may have had its own person, and none of their commands is on the Rollout any more."""
    there = given(given(at_gate(running(GATES)), "alice", "promote"), "bob", "promote")

    assert told(there) == (Outcome.PROMOTED, ["promote by alice", "promote by bob"])
    assert there.status.authors == ()


def test_an_aborted_update_names_who_promoted_aborted_and_retried_it() -> None:
    """Until another revision ends it, status has them."""
    there = given(at_gate(running(GATES)), "alice", "promote")
    there = given(given(there, "bob", "abort"), "carol", "retry")
    assert [f"{each.verb} by {each.by}" for each in there.status.authors] == [
        "promote by alice",
        "abort by bob",
        "retry by carol",
    ]

    there = at_gate(given(there, "bob", "abort"), "c")

    assert told(there) == (Outcome.ABORTED, ["promote by alice", "abort by bob", "retry by carol"])
    assert there.status.authors == ()


def test_an_update_backwards_names_who_rolled_back() -> None:
    """The command was given for the revision that it left, and is the reason of the update that it began."""
    there = given(given(at_gate(running(GATES)), "alice", "promote", "b@full"), "bob", "rollback", "a")
    there = given(there, "carol", "promote", "a@full")

    assert told(there) == (Outcome.ROLLED_BACK, ["rollback by bob", "promote by carol"])


@pytest.mark.parametrize(("verb", "value"), [("abort", "nonsense"), ("pause", "true")])
def test_what_was_refused_or_changed_no_update_is_not_in_it(verb: str, value: str) -> None:
    """The history tells what made the update end as it did."""
    assert given(at_gate(running(GATES)), "mallory", verb, value).status.authors == ()


def test_the_list_is_bounded() -> None:
    """A status that grows with every retry would end as one that the API server refuses."""
    there = at_gate(running(GATES))
    for number in range(12):
        there = given(given(there, f"user-{number}", "abort"), f"user-{number}", "retry")

    assert len(there.status.authors) == 8
    assert str(there.status.authors[-1].by) == "user-11"
