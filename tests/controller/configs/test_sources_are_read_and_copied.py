"""Sources: one read for all who name it, until there is an answer; and a copy is what the source is now, or nothing."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from rollouts.controller.act.calls import CreateCopy, WriteStatus
from rollouts.controller.act.performer import CreationWriteRefused, Performer
from rollouts.controller.configs.contents import ContentRead, ReadFailed
from rollouts.controller.configs.reads import read_source
from rollouts.core.config.content import content_hash
from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigUse, ConfigVersioning
from rollouts.core.model.intents import AskConfig
from rollouts.errors import ApiConflict, ApiExists, ApiForbidden, ApiInvalid, ApiUnavailable
from rollouts.manifests.ownership import CONFIG_KEY_NAME
from rollouts.objects import CONFIG_MAP
from rollouts.ports import Response
from tests.controller.world import CART, CART_UID, Answer, World, answered, error, metadata, obj, owned, parsed, says

pytestmark = pytest.mark.virtual_time

MAP = ConfigKind.CONFIG_MAP
SOURCE = (MAP, "shop", "app-config")
READ = AskConfig(ConfigRef(MAP, "app-config"))
BLUE = content_hash({"color": "blue"}, None)
USE = ConfigUse(
    kind=MAP, source="app-config", content=BLUE, copy="app-config-x", uid="app-config-uid", resource_version="7"
)
COPY_LABELS = {"rollouts.dev/name": "cart", "rollouts.dev/config-copy": "true"}


COPY = CreateCopy(rollout=parsed(), use=USE)
RETAINED = CreateCopy(rollout=parsed(config_versioning=ConfigVersioning(retain=True)), use=USE)
STATUS = WriteStatus(patch={"phase": "Healthy"})


def whole(name: str = "app-config", *, version: int = 7, color: str = "blue", **more: Any) -> Answer:
    """A ConfigMap as a GET gives it."""
    meta = metadata(name, version=version) | more.pop("metadata", {})
    return says(Response(200, json.dumps({"metadata": meta, "data": {"color": color}, **more}).encode()))


def copy(**more: Any) -> Answer:
    """The copy as somebody left it."""
    meta = {"labels": COPY_LABELS, "ownerReferences": owned()} | more.pop("metadata", {})
    return whole("app-config-x", version=11, **{"immutable": True, "metadata": meta} | more)


def shown(world: World, *, version: int = 7) -> None:
    """The watch shows the source, and cart names it."""
    world.config_maps.put("", obj(CONFIG_MAP, {"metadata": metadata("app-config", version=version)}))
    world.contents.askers.asks(CART, [SOURCE])


async def asked(world: World, performer: Performer) -> None:
    """A pass asks for the content."""
    shown(world)
    await performer.perform(world.target(), [READ])


def paths(world: World) -> list[str]:
    """The requests, shortened."""
    return [f"{each.method} {each.path.rpartition('/')[2]}" for each in world.api.requests]


async def test_the_hash_of_a_read_is_kept_and_who_names_the_source_is_woken(world: World, performer: Performer) -> None:
    """The next pass of each finds it; the content itself is gone."""
    world.api.answers = [whole(immutable=True)]
    await asked(world, performer)
    assert len(world.queue) == 0
    await answered()

    expected = ContentRead(uid="app-config-uid", resource_version="7", content=BLUE, immutable=True)
    assert world.contents.get(SOURCE) == expected
    assert len(world.queue) == 1


async def test_others_go_on_while_a_large_content_is_hashed(world: World) -> None:
    """A ConfigMap of 1 MiB with many keys takes a fifth of a second, and everybody's passes share one loop."""
    others = 0

    async def turns() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    world.api.answers = [whole(color="x" * 2**20)]
    beside = asyncio.create_task(turns())
    await read_source(world.client, MAP, "shop", "app-config")
    beside.cancel()
    assert others > 30


async def test_many_rollouts_share_one_read(world: World, performer: Performer) -> None:
    """Each asks in its own pass, within one millisecond."""
    world.api.answers = [whole()]
    for _ in range(5):
        await asked(world, performer)
    await answered()
    assert paths(world) == ["GET app-config"]


@pytest.mark.parametrize(
    ("failure", "after_s", "message", "needs_a_person"),
    [
        (error(422, "Invalid", "odd"), 60.0, "ConfigMap app-config cannot be read: .*odd", False),
        (error(403, "Forbidden"), 60.0, "may not read ConfigMap app-config: grant get of configmaps", True),
        (Response(200, b"<html>"), 1.0, "ConfigMap app-config cannot be read: ", False),
        (Response(200, b'{"metadata":{"resourceVersion":"7"},"data":[1]}'), 1.0, "the data of ConfigMap", False),
    ],
)
async def test_a_failed_read_is_told_and_repeated_until_it_is_answered(
    failure: Response, after_s: float, message: str, needs_a_person: bool, world: World, performer: Performer
) -> None:
    """A pass that begins forgets when it wanted to ask again, so the question remembers it."""
    world.api.answers = [says(failure), whole()]
    began_s = world.clock.monotonic_s()
    await asked(world, performer)
    await asyncio.sleep(0.5)
    failed = world.contents.get(SOURCE)
    assert len(world.queue) == 1
    await asyncio.sleep(after_s)
    assert isinstance(world.contents.get(SOURCE), ContentRead)
    await answered()
    assert world.clock.monotonic_s() - began_s < after_s + 1

    assert isinstance(failed, ReadFailed)
    assert failed.needs_a_person is needs_a_person
    assert re.search(message, failed.message)
    assert len(world.api.requests) == 2


