"""Promise: however many watches a controller has, its requests are sent, and no more of them at once than are bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
