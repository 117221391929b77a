"""The store shows the newest that was seen and finds it without a scan."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import TOMBSTONE_S, TOMBSTONES, Change, Store, Table
from rollouts.cluster.structs import Metadata, ReplicaSetObject
from rollouts.objects import POD, REPLICA_SET, SERVICE
from tests.cluster.tables import NAME, HandClock, empty, replica_set


def test_an_object_is_found_by_name_owner_and_label() -> None:
    """A pass costs its own objects, not a scan of everybody's."""
    _, table = empty()
    seen = replica_set(5, owner="r1", label="cart")

    assert table.put("", seen) == Change(None, seen)

    assert table.get("shop", "cart") is seen
    assert list(table.owned_by("shop", "r1")) == [seen]
    assert list(table.labelled(NAME, "shop", "cart")) == [seen]
    assert list(table.labelled(NAME, "other", "cart")) == []
    # The garbage collector takes a reference from another namespace for one to nothing; anybody may write a uid.
    assert list(table.owned_by("other", "r1")) == []


def test_indexes_follow_changes_of_owner_and_label() -> None:
    """An adopted or relabelled object must not be found in its old place."""
    _, table = empty()
    table.put("", replica_set(5, owner="r1", label="cart"))
    after = replica_set(6, owner="r2")
    table.put("", after)

    assert list(table.owned_by("shop", "r1")) == []
    assert list(table.labelled(NAME, "shop", "cart")) == []
    assert list(table.owned_by("shop", "r2")) == [after]

    table.remove("", replica_set(7, owner="r2"))
    assert list(table.owned_by("shop", "r2")) == []
    assert len(table) == 0


def test_what_nobody_controls_is_found_by_its_label_until_somebody_does() -> None:
    """It is looked for in every pass, so it must cost nothing where there is none."""
    _, table = empty()
    table.put("", replica_set(5, owner="r1", label="cart"))
    assert list(table.orphans("shop", "cart")) == []

    left = replica_set(6, label="cart")
    table.put("", left)
    assert list(table.orphans("shop", "cart")) == [left]
    assert list(table.orphans("other", "cart")) == []

    table.put("", replica_set(7, owner="r2", label="cart"))
    assert list(table.orphans("shop", "cart")) == []


def test_an_index_that_was_not_asked_for_is_a_mistake_not_an_empty_answer() -> None:
    """An empty answer would look like "has no ReplicaSets"."""
    _, table = empty()
    plain = Store(clock=HandClock()).add(POD, ReplicaSetObject)

    with pytest.raises(LookupError):
        table.labelled("app", "shop", "cart")
    with pytest.raises(LookupError):
        plain.owned_by("shop", "r1")
    with pytest.raises(LookupError):
        plain.orphans("shop", "cart")


@pytest.mark.parametrize("version", [4, 5])
def test_an_old_or_repeated_event_changes_nothing(version: int) -> None:
    """etcd has sent both; going back in time would undo what was decided on."""
    _, table = empty()
    seen = replica_set(5)
    table.put("", seen)

    assert table.put("", replica_set(version)) is None
    assert table.get("shop", "cart") is seen


def test_an_object_that_left_the_filter_may_return() -> None:
    """Leaving a label filter looks like a deletion; coming back has a newer resourceVersion."""
    _, table = empty()
    table.put("", replica_set(5))
    table.remove("", replica_set(9))

    assert table.put("", replica_set(10)) is not None


def test_a_deletion_after_the_moment_that_etcd_was_restored_to_has_not_happened() -> None:
    """The object is there again, and so are its next events, at versions below that of its deletion."""
    _, table = empty()
    table.put("", replica_set(5))
    table.remove("", replica_set(9))
    table.replace("", [replica_set(2)], "3")

    assert table.put("", replica_set(4)) is not None


def test_remembered_deletions_are_bounded() -> None:
    """Years of deletions must not be kept in memory."""
    _, table = empty()
    for number in range(TOMBSTONES + 10):
        table.remove("", replica_set(number + 1, uid=f"u{number}"))

    assert len(table._tombstones) == TOMBSTONES


def test_a_deletion_is_forgotten_when_no_event_can_be_so_late() -> None:
    """A day of updates must keep no more than an hour of them."""
    clock = HandClock()
    _, table = empty(clock)
    for number in range(10):
        table.remove("", replica_set(number + 1, uid=f"u{number}"))
    clock.at_s += TOMBSTONE_S + 1
    for number in range(10, 20):
        table.remove("", replica_set(number + 1, uid=f"u{number}"))

    assert len(table._tombstones) == 10
    assert table.put("", replica_set(15, uid="u19")) is None


