"""Observe sources: what a read said about exactly the version that the watch shows, and nothing guessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rollouts.cluster.decoding import UnreadableObject
from rollouts.controller.configs.contents import ContentRead, ReadFailed
from rollouts.controller.configs.observed import Configs, config_of
from rollouts.controller.observe.observer import Seen
from rollouts.core.config.content import copy_name
from rollouts.core.model.config import (
    ConfigKind,
    ConfigRef,
    ConfigUse,
    CopySeen,
    Source,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
    SourceUnread,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import ReplicaSet
from rollouts.manifests.ownership import config_note_text
from rollouts.objects import CONFIG_MAP, Key
from rollouts.sim.clock import EPOCH_S
from tests.controller.world import CART, CART_UID, World, metadata, obj, owned, replica_set, rollout

pytestmark = pytest.mark.virtual_time

MAP = ConfigKind.CONFIG_MAP
REF = ConfigRef(MAP, "app-config")
SOURCE = (MAP, "shop", "app-config")
MADE = ReplicaSet(
    name="cart-v1", uid="u", resource_version="1", revision="v1", number=1, created_at_s=0.0, spec_replicas=1
)
READ = ContentRead(uid="app-config-uid", resource_version="7", content="abc", immutable=False)
USE = ConfigUse(
    kind=MAP, source="app-config", content="abc", copy="app-config-x", uid="app-config-uid", resource_version="7"
)


def config_map(name: str = "app-config", *, version: int = 7, **more: Any) -> Any:
    """A ConfigMap as its watch shows it."""
    fields = [{"manager": "kubectl", "time": "2026-01-01T00:00:05Z"}]
    return obj(CONFIG_MAP, {"metadata": metadata(name, version=version, managedFields=fields) | more})


def configs_of(world: World, **why: Any) -> Configs:
    """What reads the ConfigMaps of that world: all of them are listed and seen, unless `why` says otherwise."""
    seen: dict[str, Any] = {"is_listed": lambda: True, "why_unseen": lambda _namespace: ""}
    return Configs(world.store, world.contents, clock=world.clock, **{**seen, **why})


def observed(
    world: World,
    *objects: Any,
    read: ContentRead | ReadFailed | None = None,
    notes: Sequence[ConfigUse] = (),
    **why: Any,
) -> tuple[Source, tuple[CopySeen, ...]]:
    """What is seen of cart's one source and of its copies, after this read, and beside a ReplicaSet that notes these uses."""
    for each in objects:
        world.config_maps.put("", each)
    if read is not None:
        world.contents.put(SOURCE, read)
    made = replace(MADE, config=tuple(notes))
    configs = configs_of(world, **why)
    source = configs.sources(CART, (REF,), [made])[MAP, "app-config"]
    assert CART in world.contents.askers.of(SOURCE)
    return source, configs.copies(CART, CART_UID)


@pytest.fixture
def world(world: World) -> World:
    """Its watch of ConfigMaps has shown that there is none."""
    world.config_maps.replace("", (), "1")
    return world


KNOWN = SourceKnown(
    content="abc", immutable=False, uid="app-config-uid", resource_version="7", changed_at_s=1767225605.0, shared_by=1
)
FAILED = ReadFailed(message="no", needs_a_person=True)
OFF: dict[str, Any] = {"annotations": {"rollouts.dev/config-versioning": "off"}}
AS_IN_A_SPEC: dict[str, Any] = {"annotations": {"rollouts.dev/config-versioning": "Off"}}
SEEN: dict[str, tuple[list[Any], ContentRead | ReadFailed | None, Source]] = {
    "absent": ([], None, SourceAbsent()),
    "never read": ([config_map()], None, SourceUnread()),
    "read": ([config_map()], READ, KNOWN),
    "changed since": ([config_map(version=8)], READ, SourceUnread()),
    "the watch is behind": ([config_map(version=6)], READ, SourceUnread(asks=False)),
    "made again": ([config_map(uid="another")], READ, SourceUnread()),
    "failed": ([config_map()], FAILED, SourceUnread("no", needs_a_person=True)),
    "gone since": ([], READ, SourceAbsent()),
    "opted out": ([config_map(**OFF)], READ, SourceLeftAlone()),
    "opted out, nobody may read it": ([config_map(**OFF)], FAILED, SourceLeftAlone()),
    "opted out as in a spec": ([config_map(**AS_IN_A_SPEC)], None, SourceLeftAlone()),
}


