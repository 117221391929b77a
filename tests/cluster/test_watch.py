"""A watch keeps the store like the API server through every way in which a watch can end, and never goes back in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from rollouts.cluster.store import Store
from rollouts.cluster.structs import ServiceObject
from rollouts.cluster.watch import INITIAL_EVENTS_END
from rollouts.errors import AnswerTooLarge, ApiUnavailable
from rollouts.objects import SERVICE
from rollouts.ports import Request, Response
from rollouts.sim.clock import SimClock
from tests.cluster.reflecting import Seen, reflecting
from tests.cluster.stand_ins import NoServer

pytestmark = pytest.mark.virtual_time(limit_s=7200)

SILENCE_S = 90.0


def service(name: str, version: int, uid: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": uid or name, "resourceVersion": str(version)}}


def event(kind: str, name: str, version: int, uid: str | None = None) -> bytes:
    return json.dumps({"type": kind, "object": service(name, version, uid)}).encode() + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    """A bookmark; `end` makes it the end mark of a streaming list."""
    annotations = {INITIAL_EVENTS_END: "true"} if end else {}
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"


def error(code: int) -> bytes:
    status = {"kind": "Status", "status": "Failure", "code": code}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class Stream:
    """A watch that says its lines and then ends, breaks, or stays silent."""

    def __init__(self, *lines: bytes, then: str = "open", status: int = 200) -> None:
        self.lines = list(lines)
        self.then = then
        self.status = status
        self.closed = False

    async def readline(self) -> bytes:
        if self.lines:
            return self.lines.pop(0)
        if self.then == "end":
            return b""
        if self.then == "break":
            raise ApiUnavailable("reset")
        await asyncio.sleep(SILENCE_S if self.then == "silence" else 1e6)
        raise ApiUnavailable("silent")

    async def aclose(self) -> None:
        self.closed = True


class Streams(NoServer):
    """An API server that opens the scripted watches in turn; the last one stays open for ever."""

    def __init__(self, *streams: Stream | Exception, pages: tuple[Response, ...] = ()) -> None:
        self.streams = list(streams)
        self.pages = list(pages)
        self.watches: list[tuple[float, Request]] = []
        self.lists: list[Request] = []

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        self.lists.append(Request(request.method, request.path, dict(request.query)))
        return self.pages.pop(0) if deadline_s > 0 else Response(504, b"")

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> Any:
        assert deadline_s > 0
        assert silence_s == SILENCE_S
        self.watches.append((asyncio.get_running_loop().time(), request))
        stream = self.streams.pop(0) if self.streams else Stream()
        if isinstance(stream, Exception):
            raise stream
        return stream

    def versions(self) -> list[str | None]:
        """Where each watch was asked to begin; None for a streaming list."""
        return [request.query.get("resourceVersion") for _, request in self.watches]


NO_STREAMING_LISTS = json.dumps({"kind": "Status", "code": 422, "reason": "Invalid"}).encode()


@asynccontextmanager
async def reflected(api: Streams, **options: Any) -> AsyncIterator[Seen[ServiceObject]]:
    table = Store(clock=SimClock(asyncio.get_running_loop())).add(SERVICE, ServiceObject)
    async with reflecting(api, table, silence_s=SILENCE_S, **options) as seen:
        yield seen


async def watched(api: Streams, for_s: float, **options: Any) -> Seen[ServiceObject]:
    async with reflected(api, **options) as seen:
        await asyncio.sleep(for_s)
        return seen


async def test_a_streaming_list_becomes_the_watch() -> None:
    """One connection lists and goes on: no gap, and no second request."""
    listed = [event("ADDED", "a", 3), event("ADDED", "b", 2), bookmark(5, end=True)]
    api = Streams(Stream(*listed, event("MODIFIED", "a", 6), event("DELETED", "b", 7)))
    seen = await watched(api, 1, label_selector="x=y")
    assert seen.names() == ["a"]
    assert seen.versions() == [(None, 3), (None, 2), (3, 6), (2, None)]
    (request,) = (request for _, request in api.watches)
    assert request.query["sendInitialEvents"] == "true"
    assert request.query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in request.query  # consistent: never from an old cache
    assert 300 <= int(request.query["timeoutSeconds"]) <= 600
    assert request.query["labelSelector"] == "x=y"


async def test_nothing_is_shown_before_the_list_is_whole() -> None:
    """Half a list looks like mass deletion of the other half."""
    api = Streams(Stream(event("ADDED", "a", 3)))
    seen = await watched(api, 1)
    assert seen.names() == []
    assert not seen.table.synced.is_set()


async def test_a_refusal_inside_a_streaming_list_is_told_and_asked_again() -> None:
    """The answer was 200 by then."""
    again = Stream(event("ADDED", "a", 3), bookmark(5, end=True))
    seen = await watched(Streams(Stream(error(403)), again), 60)

    assert "403" in str(seen.problems[0])
    assert seen.names() == ["a"]


async def test_a_server_without_streaming_lists_is_listed_in_pages() -> None:
    """1.31 and older, or the gate turned off: 422 says so, and it is not asked again."""
    pages = (paged(9, service("a", 3), then="more"), paged(9, service("b", 4)))
    api = Streams(Stream(NO_STREAMING_LISTS, status=422), Stream(event("ADDED", "c", 10)), pages=pages)
    seen = await watched(api, 1)
    assert seen.names() == ["a", "b", "c"]
    assert seen.table.synced.is_set()
    assert [request.query for request in api.lists] == [{"limit": "500"}, {"limit": "500", "continue": "more"}]
    assert api.versions() == [None, "9"]


async def test_expired_pages_are_asked_for_in_one() -> None:
    """With a slow client the server may forget the list's revision between two pages."""
    pages = (paged(9, service("gone", 3), then="more"), Response(410, b"{}"), paged(12, service("a", 11)))
    api = Streams(Stream(b"{}", status=400), pages=pages)
    seen = await watched(api, 1)
    assert seen.names() == ["a"]
    assert api.lists[-1].query == {}


