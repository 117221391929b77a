"""Connects to a real Kubernetes API server, over the aiohttp session that kubernetes_asyncio configures.

Requests use that session directly: a sixth of the CPU of the library's own requests, and with a deadline, which the library does
not have. Nothing here knows what an answer means; `client.py` and `watch.py` do.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

import aiohttp
import yarl
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import AddrInfoType

from rollouts.cluster.credentials import ClientCertificate
from rollouts.cluster.target import (
    NO_FLAGS,
    SERVICE_ACCOUNT,
    AccessFlags,
    ClusterTarget,
    for_bearer,
    for_person,
    read_cluster,
    read_target,
)
from rollouts.errors import AnswerTooLarge, ApiUnavailable, NotLeader, SettingsInvalid
from rollouts.ports import BODY_MAX_BYTES, LINE_MAX_BYTES, Request, Response
from rollouts.secret import Secret

CONNECT_TIMEOUT_S = 5.0
REQUESTS_MAX = 64
"""At once. Watches do not count: in ten namespaces there are more of them, and no request would have room."""
DATE_EVERY_S = 60.0
PIECE_BYTES = 256 * 1024
"""Longer bodies, such as a ConfigMap of the greatest size, are sent in pieces, so that other requests go on meanwhile."""

OnDate: TypeAlias = Callable[[float], object]
"""Called with the API server's time, in whole seconds since 1970, about once a minute while there are requests."""

# InvalidURL and bad header values are ValueErrors.
_BROKEN = (aiohttp.ClientError, OSError, ValueError)


async def connect(
    *,
    kubeconfig: Path | None,
    context: str | None,
    user_agent: str,
    flags: AccessFlags = NO_FLAGS,
    service_account: Path = SERVICE_ACCOUNT,
    on_date: OnDate | None = None,
    watch_reads_bytes: int | None = None,
) -> KubernetesConnection:
    """Reads the settings and creates a connection with a pool of its own; sends nothing to the API server yet.

    Call it again for a second pool, such as the Lease's, which requests of the first cannot delay.

    Args:
        kubeconfig: a file; None for $KUBECONFIG, ~/.kube/config, or the pod that we run in.
        user_agent: such as `rollouts/0.1.0`. For names of browsers and curl the server indents its JSON, with twice the bytes.
        service_account: folder of the pod's token.
        watch_reads_bytes: the most that a watch reads at once; None for what the system gives it. A connection keeps room for the
            most that it has read, twice, and a watch begins with a list. 64 KiB are 64 MB/s from a server that is 1 ms away.

    Raises: SettingsInvalid, with what to do.
    """
    target = await read_target(kubeconfig=kubeconfig, context=context, flags=flags, service_account=service_account)
    return _connected(target, user_agent=user_agent, on_date=on_date, watch_reads_bytes=watch_reads_bytes)


async def connector_of_bearers(
    *,
    kubeconfig: Path | None,
    context: str | None,
    user_agent: str,
    flags: AccessFlags = NO_FLAGS,
    service_account: Path = SERVICE_ACCOUNT,
) -> Callable[[Secret], KubernetesConnection]:
    """Reads the settings, and returns what makes a connection, with a pool of its own, for whoever has a bearer token.

    No credentials but the token are sent by it: none of the kubeconfig's, and none of the pod's.

    Raises: SettingsInvalid, with what to do.
    """
    target = await read_cluster(kubeconfig=kubeconfig, context=context, flags=flags, service_account=service_account)
    return lambda token: _connected(for_bearer(target, token), user_agent=user_agent)


async def connector_of_people(
    *,
    kubeconfig: Path | None,
    context: str | None,
    user_agent: str,
    flags: AccessFlags = NO_FLAGS,
    service_account: Path = SERVICE_ACCOUNT,
) -> Callable[[str, tuple[str, ...]], KubernetesConnection]:
    """Reads the settings, and returns what makes a connection, with a pool of its own, as a user with groups.

    It impersonates them by the credentials of the settings, which need that right and no other one.

    Raises: SettingsInvalid, with what to do.
    """
    target = await read_target(kubeconfig=kubeconfig, context=context, flags=flags, service_account=service_account)
    return lambda user, groups: _connected(for_person(target, user, groups), user_agent=user_agent)


