"""What pages have in common at the server: whom an address names, what somebody was told, and live updates."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager

from aiohttp import web

from rollouts.cli.dashboard.answers import error_page, page_answer
from rollouts.cli.dashboard.drawing import (
    CommandOutcome,
    Drawing,
    RunDrawing,
    next_turn_s,
    page_event,
    sent,
)
from rollouts.cli.dashboard.hub import Feed, Hub, TooManyLook
from rollouts.cli.dashboard.rights import ON_LOAD_S, WHILE_OPEN_S, KnownRights
from rollouts.cli.view.follow import Kept
from rollouts.errors import RolloutsError
from rollouts.objects import Key, Kind, Manifest

AT_MOST_EVERY_S = 0.2  # a page is sent so often, however often its objects change
_TOLD_KEPT = 32
NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""What objects can be called."""


def key_in(request: web.Request) -> Key:
    """The object that the address names. Raises: web.HTTPNotFound, for what no object can be called."""
    return Key(name_in(request, "namespace"), name_in(request, "name"))


def name_in(request: web.Request, part: str) -> str:
    """A name in the address. Raises: web.HTTPNotFound, for what no object can be called."""
    name = request.match_info[part]
    if not NAME.fullmatch(name):
        raise web.HTTPNotFound
    return name


class Outcomes:
    """What became of the latest acts of one person, each shown where its mark is in the address."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, Hashable, CommandOutcome]] = deque(maxlen=_TOLD_KEPT)

    def keep(self, about: Hashable, outcome: CommandOutcome) -> str:
        """Keeps one, and returns its mark."""
        mark = secrets.token_urlsafe(8)
        self._kept.append((mark, about, outcome))
        return mark

    def of(self, request: web.Request, about: Hashable) -> CommandOutcome | None:
        """The one whose mark the address has, if it is about this."""
        mark = request.query.get("told", "")
        return next((outcome for *found, outcome in self._kept if found == [mark, about]), None)


class ObjectPages(ABC):
    """The pages of objects of one kind, for one person: that of an object, and those of its AnalysisRuns."""

    def __init__(self, hub: Hub, rights: KnownRights, kind: Kind) -> None:
        self._kind = kind
        self._hub = hub
        self._rights = rights
        self._told = Outcomes()

    @abstractmethod
    async def _one_of(self, key: Key, told: CommandOutcome | None, *, newer_than_s: float) -> Drawing[Manifest]:
        """The page of one object. `newer_than_s` is how old the rights may be that it is drawn with."""

    async def one(self, request: web.Request) -> web.StreamResponse:
        """One object."""
        key = key_in(request)
        async with self._hub.looking_at(self._kind, key) as feed:
            followed = await feed.objects()
            drawing = await self._one_of(key, self._told.of(request, key), newer_than_s=ON_LOAD_S)
            return page_answer(drawing.page(followed, self._now_s()))

    async def one_stream(self, request: web.Request) -> web.StreamResponse:
        """Its live updates."""
        key = key_in(request)
        told = self._told.of(request, key)

        async def what() -> Drawing[Manifest]:
            return await self._one_of(key, told, newer_than_s=WHILE_OPEN_S)

        return await live_pages(request, self._hub, self._hub.looking_at(self._kind, key), what)

    async def run(self, request: web.Request) -> web.StreamResponse:
        """One AnalysisRun about it."""
        key, run = key_in(request), name_in(request, "run")
        async with self._hub.looking_at(self._kind, key) as feed:
            page = self._run_of(key, run).found(await feed.objects(), self._now_s())
            if page is None:
                raise web.HTTPNotFound
            return page_answer(page)

    async def run_stream(self, request: web.Request) -> web.StreamResponse:
        """Its live updates."""
        key, run = key_in(request), name_in(request, "run")

        async def what() -> Drawing[Manifest]:
            return self._run_of(key, run)

        return await live_pages(request, self._hub, self._hub.looking_at(self._kind, key), what)

    def _run_of(self, key: Key, name: str) -> RunDrawing:
        return RunDrawing(kind=self._kind, key=key, name=name, lost_since_s=self._hub.reached.lost_since_s)

    def _now_s(self) -> float:
        return self._hub.session.clock.now_s()


async def live_pages(
    request: web.Request,
    hub: Hub,
    looking: AbstractAsyncContextManager[Feed[Kept]],
    what: Callable[[], Awaitable[Drawing[Kept]]],
) -> web.StreamResponse:
    """Sends the page whenever it has changed, until the browser or the server goes."""
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    with contextlib.suppress(ConnectionError):  # the browser has gone
        try:
            with hub.streaming():
                async with looking as feed:
                    await _send_pages(request, hub, answer, feed, what)
        except TooManyLook as full:
            await answer.write(sent("full", f"no live updates: {full}"))
    return answer


async def _send_pages(
    request: web.Request,
    hub: Hub,
    answer: web.StreamResponse,
    feed: Feed[Kept],
    what: Callable[[], Awaitable[Drawing[Kept]]],
) -> None:
    before = b""
    loop = asyncio.get_running_loop()
    over_s = loop.time() + (hub.streams_last_s or float("inf"))
    while not hub.closing and request.transport is not None and not request.transport.is_closing():
        changed = feed.changed
        try:
            followed, drawing = await feed.objects(), await what()
            event = hub.shared.drawn.event(drawing, followed, hub.session.clock.now_s())
        except RolloutsError as error:
            event = page_event(error_page(error))
        if event != before:
            before = event
            await answer.write(event)
        else:
            await answer.write(b": still here\n\n")  # finds out whether the browser has gone
        if feed.error is not None:
            return
        await asyncio.sleep(AT_MOST_EVERY_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(next_turn_s(), over_s)):
                await changed.wait()
        if loop.time() >= over_s:
            await answer.write(sent("again", ""))
            return