async def test_a_clean_end_goes_on_at_once_from_the_last_bookmark() -> None:
    """Watches end by themselves every few minutes; a new list each time would cost the server everything again."""
    api = Streams(Stream(bookmark(5, end=True), event("ADDED", "a", 6), bookmark(40), then="end"), Stream())
    seen = await watched(api, 1)
    assert api.versions() == [None, "40"]
    assert api.watches[1][0] == 0.0
    assert seen.problems == []


async def test_a_watch_that_keeps_ending_at_once_is_not_a_busy_loop() -> None:
    """A broken proxy ends every watch cleanly and immediately."""
    api = Streams(Stream(bookmark(5, end=True), then="end"), *[Stream(then="end") for _ in range(40)])
    await watched(api, 60)
    assert len(api.watches) < 10


async def test_trouble_is_answered_by_growing_pauses_between_watches() -> None:
    """All controllers reconnecting at once keep a starting API server down: 0.8 s, doubled to 30 s, with jitter."""
    api = Streams(Stream(bookmark(5, end=True), then="break"), *[ApiUnavailable("refused")] * 12)
    seen = await watched(api, 600)
    times = [at_s for at_s, _ in api.watches]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    wanted = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, *[30.0] * 6]
    assert [least <= pause <= 2 * least for least, pause in zip(wanted, pauses[:12], strict=True)] == [True] * 12
    assert set(api.versions()[1:]) == {"5"}  # refused connections are no reason to list again
    assert seen.names() == []


async def test_a_good_spell_ends_the_back_off() -> None:
    """A blip a day must not be answered by the pause of yesterday's outage."""
    good = Stream(bookmark(6), then="silence")
    api = Streams(Stream(bookmark(5, end=True), then="break"), *[ApiUnavailable("refused")] * 8, good, Stream())
    await watched(api, 1000)
    (ended_s, _), (again_s, _) = api.watches[-2:]
    assert 0.8 <= again_s - ended_s - SILENCE_S <= 1.6


