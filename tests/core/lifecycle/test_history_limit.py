"""Promise: old ReplicaSets go beyond `revisionHistoryLimit`, never one that may be needed; the history says who did what."""

from __future__ import annotations

import pytest

from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Outcome
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated
from tests.core.worlds import edited, later, running, settled


def _after(count: int, *, limit: int) -> World:
    there = running(Canary(), revision_history_limit=limit)
    for number in range(count):
        there = settled(edited(later(there, 1), revision=f"r{number}"))
    return there


@pytest.mark.parametrize(
    ("limit", "kept"), [(0, ["r4"]), (2, ["r2", "r3", "r4"]), (10, ["a", "r0", "r1", "r2", "r3", "r4"])]
)
def test_revision_history_limit_keeps_so_many_old_replica_sets(limit: int, kept: list[str]) -> None:
    """The newest, as a Deployment does."""
    there = _after(5, limit=limit)

    assert [each.revision for each in sorted(there.replica_sets, key=lambda each: each.number)] == kept


@pytest.mark.parametrize("limit", [3, 4, 9])
def test_history_limit_bounds_the_history_in_status(limit: int) -> None:
    """It is part of an object of limited size. With a lower one, what was recorded stays until there is something newer."""
    there = edited(_after(8, limit=2), history_limit=limit)
    assert len(settled(there).status.history) == 9

    there = settled(edited(there, revision="b"))

    assert [each.revision for each in there.status.history] == ["a", *(f"r{number}" for number in range(8)), "b"][
        -limit:
    ]


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

    assert told(given(there, "carol", "promote", "a@full")) == (
        Outcome.ROLLED_BACK,
        ["rollback by bob", "promote by carol"],
    )


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
