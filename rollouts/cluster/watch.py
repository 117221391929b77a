"""List and watch: keeps one table of the store equal to the API server forever, without a request while nothing changes.

The first list is a streaming one if the server supports it (KEP-3157), otherwise pages; both are consistent reads, never from an
old cache (`resourceVersion=0` may answer from the past, kubernetes#59848). Then the watch continues from there: after a clean end
it reconnects at once from the last resourceVersion, after an error it reconnects after a pause, after 410 it lists again. A new
list replaces the old objects at once, at its end, so that readers never see half a list.

Events of one object are never applied backwards, and an event that comes twice changes nothing (KEP-5504: resourceVersions of
one resource are comparable numbers). The event loop makes the pauses, and the caller gives the randomness.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeAlias

import structlog

from rollouts.cluster.client import answer_of
from rollouts.cluster.decoding import Decoder, ServerStatus, UnreadableObject
from rollouts.cluster.store import Change, NamespacedName, Table
from rollouts.cluster.structs import T
from rollouts.cluster.watch_state import WatchState
from rollouts.errors import (
    AnswerTooLarge,
    ApiGone,
    ApiInvalid,
    ApiThrottled,
    ApiUnauthenticated,
    ApiUnavailable,
    RolloutsError,
)
from rollouts.objects import Kind
from rollouts.ports import JSON, LINE_MAX_BYTES, METADATA, METADATA_LIST, ApiServer, Request, Response, WatchStream

OnChange: TypeAlias = Callable[[Kind, Any, Any], None]
"""Called for every change with (kind, object before or None, object after or None), after the store shows it."""

OnUnreadable: TypeAlias = Callable[[Kind, UnreadableObject], None]
"""Called for every object that exists and cannot be read, after the store shows that."""

OnProblem: TypeAlias = Callable[[Kind, RolloutsError], None]
"""Called when a watch has to pause or list again."""

OnListed: TypeAlias = Callable[[], None]
"""Called when all objects have been listed."""

PAGE_LIMIT = 500
HEAD_DEADLINE_S = 10.0
SYNC_SILENCE_S = 60.0  # a streaming list that is silent for so long is dead
SILENCE_S = 150.0  # bookmarks come about once a minute, so two were lost and the peer is dead
WATCH_S = (300, 600)  # the duration that is asked for; random, so that not all watches reconnect at once
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.8, 30.0  # as in client-go's reflector
UNAUTHENTICATED_PAUSE_S = 4.0  # a 401 costs the server next to nothing, and a new token should end the outage at once
GOOD_SPELL_S = 30.0  # a connection that lasts so long ends the back-off
SHORT_WATCH_S = 1.0  # a watch that ends sooner without an event is an error, even after a clean end
PATIENCE_WITH_ERRORS = 3  # error answers for one resourceVersion before a list is tried instead
PATIENCE_WITH_THE_PAST = 5  # lists older than the last one, before we assume that history was turned back
TOO_LARGE = "Too large resource version"
"""In a 504: the server is behind our resourceVersion. Source: apiserver, pkg/storage/errors.go."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

log = structlog.get_logger()


