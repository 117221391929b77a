"""Between a controller and the API server: passes everything on, and holds each Rollout's n-th write for ever.

So a test can kill the controller at an exact place: with a write that never arrived, or with one that took effect and whose
answer nobody heard. One kill serves many Rollouts, each held at a place of its own.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web

from tests.lab.control_plane import ControlPlane

FAREWELL_S = 0.5
_PER_CONNECTION = {"connection", "content-length", "host", "transfer-encoding", "date"}


class Loss(Enum):
    """What a crash costs."""

    THE_WRITE = "the write never arrives"
    THE_ANSWER = "the write takes effect, its answer is never heard"


@dataclass(frozen=True, slots=True)
class Place:
    """The `number`-th write of an update, from 1, Events not counted."""

    number: int
    loss: Loss


class Interceptor:
    """The proxy, in a thread of its own while it is a context. Writes are counted by Rollout from `arm` on."""

    def __init__(self, plane: ControlPlane, places: Mapping[str, Place]) -> None:
        """Args: places: by name of the Rollout; names have no `-`, so that all its objects' names tell whose they are."""
        self._plane = plane
        self._places = places
        self._counts: Counter[str] = Counter()
        self.held: set[str] = set()
        """Those that are at their place."""
        self._armed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._listening = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    def kubeconfig(self, original: Path) -> Path:
        """A copy of a kubeconfig that leads here."""
        config = json.loads(original.read_text())
        config["clusters"][0]["cluster"] = {"server": self.url}
        path = original.with_name(f"intercepted-{self.url.rpartition(':')[2]}.kubeconfig")
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    def arm(self) -> None:
        """From now on writes are counted and held."""
        self._armed = True

    def wait_until_all_are_held(self, *, within_s: float) -> None:
        """Raises: AssertionError naming those that did not come to their place."""
        if self.held_within(within_s, count=len(self._places)) < len(self._places):
            missing = {name: self._counts[name] for name in self._places if name not in self.held}
            raise AssertionError(f"writes of those that did not come to their place: {missing}")

    def held_within(self, within_s: float, *, count: int) -> int:
        """How many are at their place: as soon as these are `count`, or after that time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.held) >= count, timeout=within_s)
            return len(self.held)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        tls = ssl.create_default_context(cafile=self._plane.certificate)
        limits = aiohttp.ClientTimeout(total=None)
        application = web.Application(client_max_size=16 * 1024 * 1024)
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=limits, auto_decompress=False) as session:

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(request, session)

            application.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._listening.set()
            await self._end.wait()
            await runner.cleanup()
            await connector.close(abort_ssl=True)
            # TLS connections of requests that were in flight at a kill say farewell; what outlives the loop is a leak to pytest.
            await asyncio.sleep(FAREWELL_S)

    async def _handle(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        body = await request.read()
        loss = self._loss(request, body)
        if loss is Loss.THE_WRITE:
            await self._hold(_rollout_of(request, body))
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _PER_CONNECTION}
        url = f"{self._plane.url}{request.raw_path}"
        async with session.request(request.method, url, data=body, headers=headers, allow_redirects=False) as answer:
            try:
                if loss is Loss.THE_ANSWER:
                    await answer.read()
                    await self._hold(_rollout_of(request, body))
                return await _passed_on(request, answer)
            finally:  # a watch that was cut off: a TLS connection in its farewell would outlive the loop
                if answer.connection is not None and answer.connection.transport is not None:
                    answer.connection.transport.abort()

    def _loss(self, request: web.Request, body: bytes) -> Loss | None:
        if not self._armed or request.method == "GET":
            return None
        name = _rollout_of(request, body)
        place = self._places.get(name)
        if place is None:
            return None
        self._counts[name] += 1
        if name in self.held:  # it tries again: that must not arrive either
            return Loss.THE_WRITE
        return place.loss if self._counts[name] == place.number else None

    async def _hold(self, name: str) -> None:
        with self._changed:
            self.held.add(name)
            self._changed.notify_all()
        await asyncio.Event().wait()  # until the other side is gone


async def _passed_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    kept = {key: value for key, value in answer.headers.items() if key.lower() not in _PER_CONNECTION}
    response = web.StreamResponse(status=answer.status, headers=kept)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


def _rollout_of(request: web.Request, body: bytes) -> str:
    """Which Rollout a write is for; "" for an Event's, which changes nothing."""
    match request.path.split("/namespaces/")[1].split("/")[1:]:
        case ["events", *_]:
            return ""
        case [_, name, *_]:
            return name.partition("-")[0]
        case _:
            return str(json.loads(body)["metadata"]["name"]).partition("-")[0]
