"""With an address of their own, probes are answered there and metrics elsewhere, so that a NetworkPolicy can tell them apart."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rollouts.controller.health.server import HealthServer, serving
from rollouts.errors import SettingsInvalid
from rollouts.settings import Address, Settings
from rollouts.telemetry import Telemetry

PATHS = ("/metrics", "/healthz", "/readyz")


def free_address() -> Address:
    """A port of loopback that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", taken.getsockname()[1])


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

    async with serving(
        Settings(metrics_address=metrics, health_address=health), not_ready=lambda: "", exposition=lambda: b""
    ):
        assert await answered(metrics) == ["/metrics"]
        assert await answered(health) == ["/healthz", "/readyz"]


async def test_without_an_address_of_their_own_probes_are_where_the_metrics_are() -> None:
    """A Deployment that was written for the version before goes on working."""
    metrics = free_address()

    async with serving(Settings(metrics_address=metrics), not_ready=lambda: "", exposition=lambda: b""):
        assert await answered(metrics) == list(PATHS)


async def test_probes_are_served_where_metrics_are_not() -> None:
    """`--metrics-address=0` turns the metrics off, not the liveness of the pod."""
    health = free_address()

    async with serving(Settings(health_address=health), not_ready=lambda: "", exposition=lambda: b""):
        assert await answered(health) == ["/healthz", "/readyz"]


async def test_an_address_that_is_taken_is_named_by_its_flag() -> None:
    """Two flags with one port are the likely mistake."""
    both = free_address()

    with pytest.raises(SettingsInvalid, match="--metrics-address"):
        async with serving(
            Settings(metrics_address=both, health_address=both), not_ready=lambda: "", exposition=lambda: b""
        ):
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
