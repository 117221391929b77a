"""Sends GETs to the interfaces of data planes: with a deadline and a limit on the answer, to every address of a name.

It follows no redirect, takes no proxy from the environment and accepts no compression, so it asks only the named hosts, and reads
exactly what they send.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import httpx
import structlog

from rollouts.errors import SettingsInvalid, Unanswered

BODY_MAX_BYTES = 16 * 1024 * 1024
REPLICAS_MAX = 64  # addresses of one URL
CONNECTIONS_MAX = 128
_OK = 200
_LOGGED = 500  # characters
_REDIRECTS = range(300, 400)

log = structlog.get_logger()

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host name. Raises: OSError."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One address of a URL.

    Args:
        base: URL with the address in place of the host name.
        host: the name, for the Host header and the certificate.
        display_name: the address for people.
    """

    base: str
    host: str
    display_name: str


class Asker:
    """A client for low rates.

    Args:
        tls: whether some of the URLs are `https://`. Loading the public authorities takes 100 ms and more.
        ca_file: PEM file of certificate authorities to trust besides the public ones; None for none. Read once.
        resolve: finds the addresses of a host name; by default the system does.

    Raises: SettingsInvalid for a `ca_file` without a certificate in it.
    """

    def __init__(self, *, tls: bool, ca_file: Path | None = None, resolve: Resolve | None = None) -> None:
        self._tls = tls
        self._resolve = resolve or _addresses
        self._client = httpx.AsyncClient(
            verify=_trust(ca_file) if ca_file is not None else tls,
            # No connection is kept: it is found by address, though it was verified for another name, and it breaks in a restart.
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=0),
            trust_env=False,
            follow_redirects=False,
            timeout=None,  # noqa: S113 - each call has a deadline over all of its parts
            headers={"User-Agent": "rollouts", "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def replicas(self, url: str, *, deadline_s: float) -> tuple[Replica, ...]:
        """One replica for each address of the URL's host.

        Raises: Unanswered.
        """
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL as exc:
            raise Unanswered(f"{url}: {exc}") from exc
        if parts.scheme == "https" and not self._tls:
            raise ValueError(f"{url} is asked without certificates")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(deadline_s):
                addresses = await self._resolve(parts.host, port)
        except TimeoutError as exc:
            raise Unanswered(f"{parts.host}: no DNS answer within {deadline_s:g} s") from exc
        except OSError as exc:
            raise Unanswered(f"{parts.host}: DNS gives no address: {exc}") from exc
        found = tuple(dict.fromkeys(addresses))
        if not found or len(found) > REPLICAS_MAX:
            raise Unanswered(f"{parts.host}: has {len(found)} addresses, and the controller asks 1 to {REPLICAS_MAX}")
        return tuple(
            Replica(str(parts.copy_with(host=each)).rstrip("/"), parts.netloc.decode(), _network_address(each, port))
            for each in found
        )

    async def get(self, replica: Replica, path: str, *, deadline_s: float, most_bytes: int | None = None) -> bytes:
        """The body of a 200 answer; `path` includes the query. A body over `most_bytes`, or BODY_MAX_BYTES, counts as no answer.

        Cancellation: safe. Raises: Unanswered.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await self._get(replica, path, BODY_MAX_BYTES if most_bytes is None else most_bytes)
        except TimeoutError as exc:
            raise Unanswered(f"{replica.display_name}: no answer within {deadline_s:g} s") from exc
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            # The error's text may contain parts of the answer, and the message goes into a status.
            log.info(
                "question_unanswered", address=replica.display_name, error=type(exc).__name__, why=str(exc)[:_LOGGED]
            )
            raise Unanswered(f"{replica.display_name}: {_words(exc)}") from exc

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        await self._client.aclose()

    async def _get(self, replica: Replica, path: str, most_bytes: int) -> bytes:
        extensions = {"sni_hostname": replica.host.rpartition(":")[0] or replica.host}
        headers = {"Host": replica.host}
        async with self._client.stream("GET", replica.base + path, headers=headers, extensions=extensions) as response:
            if response.status_code in _REDIRECTS:
                raise Unanswered(
                    f"{replica.display_name}: answers with a redirect ({response.status_code}), which is not followed"
                )
            if response.status_code != _OK:
                raise Unanswered(f"{replica.display_name}: answers {response.status_code}")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > most_bytes:
                    raise Unanswered(f"{replica.display_name}: the answer has more than {_size(most_bytes)}")
            return bytes(body)


def _words(error: httpx.HTTPError | httpx.InvalidURL) -> str:
    """The error without parts of the answer, which h11 puts after a colon ("illegal status line: …")."""
    text = str(error)
    if isinstance(error, httpx.ProtocolError):
        text = text.partition(":")[0].partition("b'")[0].strip()
    return text or type(error).__name__


def _trust(ca_file: Path) -> ssl.SSLContext:
    """Trusts the public authorities and those of the file. A bad file fails at the start, not in a rollout."""
    context = httpx.create_ssl_context(trust_env=False)
    try:
        text = ca_file.read_text()
        context.load_verify_locations(cadata=text)
    except (OSError, ValueError, ssl.SSLError) as exc:
        raise SettingsInvalid(f"--data-plane-ca: {ca_file} has no usable PEM certificates: {exc}") from exc
    return context


async def _addresses(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


def _network_address(address: str, port: int) -> str:
    six = ":" in address and ipaddress.ip_address(address.partition("%")[0]).version == 6
    return f"[{address}]:{port}" if six else f"{address}:{port}"