def test_a_new_list_reports_what_came_what_changed_and_what_has_gone() -> None:
    """Deletions that happened while the watch was away are seen only by their absence."""
    _, table = empty()
    names = ("same", "old", "gone")
    same, old, gone = (replica_set(number, name=name, uid=f"u{number}") for number, name in enumerate(names, 1))
    table.replace("", [same, old, gone], "3")
    changed, new = replica_set(5, name="old", uid="u2"), replica_set(6, name="new", uid="u4")

    changes = table.replace("", [replica_set(1, name="same"), changed, new], "6")

    assert changes == [Change(gone, None), Change(old, changed), Change(None, new)]
    assert table.get("shop", "same") is same
    assert table.version("") == 6


def test_each_namespace_is_listed_on_its_own() -> None:
    """The list of one namespace says nothing about another, and all must be there before a pass may run."""
    _, table = empty(namespaces=("shop", "bank"))
    table.replace("shop", [replica_set(1)], "5")
    assert not table.synced.is_set()

    table.replace("bank", [replica_set(2, namespace="bank", uid="u2")], "6")
    assert table.synced.is_set()

    table.replace("bank", [], "7")
    assert table.get("shop", "cart") is not None
    assert table.get("bank", "cart") is None


async def test_the_store_is_synced_when_every_kind_is() -> None:
    """Deciding on half a view would scale up what is there already."""
    store, table = empty()
    store.add(POD, ReplicaSetObject).replace("", [], "1")
    assert not table.synced.is_set()
    table.replace("", [], "1")

    await store.wait_synced()


def test_a_table_covers_the_namespaces_that_its_watches_show() -> None:
    """A write elsewhere will never be shown, so nobody may wait for it."""
    store = Store(clock=HandClock())
    everywhere, some = store.add(POD, ReplicaSetObject), store.add(REPLICA_SET, ReplicaSetObject, namespaces=("shop",))

    assert everywhere.covers("shop") and everywhere.covers("edge")
    assert (some.covers("shop"), some.covers("edge")) == (True, False)
    assert (store.watched(POD), store.watched(SERVICE)) == (everywhere, None)


def unread(version: int, *, name: str = "cart", uid: str = "u1", namespace: str = "shop") -> UnreadableObject:
    """An object that the watch brought and nobody can read."""
    return UnreadableObject(
        Metadata(name=name, namespace=namespace, uid=uid, resource_version=str(version)), "too long"
    )


def test_an_unreadable_object_keeps_the_version_before_and_is_known_to_exist() -> None:
    """Whoever looks for it finds what was last known, and that this is not all."""
    _, table = empty()
    before = replica_set(5)
    table.put("", before)

    assert table.put_unreadable("", unread(6))

    assert table.get("shop", "cart") is before
    assert table.unreadable["shop", "cart"].metadata.version == 6
    assert table.version("") == 6
    assert not table.put_unreadable("", unread(6))  # twice
    assert table.put("", replica_set(5)) is None  # late


def test_an_object_that_can_be_read_again_is_news_to_everybody() -> None:
    """Even when nothing that is read has changed: somebody waits for it."""
    _, table = empty()
    table.put("", replica_set(5))
    table.put_unreadable("", unread(6))
    after = replica_set(7)

    assert table.put("", after) == Change(None, after)
    assert table.unreadable == {}


def test_our_own_write_is_shown_by_an_unreadable_object_too() -> None:
    """Else its Rollout would wait 30 s for a write that the watch has shown."""
    store, table = empty()
    table.put("", replica_set(5))
    store.wrote(REPLICA_SET, "shop", "cart", "6", "u1")
    table.put_unreadable("", unread(6))

    assert not store.is_behind(REPLICA_SET, "shop", "cart")
    store.wrote(REPLICA_SET, "shop", "cart", "6", "u1")  # the watch was faster than the answer
    assert not store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_list_settles_what_can_be_read() -> None:
    """What it lacks is gone, whether it could be read or not; another namespace's is not its concern."""
    _, table = empty(namespaces=("shop", "other"))
    table.put("shop", replica_set(3, name="a"))
    for name in ("a", "b"):
        table.put_unreadable("shop", unread(5, name=name, uid=name))
    table.put_unreadable("other", unread(5, name="c", namespace="other"))

    changes = table.replace("shop", [replica_set(5, name="b", uid="b")], "9", unreadable=[unread(8, name="d", uid="d")])

    assert [(change.before is None, change.after is None) for change in changes] == [(False, True), (True, False)]
    assert set(table.unreadable) == {("shop", "d"), ("other", "c")}
    assert table.get("shop", "a") is None


