"""Promise: a client that asks for metadata gets the metadata of objects, lists and watches, and nothing of their content."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from rollouts.clock import SystemClock
from rollouts.cluster.decoding import status_of
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ConfigMapObject
from rollouts.cluster.watch import read_refusal, reflect
from rollouts.objects import CONFIG_MAP, Kind
from rollouts.ports import JSON, MERGE_PATCH, METADATA, METADATA_LIST
from tests.contract.conversation import WIDGET, Answer, Conversation, config_map, widget
from tests.patience import PATIENCE_S

HEAD = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
INITIAL_EVENTS = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
MADE: list[tuple[Kind, Any]] = [
    (CONFIG_MAP, config_map("a", labels={"team": "shop"}, key="value")),
    (WIDGET, widget("a")),
]
OURS = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}


async def asked(api: Conversation, kind: Kind, name: str | None = None, *, accept: str, **query: str) -> Answer:
    return await api.send("GET", api.path(kind, name), query=query, accept=accept)


@pytest.mark.parametrize(("kind", "manifest"), MADE, ids=lambda value: value.kind if isinstance(value, Kind) else "")
async def test_an_object_and_a_list_are_their_metadata(api: Conversation, kind: Kind, manifest: Any) -> None:
    """All of it: managedFields say when the object changed. Each item says what it is, which those of whole lists may not."""
    await api.made(kind, manifest)

    whole, whole_list = await api.get(kind, "a"), await api.list(kind, **OURS)
    answer = await asked(api, kind, "a", accept=METADATA)
    listed = await asked(api, kind, accept=METADATA_LIST, **OURS)

    assert answer.status == 200
    assert answer.body == {**HEAD, "metadata": whole.metadata}
    assert answer.metadata["managedFields"][0]["time"]
    assert (listed.body["kind"], listed.body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert listed.body["items"] == [{**HEAD, "metadata": each["metadata"]} for each in whole_list.body["items"]]
    assert len(listed.body["items"]) == 1


async def test_a_list_of_nothing_has_null_for_items(api: Conversation) -> None:
    """A reader of such lists accepts null."""
    answer = await asked(api, CONFIG_MAP, accept=METADATA_LIST, labelSelector="no=body")

    assert (answer.status, answer.body["items"]) == (200, None)


async def test_a_list_of_metadata_comes_in_pages_too(api: Conversation) -> None:
    """Tens of thousands of ConfigMaps are listed this way where a server has no streaming lists."""
    for name in ("a", "b", "c"):
        await api.made(CONFIG_MAP, config_map(name, key="value"))

    first = await asked(api, CONFIG_MAP, accept=METADATA_LIST, limit="2", **OURS)
    token = {"continue": first.metadata["continue"]}
    second = await asked(api, CONFIG_MAP, accept=METADATA_LIST, limit="2", **OURS, **token)

    pages = [[each["metadata"]["name"] for each in page.body["items"]] for page in (first, second)]
    assert pages == [["a", "b"], ["c"]]
    assert first.version == second.version
    assert "continue" not in second.metadata


async def test_a_watch_of_metadata_shows_a_change_of_the_content(api: Conversation) -> None:
    """By its resourceVersion alone; the content is not in any event."""
    made = await api.made(CONFIG_MAP, config_map("a", key="1"))
    version = made["metadata"]["resourceVersion"]

    async with api.watch(CONFIG_MAP, accept=METADATA, resourceVersion=version, **OURS) as events:
        changed = await api.patch(CONFIG_MAP, "a", {"data": {"key": "2"}}, MERGE_PATCH)
        await api.delete(CONFIG_MAP, "a")
        seen = [await events.next() for _ in range(2)]

    assert [kind for kind, _ in seen] == ["MODIFIED", "DELETED"]
    assert seen[0][1] == {**HEAD, "metadata": changed.metadata}
    assert seen[1][1].keys() == {"kind", "apiVersion", "metadata"}
    assert int(seen[1][1]["metadata"]["resourceVersion"]) > changed.version


async def test_a_streaming_list_of_metadata_ends_with_a_bookmark_of_its_kind(api: Conversation) -> None:
    """The mark is a PartialObjectMetadata like the objects before it."""
    made = await api.made(CONFIG_MAP, config_map("a", key="1"))

    async with api.watch(CONFIG_MAP, accept=METADATA, **INITIAL_EVENTS, **OURS) as events:
        first, mark = await events.next(), await events.next()
        await api.made(CONFIG_MAP, config_map("b", key="1"))
        after = await events.next()

    assert first == ("ADDED", {**HEAD, "metadata": made["metadata"]})
    assert mark[0] == "BOOKMARK"
    assert {name: mark[1][name] for name in HEAD} == HEAD
    assert mark[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert (after[0], after[1]["metadata"]["name"], "data" in after[1]) == ("ADDED", "b", False)


async def test_an_object_that_leaves_the_selection_of_a_watch_of_metadata_is_deleted(api: Conversation) -> None:
    """As in a watch of whole objects."""
    made = await api.made(CONFIG_MAP, config_map("a", labels={"watched": "yes"}, key="1"))
    version = made["metadata"]["resourceVersion"]

    async with api.watch(CONFIG_MAP, accept=METADATA, labelSelector="watched=yes", resourceVersion=version) as events:
        await api.patch(CONFIG_MAP, "a", {"metadata": {"labels": {"watched": "no"}}}, MERGE_PATCH)
        kind, body = await events.next()

    assert (kind, body["metadata"]["labels"]) == ("DELETED", {"watched": "yes"})
    assert {name: body[name] for name in HEAD} == HEAD
    assert "data" not in body


async def test_a_table_of_metadata_follows_the_server(api: Conversation) -> None:
    """The controller's own watch, whole: a list, a change, a deletion, and the time of the last change."""
    made = await api.made(CONFIG_MAP, config_map("a", labels={"rollouts.dev/name": "cart", "app": "x"}, key="1"))
    scope = api.namespace
    table = Store(clock=SystemClock()).add(CONFIG_MAP, ConfigMapObject, namespaces=(scope,), metadata_only=True)
    changes: asyncio.Queue[ConfigMapObject | None] = asyncio.Queue()

    def note(_kind: Kind, before: Any, after: Any) -> None:
        if (after or before).metadata.name == "a":
            changes.put_nowait(after)

    rng = random.Random(1)  # noqa: S311 - jitter
    task = asyncio.create_task(reflect(api.api, table, namespace=scope, on_change=note, rng=rng))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await table.synced.wait()
            listed = await changes.get()
            changed = await api.patch(CONFIG_MAP, "a", {"data": {"key": "2"}}, MERGE_PATCH)
            seen = await changes.get()
            await api.delete(CONFIG_MAP, "a")
            gone = await changes.get()
    finally:
        task.cancel()
        await asyncio.wait({task})

    assert listed is not None
    assert seen is not None
    assert (listed.metadata.labels, listed.metadata.uid) == ({"rollouts.dev/name": "cart"}, made["metadata"]["uid"])
    assert listed.metadata.changed_at == made["metadata"]["managedFields"][0]["time"]
    assert (seen.metadata.version, gone) == (changed.version, None)


