"""The kubelet's probe is answered whoever else holds connections: a process that works must not be killed for its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from rollouts.controller.health.server import CONNECTIONS_MAX, HealthServer
from rollouts.settings import Address


@asynccontextmanager
async def serving(*, body: bytes = b"metrics\n") -> AsyncIterator[int]:
    """A server on loopback; its port."""
    server = HealthServer(not_ready=lambda: "", exposition=lambda: body)
    async with server.listening(Address("127.0.0.1", 0)) as port:
        yield port


@asynccontextmanager
async def peers(port: int, count: int) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """So many connections, which end with the block."""
    opened = [await asyncio.open_connection("127.0.0.1", port, limit=1_000) for _ in range(count)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def probe(port: int) -> bytes:
    """The first line of the answer to a liveness probe."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(2):
            return (await reader.read()).split(b"\r\n")[0]
    finally:
        writer.transport.abort()


async def test_idle_connections_starve_no_probe() -> None:
    """64 connections that say nothing made every probe fail, and the kubelet restart a healthy leader."""
    async with serving() as port, peers(port, 4 * CONNECTIONS_MAX):
        assert [await probe(port) for _ in range(3)] == [b"HTTP/1.1 200 OK"] * 3


async def test_slow_readers_starve_no_probe() -> None:
    """One that asks for the metrics and never reads them holds its connection until it must make room."""
    async with serving(body=b"x" * 30_000_000) as port, peers(port, CONNECTIONS_MAX) as slow:
        for _, writer in slow:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await writer.drain()

        assert await probe(port) == b"HTTP/1.1 200 OK"


async def test_the_oldest_connection_makes_room() -> None:
    """No more than the limit are open, so no number of peers costs the process its file descriptors."""
    async with serving() as port, peers(port, CONNECTIONS_MAX + 1) as opened:
        async with asyncio.timeout(2):
            with suppress(ConnectionError):
                assert await opened[0][0].read() == b""
        assert not opened[1][0].at_eof()
