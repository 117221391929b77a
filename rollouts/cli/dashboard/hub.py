"""One set of watches for everybody who looks at the same thing: the API server does not notice how many they are.

A feed lives for as long as somebody looks, and a minute longer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, TypeAlias

from msgspec.structs import replace

from rollouts.cli.dashboard.drawing import Drawn, SharedSnapshots
from rollouts.cli.dashboard.experiment_list import ListedExperiment
from rollouts.cli.dashboard.links import LinkTemplate
from rollouts.cli.dashboard.list_page import Listed
from rollouts.cli.view.follow import Collection, Kept, KeptObjects, following_as
from rollouts.cli.view.reading import changes, collections_of, collections_of_experiment
from rollouts.cli.view.session import Session
from rollouts.errors import ApiUnavailable, RolloutsError
from rollouts.objects import EXPERIMENT, ROLLOUT, Key, Kind, Manifest
from rollouts.ports import ApiServer, Request, Response, WatchStream

IDLE_S = 60.0
FEEDS_MAX = 20  # Rollouts and Experiments that are looked at at the same time, with five watches each
STREAMS_MAX = 20  # pages with live updates of one session; a page that nobody sees gives its own back
STREAMS_IN_ALL_MAX = 400  # of the 500 connections; the others are left for pages that are loaded and for signing in
_COLLECTIONS = {ROLLOUT: collections_of, EXPERIMENT: collections_of_experiment}
_HOUR_S = 3_600.0
_CLOSES_WITHIN_S = 1.0

_Looked: TypeAlias = tuple[Kind, Key | None]
"""What a feed is about: one object; all of a namespace, by a key without a name; or all."""


class TooManyLook(RolloutsError):
    """A bound is reached; the message says which, and what to close."""


class Reached:
    """Implements `ports.ApiServer`: passes everything on, and keeps since when nothing has been answered."""

    def __init__(self, session: Session) -> None:
        self._api: ApiServer = session.api
        self._clock = session.clock
        self.lost_since_s: float | None = None

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As in the port."""
        with self._watched():
            return await self._api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """As in the port."""
        with self._watched():
            return await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """Leaves the connection open: it belongs to the session."""

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except ApiUnavailable:
            self.lost_since_s = self.lost_since_s or self._clock.now_s()
            raise
        self.lost_since_s = None


