"""Texts that must never be printed: tokens, passwords, keys. Only `reveal` gives the text."""

from __future__ import annotations

import hmac


class Secret:
    """A text that appears as `***` when it is printed, formatted, logged, or part of an error."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the code that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a Secret cannot be serialized")


def without_password(url: str) -> str:
    """The URL without user and password, for messages: `http://proxy:3128`."""
    before, _, after = url.rpartition("@")
    scheme, separator, _ = before.partition("://")
    return f"{scheme}{separator}{after}" if separator else after
