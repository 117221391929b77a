"""A bound on open connections: one more takes the place of the one that has been without a request for longest.

Whoever opens thousands and says nothing on them keeps nobody out: only requests that are being answered hold their place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from aiohttp import web

CONNECTIONS_MAX = 500


class ConnectionBound:
    """Makes what serves a connection, for `loop.create_server`."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._answered: set[object] = set()

    def __call__(self) -> asyncio.BaseProtocol:
        """What serves one more connection."""
        open_now = [each for each in self._server.connections if each.transport is not None]
        if len(open_now) >= CONNECTIONS_MAX:
            waiting = next((each for each in open_now if each not in self._answered), None)
            if waiting is None:
                return _Full()
            waiting.force_close()
        return self._server()

    @contextlib.contextmanager
    def answering(self, request: web.Request) -> Iterator[None]:
        """Keeps the place of the request's connection for as long as the block lasts."""
        self._answered.add(request.protocol)
        try:
            yield
        finally:
            self._answered.discard(request.protocol)


class _Full(asyncio.Protocol):
    """Serves nothing: every place is taken by a request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Closes it."""
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()