class Feed(Generic[Kept]):
    """What one page shows, as it is now."""

    def __init__(self, follow: Callable[[], Awaitable[AbstractAsyncContextManager[KeptObjects[Kept]]]]) -> None:
        """Begins to follow."""
        self.viewers = 0
        self.used_at_s = asyncio.get_running_loop().time()
        self.changed = asyncio.Event()
        self.error: Exception | None = None
        self._followed: KeptObjects[Kept] | None = None
        self._task = asyncio.create_task(self._run(follow))

    async def objects(self) -> KeptObjects[Kept]:
        """What is followed, once it has been listed. Raises: what ended it, also later."""
        while self._followed is None and self.error is None:
            await self.changed.wait()
        if self.error is not None or self._followed is None:
            raise self.error or TooManyLook("the page was closed")
        return self._followed

    def tell(self) -> None:
        """Wakes everybody who waits for `changed`; whoever waits again, waits for the next change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def stop(self, ended: Callable[[Feed[Kept]], None]) -> None:
        """Begins to end the watches, and calls `ended` when they have."""
        self._task.add_done_callback(lambda _: ended(self))
        self._task.cancel()

    async def close(self) -> None:
        """Ends the watches. One cancellation may be lost in a request that ends in the same moment."""
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CLOSES_WITHIN_S)

    async def _run(self, follow: Callable[[], Awaitable[AbstractAsyncContextManager[KeptObjects[Kept]]]]) -> None:
        try:
            async with await follow() as followed:
                self._followed = followed
                async for _ in changes(followed, at_least_every_s=_HOUR_S):
                    self.tell()
        except Exception as error:  # also a mistake of ours: whoever waits for the objects would wait for ever
            self.error = error
            self.tell()


class SharedDrawings:
    """What all sessions of one dashboard have in common."""

    def __init__(self, links: tuple[LinkTemplate, ...] = ()) -> None:
        self.links = links
        self.drawn = Drawn()
        self.streams = 0


class Hub:
    """All feeds of one session."""

    def __init__(
        self,
        session: Session,
        namespace: str | None,
        shared: SharedDrawings | None = None,
        *,
        streams_last_s: float | None = None,
    ) -> None:
        """No feed yet.

        Args:
            shared: what all sessions of a dashboard have in common; None where there is one.
            streams_last_s: how long a page has live updates until its browser has to ask again; None for as long as it likes.
        """
        self.streams_last_s = streams_last_s
        self.namespace = namespace
        self.shared = shared or SharedDrawings()
        self.reached = Reached(session)
        self.session = replace(session, api=self.reached)
        self.streams = 0
        self.closing = False
        self._feeds: dict[_Looked, Feed[Any]] = {}
        self._ended: set[Feed[Any]] = set()

    @property
    def kept(self) -> int:
        """How many feeds it has, with those whose watches are ending."""
        return len(self._feeds) + len(self._ended)

    def session_in(self, namespace: str) -> Session:
        """The session in a namespace."""
        return replace(self.session, namespace=namespace)

    @contextlib.asynccontextmanager
    async def looking_at(self, kind: Kind, key: Key) -> AsyncIterator[Feed[Manifest]]:
        """The feed of one Rollout or Experiment, for as long as the block lasts. Raises: TooManyLook."""
        session, collections = self.session_in(key.namespace), _COLLECTIONS[kind]

        async def follow() -> AbstractAsyncContextManager[KeptObjects[Manifest]]:
            of_it = await collections(session, key)
            return following_as(session, of_it, keep=lambda thing: thing, snapshot=self.shared.drawn.objects.of)

        with self._seen((kind, key), follow) as feed:
            yield feed

    @contextlib.asynccontextmanager
    async def looking_at_list(self, namespace: str | None = None) -> AsyncIterator[Feed[Listed]]:
        """The feed of all Rollouts, of this namespace or of the hub's; it keeps a row of each. Raises: TooManyLook."""
        drawn = self.shared.drawn
        with self._listing(ROLLOUT, namespace, drawn.row, drawn.lists) as feed:
            yield feed

    @contextlib.asynccontextmanager
    async def looking_at_experiments(self, namespace: str | None = None) -> AsyncIterator[Feed[ListedExperiment]]:
        """The feed of all Experiments, likewise. Raises: TooManyLook."""
        drawn = self.shared.drawn
        with self._listing(EXPERIMENT, namespace, drawn.experiment_row, drawn.experiment_lists) as feed:
            yield feed

    @contextlib.contextmanager
    def streaming(self) -> Iterator[None]:
        """Counts one page with live updates for as long as the block lasts. Raises: TooManyLook."""
        if self.streams >= STREAMS_MAX:
            raise TooManyLook(f"{STREAMS_MAX} of your pages are open, which is the most: close one of them")
        if self.shared.streams >= STREAMS_IN_ALL_MAX:
            raise TooManyLook(f"{STREAMS_IN_ALL_MAX} pages of everybody are open, which is the most: load yours anew")
        self.streams += 1
        self.shared.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
            self.shared.streams -= 1

    async def close(self) -> None:
        """Ends all feeds, and wakes all streams so that they end."""
        self.closing = True
        for key, feed in [*self._feeds.items()]:
            feed.tell()
            self._end(key)
        await asyncio.gather(*(feed.close() for feed in self._ended))

    def _listing(
        self, kind: Kind, namespace: str | None, keep: Callable[[Manifest], Kept], shared: SharedSnapshots[Kept]
    ) -> AbstractContextManager[Feed[Kept]]:
        namespace = namespace or self.namespace

        async def follow() -> AbstractAsyncContextManager[KeptObjects[Kept]]:
            collection = Collection(kind=kind, namespace=namespace)
            return following_as(self.session, (collection,), keep=keep, snapshot=shared.of)

        return self._seen((kind, Key(namespace, "") if namespace else None), follow)

    @contextlib.contextmanager
    def _seen(
        self, key: _Looked, follow: Callable[[], Awaitable[AbstractAsyncContextManager[KeptObjects[Kept]]]]
    ) -> Iterator[Feed[Kept]]:
        feed = self._feeds.get(key)
        if feed is None or feed.error is not None:
            if feed is None and len(self._feeds) >= FEEDS_MAX:
                self._make_room()
            feed = self._feeds[key] = Feed(follow)
        feed.viewers += 1
        try:
            yield feed
        finally:
            feed.viewers -= 1
            feed.used_at_s = asyncio.get_running_loop().time()
            asyncio.get_running_loop().call_later(IDLE_S, self._close_if_idle, key, feed)

    def _make_room(self) -> None:
        """Ends the feed that was seen longest ago. Raises: TooManyLook, when somebody looks at each."""
        unseen = [key for key, each in self._feeds.items() if not each.viewers]
        if not unseen:
            raise TooManyLook(
                f"{FEEDS_MAX} pages of Rollouts and Experiments are open, which is the most: close one of them"
            )
        self._end(min(unseen, key=lambda key: self._feeds[key].used_at_s))

    def _close_if_idle(self, key: _Looked, feed: Feed[Any]) -> None:
        idle_s = asyncio.get_running_loop().time() - feed.used_at_s
        if not feed.viewers and idle_s >= IDLE_S and self._feeds.get(key) is feed:
            self._end(key)

    def _end(self, key: _Looked) -> None:
        feed = self._feeds.pop(key)
        self._ended.add(feed)
        feed.stop(self._ended.discard)
