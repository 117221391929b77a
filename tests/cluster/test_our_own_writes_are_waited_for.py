"""Promise: the store knows which writes of ours its watches have not shown yet, and when nothing more is to be waited for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.cluster.store import BARRIER_DEADLINE_S, Table
from rollouts.cluster.structs import ReplicaSetObject
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.objects import POD, REPLICA_SET
from tests.cluster.tables import HandClock, empty, replica_set


def test_the_barrier_holds_until_the_watch_shows_our_write() -> None:
    """Deciding on the view before our own write would make a second ReplicaSet."""
    store, table = empty()
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1")
    assert store.is_behind(REPLICA_SET, "shop", "cart")

    table.put("", replica_set(6))
    assert store.is_behind(REPLICA_SET, "shop", "cart")

    table.put("", replica_set(7))
    assert not store.is_behind(REPLICA_SET, "shop", "cart")
    assert not store.is_behind(REPLICA_SET, "shop", "other")


SHOWN: dict[str, Callable[[Table[ReplicaSetObject]], object]] = {
    "a newer version": lambda table: table.put("", replica_set(8)),
    "a deletion": lambda table: table.remove("", replica_set(8)),
    "a bookmark": lambda table: table.bookmark("", "7"),
    "a list without it": lambda table: table.replace("", [], "9"),
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_the_barrier_opens_by_anything_that_is_newer_than_our_write(
    shown: Callable[[Table[ReplicaSetObject]], object],
) -> None:
    """Somebody else may have written over or deleted it; an older list does not tell."""
    store, table = empty()
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1")
    table.replace("", [], "6")
    assert store.is_behind(REPLICA_SET, "shop", "cart")

    shown(table)

    assert not store.is_behind(REPLICA_SET, "shop", "cart")


@pytest.mark.parametrize("deleted", [False, True])
def test_a_write_that_was_seen_before_its_answer_does_not_close_the_barrier(deleted: bool) -> None:
    """The watch may be faster than the answer; and somebody may have deleted what it showed."""
    store, table = empty()
    table.put("", replica_set(7))
    if deleted:
        table.remove("", replica_set(8))
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1")

    assert not store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_deletion_is_awaited_until_the_object_is_gone_or_marked() -> None:
    """The answer to a deletion has no resourceVersion; finalizers keep the object, marked as going."""
    for end in (None, replica_set(8, going=True), replica_set(8, uid="u2")):
        store, table = empty()
        table.put("", replica_set(5))
        store.wrote(REPLICA_SET, "shop", "cart", None, "u1")
        assert store.is_behind(REPLICA_SET, "shop", "cart")
        _ = table.remove("", replica_set(8)) if end is None else table.put("", end)
        assert not store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_deletion_right_after_a_creation_waits_for_both() -> None:
    """Before the creation was seen the object's absence does not mean that it is gone again."""
    store, table = empty()
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1")
    store.wrote(REPLICA_SET, "shop", "cart", None, "u1")
    assert store.is_behind(REPLICA_SET, "shop", "cart")
    table.put("", replica_set(7))
    assert store.is_behind(REPLICA_SET, "shop", "cart")
    table.remove("", replica_set(8))
    assert not store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_missed_event_cannot_close_the_barrier_for_ever() -> None:
    """30 s after a write that the watch has passed by the pass goes on with what is there."""
    clock = HandClock()
    store, table = empty(clock)
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1")
    table.put("", replica_set(8, name="other", uid="u2"))
    clock.at_s = BARRIER_DEADLINE_S - 0.1
    assert store.is_behind(REPLICA_SET, "shop", "cart")
    clock.at_s = BARRIER_DEADLINE_S
    assert not store.is_behind(REPLICA_SET, "shop", "cart")
    assert not store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_watch_that_has_not_come_to_a_write_is_waited_for() -> None:
    """Until it shows it, however long: a pass on a view that is known to be old could take a pod that is needed."""
    clock = HandClock()
    store, table = empty(clock)
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1")
    clock.at_s = 10 * BARRIER_DEADLINE_S
    assert store.is_behind(REPLICA_SET, "shop", "cart")
    table.put("", replica_set(7))
    assert not store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_refusal_promises_no_newer_version() -> None:
    """A server, or a webhook, may say Conflict of an object that nobody has changed; then there is nothing to wait for."""
    clock = HandClock()
    store, _ = empty(clock)
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1", sure=False)
    clock.at_s = BARRIER_DEADLINE_S - 0.1
    assert store.is_behind(REPLICA_SET, "shop", "cart")
    clock.at_s = BARRIER_DEADLINE_S
    assert not store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_pass_may_tell_that_the_watch_has_failed_for_long() -> None:
    """Nothing is decided then (`controller/observe/observer.py`); when the watch is back, its write is waited for again."""
    clock = HandClock()
    store, table = empty(clock)
    store.wrote(REPLICA_SET, "shop", "cart", "7", "u1")
    table.watch("shop").failed("refused", now_s=0.0)
    clock.at_s = FAILED_TELL_S - 0.1
    assert store.is_behind(REPLICA_SET, "shop", "cart")
    clock.at_s = FAILED_TELL_S
    assert not store.is_behind(REPLICA_SET, "shop", "cart")
    table.watch("shop").heard(now_s=clock.at_s)
    assert store.is_behind(REPLICA_SET, "shop", "cart")


def test_a_history_that_was_turned_back_opens_the_barrier() -> None:
    """After a restore of etcd versions begin again below those of our writes, which nobody will show."""
    store, table = empty(namespaces=("shop", "bank"))
    for namespace in ("shop", "bank"):
        table.replace(namespace, [], "9")
        store.wrote(REPLICA_SET, namespace, "cart", "12", "u1")
    assert store.is_behind(REPLICA_SET, "shop", "cart")
    table.replace("shop", [], "3")
    assert not store.is_behind(REPLICA_SET, "shop", "cart")
    assert store.is_behind(REPLICA_SET, "bank", "cart")  # its own list has not said so yet


def test_writes_to_kinds_that_are_not_watched_are_not_waited_for() -> None:
    """Nothing would ever show them."""
    store, _ = empty()
    store.wrote(POD, "shop", "cart-1", "7", "u1")

    assert not store.is_behind(POD, "shop", "cart-1")
