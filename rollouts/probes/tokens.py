"""Tokens that are asked for before a request: with client credentials, or with the key of a Google service account.

They are kept until they are about to end, and until a server refuses them. Whoever needs one while it is asked for waits for it.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from rollouts.errors import Unanswered
from rollouts.metrics.google_key import GRANT, KeyFile, base64url, key_file, unsigned_assertion
from rollouts.metrics.requests import ClientCredentials, ServiceAccount, origin_of
from rollouts.ports import Clock
from rollouts.probes.exchange import NotPermitted, Outgoing, Received
from rollouts.secret import Secret

TOKENS_KEPT = 256
TOKEN_MAX_CHARACTERS = 8_192
TOKEN_SPARE_S = 30.0  # a token is not used in the last seconds of its life
TOKEN_LIFE_S = 300.0
"""Of a token that does not tell its own. Source: RFC 6749, section 5.1: `expires_in` is only recommended."""
NOT_INSTALLED = (
    "keys of Google's service accounts are used by the library cryptography, and it is not installed: make image"
    " REQUIREMENTS=requirements-google.lock, or pip install '.[google]' in the source tree"
)
_REFUSALS = {
    "invalid_client": "it does not know the client, or its secret",
    "invalid_grant": "the key was deleted, its account is disabled, or this clock is wrong",
    "invalid_scope": "it does not know a scope",
    "unauthorized_client": "the client may not ask so",
}
"""What its words mean, which are all that is told of an answer. Sources: RFC 6749, section 5.2; RFC 7523, section 3.1."""
_FORM = ("Content-Type", "application/x-www-form-urlencoded")

TokenSource: TypeAlias = ClientCredentials | ServiceAccount
Send: TypeAlias = Callable[[Outgoing], Awaitable[Received]]


class TokenThrottled(Unanswered):
    """The server of tokens has had too many requests, or cannot answer at the moment.

    Args:
        received: its answer, which says until when.
    """

    def __init__(self, message: str, received: Received) -> None:
        super().__init__(message)
        self.received = received


class _Token(Struct, frozen=True):
    """A bearer token, and until when it may be used, by the monotonic clock."""

    text: Secret
    until_s: float


class _TokenAnswer(msgspec.Struct):
    access_token: str
    token_type: str = "bearer"  # noqa: S105 - a type's name
    expires_in: float | str | None = None


class _Refusal(msgspec.Struct):
    error: str


@dataclass(slots=True)
class _Kept:
    """The token of one source; one at a time asks for it."""

    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: _Token | None = None


class Tokens:
    """Keeps tokens by what they were asked for with."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[TokenSource, _Kept] = {}

    async def token_of(self, source: TokenSource, send: Send) -> Secret:
        """One that lives, asked for where there is none.

        Args:
            send: to the server of tokens.

        Raises: Unanswered; TokenThrottled. Cancellation: safe.
        """
        if source not in self._kept and len(self._kept) >= TOKENS_KEPT:
            self._kept.pop(next(iter(self._kept)))
        kept = self._kept.setdefault(source, _Kept())
        async with kept.asking:
            if kept.token is None or self._clock.monotonic_s() >= kept.token.until_s:
                kept.token = await self._asked_for(source, send)
            return kept.token.text

    def refused(self, source: TokenSource) -> None:
        """A server has refused the token: the next request asks for another one."""
        if source in self._kept:
            self._kept[source].token = None

    async def _asked_for(self, source: TokenSource, send: Send) -> _Token:
        asked_s = self._clock.monotonic_s()
        outgoing = client_grant(source) if isinstance(source, ClientCredentials) else await self._key_grant(source)
        who = origin_of(outgoing.url)
        try:
            received = await send(outgoing)
        except NotPermitted as exc:
            raise Unanswered(f"the URL of its token: {exc}") from exc
        waits = received.status == 429 or (received.status == 503 and "retry-after" in received.headers)
        if waits and (isinstance(source, ServiceAccount) or source.declared):  # a tenant's URL makes nobody else wait
            raise TokenThrottled(f"{who}: gives no token for now ({received.status})", received)
        if received.status != 200:
            raise Unanswered(f"{who}: gives no token ({received.status}{_refusal_in(received.body)})")
        token = _token_in(received.body, asked_s)
        if token is None:
            raise Unanswered(f"{who}: its answer has no bearer token")
        return token

    async def _key_grant(self, account: ServiceAccount) -> Outgoing:
        """Source: RFC 7523, section 2.1."""
        key = key_file(account.key)
        if isinstance(key, str):
            raise Unanswered(f"the key of its service account {key}")
        unsigned = unsigned_assertion(key, account, now_s=self._clock.now_s())
        signature = await asyncio.to_thread(_signature, key, unsigned)  # loading and checking a key takes a while
        assertion = b".".join((unsigned, base64url(signature)))
        form = {"grant_type": GRANT, "assertion": assertion.decode()}
        return Outgoing(url=key.token_url, method="POST", headers=(_FORM,), body=urlencode(form).encode())


def client_grant(credentials: ClientCredentials) -> Outgoing:
    """Asks with a client's name and secret. Source: RFC 6749, sections 2.3.1 and 4.4."""
    form = {"grant_type": "client_credentials"}
    if credentials.scopes:
        form["scope"] = " ".join(credentials.scopes)
    name = quote(credentials.client_id, safe="")
    secret = basic(name, Secret(quote(credentials.client_secret.reveal(), safe="")))
    return Outgoing(
        url=credentials.token_url,
        method="POST",
        headers=(("Authorization", secret.reveal()), _FORM),
        body=urlencode(form).encode(),
    )


def basic(user: str, password: Secret) -> Secret:
    """`Authorization` with user and password. Source: RFC 7617."""
    return Secret(f"Basic {base64.b64encode(f'{user}:{password.reveal()}'.encode()).decode()}")


def _signature(key: KeyFile, data: bytes) -> bytes:
    """RS256. Raises: Unanswered without the library, and for a key that is none. Source: RFC 7518, section 3.3."""
    try:
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - for those who have such a key
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
    except ImportError as exc:
        raise Unanswered(NOT_INSTALLED) from exc
    try:
        private = load_pem_private_key(key.private_key.reveal().encode(), password=None)
    except (ValueError, TypeError) as exc:  # its words are not told: they are about the key
        raise Unanswered("the key of its service account has a private_key that cannot be used") from exc
    if not isinstance(private, RSAPrivateKey):
        raise Unanswered("the key of its service account has a private_key that is not RSA")
    return private.sign(data, PKCS1v15(), hashes.SHA256())


def _refusal_in(body: bytes) -> str:
    try:
        error = msgspec.json.decode(body, type=_Refusal).error
    except (ValueError, RecursionError):
        return ""
    return f", {error}: {_REFUSALS[error]}" if error in _REFUSALS else ""


def _token_in(body: bytes, asked_s: float) -> _Token | None:
    try:
        answer = msgspec.json.decode(body, type=_TokenAnswer)
        life_s = TOKEN_LIFE_S if answer.expires_in is None else float(answer.expires_in)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    text = answer.access_token
    fit = text.isascii() and text.isprintable() and " " not in text and 0 < len(text) <= TOKEN_MAX_CHARACTERS
    if not fit or answer.token_type.lower() != "bearer":
        return None
    return _Token(Secret(text), asked_s + max(0.0, min(life_s, 86_400.0) - TOKEN_SPARE_S))
