"""Promise: a watch shows every change in order, from now, from a version, or from the state on; or says 410."""

from __future__ import annotations

from rollouts.objects import CONFIG_MAP, POD, REPLICA_SET
from rollouts.ports import MERGE_PATCH
from tests.build import replica_set
from tests.contract.conversation import WIDGET, Conversation, widget

INITIAL_EVENTS = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


async def test_a_watch_from_a_version_shows_what_came_after_it(api: Conversation) -> None:
    """A reconnect from the last event seen loses nothing and repeats nothing; a deletion shows the object, as a newer version."""
    await api.made(WIDGET, widget("a"))
    version = (await api.list(WIDGET)).version
    await api.made(WIDGET, widget("b"))
    await api.patch(WIDGET, "a", {"spec": {"replicas": 2}}, MERGE_PATCH)
    await api.delete(WIDGET, "b")

    async with api.watch(WIDGET, resourceVersion=str(version)) as events:
        seen = [await events.next() for _ in range(3)]

    assert [(kind, body["metadata"]["name"]) for kind, body in seen] == [
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in seen]
    assert versions == sorted(set(versions))
    assert versions[0] > version
    assert seen[2][1]["spec"] == seen[0][1]["spec"]


async def test_a_watch_without_a_version_begins_with_the_state(api: Conversation) -> None:
    """Every object there is comes as ADDED."""
    for name in ("a", "b"):
        await api.made(WIDGET, widget(name))

    async with api.watch(WIDGET) as events:
        first = await events.names(2)
        await api.made(WIDGET, widget("c"))

        assert sorted(first) == [("ADDED", "a"), ("ADDED", "b")]
        assert await events.names(1) == [("ADDED", "c")]


async def test_a_write_that_changes_nothing_is_no_event(api: Conversation) -> None:
    """An idle cluster stays quiet: no-op writes keep their resourceVersion."""
    made = await api.made(WIDGET, widget("a"))
    version = made["metadata"]["resourceVersion"]

    merged = await api.patch(WIDGET, "a", {"spec": {"replicas": 1}}, MERGE_PATCH)
    written = await api.put(WIDGET, "a", merged.body)
    await api.made(WIDGET, widget("b"))

    assert str(merged.version) == str(written.version) == version
    async with api.watch(WIDGET, resourceVersion=version) as events:
        assert await events.names(1) == [("ADDED", "b")]


async def test_an_object_that_enters_or_leaves_the_selection_is_added_or_deleted(api: Conversation) -> None:
    """The controller's filtered watches rely on it: a lost label looks like a deletion."""
    made = await api.made(WIDGET, widget("a"))

    async with api.watch(
        WIDGET, labelSelector="watched=yes", resourceVersion=made["metadata"]["resourceVersion"]
    ) as events:
        await api.patch(WIDGET, "a", {"metadata": {"labels": {"watched": "yes"}}}, MERGE_PATCH)
        await api.patch(WIDGET, "a", {"spec": {"replicas": 5}}, MERGE_PATCH)
        await api.patch(WIDGET, "a", {"metadata": {"labels": {"watched": "no"}}}, MERGE_PATCH)
        await api.patch(WIDGET, "a", {"spec": {"replicas": 6}}, MERGE_PATCH)
        await api.patch(WIDGET, "a", {"metadata": {"labels": {"watched": "yes"}}}, MERGE_PATCH)
        seen = [await events.next() for _ in range(4)]

    facts = [(kind, body["spec"]["replicas"], body["metadata"]["labels"]["watched"]) for kind, body in seen]
    assert facts == [("ADDED", 1, "yes"), ("MODIFIED", 5, "yes"), ("DELETED", 5, "yes"), ("ADDED", 6, "yes")]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in seen]
    assert versions == sorted(set(versions))


async def test_a_streaming_list_ends_with_a_bookmark_and_goes_on_as_a_watch(api: Conversation) -> None:
    """The mark says that the state is complete, also of nothing; its version is where the changes begin."""
    async with api.watch(POD, **INITIAL_EVENTS) as events:
        empty, _ = await events.next()
    for name in ("a", "b"):
        await api.made(WIDGET, widget(name))
    version = (await api.list(WIDGET)).version

    async with api.watch(WIDGET, **INITIAL_EVENTS) as events:
        first = await events.names(2)
        kind, mark = await events.next()
        await api.made(WIDGET, widget("c"))
        after = await events.names(1)

    assert sorted(first) == [("ADDED", "a"), ("ADDED", "b")]
    assert (empty, kind, mark["kind"]) == ("BOOKMARK", "BOOKMARK", "Widget")
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["metadata"]["resourceVersion"]) >= version
    assert after == [("ADDED", "c")]


async def test_a_streaming_list_needs_its_match_rule(api: Conversation) -> None:
    """A client that gets 422 falls back to pages."""
    async with api.watch(CONFIG_MAP, sendInitialEvents="true") as events:
        assert events.stream.status == 422


async def test_a_watch_from_a_forgotten_version_gets_410_in_stream(api: Conversation) -> None:
    """The answer's head is 200: who looks at the status alone never lists again."""
    async with api.watch(WIDGET, resourceVersion="1") as events:
        status = events.stream.status
        kind, body = await events.next()

    assert (status, kind) == (200, "ERROR")
    assert (body["code"], body["reason"]) == (410, "Expired")


async def test_a_watch_ends_when_its_time_is_up(api: Conversation) -> None:
    """A clean end is no failure: the client goes on from the last version."""
    version = (await api.list(WIDGET)).version

    async with api.watch(WIDGET, resourceVersion=str(version), timeoutSeconds="1") as events:
        assert (await events.next())[0] == "END"


async def test_status_writes_are_events_too(api: Conversation) -> None:
    """Readiness comes to the controller this way."""
    made = await api.made(REPLICA_SET, replica_set("rs"))

    async with api.watch(REPLICA_SET, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        kind, body = await events.next()

    assert kind == "MODIFIED"
    assert body["status"]["observedGeneration"] == 1
