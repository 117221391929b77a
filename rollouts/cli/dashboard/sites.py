"""By which names people reach a dashboard that several use, and what follows from each: its origin, and its cookie.

A name that is not given is refused, because anybody can let a name of theirs point here. Those of a machine's loopback are always
taken: `kubectl port-forward` ends there, on any port.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from aiohttp import web
from msgspec import Struct

_LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")
_NAMED = re.compile(r"(?:(https?)://)?((?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?)/?")
_PORTS = {"https": ":443", "http": ":80"}  # what browsers leave out


class Site(Struct, frozen=True):
    """One name of the dashboard, as browsers send it in `Host`.

    Args:
        secure: something before us speaks TLS.
    """

    host: str
    secure: bool

    @property
    def origin(self) -> str:
        """Of our own pages there."""
        return f"{'https' if self.secure else 'http'}://{self.host}"

    @property
    def cookie(self) -> str:
        """The name of the cookie. Browsers send the cookies of one port to all ports of a host."""
        return "__Host-rollouts" if self.secure else f"rollouts-session-{self.host.rpartition(':')[2]}"

    def session_cookie(self, key: str) -> str:
        """The header that gives a browser the cookie of its session. Links of other sites do not send it."""
        return f"{self.cookie}={key}; HttpOnly; Path=/; SameSite=Strict{'; Secure' if self.secure else ''}"

    @property
    def is_loopback(self) -> bool:
        """Whether nothing of it crosses a network that the browser knows of."""
        return _LOOPBACK.fullmatch(self.host) is not None


def named_site(text: str) -> Site:
    """The site that a person names: NAME, NAME:PORT or a URL of these; https unless it says http. Raises: ValueError."""
    found = _NAMED.fullmatch(text.lower())
    if found is None:
        raise ValueError(f"{text!r} is no name of a host: write rollouts.example.com, or http://NAME:PORT without TLS")
    scheme = found[1] or "https"
    return Site(found[2].removesuffix(_PORTS[scheme]), scheme == "https")


class Sites:
    """All names of one dashboard."""

    def __init__(self, named: Iterable[Site]) -> None:
        self._by_host = {site.host: site for site in named}

    def of(self, request: web.Request) -> Site | None:
        """The name by which the request has found us; None for one that is not ours."""
        if request.headers.getall("Host", []) != [request.host]:
            return None
        known = self._by_host.get(request.host)
        if known is not None:
            return known
        return Site(request.host, secure=False) if _LOOPBACK.fullmatch(request.host) else None
