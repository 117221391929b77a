"""Who may ask: each request is judged before anything is read or written.

Everybody who reaches the dashboard would act with one person's rights. So a request needs the cookie that the printed key was
exchanged for, an address of this machine as its Host (a page elsewhere can let its own name point here), and an origin that is
ours: other ports of this machine are the same site for a browser, and get its cookies too.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

LOGIN = "/login"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # `no-referrer` would make the browser send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Server": "rollouts",
}
"""Sent with every answer."""

_OURS = ("same-origin", "none")  # Sec-Fetch-Site; `none` is an address that somebody typed
_KEY_BYTES = 32


class RefusedRequest(Struct, frozen=True):
    """Why a request is not answered, for whoever sent it."""

    status: HTTPStatus
    why: str


class AccessGuard:
    """The secrets of one run, and the judgement by them."""

    def __init__(self, address: str, port: int) -> None:
        """Makes the secrets anew. `address` is the IP address that the server listens on."""
        host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
        self.origin = f"http://{host}:{port}"
        self._hosts = {f"{host}:{port}", f"localhost:{port}"}
        # Browsers send the cookies of one port to all ports of a host.
        self._cookie_name = f"rollouts-dashboard-{port}"
        self._cookie = secrets.token_urlsafe(_KEY_BYTES)
        self._key: str | None = secrets.token_urlsafe(_KEY_BYTES)

    @property
    def address(self) -> str:
        """The address to open, with the key, which is good for one exchange."""
        return f"{self.origin}{LOGIN}?key={self._key or ''}"

    def refusal(self, request: web.Request) -> RefusedRequest | None:
        """Why the request is refused; None when it is one of our page's, or of whoever has the key."""
        if request.headers.getall("Host", []) != [request.host] or request.host not in self._hosts:
            return RefusedRequest(
                HTTPStatus.MISDIRECTED_REQUEST, "this is not the address that `rollouts dashboard` printed"
            )
        refusal = refusal_of_others(request, f"http://{request.host}")
        if refusal is not None:
            return refusal
        if request.path == LOGIN:
            return None
        if not same(request.cookies.get(self._cookie_name, ""), self._cookie):
            return RefusedRequest(HTTPStatus.UNAUTHORIZED, "open the address that `rollouts dashboard` printed")
        return None

    def exchange(self, key: str) -> web.Response | RefusedRequest:
        """The cookie for the key, with a redirect, so that the key is in no address that the browser keeps open."""
        if self._key is None:
            return RefusedRequest(
                HTTPStatus.FORBIDDEN, "this address was opened before; start `rollouts dashboard` again"
            )
        if not same(key, self._key):
            return RefusedRequest(HTTPStatus.FORBIDDEN, "this is not the key that `rollouts dashboard` printed")
        self._key = None
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/"})
        answer.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="Strict", path="/")
        return answer


def refusal_of_others(request: web.Request, origin: str) -> RefusedRequest | None:
    """Why a request is refused that a page of another origin has sent; None when it is ours, or changes nothing.

    Args:
        origin: of the address at which the request has found us.
    """
    reads = request.method in ("GET", "HEAD")
    # A link on another page may lead here: opening it changes nothing, and that page sees nothing of it.
    if is_from_elsewhere(request) and not (reads and is_opened(request)):
        return RefusedRequest(HTTPStatus.FORBIDDEN, "this was sent by a page of another address")
    if not reads and request.headers.getall("Origin", []) != [origin]:
        return RefusedRequest(HTTPStatus.FORBIDDEN, "this was sent by a page of another address")
    return None


def is_from_elsewhere(request: web.Request) -> bool:
    """Whether a page of another origin has sent it, or led here."""
    return request.headers.get("Sec-Fetch-Site", "none") not in _OURS


def is_opened(request: web.Request) -> bool:
    """Whether it is for a page that a browser opens, and not for a part of one."""
    return request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"


def same(given: str, secret: str) -> bool:
    """Whether both are equal, in a time that says nothing about where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
