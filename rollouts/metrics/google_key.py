"""The key file of a Google service account, and what is asked for with it: a token. Pure; signed by `probes/tokens.py`.

Source: https://developers.google.com/identity/protocols/oauth2/service-account#httprest (RFC 7523).
"""

from __future__ import annotations

import base64

import msgspec
from msgspec import Struct

from rollouts.metrics.requests import ServiceAccount
from rollouts.secret import Secret

SCOPES = ("https://www.googleapis.com/auth/monitoring.read",)
"""What is asked for where a MetricProvider says nothing: to read metrics."""
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_LIFE_S = 3_600
"""The longest that Google takes."""

_KEY_MAX_CHARACTERS = 16_384
_PEM = "-----BEGIN PRIVATE KEY-----"


class KeyFile(Struct, frozen=True):
    """What a key file says.

    Args:
        email: name of the service account.
        key_id: of the key; "" where the file does not name it.
        token_url: where the token is asked for, and whom the assertion is for.
        private_key: PEM.
    """

    email: str
    key_id: str
    token_url: str
    private_key: Secret


class _Wire(Struct):
    type: str
    client_email: str = ""
    private_key: str = ""
    private_key_id: str = ""
    token_uri: str = ""


def key_file(text: Secret) -> KeyFile | str:
    """The key, or why the text is none, without a part of it. Raises: nothing."""
    revealed = text.reveal()
    if len(revealed) > _KEY_MAX_CHARACTERS:
        return f"has more than {_KEY_MAX_CHARACTERS} characters"
    try:
        wire = msgspec.json.decode(revealed, type=_Wire)
    except (ValueError, RecursionError):
        return "is no key file: the JSON that Google gives for a key of a service account"
    if wire.type != "service_account":
        return "is a key file of another type; a service account's is needed (type: service_account)"
    if missing := [name for name in ("client_email", "private_key", "token_uri") if not getattr(wire, name)]:
        return f"is a key file without {' and '.join(missing)}"
    if not wire.private_key.startswith(_PEM):
        return "is a key file whose private_key is not PEM"
    return KeyFile(wire.client_email, wire.private_key_id, wire.token_uri, Secret(wire.private_key))


def unsigned_assertion(key: KeyFile, account: ServiceAccount, *, now_s: float) -> bytes:
    """Header and claims of the JSON Web Token, as they are signed (RFC 7515, section 5.1)."""
    header = {"alg": "RS256", "typ": "JWT", **({"kid": key.key_id} if key.key_id else {})}
    claims = {
        "iss": key.email,
        "scope": " ".join(account.scopes),
        "aud": key.token_url,
        "iat": int(now_s),
        "exp": int(now_s) + ASSERTION_LIFE_S,
    }
    return b".".join(base64url(msgspec.json.encode(each)) for each in (header, claims))


def base64url(data: bytes) -> bytes:
    """Base 64 as JSON Web Tokens have it: for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")
