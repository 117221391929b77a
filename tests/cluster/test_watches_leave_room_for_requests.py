"""Promise: however many watches there are, requests are sent, no more at once than are bounded, on connections of their own."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from rollouts.cluster.connection import REQUESTS_MAX
from rollouts.ports import Request
from tests.cluster.test_connection import VERSION, connected, kubeconfig, serving


async def test_watches_leave_room_for_requests(tmp_path: Path) -> None:
    """A controller of ten namespaces has a hundred: each keeps a connection, and all requests waited for one."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(30)
        return response

    pods = Request("GET", "/api/v1/pods")
    async with serving(answer) as url, connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        watches = [await connection.open_watch(pods, deadline_s=5, silence_s=5) for _ in range(REQUESTS_MAX + 1)]
        assert (await connection.request(VERSION, deadline_s=5)).status == 200
        for watch in watches:
            await watch.aclose()


async def test_requests_are_bounded(tmp_path: Path) -> None:
    """A burst waits here, within the deadlines, and not at the API server."""
    at_once = most = 0

    async def slow(request: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        return web.json_response({})

    async with serving(slow) as url, connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        await asyncio.gather(*(connection.request(VERSION, deadline_s=20) for _ in range(2 * REQUESTS_MAX)))

    assert 1 < most <= REQUESTS_MAX


async def test_a_watch_does_not_hold_the_memory_of_a_list(tmp_path: Path) -> None:
    """A connection keeps room for the most that it had to read at once: a watch has another one than the list before it."""
    ports: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.Response(text="{}\n")

    async with serving(answer) as url, connected(kubeconfig(tmp_path, url, {})) as api:
        for _ in range(2):
            await api.request(VERSION, deadline_s=5)
        watch = await api.open_watch(VERSION, deadline_s=5, silence_s=5)
        await watch.aclose()

    first, second, watching = ports
    assert first == second != watching


def room_bytes(server: str) -> list[int]:
    """What each of our sockets to that URL takes from it before anybody reads."""
    port, found = int(server.rpartition(":")[2]), []
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.fileno() >= 0 and one.family == socket.AF_INET:
            with suppress(OSError):  # it listens
                if one.getpeername()[1] == port:
                    found.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    return sorted(found)


@pytest.mark.parametrize("most_bytes", [None, 16 * 1024])
async def test_a_watch_takes_no_more_at_once_than_it_was_told(tmp_path: Path, most_bytes: int | None) -> None:
    """It begins with a list, and keeps the room for that as long as it is open. Requests end, and read as they like."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path != "/version":
            await asyncio.sleep(30)
        return response

    options = {"watch_reads_bytes": most_bytes}
    async with serving(answer) as url, connected(kubeconfig(tmp_path, url, {}), **options) as api:
        await api.request(VERSION, deadline_s=5)
        watch = await api.open_watch(Request("GET", "/api/v1/pods"), deadline_s=5, silence_s=5)
        smallest, largest = room_bytes(url)
        await watch.aclose()

    assert largest > 2 * 16 * 1024
    assert smallest == largest if most_bytes is None else smallest == 2 * most_bytes  # Linux keeps twice the room
