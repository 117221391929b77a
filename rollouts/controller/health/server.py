"""A small HTTP server for Prometheus and the kubelet: GET /metrics, /healthz, /readyz. One request for each connection.

No client can crowd the kubelet's probes out: every connection has deadlines, and when there are too many, the oldest one is
closed. A probe is answered within milliseconds, so it is never the oldest one. With `--health-address` they have a port of their
own, so that a NetworkPolicy can let nobody but Prometheus reach the metrics and nobody at all the probes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from rollouts.errors import SettingsInvalid
from rollouts.settings import Address, Settings
from rollouts.telemetry import CONTENT_TYPE

HEAD_MAX_BYTES = 8_192
HEAD_DEADLINE_S = 5.0
ANSWER_DEADLINE_S = 10.0
CONNECTIONS_MAX = 32

_PLAIN = "text/plain; charset=utf-8"
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@contextlib.asynccontextmanager
async def serving(
    settings: Settings, *, not_ready: Callable[[], str], exposition: Callable[[], bytes]
) -> AsyncIterator[None]:
    """Serves metrics and probes at the addresses of the settings while the context is open.

    Raises: SettingsInvalid, when an address cannot be listened on.
    """
    metrics, health = settings.metrics_address, settings.health_address
    async with contextlib.AsyncExitStack() as stack:
        if health is not None:
            probes = HealthServer(not_ready=not_ready, exposition=None)
            await stack.enter_async_context(probes.listening(health, flag="--health-address"))
        if metrics is not None:
            server = HealthServer(not_ready=not_ready if health is None else None, exposition=exposition)
            await stack.enter_async_context(server.listening(metrics))
        yield


@dataclass(slots=True, kw_only=True, eq=False)
class HealthServer:
    """Answers up to three paths.

    Args:
        not_ready: why the process is not ready, "" when it is; None to serve no probes.
        exposition: the metrics; None to serve none.
    """

    not_ready: Callable[[], str] | None
    exposition: Callable[[], bytes] | None
    _open: dict[asyncio.StreamWriter, None] = field(default_factory=dict, init=False)  # the oldest one first

    @contextlib.asynccontextmanager
    async def listening(self, address: Address, *, flag: str = "--metrics-address") -> AsyncIterator[int]:
        """Serves while the context is open; yields the port (the system's choice for port 0).

        Raises: SettingsInvalid, when the server cannot listen on the address.
        """
        try:
            server = await asyncio.start_server(self._serve, address.host or None, address.port, limit=HEAD_MAX_BYTES)
        except OSError as exc:
            raise SettingsInvalid(
                f"cannot listen on {flag} {address.host}:{address.port} ({exc}); choose another address, or 0 for none"
            ) from exc
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()  # open connections end at their deadlines

    def answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body for one request."""
        if method not in {"GET", "HEAD"}:
            return 405, _PLAIN, b"only GET\n"
        match path.partition("?")[0]:
            case "/metrics" if self.exposition is not None:
                return 200, CONTENT_TYPE, self.exposition()
            case "/healthz" | "/livez" if self.not_ready is not None:
                return 200, _PLAIN, b"ok\n"  # an answer shows that the event loop runs, and that is the whole check
            case "/readyz" if self.not_ready is not None:
                why = self.not_ready()
                return (503, _PLAIN, f"{why}\n".encode()) if why else (200, _PLAIN, b"ok\n")
            case _:
                paths = ["/metrics"] if self.exposition is not None else []
                paths += ["/healthz", "/readyz"] if self.not_ready is not None else []
                return 404, _PLAIN, f"here are {' and '.join(paths)}\n".encode()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(HEAD_DEADLINE_S):
                head = await reader.readuntil(b"\r\n\r\n")
            method, path, *_ = [*head.split(b"\r\n", 1)[0].decode("latin-1").split(" "), "", ""]
            status, content_type, body = self.answer(method, path)
            writer.write(
                f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            )
            if method != "HEAD":
                writer.write(body)
            async with asyncio.timeout(ANSWER_DEADLINE_S):
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the peer is slow, gone or sends nonsense; nothing to do
        finally:
            self._open.pop(writer, None)
            writer.close()