async def test_a_key_of_hashes_that_may_not_be_read_is_told_as_the_secret_that_it_is(world: World) -> None:
    """Without it no Secret's content can be told from another."""
    world.api.answers = [whole("db"), says(error(403, "Forbidden"))]

    with pytest.raises(ApiForbidden, match=f"may not read Secret {CONFIG_KEY_NAME}: grant get of secrets"):
        await read_source(world.client, ConfigKind.SECRET, "shop", "db")


async def test_a_read_of_an_older_version_than_the_watch_shows_says_nothing(world: World, performer: Performer) -> None:
    """An API server may answer from the past; its hash would start a rollout back."""
    world.api.answers = [whole(version=7), whole(version=9)]
    shown(world, version=9)
    await performer.perform(world.target(), [READ])
    await asyncio.sleep(0.5)
    assert isinstance(world.contents.get(SOURCE), ReadFailed)
    await answered()
    assert isinstance(read := world.contents.get(SOURCE), ContentRead)
    assert read.resource_version == "9"


async def test_what_a_read_does_not_find_is_absent_when_the_watch_says_so(world: World, performer: Performer) -> None:
    """It was deleted and made again, or a cache lies: the question is asked again."""
    world.api.answers = [says(error(404, "NotFound")), whole()]
    await asked(world, performer)
    await asyncio.sleep(0.5)
    assert world.contents.get(SOURCE) is None
    await answered()
    assert isinstance(world.contents.get(SOURCE), ContentRead)


@pytest.mark.parametrize("why", ["nobody names it", "it is gone"])
async def test_a_read_that_nobody_needs_any_more_is_not_repeated(why: str, world: World, performer: Performer) -> None:
    """A controller runs for months, and Rollouts come and go."""
    world.api.answers = [says(error(403, "Forbidden"))]
    await asked(world, performer)
    await asyncio.sleep(0.5)
    if why == "nobody names it":
        world.contents.askers.asks(CART, ())
    else:
        world.config_maps.replace("", (), "20")
    await answered()
    assert paths(world) == ["GET app-config"]


async def test_a_copy_is_made_of_what_the_source_is_now(world: World, performer: Performer) -> None:
    """The content passes through; the pass that names the copy waits until the watch shows it."""
    world.api.answers = [whole()]
    assert await performer.perform(world.target(), [COPY]) == 1
    assert world.store.is_behind(CONFIG_MAP, "shop", "app-config-x")

    made = world.api.body(1)
    assert paths(world) == ["GET app-config", "POST configmaps"]
    assert (made["metadata"]["name"], made["data"], made["immutable"]) == ("app-config-x", {"color": "blue"}, True)
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [CART_UID]


async def test_a_source_that_has_changed_meanwhile_is_not_copied(world: World, performer: Performer) -> None:
    """A copy's name says what is in it."""
    world.api.answers = [whole(version=8, color="green")]
    shown(world)
    with pytest.raises(ApiConflict, match="another content"):
        await performer.perform(world.target(), [COPY])
    assert isinstance(read := world.contents.get(SOURCE), ContentRead)
    assert read.resource_version == "8"
    assert paths(world) == ["GET app-config"]


@pytest.mark.parametrize(
    ("source", "failure", "remedy"),
    [
        (error(404, "NotFound"), ApiConflict, "deleted meanwhile"),
        (error(403, "Forbidden"), ApiForbidden, "grant get of configmaps, or set spec.configVersioning.mode: Off"),
    ],
)
async def test_a_source_that_cannot_be_read_is_not_copied(
    source: Response, failure: type[Exception], remedy: str, world: World, performer: Performer
) -> None:
    """A ReplicaSet that names a copy comes after the copy, so it does not come."""
    world.api.answers = [says(source)]
    with pytest.raises((CreationWriteRefused, failure), match=remedy) as refused:
        await performer.perform(world.target(), [COPY, STATUS])
    assert isinstance(getattr(refused.value, "cause", refused.value), failure)
    assert paths(world) == ["GET app-config"]


RBAC_SAYS = 'configmaps is forbidden: User "rollouts" cannot create resource "configmaps" in API group ""'
WEBHOOK_SAYS = 'admission webhook "check.example.org" denied the request:'
POLICY_SAYS = "ValidatingAdmissionPolicy 'team' with binding 'team' denied request: no"