def _connected(
    target: ClusterTarget, *, user_agent: str, on_date: OnDate | None = None, watch_reads_bytes: int | None = None
) -> KubernetesConnection:
    try:
        return KubernetesConnection(target, user_agent=user_agent, on_date=on_date, watch_reads_bytes=watch_reads_bytes)
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise SettingsInvalid(f"the cluster's TLS settings cannot be used: {exc}") from exc


class KubernetesConnection:
    """Implements `ports.ApiServer`. Make it with `connect`."""

    def __init__(
        self,
        target: ClusterTarget,
        *,
        user_agent: str,
        on_date: OnDate | None = None,
        watch_reads_bytes: int | None = None,
    ) -> None:
        """Needs a running event loop. Raises: OSError, ssl.SSLError, ValueError, for bad certificates."""
        self._target = target
        self._on_date = on_date
        self._watch_reads_bytes = watch_reads_bytes
        self._date_again_at_s = float("-inf")
        self._credentials = target.credentials
        self._host = target.configuration.host.rstrip("/")
        self._certificate: ClientCertificate | None = None
        self._pools = self._new_pools()
        self._retired: _Pools | None = None
        self._room = asyncio.Semaphore(REQUESTS_MAX)
        self._headers = {"Accept-Encoding": "identity", "User-Agent": user_agent}
        self._options: dict[str, Any] = {"allow_redirects": False}
        if target.configuration.proxy:
            self._options["proxy"] = target.configuration.proxy
            if target.proxy_authorization is not None:
                # For https:// the client sends CONNECT, which has headers of its own; for http:// the proxy sees the request.
                proxy_headers = {"Proxy-Authorization": target.proxy_authorization.reveal()}
                if self._host.startswith("https:"):
                    self._options["proxy_headers"] = proxy_headers
                else:
                    self._headers |= proxy_headers
        if target.configuration.tls_server_name:
            self._options["server_hostname"] = target.configuration.tls_server_name

    @property
    def namespace(self) -> str:
        """The kubeconfig context's or the service account's namespace."""
        return self._target.namespace

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """See `ports.ApiServer.request`. The deadline includes renewing credentials and waiting for the pool."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with asyncio.timeout(deadline_s), self._room:
                answer = await self._send(request, limits, lambda pools: pools.requests)
                body = bytearray()
                async with answer:
                    async for chunk in answer.content.iter_any():
                        body += chunk
                        if len(body) > BODY_MAX_BYTES:
                            raise AnswerTooLarge(
                                f"{request.method} {request.path}: the answer has more than {BODY_MAX_BYTES >> 20} MiB"
                            )
        except TimeoutError as exc:  # aiohttp's timeouts are TimeoutErrors too
            raise ApiUnavailable(f"{request.method} {request.path}: no answer within {deadline_s:g} s") from exc
        except _BROKEN as exc:
            if isinstance(exc.__cause__, NotLeader):  # aiohttp wraps what a body raises
                raise exc.__cause__ from None
            raise _unavailable(request, exc) from exc
        headers = answer.headers
        return Response(answer.status, bytes(body), retry_after_s(headers.get("Retry-After"), date=headers.get("Date")))

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> KubernetesWatch:
        """See `ports.ApiServer.open_watch`."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        try:
            async with asyncio.timeout(deadline_s):
                return KubernetesWatch(
                    request, await self._send(request, limits, lambda pools: pools.watches), silence_s
                )
        except TimeoutError as exc:
            raise ApiUnavailable(f"{request.method} {request.path}: no answer within {deadline_s:g} s") from exc
        except _BROKEN as exc:
            raise _unavailable(request, exc) from exc

    async def aclose(self) -> None:
        """Closes all connections of this pool, and ends a credential plugin that runs."""
        if not self._target.shares_credentials:
            await self._credentials.aclose()
        for pools in (self._pools, self._retired):
            if pools is not None:
                await pools.close()

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout, pool: _PoolOf) -> aiohttp.ClientResponse:
        answer = await self._send_once(request, limits, pool)
        if answer.status != 401:
            return answer
        # A refused request had no effect, so even a write may be repeated with newer credentials.
        try:
            renewed = await self._credentials.renew()
        except BaseException:
            _abort(answer)
            raise
        if not renewed:
            return answer
        _abort(answer)
        return await self._send_once(request, limits, pool)

    async def _send_once(
        self, request: Request, limits: aiohttp.ClientTimeout, pool: _PoolOf
    ) -> aiohttp.ClientResponse:
        authorization = await self._credentials.authorization()
        if self._credentials.certificate is not self._certificate:
            # New connections use the plugin's new certificate; open watches may continue until the next change.
            retired, self._retired, self._pools = self._retired, self._pools, self._new_pools()
            if retired is not None:
                await retired.close()
        headers = {"Accept": request.accept, **self._headers}
        if authorization is not None:
            headers["Authorization"] = authorization.reveal()
        if request.body:
            headers["Content-Type"] = request.content_type
        url = self._host + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        answer = await pool(self._pools).request(
            request.method,
            yarl.URL(url, encoded=True),
            data=_Body(request) if request.body else None,
            headers=[*headers.items(), *self._target.impersonation],
            timeout=limits,
            **self._options,
        )
        now_s = asyncio.get_running_loop().time()
        if self._on_date is None or now_s < self._date_again_at_s:
            return answer
        if (server_s := date_s(answer.headers.get("Date"))) is not None:
            self._date_again_at_s = now_s + DATE_EVERY_S
            self._on_date(server_s)
        return answer

    def _new_pools(self) -> _Pools:
        configuration = self._target.configuration
        certificate = self._credentials.certificate
        self._certificate = certificate
        with _files_of(certificate, configuration) if certificate is not None else nullcontext():
            requests, watches = (
                self._target.library.rest.RESTClientObject(configuration).pool_manager for _ in range(2)
            )
        for session in (requests, watches):
            # The library turns this on, which costs every request two switches to a thread for netrc and proxy settings. The
            # proxy has been looked up already. The session has no public switch for it.
            session._trust_env = False  # noqa: SLF001
        if self._watch_reads_bytes is not None:
            # Nor has its connector one, once the library has made it.
            watches.connector._socket_factory = partial(_small_socket, reads_bytes=self._watch_reads_bytes)  # noqa: SLF001
        return _Pools(requests, watches)


