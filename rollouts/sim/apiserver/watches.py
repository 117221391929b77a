"""Open watches: first the initial events, then every change that passes the watch's filter, and bookmarks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import Struct

from rollouts.errors import ApiUnavailable
from rollouts.objects import Manifest
from rollouts.sim.storage.history import ADDED, DELETED, PARTIAL_METADATA, CommittedWrite, ObjectHistory, Stored
from rollouts.sim.storage.refusals import Refused, expired
from rollouts.sim.storage.registry import Resource

BOOKMARK_PERIOD_S = 60.0  # the real server sends one about once a minute
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchFilter(Struct, frozen=True):
    """The changes that a watch shows; without a namespace those of all, as PartialObjectMetadata if `metadata_only`."""

    resource: Resource
    namespace: str | None
    selects: Callable[[Stored], bool]
    metadata_only: bool = False

    def shown(self, stored: Stored) -> Stored:
        """The version as the watch shows it."""
        return stored.metadata_only() if self.metadata_only else stored

    def line(self, change: CommittedWrite) -> bytes | None:
        """The line of the event; None when it is not shown.

        An object that leaves the selection is shown as DELETED, one that enters it as ADDED.
        """
        new = change.new
        if self.namespace is not None and new.metadata.get("namespace") != self.namespace:
            return None
        is_in = change.event != DELETED and self.selects(new)
        was_in = change.old is not None and self.selects(change.old)
        if is_in:
            return self.shown(new).line(change.event if was_in else ADDED)
        if not was_in:
            return None
        if change.event == DELETED or change.old is None:
            return self.shown(new).line(DELETED)
        # Like the real server, it shows the last version that was selected, with the resourceVersion of the change.
        metadata = {**change.old.metadata, "resourceVersion": str(new.version)}
        last = Stored({**change.old.manifest, "metadata": metadata}, change.old.owners, new.version)
        return self.shown(last).line(DELETED)


class SimWatch:
    """A `ports.WatchStream` of an `ObjectHistory`; times are loop seconds.

    Args:
        silence_s: longest wait for one line.
        bookmarks: whether to send one each minute.
        timeout_s: after which the server ends the watch; None for never.
    """

    status = 200

    def __init__(
        self,
        history: ObjectHistory,
        shown: WatchFilter,
        *,
        silence_s: float,
        bookmarks: bool,
        timeout_s: float | None,
        on_end: Callable[[SimWatch], None],
    ) -> None:
        self._history = history
        self._shown = shown
        self._silence_s = silence_s
        self._lines: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._end_timer = self._loop.call_later(timeout_s, self.end) if timeout_s is not None else None
        self._unlisten: Callable[[], None] = lambda: None
        self._bookmark_timer: asyncio.TimerHandle | None = None
        if bookmarks:
            self._bookmark_timer = self._loop.call_later(BOOKMARK_PERIOD_S, self._periodic_bookmark)

    def start_from(self, version: int) -> None:
        """Sends the changes after `version`, then new changes; sends an error 410 when the old ones are no longer kept."""
        changes = self._history.since(self._shown.resource.kind, version)
        if changes is None:
            refused = expired(f"too old resource version: {version} ({self._history.version})")
            self._send(msgspec.json.encode({"type": "ERROR", "object": refused.status()}) + b"\n")
            self.end()
            return
        for change in changes:
            self._on_change(change)
        self.start_from_now()

    def start_with_state(self, *, end_mark: bool) -> None:
        """Sends every object as ADDED, then new changes; with `end_mark` a bookmark shows where the objects end."""
        for stored in self._history.select(self._shown.resource.kind, self._shown.namespace):
            if self._shown.selects(stored):
                self._send(self._shown.shown(stored).line(ADDED))
        if end_mark:
            self._send(self._bookmark(annotations={INITIAL_EVENTS_END: "true"}))
        self.start_from_now()

    async def readline(self) -> bytes:
        """The line of the next event; b"" at the end. Raises: ApiUnavailable after `silence_s` without an event."""
        while not self._lines:
            if self._ended:
                return b""
            self._waiting = self._loop.create_future()
            try:
                async with asyncio.timeout(self._silence_s):
                    await self._waiting
            except TimeoutError as exc:
                await self.aclose()
                raise ApiUnavailable(f"the watch was silent for {self._silence_s:g} s") from exc
            finally:
                self._waiting = None
        return self._lines.popleft()

    async def aclose(self) -> None:
        """Ends the watch; events that were not read are lost."""
        self.end()
        self._lines.clear()

    def end(self) -> None:
        """Ends the watch by the server; lines that were sent can still be read."""
        if self._ended:
            return
        self._ended = True
        self._unlisten()
        for timer in (self._end_timer, self._bookmark_timer):
            if timer is not None:
                timer.cancel()
        self._wake()
        self._on_end(self)

    def start_from_now(self) -> None:
        """Sends new changes only."""
        self._unlisten = self._history.listen(self._shown.resource.kind, self._on_change)

    def _on_change(self, change: CommittedWrite) -> None:
        if (line := self._shown.line(change)) is not None:
            self._send(line)

    def _periodic_bookmark(self) -> None:
        self._send(self._bookmark())
        self._bookmark_timer = self._loop.call_later(BOOKMARK_PERIOD_S, self._periodic_bookmark)

    def _bookmark(self, **more: dict[str, str]) -> bytes:
        kind = self._shown.resource.kind
        metadata: Manifest = {"resourceVersion": str(self._history.version), **more}
        head = {"kind": kind.kind, "apiVersion": kind.api_version}
        mark = {**(PARTIAL_METADATA if self._shown.metadata_only else head), "metadata": metadata}
        return msgspec.json.encode({"type": "BOOKMARK", "object": mark}) + b"\n"

    def _send(self, line: bytes) -> None:
        self._lines.append(line)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class RefusedWatch:
    """A refused watch: the `Status` object, in one line; indented as the real server answers who asks for metadata only."""

    def __init__(self, refused: Refused, *, indented: bool = False) -> None:
        self.status = refused.code
        body = msgspec.json.encode(refused.status())
        self._lines = deque((msgspec.json.format(body) if indented else body).splitlines(keepends=True))

    async def readline(self) -> bytes:
        """The next line of the `Status` object, then b""."""
        return self._lines.popleft() if self._lines else b""

    async def aclose(self) -> None:
        """Does nothing: there is no connection."""
