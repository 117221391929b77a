"""The load generator's view of the API server: many requests at once, and watches with the time at which each line came."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp

from tests.lab.control_plane import ControlPlane

MERGE_PATCH = "application/merge-patch+json"
AT_ONCE = 16
"""Requests in flight: enough to keep the API server busy on two cores, few enough to leave it to the controllers."""

REQUEST_DEADLINE_S = 60.0
BUSY_RETRY_S = 1.0
"""Before a watch is tried again that the server has refused for now; the Retry-After that it gives."""

LINE_MAX_BYTES = 2**21  # an object of the API server is at most 1.5 MiB

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of a watch.

    Args:
        at_s: monotonic, when the line had been read.
        type: ADDED, MODIFIED, DELETED.
    """

    at_s: float
    type: str
    object: dict[str, Any]


class Api:
    """An administrator's client. Every request has a deadline; errors of the server are raised with its words."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def request(
        self, method: str, path: str, body: object | None = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """The decoded answer. Raises: RuntimeError with the server's words; aiohttp.ClientError."""
        data = None if body is None else json.dumps(body).encode()
        async with self._session.request(
            method,
            path,
            data=data,
            headers={"Content-Type": content_type},
            timeout=aiohttp.ClientTimeout(total=REQUEST_DEADLINE_S),
        ) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:500].decode(errors='replace')}")
            decoded: dict[str, Any] = json.loads(text)
            return decoded

    async def version_of(self, collection: str) -> str:
        """The resourceVersion at which a watch of this collection may begin."""
        listed = await self.request("GET", f"{collection}?limit=1")
        version: str = listed["metadata"]["resourceVersion"]
        return version

    async def watch(self, collection: str, *, since: str) -> AsyncGenerator[Seen, None]:
        """Changes after resourceVersion `since`, until the caller stops; the caller bounds the time.

        The server ends watches whose reader is slow, so a watch goes on where it ended; what it has missed comes as it is now.
        """
        while True:
            expired = False
            async with aclosing(self._watch_once(collection, since=since)) as lines:
                async for seen in lines:
                    expired = seen.type == "ERROR"
                    if expired:
                        break
                    since = seen.object["metadata"]["resourceVersion"]
                    yield seen
            if not expired:
                continue
            listed = await self.request("GET", collection)
            since = listed["metadata"]["resourceVersion"]
            for each in listed["items"]:
                yield Seen(time.monotonic(), "MODIFIED", each)

    async def _watch_once(self, collection: str, *, since: str) -> AsyncGenerator[Seen, None]:
        """One connection. An expired `since` comes as an ERROR without an object."""
        query = {"watch": "1", "resourceVersion": since, "timeoutSeconds": "3600"}
        async with self._session.get(collection, params=query, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            if (
                answer.status == HTTPStatus.TOO_MANY_REQUESTS
            ):  # "storage is (re)initializing": its CRD was applied a moment ago
                await asyncio.sleep(BUSY_RETRY_S)
                return
            answer.raise_for_status()
            while line := await answer.content.readline():
                at_s = time.monotonic()
                event = json.loads(line)
                if event["type"] == "ERROR":
                    yield Seen(at_s, "ERROR", {})
                    return
                yield Seen(at_s, event["type"], event["object"])


@asynccontextmanager
async def connected(plane: ControlPlane) -> AsyncIterator[Api]:
    """An `Api` for the lab's control plane, closed at the end."""
    verify = ssl.create_default_context(cafile=plane.certificate)
    async with aiohttp.ClientSession(
        plane.url,
        connector=aiohttp.TCPConnector(ssl=verify, limit=AT_ONCE + 8),
        headers={"Authorization": f"Bearer {plane.token}", "User-Agent": "benchmarks", "Accept": "application/json"},
        read_bufsize=LINE_MAX_BYTES,
    ) as session:
        yield Api(session)


async def for_each(items: Iterable[T], action: Callable[[T], Awaitable[object]]) -> None:
    """Awaits `action` for every item, `AT_ONCE` at a time. The first failure ends all."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await action(item)

    async with asyncio.TaskGroup() as workers:
        for _ in range(AT_ONCE):
            workers.create_task(work())
