"""The kubelet's probes are answered: at an address of their own if they have one, and whoever else holds connections.

A NetworkPolicy can tell them from metrics by the port, and a process that works must not be killed for its neighbours.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import pytest

from rollouts.controller.health.server import CONNECTIONS_MAX, HealthServer, serving
from rollouts.errors import SettingsInvalid
from rollouts.settings import Address, Settings
from rollouts.telemetry import Telemetry

PATHS = ("/metrics", "/healthz", "/readyz")


def free_address() -> Address:
    """A port of loopback that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", taken.getsockname()[1])


def served(**addresses: Any) -> AbstractAsyncContextManager[None]:
    """A process that is ready, with these addresses."""
    return serving(Settings(**addresses), not_ready=lambda: "", exposition=lambda: b"")


async def answered(address: Address) -> list[str]:
    """Which of the paths are served at an address."""
    served = []
    for path in PATHS:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(5):
            if (await reader.read()).startswith(b"HTTP/1.1 200 "):
                served.append(path)
        writer.close()
        await writer.wait_closed()
    return served


async def test_metrics_are_at_one_address_and_probes_at_the_other() -> None:
    """Whoever may scrape reaches no probe, and the kubelet needs nothing of the port that is scraped."""
    metrics, health = free_address(), free_address()

    async with served(metrics_address=metrics, health_address=health):
        assert await answered(metrics) == ["/metrics"]
        assert await answered(health) == ["/healthz", "/readyz"]


async def test_without_an_address_of_their_own_probes_are_where_the_metrics_are() -> None:
    """A Deployment that was written for the version before goes on working."""
    metrics = free_address()

    async with served(metrics_address=metrics):
        assert await answered(metrics) == list(PATHS)


async def test_probes_are_served_where_metrics_are_not() -> None:
    """`--metrics-address=0` turns the metrics off, not the liveness of the pod."""
    health = free_address()

    async with served(health_address=health):
        assert await answered(health) == ["/healthz", "/readyz"]


async def test_an_address_that_is_taken_is_named_by_its_flag() -> None:
    """Two flags with one port are the likely mistake."""
    both = free_address()

    with pytest.raises(SettingsInvalid, match="--metrics-address"):
        async with served(metrics_address=both, health_address=both):
            raise AssertionError("both listen on one port")


async def test_health_is_served_over_http() -> None:
    """What the kubelet and Prometheus ask for, over a real socket."""
    reasons = ["not listed yet: rollouts"]
    server = HealthServer(not_ready=lambda: reasons[0], exposition=Telemetry().exposition)

    async def get(port: int, line: str) -> bytes:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    async with server.listening(Address("127.0.0.1", 0)) as port:
        assert (await get(port, "GET /healthz")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"503" in (await get(port, "GET /readyz")).split(b"\r\n")[0]
        reasons[0] = ""
        assert (await get(port, "GET /readyz?verbose")).endswith(b"\r\n\r\nok\n")
        assert b"rollouts_leader" in await get(port, "GET /metrics")
        assert b"404" in (await get(port, "GET /secret")).split(b"\r\n")[0]
        assert b"405" in (await get(port, "POST /metrics")).split(b"\r\n")[0]


@asynccontextmanager
async def crowded(*, body: bytes = b"metrics\n") -> AsyncIterator[int]:
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
    async with crowded() as port, peers(port, 4 * CONNECTIONS_MAX):
        assert [await probe(port) for _ in range(3)] == [b"HTTP/1.1 200 OK"] * 3


async def test_slow_readers_starve_no_probe() -> None:
    """One that asks for the metrics and never reads them holds its connection until it must make room."""
    async with crowded(body=b"x" * 30_000_000) as port, peers(port, CONNECTIONS_MAX) as slow:
        for _, writer in slow:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await writer.drain()

        assert await probe(port) == b"HTTP/1.1 200 OK"


async def test_the_oldest_connection_makes_room() -> None:
    """No more than the limit are open, so no number of peers costs the process its file descriptors."""
    async with crowded() as port, peers(port, CONNECTIONS_MAX + 1) as opened:
        async with asyncio.timeout(2):
            with suppress(ConnectionError):
                assert await opened[0][0].read() == b""
        assert not opened[1][0].at_eof()
