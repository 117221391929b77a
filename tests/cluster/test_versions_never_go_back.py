"""S18: within a process the version of an object that anybody acts on never decreases, whatever a watch sends, and how often.

etcd has sent watch events twice, late, and out of order (its robustness suite lists the cases), so this is by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from rollouts.cluster.structs import ReplicaSetObject
from tests.cluster.tables import empty, replica_set


@dataclass(frozen=True)
class Happened:
    """One thing that happened to an object at `version`."""

    version: int
    name: str
    uid: str
    deleted: bool

    def seen(self) -> ReplicaSetObject:
        """The object as an event of it shows it."""
        return replica_set(self.version, name=self.name, uid=self.uid)


@st.composite
def histories(draw: st.DrawFn) -> list[Happened]:
    """What truly happened, in order: two names, made, changed, deleted and made anew with another uid."""
    happened: list[Happened] = []
    lives = {"cart": 0, "shop": 0}
    there = {"cart": False, "shop": False}
    for version in range(1, draw(st.integers(2, 14))):
        name = draw(st.sampled_from(sorted(lives)))
        deleted = there[name] and draw(st.booleans())
        if not there[name]:
            lives[name] += 1
        there[name] = not deleted
        happened.append(Happened(version, name, f"{name}-{lives[name]}", deleted))
    return happened


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[Happened], list[Happened]]:
    """A history and its events as a bad watch brings them: any order, some twice; then once more in order, as a relist would."""
    history = draw(histories())
    shuffled = draw(st.permutations(history))
    again = draw(st.lists(st.sampled_from(history), max_size=6))
    return history, [*shuffled, *again]


def alive(history: Sequence[Happened]) -> dict[str, int]:
    """Names and versions of what is there in the end."""
    last = {each.name: each for each in history}
    return {name: each.version for name, each in last.items() if not each.deleted}


@given(given_to=deliveries())
def test_no_event_turns_an_object_back(given_to: tuple[list[Happened], list[Happened]]) -> None:
    """For each uid the shown version only grows; a deleted uid is not shown again."""
    _, events = given_to
    _, table = empty()
    newest: dict[str, int] = {}
    for event in events:
        if event.deleted:
            table.remove("", event.seen())
        else:
            table.put("", event.seen())
        for shown in table.all():
            uid, version = shown.metadata.uid, shown.metadata.version
            assert version >= newest.get(uid, 0), f"{uid} went from {newest[uid]} to {version}"
            newest[uid] = version


@given(given_to=deliveries())
def test_a_list_after_any_trouble_shows_what_is_true(given_to: tuple[list[Happened], list[Happened]]) -> None:
    """Whatever was lost or twisted, the next consistent list mends it."""
    history, events = given_to
    _, table = empty()
    for event in events:
        if event.deleted:
            table.remove("", event.seen())
        else:
            table.put("", event.seen())

    true = {each.name: each for each in history if not each.deleted}
    listed = [true[name].seen() for name in alive(history)]
    table.replace("", listed, str(len(history) + 1))

    assert {shown.metadata.name: shown.metadata.version for shown in table.all()} == alive(history)
