"""Reads one Secret, whose values nobody prints: neither here nor in an error."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec

from rollouts.cluster.client import Client
from rollouts.errors import ApiUnavailable
from rollouts.objects import SECRET
from rollouts.secret import Secret


class _SecretObject(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


async def secret_data(client: Client, namespace: str, name: str) -> Mapping[str, Secret | None]:
    """The values by key, as texts, without line breaks at their ends, which editors and `echo` add; None for what is no text.

    Raises: what `Client.get` raises. Cancellation: safe.
    """
    answer = await client.get(SECRET, namespace, name)
    try:
        found = msgspec.json.decode(answer, type=_SecretObject)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Not the decoder's words, and not `from`: they may have a part of the answer.
        raise ApiUnavailable(f"the API server's answer about Secret {name} cannot be read") from None
    return {key: _text(value) for key, value in (found.data or {}).items()}


def _text(value: str) -> Secret | None:
    try:
        return Secret(base64.b64decode(value, validate=True).decode().rstrip("\r\n"))
    except (binascii.Error, ValueError):
        return None