async def test_an_expired_version_lists_again_and_reports_what_went() -> None:
    """410 may come as a status or inside the stream; what was deleted meanwhile shows only by its absence."""
    expired = json.dumps({"kind": "Status", "code": 410, "reason": "Expired"}).encode()
    relist = [event("ADDED", "b", 4), event("ADDED", "c", 20), bookmark(30, end=True)]
    for gone in (Stream(error(410)), Stream(expired, status=410)):
        first = Stream(event("ADDED", "a", 3), event("ADDED", "b", 4), bookmark(5, end=True), bookmark(6), then="end")
        api = Streams(first, gone, Stream(*relist))
        seen = await watched(api, 5)
        assert seen.names() == ["b", "c"]
        assert seen.versions()[2:] == [(3, None), (None, 20)]
        assert api.versions() == [None, "6", None]


async def test_repeated_and_late_events_change_nothing() -> None:
    """etcd and its caches have sent both."""
    late = [event("MODIFIED", "a", 8), event("MODIFIED", "a", 8), event("MODIFIED", "a", 7), event("ADDED", "b", 6)]
    api = Streams(Stream(event("ADDED", "a", 3), bookmark(5, end=True), *late))
    seen = await watched(api, 1)
    assert seen.versions() == [(None, 3), (3, 8), (None, 6)]
    newest = seen.table.get("shop", "a")
    assert newest is not None
    assert newest.metadata.version == 8


async def test_a_late_event_does_not_turn_the_watch_back() -> None:
    """The next watch begins at the newest that was seen, or everything since would come twice."""
    api = Streams(Stream(bookmark(5, end=True), event("ADDED", "a", 8), event("ADDED", "b", 6), then="end"))
    await watched(api, 1)
    assert api.versions() == [None, "8"]


async def test_a_silent_connection_is_a_dead_peer() -> None:
    """A half-open connection says nothing for ever; bookmarks come about once a minute from a live one."""
    api = Streams(Stream(bookmark(5, end=True), bookmark(6), then="silence"), Stream(event("ADDED", "a", 9)))
    seen = await watched(api, SILENCE_S + 3)
    assert seen.names() == ["a"]
    assert api.versions() == [None, "6"]


async def test_a_watch_without_even_a_bookmark_lists_again() -> None:
    """After a restored backup the server waits silently for a resourceVersion from its lost future (tried on 1.36)."""
    api = Streams(Stream(bookmark(5, end=True), then="end"), Stream(then="silence"), Stream(bookmark(6, end=True)))
    await watched(api, 3 * SILENCE_S)
    assert api.versions()[-1] is None


async def test_a_list_from_the_past_is_refused_until_it_must_be_believed() -> None:
    """An old cache shows deleted objects, so it is refused; after a restored backup the past is the present."""
    past = [Stream(event("ADDED", "old", 3), bookmark(4, end=True)) for _ in range(6)]
    api = Streams(Stream(event("ADDED", "a", 9), bookmark(9, end=True), error(410)), *past)
    async with reflected(api) as seen:
        await asyncio.sleep(10)
        assert seen.names() == ["a"]
        assert any("older than the last" in str(problem) for problem in seen.problems)
        await asyncio.sleep(200)
        assert seen.names() == ["old"]


def paged(version: int, *items: Any, then: str = "") -> Response:
    metadata = {"resourceVersion": str(version), "continue": then}
    return Response(200, json.dumps({"metadata": metadata, "items": items}).encode())


async def test_a_second_list_is_asked_for_nothing_older_than_was_seen() -> None:
    """Servers behind one address may lag behind each other, and a list from a lagging one brings the deleted back."""
    pages = (paged(9, service("a", 3)), paged(12))
    api = Streams(Stream(NO_STREAMING_LISTS, status=422), Stream(error(410)), Stream(), pages=pages)
    await watched(api, 10)
    assert [request.query.get("resourceVersion") for request in api.lists] == [None, "9"]
    assert api.lists[1].query["resourceVersionMatch"] == "NotOlderThan"