@pytest.mark.parametrize(("shown", "read", "source"), SEEN.values(), ids=SEEN)
async def test_a_source_is_what_its_watch_and_the_last_read_say(
    shown: list[Any], read: ContentRead | ReadFailed | None, source: Source, world: World
) -> None:
    """The read of an older version would make the former content the new one; the watch is the judge of what there is."""
    assert observed(world, *shown, read=read)[0] == source


@pytest.mark.parametrize(
    ("use", "source"),
    [
        (USE, KNOWN),
        (replace(USE, copy=""), SourceUnread()),
        (replace(USE, resource_version="6"), SourceUnread()),
        (replace(USE, uid="other"), SourceUnread()),
    ],
    ids=["that version", "used as it is: immutable or not", "an older version", "another object"],
)
async def test_a_note_on_a_replica_set_saves_reading_that_version(use: ConfigUse, source: Source, world: World) -> None:
    """After a restart nothing is remembered, and ten thousand sources would be read for nothing."""
    assert observed(world, config_map(), notes=[use])[0] == source


@pytest.mark.parametrize(
    ("why", "source"),
    [
        ({"is_listed": lambda: False}, SourceUnread(asks=False)),
        (
            {"why_unseen": lambda _namespace: "may not watch"},
            SourceUnread("may not watch, or set spec.configVersioning.mode: Off", needs_a_person=True, asks=False),
        ),
    ],
)
async def test_nothing_is_absent_while_the_watch_cannot_tell(why: dict[str, Any], source: Source, world: World) -> None:
    """At the start, and without the right: an empty table says nothing."""
    assert observed(world, **why)[0] == source
    assert observed(world, config_map(), read=READ, **why)[0] == source


async def test_a_watch_that_fails_for_long_says_nothing_either(world: World) -> None:
    """The source may have changed a hundred times meanwhile."""
    world.config_maps.watch("shop").failed("refused", now_s=world.clock.monotonic_s() - 91.0)
    found, _ = observed(world, config_map(), read=READ)
    assert found == SourceUnread("the watch of ConfigMaps fails: refused", asks=False)


async def test_an_unreadable_source_is_told_and_not_absent(world: World) -> None:
    """Somebody has to repair it."""
    spoilt = UnreadableObject(config_map(version=8).metadata, "it has more than 16 MiB")
    world.config_maps.put_unreadable("", spoilt)
    source, _ = observed(world)

    assert source == SourceUnread(
        "ConfigMap app-config cannot be read: it has more than 16 MiB; repair it or delete it", asks=False
    )


async def test_since_when_a_source_is_gone_is_what_the_watch_saw(world: World) -> None:
    """`kubectl replace --force` deletes and creates within a second; the settle time begins with the deletion."""
    world.contents.askers.asks(CART, [SOURCE])
    world.contents.learn(config_map(), None, now_s=EPOCH_S + 5)
    assert observed(world)[0] == SourceAbsent(EPOCH_S + 5)


async def test_a_source_that_came_back_is_not_gone(world: World) -> None:
    """And what was read of the former object is about the former object."""
    world.contents.askers.asks(CART, [SOURCE])
    world.contents.put(SOURCE, READ)
    world.contents.learn(config_map(), None, now_s=EPOCH_S + 5)
    world.contents.learn(None, config_map(version=9, uid="again"), now_s=EPOCH_S + 6)
    assert world.contents.gone_since_s.get(SOURCE) is None
    assert world.contents.get(SOURCE) is None
    observed(world)


async def test_how_many_share_a_source_is_known(world: World) -> None:
    """Their updates do not begin in one second."""
    for name in ("b", "c"):
        world.contents.askers.asks(Key("shop", name), [SOURCE])
    assert observed(world, config_map(), read=READ)[0] == replace(KNOWN, shared_by=3)


MARKED = {"rollouts.dev/name": "cart", "rollouts.dev/config-copy": "true"}


def copy(content: str = "abc", *, name: str = "", **more: Any) -> Any:
    """A copy of the source with that content."""
    made = name or copy_name(MAP, rollout="cart", source="app-config", content=content)
    notes = {"rollouts.dev/config-source": "app-config", "rollouts.dev/content": content}
    return config_map(made, **{"labels": MARKED, "annotations": notes, "ownerReferences": owned()} | more)


