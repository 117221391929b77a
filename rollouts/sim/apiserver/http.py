"""The simulated API server on a loopback port, for kubectl and for clients in other processes.

The only file of this room that imports aiohttp. No authentication: it listens on 127.0.0.1 only.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from rollouts import ports
from rollouts.core.model.frozen import replace
from rollouts.sim.apiserver.server import SimServer

NEVER_SILENT_S = 3_600.0


ACCEPT_TURNS = 3
"""The number of turns of the event loop between accepting a connection and the server's knowledge of it.

A server that is closed in between forgets the connection and leaves its socket open (CPython issue 109564).
"""


class SimHttp:
    """Serves a `SimServer` on a free port; `async with` starts and stops it."""

    def __init__(self, api: SimServer) -> None:
        self._api = api
        self._port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=4 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._api.end_watches()
        if self._runner is not None:
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The URL at which it listens while it runs."""
        return f"http://127.0.0.1:{self._port}"

    def write_kubeconfig(self, path: Path, *, namespace: str = "default") -> Path:
        """Writes a kubeconfig for this server; returns its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "simulated", "cluster": {"server": self.url}}],
            "users": [{"name": "anyone", "user": {}}],
            "contexts": [
                {"name": "simulated", "context": {"cluster": "simulated", "user": "anyone", "namespace": namespace}}
            ],
            "current-context": "simulated",
        }
        path.write_text(json.dumps(config, indent=2) + "\n")
        return path

    async def _serve(self, incoming: web.Request) -> web.StreamResponse:
        query = dict(incoming.query)
        body, accept = await incoming.read(), incoming.headers.get("Accept", ports.JSON)
        request = ports.Request(incoming.method, incoming.rel_url.raw_path, query, body, incoming.content_type, accept)
        if incoming.method == "GET" and query.get("watch") in ("1", "true"):
            return await self._serve_watch(incoming, request)
        if incoming.method in ("POST", "PUT", "PATCH") and "fieldManager" not in query:
            manager = incoming.headers.get("User-Agent", "unknown").partition("/")[0]
            request = replace(request, query={**query, "fieldManager": manager})
        answer = await self._api.request(request, deadline_s=NEVER_SILENT_S)
        headers = {"Retry-After": f"{answer.retry_after_s:g}"} if answer.retry_after_s is not None else None
        return web.Response(body=answer.body, status=answer.status, headers=headers, content_type="application/json")

    async def _serve_watch(self, incoming: web.Request, request: ports.Request) -> web.StreamResponse:
        watch = await self._api.open_watch(request, deadline_s=1.0, silence_s=NEVER_SILENT_S)
        response = web.StreamResponse(status=watch.status, headers={"Content-Type": "application/json"})
        try:
            await response.prepare(incoming)
            while line := await watch.readline():
                await response.write(line)
        except ConnectionResetError:
            pass  # the client has gone; aiohttp also cancels this handler when it notices first
        finally:
            await watch.aclose()
        return response