async def reflect(  # noqa: PLR0913 - callbacks and settings, each by name
    api: ApiServer,
    table: Table[T],
    *,
    namespace: str = "",
    label_selector: str = "",
    on_change: OnChange,
    rng: random.Random,
    on_problem: OnProblem | None = None,
    on_unreadable: OnUnreadable | None = None,
    on_listed: OnListed | None = None,
    silence_s: float = SILENCE_S,
) -> NoReturn:
    """Keeps the table's scope for that namespace equal to the API server until cancelled.

    Args:
        namespace: one of the table's scopes; "" for all namespaces and for cluster-scoped kinds.
        label_selector: objects that no longer match it come as deleted.
        on_change: a plain function. An exception of it is a bug, which affects only the object that it was called for: the
            object counts as unreadable until it changes.
        on_unreadable: a plain function; the watch continues after such an object.
        on_listed: a plain function, called after each list and after the changes that it brought.

    Raises: only what `on_problem` raises. Cancellation: safe; the table stays as it is.
    """
    reflector = _Reflector(api, table, namespace, label_selector, on_change, rng, silence_s, on_unreadable, on_listed)
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began_s = loop.time()
        trouble: RolloutsError | None = None
        try:
            if reflector.resource_version is None:
                await reflector.list()
            await reflector.watch()
        except ApiGone as exc:
            reflector.resource_version = None
            trouble = exc
        except RolloutsError as exc:
            trouble = exc
        reflector.ended(trouble)
        if loop.time() - began_s >= GOOD_SPELL_S:
            failures = 0
        if trouble is None:
            continue
        if on_problem is not None:
            on_problem(table.kind, trouble)
        # The first 410 after a good spell is the normal end of an old resourceVersion: list at once.
        if not isinstance(trouble, ApiGone) or failures:
            longest_s = UNAUTHENTICATED_PAUSE_S if isinstance(trouble, ApiUnauthenticated) else LONGEST_PAUSE_S
            pause_s: float = min(longest_s, FIRST_PAUSE_S * 2.0 ** min(failures, 10))
            asked_s = trouble.retry_after_s if isinstance(trouble, ApiThrottled) else 0.0
            await asyncio.sleep(max(pause_s, asked_s) * (1 + rng.random()))
        failures += 1


_Listed: TypeAlias = dict[NamespacedName, T | UnreadableObject]
"""What a list has shown so far, in the order of arrival."""


def _note(listed: _Listed[T], seen: T | UnreadableObject, *, gone: bool = False) -> None:
    where = (seen.metadata.namespace, seen.metadata.name)
    listed.pop(where, None)
    if not gone:
        listed[where] = seen