async def test_copies_are_those_with_the_name_of_the_rollout_and_the_mark(world: World) -> None:
    """Somebody else's ConfigMap with our label is no copy, and one that nobody owns is one that nobody would delete."""
    objects = [
        copy("owned"),
        copy("deleting", deletionTimestamp="2026-01-01T00:00:09Z"),
        copy("orphan", ownerReferences=None),
        copy("earlier", ownerReferences=owned(uid="earlier")),
        copy("unmarked", labels={"rollouts.dev/name": "cart"}),
        copy("other", labels=MARKED | {"rollouts.dev/name": "other"}),
    ]

    _, copies = observed(world, *objects)

    assert {each.content: (each.source, each.owned, each.deleting, each.problem) for each in copies} == {
        "owned": ("app-config", True, False, ""),
        "deleting": ("app-config", True, True, ""),
        "orphan": ("app-config", False, False, ""),
        "earlier": ("app-config", False, False, ""),
    }


async def test_a_snapshot_has_the_copies_and_whose_they_are(world: World) -> None:
    """A copy of an earlier Rollout of that name is not ours to use."""
    world.rollouts.put("", rollout())
    for each in (copy("owned"), copy("earlier", ownerReferences=owned(uid="earlier"))):
        world.config_maps.put("", each)

    seen = world.observer(configs=configs_of(world)).observe(CART)

    assert isinstance(seen, Seen)
    assert {each.content: each.owned for each in seen.snapshot.copies} == {"owned": True, "earlier": False}


@pytest.mark.parametrize(
    ("owners", "seen_as"),
    [
        (owned(), (True, 1, 0, False)),
        (None, (False, 0, -1, False)),
        ([{**owned()[0], "uid": "theirs", "controller": False}, *owned()], (True, 2, 1, False)),
        (owned(uid="earlier"), (False, 1, -1, True)),
        ([{**owned("x", "theirs")[0], "controller": False}], (False, 1, -1, False)),
    ],
    ids=["ours", "nobody's", "ours and somebody's", "an earlier Rollout's", "somebody's who does not control it"],
)
async def test_whose_a_copy_is_and_at_which_place_is_seen(
    owners: list[dict[str, Any]] | None, seen_as: tuple[bool, int, int, bool], world: World
) -> None:
    """By the place the Rollout is taken off its owners; what another one controls is not adopted."""
    _, (found,) = observed(world, copy(ownerReferences=owners))

    assert (found.owned, found.owners, found.owner_index, found.claimed) == seen_as


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (copy(name="mine"), "its name does not follow from its annotations"),
        (copy(annotations={}), "its name does not follow from its annotations"),
        (copy(ownerReferences=owned("other", "other")), "another object controls it"),
    ],
)
async def test_what_only_looks_like_a_copy_is_neither_used_nor_deleted(found: Any, why: str, world: World) -> None:
    """Whoever changes a copy of a copy by hand keeps its labels; what a Rollout deletes must be its own."""
    _, (marked,) = observed(world, found)

    assert why in marked.problem


NAMED = copy_name(MAP, rollout="cart", source="app-config", content="abc")
COPIED = ContentRead(uid=f"{NAMED}-uid", resource_version="7", content="abc", immutable=True)


@pytest.mark.parametrize(
    ("read", "checked", "forged", "told"),
    [
        (None, False, False, ""),
        (COPIED, True, False, ""),
        (replace(COPIED, uid="another"), False, False, ""),
        (replace(COPIED, content="xyz"), False, True, "its data is not what its name says"),
        (replace(COPIED, immutable=False), False, True, "it is not immutable"),
        (FAILED, False, False, "no"),
    ],
    ids=["never read", "true", "of the copy before", "another content", "can be changed", "failed"],
)
async def test_a_copy_is_what_its_data_says(
    read: ContentRead | ReadFailed | None, checked: bool, forged: bool, told: str, world: World
) -> None:
    """Whoever may write ConfigMaps could put another content under the name that pods will read."""
    if read is not None:
        world.contents.put((MAP, "shop", NAMED), read)
    _, (found,) = observed(world, copy())

    assert (found.checked, found.forged) == (checked, forged)
    assert told in found.problem + found.unread_because


@pytest.mark.parametrize(
    ("scheme", "annotations", "config"),
    [
        ("v1", {}, ()),
        ("v1", {"rollouts.dev/config": "{"}, ()),
        ("v2", {"rollouts.dev/config": config_note_text([USE])}, (USE,)),
        ("v2", {}, None),
        ("v2", {"rollouts.dev/config": "{"}, None),
    ],
)
def test_a_revision_without_a_readable_note_names_no_copy_only_if_its_scheme_has_none(
    scheme: str, annotations: dict[str, str], config: tuple[ConfigUse, ...] | None
) -> None:
    """Whoever thinks that a ReplicaSet names nothing deletes what its pods read."""
    labels = {"rollouts.dev/hash-scheme": scheme}

    assert config_of(replica_set("cart-v1", labels=labels, annotations=annotations)) == config