Told = tuple[str, ReplicaSetObject | UnreadableObject]


def tell(table: Table[ReplicaSetObject], events: list[Told]) -> None:
    for how, each in events:
        if how == "gone":
            table.remove("", each)
        elif isinstance(each, UnreadableObject):
            table.put_unreadable("", each)
        else:
            table.put("", each)


def check(table: Table[ReplicaSetObject], server: dict[str, ReplicaSetObject | UnreadableObject]) -> None:
    """The table shows what is there, and says of which it does not know what it is."""
    unreadable = {name for name, each in server.items() if isinstance(each, UnreadableObject)}
    assert {name for _, name in table.unreadable} == unreadable
    shown = {each.metadata.name: each for each in table.all()}
    assert set(shown) <= set(server)
    assert {name: shown.get(name) for name in set(server) - unreadable} == {
        name: each for name, each in server.items() if name not in unreadable
    }


@pytest.mark.parametrize("seed", range(200))
def test_whatever_becomes_unreadable_the_table_ends_like_the_server(seed: int) -> None:
    """A model: objects come, change, become unreadable, go and come again, with lists between; late and double events, too."""
    rng = random.Random(seed)  # noqa: S311 - a test's
    _, table = empty()
    server: dict[str, ReplicaSetObject | UnreadableObject] = {}
    makers: list[Callable[..., ReplicaSetObject | UnreadableObject]] = [unread, replica_set]
    told: list[Told] = []
    late: list[Told] = []
    for version in range(1, 80):
        name = rng.choice("abc")
        known = server.get(name)
        uid = known.metadata.uid if known is not None else f"{name}{version}"
        seen = rng.choice(makers)(version, name=name, uid=uid)
        if known is not None and rng.random() < 0.2:
            del server[name]
            told.append(("gone", seen))
        else:
            server[name] = seen
            told.append(("there", seen))
        if not late and rng.random() < 0.2:
            late = [told[-1]]
            continue
        tell(table, [told[-1], *late, *rng.choices(told, k=rng.choice([0, 0, 0, 1]))])
        late = []
        if rng.random() < 0.1:
            readable = [each for each in server.values() if isinstance(each, ReplicaSetObject)]
            unreadable = [each for each in server.values() if isinstance(each, UnreadableObject)]
            table.replace("", readable, str(version), unreadable=unreadable)
        check(table, server)


def test_an_object_that_could_never_be_read_goes_like_any_other() -> None:
    """Whoever waits for its end (Services of a Rollout that is gone are given back) hears of it."""
    _, table = empty()
    table.put_unreadable("", unread(5))

    change = table.remove("", unread(6))

    assert change is not None
    assert change.before is not None
    assert (change.before.metadata.name, change.after) == ("cart", None)
    table.put_unreadable("", unread(7, uid="u2"))
    (change,) = table.replace("", [], "9")
    assert change.before is not None
    assert (change.before.metadata.uid, change.after) == ("u2", None)
    assert table.unreadable == {}


# S18: within a process the version of an object that anybody acts on never decreases, whatever a watch sends, and how often.
# etcd has sent watch events twice, late, and out of order (its robustness suite lists the cases), so this is by construction.


@dataclass(frozen=True)
class Happened:
    """One thing that happened to an object at `version`."""

    version: int
    name: str
    uid: str
    deleted: bool

    def seen(self) -> ReplicaSetObject:
        return replica_set(self.version, name=self.name, uid=self.uid)

    def told(self) -> Told:
        return "gone" if self.deleted else "there", self.seen()


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
        tell(table, [event.told()])
        for shown in table.all():
            uid, version = shown.metadata.uid, shown.metadata.version
            assert version >= newest.get(uid, 0), f"{uid} went from {newest[uid]} to {version}"
            newest[uid] = version


@given(given_to=deliveries())
def test_a_list_after_any_trouble_shows_what_is_true(given_to: tuple[list[Happened], list[Happened]]) -> None:
    """Whatever was lost or twisted, the next consistent list mends it."""
    history, events = given_to
    _, table = empty()
    tell(table, [event.told() for event in events])

    true = {each.name: each for each in history if not each.deleted}
    listed = [true[name].seen() for name in alive(history)]
    table.replace("", listed, str(len(history) + 1))

    assert {shown.metadata.name: shown.metadata.version for shown in table.all()} == alive(history)
