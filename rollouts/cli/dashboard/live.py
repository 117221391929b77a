"""What pages have in common at the server: whom an address names, what somebody was told, and live updates."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager

from aiohttp import web

from rollouts.cli.dashboard.answers import error_page
from rollouts.cli.dashboard.drawing import CommandOutcome, Drawing, next_turn_s, page_event, sent
from rollouts.cli.dashboard.hub import Feed, Hub, TooManyLook
from rollouts.cli.view.follow import Kept
from rollouts.errors import RolloutsError
from rollouts.objects import Key

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