class _Pools(NamedTuple):
    """The open connections: those of watches have a pool of their own.

    A connection keeps room for the most that it ever had to read at once. After a list of 1,000 Rollouts that is 600 KiB, which
    a watch would hold for as long as it is open.
    """

    requests: aiohttp.ClientSession
    watches: aiohttp.ClientSession

    async def close(self) -> None:
        for session in self:
            await session.close()


def _small_socket(address: AddrInfoType, *, reads_bytes: int) -> socket.socket:
    """A socket that takes at most about so many bytes from its peer before they are read (Linux keeps twice the room)."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads_bytes)
    return made


_PoolOf: TypeAlias = Callable[[_Pools], aiohttp.ClientSession]


class KubernetesWatch:
    """Implements `ports.WatchStream`."""

    def __init__(self, request: Request, answer: aiohttp.ClientResponse, silence_s: float) -> None:
        self.status = answer.status
        self._request = request
        self._answer = answer
        self._lines = Lines(answer.content.readany, most_bytes=LINE_MAX_BYTES)
        self._silence_s = silence_s

    async def readline(self) -> bytes:
        """See `ports.WatchStream.readline`."""
        try:
            line = await self._lines.readline()
        except TimeoutError as exc:
            raise ApiUnavailable(f"watch {self._request.path}: silent for {self._silence_s:g} s") from exc
        except _BROKEN as exc:
            raise _unavailable(self._request, exc) from exc
        if self.status == 200 and line and not line.endswith(b"\n") and len(line) < LINE_MAX_BYTES:
            raise ApiUnavailable(f"watch {self._request.path}: ended in the middle of a line")
        return line

    async def aclose(self) -> None:
        """Closes the watch's connection."""
        _abort(self._answer)


