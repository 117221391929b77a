"""Keys of Google service accounts, and a server of tokens that takes them as Google's does.

Source: https://developers.google.com/identity/protocols/oauth2/service-account (checks of the assertion, words of its refusals).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.probes.servers import Sent, ok, raw

EMAIL = "rollouts@shop.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/monitoring.read"
SKEW_S = 300.0
"""So far may clocks be apart."""


@cache
def private_key(name: str = "a") -> RSAPrivateKey:
    """A key for each name."""
    del name
    return generate_private_key(public_exponent=65_537, key_size=2_048)


def key_file(token_url: str, *, name: str = "a", **changes: Any) -> str:
    """The key file as Google gives it, over several lines."""
    pem = private_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    content = {
        "type": "service_account",
        "project_id": "shop",
        "private_key_id": "0123",
        "private_key": pem,
        "client_email": EMAIL,
        "token_uri": token_url,
        **changes,
    }
    return json.dumps(content, indent=2)


@dataclass
class GoogleTokens:
    """Answers requests for tokens.

    Args:
        audience: for whom an assertion must be.
        now_s: its clock.
        key: whose signatures it knows.
        given: how many tokens it has given.
        life_s: how long they live.
    """

    now_s: Callable[[], float]
    audience: str = ""
    key: str = "a"
    given: int = 0
    life_s: int = 3_599

    def answer(self, asked: Sent) -> bytes:
        """A token, or Google's refusal."""
        form = parse_qs(asked.body.decode(), strict_parsing=True)
        if form.pop("grant_type") != ["urn:ietf:params:oauth:grant-type:jwt-bearer"]:
            return _refusal("unsupported_grant_type", "Invalid grant_type")
        (assertion,) = form.pop("assertion")
        assert not form
        signed, _, signature = assertion.rpartition(".")
        try:
            private_key(self.key).public_key().verify(_decoded(signature), signed.encode(), PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return _refusal("invalid_grant", "Invalid JWT Signature.")
        header, claims = (json.loads(_decoded(part)) for part in signed.split("."))
        assert header == {"alg": "RS256", "typ": "JWT", "kid": "0123"}
        if claims["aud"] != self.audience:
            return _refusal("invalid_grant", "Invalid JWT: Failed audience check.")
        fresh = claims["iat"] - SKEW_S <= self.now_s() <= claims["exp"] and claims["exp"] - claims["iat"] <= 3_600
        if claims["iss"] != EMAIL or not fresh:
            return _refusal(
                "invalid_grant", "Invalid JWT: Token must be a short-lived token and in a reasonable timeframe."
            )
        if claims["scope"] != SCOPE:
            return _refusal("invalid_scope", f"Invalid OAuth scope or ID token audience provided: {claims['scope']}.")
        self.given += 1
        return ok({"access_token": f"ya29.{self.given}", "expires_in": self.life_s, "token_type": "Bearer"})


def _refusal(error: str, description: str) -> bytes:
    return raw(json.dumps({"error": error, "error_description": description}).encode(), status="400 Bad Request")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