@pytest.mark.parametrize(
    ("name", "accept", "says"),
    [
        ("a", METADATA_LIST, "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"),
        (None, METADATA, "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"),
        (None, METADATA_LIST.replace("v=v1", "v=v2"), "only the following media types are accepted: "),
        ("a", METADATA.replace("g=meta.k8s.io", "g=other.io"), "only the following media types are accepted: "),
        ("a", METADATA.replace("PartialObjectMetadata", "Nothing"), "only the following media types are accepted: "),
        ("none", METADATA, 'configmaps "none" not found'),
    ],
    ids=["list of one", "one of a list", "version", "group", "form", "object"],
)  # fmt: skip
async def test_what_the_server_does_not_have_is_not_acceptable(
    api: Conversation, name: str | None, accept: str, says: str
) -> None:
    """406 and a reason; never a whole object that nobody asked for. 404, the only absence that counts, can be read as ever."""
    await api.made(CONFIG_MAP, config_map("a", key="1"))

    answer = await asked(api, CONFIG_MAP, name, accept=accept)

    assert (answer.status, answer.reason) == ((404, "NotFound") if name == "none" else (406, "NotAcceptable"))
    assert answer.message.startswith(says)


async def test_the_first_choice_that_the_server_has_is_taken(api: Conversation) -> None:
    """Clients name several, as kubectl does."""
    await api.made(CONFIG_MAP, config_map("a", key="1"))

    metadata = await asked(api, CONFIG_MAP, "a", accept=f"text/html, {METADATA}, {JSON}")
    whole = await asked(api, CONFIG_MAP, "a", accept=f"{METADATA.replace('v=v1', 'v=v2')}, {JSON}")

    assert (metadata.body["kind"], whole.body["kind"]) == ("PartialObjectMetadata", "ConfigMap")


async def test_the_refusal_of_a_watch_of_metadata_can_be_read(api: Conversation) -> None:
    """It comes in several lines, and says as much as that of a watch of whole objects."""
    async with api.watch(CONFIG_MAP, accept=METADATA, sendInitialEvents="true") as events:
        status, metadata = events.stream.status, status_of(await read_refusal(events.stream))
    async with api.watch(CONFIG_MAP, sendInitialEvents="true") as events:
        whole = status_of(await read_refusal(events.stream))

    assert (status, metadata.code, metadata.reason) == (422, 422, "Invalid")
    assert metadata == whole


async def test_a_write_can_be_answered_with_metadata(api: Conversation) -> None:
    """The answer to the write of a large object is small; the object is written as a whole."""
    await api.made(CONFIG_MAP, config_map("a", key="1"))

    answer = await api.send(
        "PATCH", api.path(CONFIG_MAP, "a"), {"data": {"key": "2"}}, content_type=MERGE_PATCH, accept=METADATA
    )
    whole = await api.get(CONFIG_MAP, "a")
    gone = await api.send("DELETE", api.path(CONFIG_MAP, "a"), accept=METADATA)

    assert answer.body == {**HEAD, "metadata": whole.metadata}
    assert whole.body["data"] == {"key": "2"}
    assert (gone.status, gone.body["kind"]) == (200, "Status")