def _abort(answer: aiohttp.ClientResponse) -> None:
    """Ends a connection of which nothing more is wanted. In order it would wait up to 30 s for the server's TLS close_notify."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


@contextmanager
def _files_of(certificate: ClientCertificate, configuration: Any) -> Iterator[None]:
    """The certificate in files, as ssl wants it; only this process can read them, and only meanwhile.

    The pod of the controller has no certificate and no folder that can be written.
    """
    with tempfile.TemporaryDirectory(prefix="rollouts-") as folder:
        configuration.cert_file = str(Path(folder, "tls.crt"))
        configuration.key_file = str(Path(folder, "tls.key"))
        Path(configuration.cert_file).write_text(certificate.certificate, encoding="ascii")
        Path(configuration.key_file).write_text(certificate.key.reveal(), encoding="ascii")
        yield


class _Body(aiohttp.Payload):
    """A request's body, which asks the fence at the last moment: for a new connection, after the TLS handshake."""

    _autoclose = True  # nothing to close

    def __init__(self, request: Request) -> None:
        super().__init__(request.body)
        self._request = request
        self._size = len(request.body)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Raises: NotLeader."""
        for start in range(0, len(self._request.body), PIECE_BYTES):
            if start:
                await asyncio.sleep(0)
            self._request.ask_fence()
            await writer.write(self._request.body[start : start + PIECE_BYTES])

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._request.body.decode(encoding, errors)


def _unavailable(request: Request, exc: Exception) -> ApiUnavailable:
    return ApiUnavailable(f"{request.method} {request.path}: {exc or type(exc).__name__}")


class Lines:
    """Reads a stream of bytes line by line, and cuts lines that are too long without harm to the others.

    Args:
        most_bytes: a longer line is cut to this length, without its end; the rest is read and dropped.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], *, most_bytes: int) -> None:
        self._read = read
        self._most_bytes = most_bytes
        self._buffer = bytearray()  # removing bytes from its front moves nothing
        self._searched = 0  # bytes at its front without an end of line
        self._cut = b""  # the beginning of a long line whose rest is being dropped

    async def readline(self) -> bytes:
        """The next line with its end; b"" at the end of the stream. The last line may have no end.

        Cancellation: safe; no byte is lost. Raises: what `read` raises.
        """
        while True:
            end = self._buffer.find(b"\n", self._searched) + 1
            if end:
                line, self._cut = self._cut, b""
                line = line or bytes(self._buffer[: min(end, self._most_bytes)])
                self._take(end)
                return line
            self._searched = len(self._buffer)
            if self._cut:
                self._take(len(self._buffer))
            elif len(self._buffer) >= self._most_bytes:
                self._cut = bytes(self._buffer[: self._most_bytes])
                self._take(len(self._buffer))
            chunk = await self._read()
            if not chunk:
                line, self._cut = self._cut or bytes(self._buffer), b""
                self._take(len(self._buffer))
                return line
            self._buffer += chunk

    def _take(self, size_bytes: int) -> None:
        del self._buffer[:size_bytes]
        self._searched = 0


def date_s(header: str | None) -> float | None:
    """The time in a Date header, in whole seconds since 1970, on the server's clock (RFC 9110, 5.6.7)."""
    if header is None:
        return None
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def retry_after_s(header: str | None, *, date: str | None) -> float | None:
    """The seconds in a Retry-After header (RFC 9110, 10.2.3), >= 0; the caller limits them.

    Args:
        date: the answer's own Date header: a date on the same clock gives a duration without another clock.
    """
    if header is None or not header.isascii():
        return None
    if header.isdigit():
        return float(header)
    until_s, now_s = date_s(header), date_s(date)
    return None if until_s is None or now_s is None else max(0.0, until_s - now_s)
