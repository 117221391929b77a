"""A Prometheus on loopback that answers the same number at once, or never: what analyses cost without what queries cost."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

HANGING = "hangs"
"""A query with this word in it is never answered."""

_HEAD_MAX_BYTES = 64 * 1024


@dataclass(slots=True)
class MetricServer:
    """What the server has seen.

    Args:
        url: where it is.
        answered: queries that got their number.
        hanging: queries that wait for an answer now.
    """

    url: str = ""
    answered: int = 0
    hanging: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request after the other."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                query = head + await reader.readexactly(_length_of(head))
                if HANGING.encode() in query:
                    self.hanging += 1
                    try:
                        await reader.read()  # until the other side gives up
                    finally:
                        self.hanging -= 1
                    return
                self.answered += 1
                writer.write(_answer(_asked_time(query)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


def _length_of(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _asked_time(query: bytes) -> float:
    """The time that the query is evaluated at, seconds since 1970: what Prometheus gives a value of a vector."""
    asked = re.search(rb"\btime=([0-9.]+)", query)
    if asked is None:
        raise ValueError("a query without the time that it is asked for")
    return float(asked[1])


def _answer(at_s: float) -> bytes:
    result = {"resultType": "vector", "result": [{"metric": {}, "value": [at_s, "1"]}]}
    body = json.dumps({"status": "success", "data": result}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def serving() -> AsyncIterator[MetricServer]:
    """Serves while the block runs."""
    metrics = MetricServer()
    server = await asyncio.start_server(metrics.serve, "127.0.0.1", 0, limit=_HEAD_MAX_BYTES)
    metrics.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield metrics
    finally:
        server.close()