@dataclass(slots=True)
class _Reflector(Generic[T]):
    """The state of one `reflect` between connections."""

    api: ApiServer
    table: Table[T]
    namespace: str
    label_selector: str
    on_change: OnChange
    rng: random.Random
    silence_s: float
    on_unreadable: OnUnreadable | None = None
    on_listed: OnListed | None = None
    resource_version: str | None = None
    """The version from which the watch continues; None when a list is needed."""
    decoder: Decoder[T] = field(init=False)
    state: WatchState = field(init=False)
    streaming_lists: bool = True
    errors_here: int = 0
    lists_from_the_past: int = 0
    open: WatchStream | None = None
    """The streaming list's connection, which becomes the watch."""

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.table.struct)
        self.state = self.table.watch(self.namespace)

    def ended(self, trouble: RolloutsError | None) -> None:
        """Notes how a list or a watch ended. An old resourceVersion (410) is not a failure; the list that follows may be one."""
        if trouble is None or isinstance(trouble, ApiGone):
            self.state.ended()
        else:
            self.state.failed(str(trouble), now_s=self.table.now_s())

    async def list(self) -> None:
        """Replaces the scope's objects by those that the server has now."""
        if self.streaming_lists:
            try:
                await self._streaming_list()
                return
            except ApiInvalid:  # 400 or 422: this server does not know sendInitialEvents
                self.streaming_lists = False
        await self._paged_list()

    async def watch(self) -> None:
        """Follows changes until the watch ends as planned.

        Raises: ApiGone, when a list is needed; ApiUnavailable and others, when a pause is needed.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        events = 0
        stream, self.open = self.open, None
        try:
            if stream is None:
                if self.resource_version is None:
                    raise ApiGone(f"the {self.table.kind.plural} have not been listed yet")
                stream = await self._open({"resourceVersion": self.resource_version})
            while line := await stream.readline():
                self._apply(line)
                events += 1
                self.errors_here = 0
        except ApiUnavailable:
            if not events and loop.time() - began_s >= self.silence_s:
                # Not even a bookmark came: a server whose history was turned back waits for the resourceVersion to come again.
                self.resource_version = None
            raise
        finally:
            if stream is not None:
                await stream.aclose()
        if not events and loop.time() - began_s < SHORT_WATCH_S:
            raise ApiUnavailable(f"the watch of {self.table.kind.plural} ended at once without an event")

    async def _streaming_list(self) -> None:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        stream = await self._open(query)
        listed: _Listed[T] = {}
        try:
            while True:
                async with asyncio.timeout(SYNC_SILENCE_S):
                    line = await stream.readline()
                if not line:
                    raise ApiUnavailable(f"the streaming list of {self.table.kind.plural} ended before its end mark")
                event = self.decoder.event(line)
                if event.error is not None:
                    self._refused(event.error.code, event.error)
                if event.unreadable is not None:
                    _note(listed, event.unreadable, gone=event.type == "DELETED")
                if event.object is None:
                    continue
                metadata = event.object.metadata
                if event.type != "BOOKMARK":  # a server may send later changes before the end mark
                    _note(listed, event.object, gone=event.type == "DELETED")
                elif (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                    break
            self._swap(listed, metadata.resource_version)
        except TimeoutError as exc:
            await stream.aclose()
            raise ApiUnavailable(f"the streaming list of {self.table.kind.plural} went silent") from exc
        except BaseException:
            await stream.aclose()
            raise
        self.open = stream

    async def _paged_list(self) -> None:
        """Lists in pages, not older than the last list. A server with a restored backup cannot do that: then what it has."""
        seen = self.table.version(self.namespace)
        if seen:
            try:
                await self._pages({"resourceVersion": str(seen), "resourceVersionMatch": "NotOlderThan"})
                return
            except ApiUnavailable as exc:
                if TOO_LARGE not in str(exc):
                    raise
        await self._pages({})

    async def _pages(self, since: dict[str, str]) -> None:
        listed: _Listed[T] = {}
        query = {"limit": str(PAGE_LIMIT)} | since
        if self.label_selector:
            query["labelSelector"] = self.label_selector
        while True:
            accept = METADATA_LIST if self.table.metadata_only else JSON
            request = Request("GET", self._path(), query, accept=accept)
            try:
                response = await self.api.request(request, deadline_s=SYNC_SILENCE_S)
            except AnswerTooLarge:
                limit = int(query.get("limit", PAGE_LIMIT * 10)) // 10
                if not limit:
                    raise
                query["limit"] = str(limit)
                continue
            if response.status == 410 and "continue" in query:
                # The pages are too slow for the server's history, so one request lists all, as in client-go.
                listed = {}
                del query["continue"], query["limit"]
                query |= since
                continue
            page = self.decoder.page(answer_of(request, response))
            found: list[T | UnreadableObject] = [*page.items, *page.unreadable]
            for seen in found:
                _note(listed, seen)
            if not page.continue_token:
                break
            query = {name: value for name, value in query.items() if name not in since}  # the token contains it
            query["continue"] = page.continue_token
        self._swap(listed, page.resource_version)

    def _swap(self, listed: _Listed[T], resource_version: str) -> None:
        seen = self.table.version(self.namespace)
        if int(resource_version) < seen and self.lists_from_the_past < PATIENCE_WITH_THE_PAST:
            self.lists_from_the_past += 1
            raise ApiUnavailable(
                f"the list of {self.table.kind.plural} is older than the last: resourceVersion {resource_version}, seen {seen}"
            )
        self.lists_from_the_past = 0
        known = dict(self.table.unreadable)
        unreadable = {where: found for where, found in listed.items() if isinstance(found, UnreadableObject)}
        objects = [found for found in listed.values() if not isinstance(found, UnreadableObject)]
        changes = self.table.replace(self.namespace, objects, resource_version, unreadable=unreadable.values())
        self.resource_version = resource_version
        self.state.heard(now_s=self.table.now_s())
        for change in changes:
            self._tell(change)
        for where, found in unreadable.items():
            if where not in known or known[where].metadata.version != found.metadata.version:
                self._tell_unreadable(found)
        if self.on_listed is not None:
            self.on_listed()

    def _apply(self, line: bytes) -> None:
        event = self.decoder.event(line)
        if event.error is not None:
            self._refused(event.error.code, event.error)
        self.state.heard(now_s=self.table.now_s())
        if event.unreadable is not None:
            self._apply_unreadable(event.type, event.unreadable)
        if event.object is None:
            return
        version = event.object.metadata.resource_version
        match event.type:
            case "ADDED" | "MODIFIED":
                change = self.table.put(self.namespace, event.object)
            case "DELETED":
                change = self.table.remove(self.namespace, event.object)
            case "BOOKMARK":
                self.table.bookmark(self.namespace, version)
                change = None
            case other:
                raise ApiUnavailable(f"the watch of {self.table.kind.plural} sent {other!r}, which is not an event")
        self._go_on_behind(version)
        if change is not None:
            self._tell(change)

    def _apply_unreadable(self, kind: str, seen: UnreadableObject) -> None:
        """Notes an unreadable object, after which the watch continues: another request would bring the same object."""
        self._go_on_behind(seen.metadata.resource_version)
        if kind == "DELETED":
            if (change := self.table.remove(self.namespace, seen)) is not None:
                self._tell(change)
        elif self.table.put_unreadable(self.namespace, seen):
            self._tell_unreadable(seen)

    def _go_on_behind(self, version: str) -> None:
        if int(version) > int(self.resource_version or 0):
            self.resource_version = version

    def _tell_unreadable(self, seen: UnreadableObject) -> None:
        if self.on_unreadable is not None:
            self.on_unreadable(self.table.kind, seen)

    def _tell(self, change: Change[T]) -> None:
        try:
            self.on_change(self.table.kind, change.before, change.after)
        except Exception as exc:
            log.exception("change_handler_crashed", kind=self.table.kind.kind)
            if change.after is not None:
                why = f"it makes the controller fail ({type(exc).__name__}), which is a bug in the controller"
                seen = UnreadableObject(change.after.metadata, why)
                self.table.unreadable[seen.metadata.namespace, seen.metadata.name] = seen
                self._tell_unreadable(seen)

    async def _open(self, query: dict[str, str]) -> WatchStream:
        query |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(self.rng.randint(*WATCH_S))}
        if self.label_selector:
            query["labelSelector"] = self.label_selector
        accept = METADATA if self.table.metadata_only else JSON
        request = Request("GET", self._path(), query, accept=accept)
        stream = await self.api.open_watch(request, deadline_s=HEAD_DEADLINE_S, silence_s=self.silence_s)
        if stream.status == 200:
            self.state.opened()
            return stream
        try:
            body = await read_refusal(stream)
        finally:
            await stream.aclose()
        self._count_error(stream.status)
        answer_of(request, Response(stream.status, body))
        raise ApiUnavailable(f"GET {request.path}: status {stream.status} is not a watch")

    def _path(self) -> str:
        return self.table.kind.path(self.namespace or None)

    def _refused(self, code: int, status: ServerStatus) -> NoReturn:
        """Raises the error for an ERROR event, which comes inside a 200 answer."""
        message = f"watch of {self.table.kind.plural}: {code} {status.reason} {status.message}".rstrip()
        if code == 410:
            raise ApiGone(message)
        self._count_error(code)
        raise ApiUnavailable(message)

    def _count_error(self, code: int) -> None:
        """Counts errors for one resourceVersion (one from the server's future, for example); after some, a list is needed."""
        if code in (429, 502, 503):  # these are about the server, not about the resourceVersion
            return
        self.errors_here += 1
        if self.errors_here >= PATIENCE_WITH_ERRORS:
            self.errors_here = 0
            self.resource_version = None


async def read_refusal(stream: WatchStream) -> bytes:
    """The `Status` of a refused watch: one line, or several, as kube-apiserver 1.36 answers who asks for metadata only."""
    body = await stream.readline()
    if body.strip() == b"{":
        while (line := await stream.readline()) and len(body) < LINE_MAX_BYTES:
            body += line
            if line.startswith(b"}"):
                break
    return body
