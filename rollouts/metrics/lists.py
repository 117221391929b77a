"""Lists as the API server gives them, decoded."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class ListedPart(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of an answer: only the fields that are read."""


class ListMetadata(ListedPart, frozen=True):
    """`.metadata` of a list."""

    continue_: str = msgspec.field(default="", name="continue")


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """What the decoder makes of an answer. Raises: ValueError, without any part of the answer."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ValueError(f"it cannot be read ({type(exc).__name__})") from None
