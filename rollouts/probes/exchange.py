"""One HTTP request to one address of a name, with a deadline over all of it and a limit on the answer; the rules of all askers.

Everything that is sent over HTTP, but for requests to the API server and to AWS, is sent from here, to a `Replica`: an address
that `metrics/addresses.py` has judged, by the rules of whoever named the URL. Only `replicas` makes them.

No redirect is followed, no proxy is taken from the environment and nothing is compressed: who is asked is who was named, and what
is read is what was sent. The name is resolved first and the address is pinned: it cannot change between a check and a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx
import structlog

from rollouts.core.model.frozen import replace
from rollouts.errors import SettingsInvalid, Unanswered
from rollouts.metrics.addresses import ADMINISTRATORS, TenantUrls, UrlRules, may_be_asked, url_problem
from rollouts.metrics.requests import leads_up, origin_of

BODY_MAX_BYTES = 16 * 1024 * 1024
REPLICAS_MAX = 64  # of one URL
CONNECTIONS_MAX = 128
_REDIRECTS = range(300, 400)
_NOT_PUBLIC = "has no address, or one that may not be asked"
_HEADERS = {"User-Agent": "rollouts", "Accept": "application/json", "Accept-Encoding": "identity"}

_OK = 200
_LOGGED = 500  # characters

log = structlog.get_logger()

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The IP addresses of a host name. Raises: OSError."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One address of a URL, which may be asked.

    Args:
        base: URL with the address in place of the host name.
        host: the name, for the Host header and the certificate.
    """

    base: str = field(repr=False)
    host: str
    display_name: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """What is sent.

    Args:
        headers: besides ours; one of the same name takes its place.
        server_name: the name that the certificate must have; "" for the URL's host.
    """

    url: str = field(repr=False)
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """An answer.

    Args:
        body: b"" where it was not wanted.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class NotPermitted(Unanswered):
    """Nobody was asked: the URL's author may not have this address asked."""


class NotConnected(Unanswered):
    """Nothing was sent, so another address may be asked the same."""


def transport(verify: ssl.SSLContext | bool) -> httpx.AsyncHTTPTransport:
    """For requests with a deadline of their own, at low rates.

    It is not a client: that would follow what it is not asked to, and send the cookies of one answer along with the next request.
    """
    # No connection is kept: it is found by address, though it was verified for another name, and it breaks in a restart.
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=0)
    return httpx.AsyncHTTPTransport(verify=verify, limits=limits, trust_env=False)


async def replicas(url: str, resolve: Resolve | None, *, rules: UrlRules, deadline_s: float) -> tuple[Replica, ...]:
    """One for each address of the URL's host; its path and query stay in `base`.

    Args:
        rules: of whoever named the URL.

    Raises: Unanswered; NotPermitted, in the same words whether a tenant's name leads to the cluster's own or nowhere.
    """
    if problem := url_problem(url, rules):
        raise NotPermitted(problem)
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as exc:
        raise Unanswered("the URL cannot be read") from exc
    try:
        found = await _resolved(parts, resolve, deadline_s)
    except Unanswered as exc:
        if isinstance(rules, TenantUrls):
            raise NotPermitted(f"{origin_of(url)}: {_NOT_PUBLIC}") from exc
        raise
    # All of them: a name with a good and a bad address is somebody's try.
    if not all(may_be_asked(replica.address, rules) for replica in found):
        tenant = isinstance(rules, TenantUrls)
        raise NotPermitted(f"{origin_of(url)}: {_NOT_PUBLIC if tenant else 'has an address that may not be asked'}")
    return found


async def _resolved(parts: httpx.URL, resolve: Resolve | None, deadline_s: float) -> tuple[Replica, ...]:
    """Raises: Unanswered."""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(deadline_s):
            addresses = await (resolve or _addresses)(parts.host, port)
    except TimeoutError as exc:
        raise Unanswered(f"{parts.host}: no DNS answer within {deadline_s:g} s") from exc
    except OSError as exc:
        raise Unanswered(f"{parts.host}: DNS gives no address: {exc}") from exc
    except UnicodeError as exc:  # of a label that is too long
        raise Unanswered(f"{parts.host}: is no name of a host") from exc
    found = tuple(dict.fromkeys(addresses))
    if not found or len(found) > REPLICAS_MAX:
        raise Unanswered(f"{parts.host}: has {len(found)} addresses, and the controller asks 1 to {REPLICAS_MAX}")
    made: list[Replica] = []
    for address in found:
        try:
            base = str(parts.copy_with(host=address))
        except httpx.InvalidURL as exc:
            raise Unanswered(f"{parts.host}: has an address that is none") from exc
        six = ":" in address and ipaddress.ip_address(address.partition("%")[0]).version == 6
        display_name = f"[{address}]:{port}" if six else f"{address}:{port}"
        made.append(Replica(base, parts.netloc.decode(), display_name, address))
    return tuple(made)