@pytest.mark.parametrize(
    ("refused", "failure", "remedy"),
    [
        (error(403, "Forbidden", RBAC_SAYS), ApiForbidden, 'in API group ""; grant create of configmaps, or set'),
        (error(403, "Forbidden", "exceeded quota: maps"), ApiForbidden, "exceeded quota: maps$"),
        (error(403, "Forbidden", "namespace shop is being terminated"), ApiForbidden, "being terminated$"),
        (error(403, "Forbidden", f"{WEBHOOK_SAYS} no team"), ApiForbidden, "no team; exempt objects with the label"),
        (error(400, "BadRequest", f"{WEBHOOK_SAYS} no team"), ApiInvalid, "no team; exempt objects with the label"),
        (error(422, "Invalid", POLICY_SAYS), ApiInvalid, "no; exempt objects with the label rollouts.dev/config-copy$"),
        (error(404, "NotFound"), ApiConflict, "namespace shop is gone"),
        (error(422, "Invalid", "too long"), ApiInvalid, "too long$"),
    ],
)
async def test_a_copy_that_is_refused_is_told(
    refused: Response, failure: type[Exception], remedy: str, world: World, performer: Performer
) -> None:
    """Somebody reads it in the Rollout's condition, and does what it says: a right helps against no quota and no webhook."""
    world.api.answers = [whole(), says(refused)]
    with pytest.raises((CreationWriteRefused, failure), match=remedy) as told:
        await performer.perform(world.target(), [COPY])
    assert isinstance(getattr(told.value, "cause", told.value), failure)


EXISTS = says(error(409, "AlreadyExists"))
OTHERS = owned("other", "other")


@pytest.mark.parametrize(
    ("call", "metadata"), [(COPY, {}), (RETAINED, {"ownerReferences": None})], ids=["owned", "retained"]
)
async def test_an_existing_copy_is_as_good(
    call: CreateCopy, metadata: dict[str, Any], world: World, performer: Performer
) -> None:
    """The answer to its creation was lost, or a revert finds it again."""
    world.api.answers = [whole(), EXISTS, copy(metadata=metadata)]
    assert await performer.perform(world.target(), [call]) == 1
    assert world.store.is_behind(CONFIG_MAP, "shop", "app-config-x")

    assert paths(world) == ["GET app-config", "POST configmaps", "GET app-config-x"]


@pytest.mark.parametrize("others", [None, [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "n"}]])
async def test_a_copy_that_nobody_controls_is_adopted_for_a_rollout_that_lives(
    others: list[dict[str, Any]] | None, world: World, performer: Performer
) -> None:
    """Else it would stay behind; for a Rollout in deletion it would go although somebody kept it."""
    found = copy(metadata={"ownerReferences": others})
    world.api.answers = [whole(), EXISTS, found, whole("cart", metadata={"uid": CART_UID})]
    await performer.perform(world.target(), [COPY])

    assert paths(world)[3:] == ["GET cart", "PATCH app-config-x"]
    *guards, added = world.api.body(4)
    assert [each["value"] for each in guards] == ["app-config-x-uid", "11"]
    assert added["path"] == ("/metadata/ownerReferences/-" if others else "/metadata/ownerReferences")


@pytest.mark.parametrize(
    ("found", "failure", "told"),
    [
        (says(error(404, "NotFound")), ApiConflict, "was deleted"),
        (copy(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), ApiConflict, "being deleted"),
        (copy(metadata={"ownerReferences": owned(uid="earlier")}), ApiConflict, "earlier Rollout"),
        (copy(metadata={"ownerReferences": OTHERS}), ApiExists, "another object controls it; delete it"),
        (copy(metadata={"labels": {}}), ApiExists, "it lacks the label rollouts.dev/name: cart and .*; delete it"),
        (copy(immutable=False), ApiExists, "it is not immutable; delete it"),
        (copy(color="green"), ApiExists, "it has another content; delete it"),
        (copy(binaryData={"more": "AAE="}), ApiExists, "it has another content; delete it"),
    ],
)
async def test_what_has_the_name_of_a_copy_and_is_none_is_neither_used_nor_changed(
    found: Answer, failure: type[Exception], told: str, world: World, performer: Performer
) -> None:
    """Its annotations may say anything: what counts is its data."""
    world.api.answers = [whole(), EXISTS, found]
    with pytest.raises(failure, match=told):
        await performer.perform(world.target(), [COPY])
    assert len(world.api.requests) == 3


async def test_nothing_that_was_read_is_shown(world: World) -> None:
    """A ConfigMap often has what should have been a Secret."""
    unreadable = says(Response(200, b'{"metadata":{"resourceVersion":"1"},"data":"hunter2"}'))
    world.api.answers = [whole(color="hunter2"), unreadable]
    read = await read_source(world.client, MAP, "shop", "app-config")
    assert read.data == {"color": "hunter2"}
    assert "hunter2" not in repr(read)
    with pytest.raises(ApiUnavailable) as failed:
        await read_source(world.client, MAP, "shop", "app-config")
    assert "hunter2" not in repr(failed.value)
    assert failed.value.__cause__ is None