async def test_a_restored_server_is_asked_for_what_it_has() -> None:
    """It has never been where we have been, so asking for that would be refused for ever."""
    message = "Timeout: Too large resource version: 9, current: 4"
    status = {"kind": "Status", "code": 504, "reason": "Timeout", "message": message}
    refused = Response(504, json.dumps(status).encode())
    rounds = (refused, paged(4, service("old", 3))) * 6
    api = Streams(Stream(NO_STREAMING_LISTS, status=422), Stream(error(410)), Stream(), pages=(paged(9), *rounds))
    seen = await watched(api, 300)
    assert seen.names() == ["old"]


async def test_a_list_that_breaks_off_is_forgotten() -> None:
    """A cut connection in the middle of a list must not look like the end of the list."""
    cut = Stream(event("ADDED", "a", 3), then="end")
    garbled = Stream(event("ADDED", "a", 3), b'{"type":"ADDED","object":{"meta')
    api = Streams(cut, garbled, Stream(event("ADDED", "b", 4), bookmark(5, end=True)))
    seen = await watched(api, 30)
    assert seen.names() == ["b"]
    assert len(seen.problems) == 2
    assert cut.closed
    assert garbled.closed


async def test_a_version_that_the_server_keeps_refusing_is_given_up() -> None:
    """`Too large resource version` is 504 for ever on a server that was restored; a list ends it."""
    refused = [Stream(error(504)) for _ in range(3)]
    api = Streams(Stream(bookmark(5, end=True), then="end"), *refused, Stream(bookmark(6, end=True)))
    await watched(api, 60)
    assert api.versions() == [None, "5", "5", "5", None]


async def test_refusals_of_another_version_are_counted_anew() -> None:
    """A server that goes on after two of them has nothing lost, and a list would cost it everything again."""
    refused = [[Stream(error(504)) for _ in range(count)] for count in (2, 3)]
    first, second = Stream(bookmark(5, end=True), then="end"), Stream(bookmark(7), then="end")
    api = Streams(first, *refused[0], second, *refused[1], Stream(bookmark(9, end=True)))
    await watched(api, 200)
    assert api.versions() == [None, "5", "5", "5", "7", "7", "7", None]


async def test_a_cancelled_watch_closes_its_connection() -> None:
    """A pod that shuts down must not leave watches open at the API server."""
    stream = Stream(bookmark(5, end=True))
    await watched(Streams(stream), 1)
    assert stream.closed


class LargePages(Streams):
    """An API server whose pages of more than ten objects have more bytes than are read."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if int(request.query.get("limit", "1000")) > 10:
            self.lists.append(Request(request.method, request.path, dict(request.query)))
            raise AnswerTooLarge("the answer has more than 64 MiB")
        return await super().request(request, deadline_s=deadline_s)


async def test_pages_that_are_too_large_are_asked_for_in_smaller_ones() -> None:
    """A tenant's many large objects would else keep every controller from listing, and so from starting."""
    pages = (paged(9, service("a", 3), then="more"), paged(9, service("b", 4)))
    api = LargePages(Stream(NO_STREAMING_LISTS, status=422), Stream(), pages=pages)
    seen = await watched(api, 1)
    assert seen.names() == ["a", "b"]
    assert [request.query["limit"] for request in api.lists] == ["500", "50", "5", "5"]
    assert api.lists[-1].query["continue"] == "more"
    assert seen.problems == []


async def test_an_object_that_makes_its_follower_fail_is_unreadable_and_the_watch_goes_on() -> None:
    """A bug that one object's content brings out must not cost the others their controller."""
    api = Streams(Stream(bookmark(5, end=True), event("ADDED", "a", 6), event("ADDED", "b", 7)))

    def follow(_kind: Any, _before: Any, after: ServiceObject) -> None:
        if after.metadata.name == "a":
            raise RuntimeError("a bug")

    seen = await watched(api, 1, on_change=follow)
    assert set(seen.table.unreadable) == {("shop", "a")}
    assert seen.table.get("shop", "b") is not None
    (unreadable,) = seen.unreadable
    assert unreadable.why == "it makes the controller fail (RuntimeError), which is a bug in the controller"