async def exchanged(
    by: httpx.AsyncHTTPTransport,
    replica: Replica,
    outgoing: Outgoing,
    *,
    wanted: Callable[[int], bool],
    deadline_s: float,
    most_bytes: int,
) -> Received:
    """The answer, whole.

    Args:
        wanted: whether the body of an answer with that status is read.

    Cancellation: safe. Raises: Unanswered; NotConnected where nothing was sent.
    """
    name = replica.display_name
    size = f"{most_bytes >> 20} MiB" if most_bytes >= 1 << 20 else f"{most_bytes >> 10} KiB"
    if origin_of(outgoing.url) != origin_of(replica.base) or leads_up(urlsplit(outgoing.url).path):
        raise NotPermitted(f"{name}: the request leads to another address, or up from its URL")
    try:
        request = httpx.Request(
            outgoing.method,
            outgoing.url,
            headers=httpx.Headers([("Host", replica.host), *outgoing.headers]),
            content=outgoing.body or None,
            extensions={"sni_hostname": outgoing.server_name or replica.host.rpartition(":")[0] or replica.host},
        )
        for header, value in _HEADERS.items():
            request.headers.setdefault(header, value)
        async with asyncio.timeout(deadline_s), contextlib.aclosing(await by.handle_async_request(request)) as response:
            if response.status_code in _REDIRECTS:
                raise Unanswered(f"{name}: answers with a redirect ({response.status_code}), which is not followed")
            found = bytearray()
            if wanted(response.status_code):
                async for chunk in response.aiter_raw():
                    found += chunk
                    if len(found) > most_bytes:
                        raise Unanswered(f"{name}: the answer has more than {size}")
            return Received(response.status_code, dict(response.headers), bytes(found))
    except TimeoutError as exc:
        raise Unanswered(f"{name}: no answer within {deadline_s:g} s") from exc
    except httpx.ConnectError as exc:
        raise NotConnected(f"{name}: {_words(exc)}") from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise Unanswered(f"{name}: {_words(exc)}") from exc


def trust(ca_file: Path, *, flag: str) -> ssl.SSLContext:
    """Trusts the public authorities and those of the file. A bad file fails at the start, not in a rollout.

    Raises: SettingsInvalid.
    """
    context = httpx.create_ssl_context(trust_env=False)
    try:
        text = ca_file.read_text()
        context.load_verify_locations(cadata=text)
    except (OSError, ValueError, ssl.SSLError) as exc:
        raise SettingsInvalid(f"{flag}: {ca_file} has no usable PEM certificates: {exc}") from exc
    return context


def _words(error: httpx.HTTPError | httpx.InvalidURL) -> str:
    """The error without parts of the answer, which h11 puts after a colon ("illegal status line: …")."""
    text = str(error)
    if isinstance(error, httpx.ProtocolError):
        text = text.partition(":")[0].partition("b'")[0].strip()
    return text or type(error).__name__


async def _addresses(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Asker:
    """Sends requests to URLs of administrators, at low rates: GETs to data planes, to every address of a name, and POSTs to Flux.

    They name them in flags, in TrafficProviders, and as nodes of the cluster.

    Args:
        tls: whether some of the URLs are `https://`. Loading the public authorities takes 100 ms and more.
        ca_file: PEM file of certificate authorities to trust besides the public ones; None for none. Read once.
        resolve: finds the addresses of a host name; by default the system does.

    Raises: SettingsInvalid for a `ca_file` without a certificate in it.
    """

    def __init__(self, *, tls: bool, ca_file: Path | None = None, resolve: Resolve | None = None) -> None:
        self._tls = tls
        self._resolve = resolve
        self._transport = transport(trust(ca_file, flag="--data-plane-ca") if ca_file is not None else tls)

    async def replicas(self, url: str, *, deadline_s: float) -> tuple[Replica, ...]:
        """One replica for each address of the URL's host. Raises: Unanswered."""
        if url.lower().startswith("https:") and not self._tls:
            raise ValueError(f"{url} is asked without certificates")
        found = await replicas(url, self._resolve, rules=ADMINISTRATORS, deadline_s=deadline_s)
        return tuple(replace(replica, base=replica.base.rstrip("/")) for replica in found)

    async def get(self, replica: Replica, path: str, *, deadline_s: float, most_bytes: int | None = None) -> bytes:
        """The body of a 200 answer; `path` includes the query. A body over `most_bytes`, or BODY_MAX_BYTES, counts as no answer.

        Cancellation: safe. Raises: Unanswered.
        """
        try:
            received = await exchanged(
                self._transport,
                replica,
                Outgoing(url=replica.base + path),
                wanted=lambda status: status == _OK,
                deadline_s=deadline_s,
                most_bytes=BODY_MAX_BYTES if most_bytes is None else most_bytes,
            )
        except Unanswered as exc:
            if isinstance(why := exc.__cause__, httpx.HTTPError | httpx.InvalidURL):
                # Its text may have parts of the answer in it, and the message ends in a status.
                error = type(why).__name__
                log.info("question_unanswered", address=replica.display_name, error=error, why=str(why)[:_LOGGED])
            raise
        if received.status != _OK:
            raise Unanswered(f"{replica.display_name}: answers {received.status}")
        return received.body

    async def post(self, url: str, body: bytes, *, deadline_s: float) -> int:
        """Sends JSON to the first address of the URL's host that takes a connection; returns the status, and reads no more.

        Cancellation: safe. Raises: Unanswered.
        """
        *others, last = await self.replicas(url, deadline_s=deadline_s)
        for replica in others:
            with contextlib.suppress(NotConnected):
                return await self._posted(replica, body, deadline_s)
        return await self._posted(last, body, deadline_s)

    async def _posted(self, replica: Replica, body: bytes, deadline_s: float) -> int:
        headers = (("Content-Type", "application/json"),)
        outgoing = Outgoing(url=replica.base, method="POST", headers=headers, body=body)
        received = await exchanged(
            self._transport, replica, outgoing, wanted=lambda _: False, deadline_s=deadline_s, most_bytes=0
        )
        return received.status

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        await self._transport.aclose()
