"""What must never be printed: a token, a password, a key. Whoever needs it says so, with `reveal`."""

from __future__ import annotations

import hmac


class Secret:
    """A text that shows as `***` wherever it is printed, formatted, logged, or part of an error."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one who sends it."""
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
        raise TypeError("a secret is not written down")


def without_password(url: str) -> str:
    """The URL without its user and password, for people: `http://proxy:3128`."""
    before, _, after = url.rpartition("@")
    scheme, separator, _ = before.partition("://")
    return f"{scheme}{separator}{after}" if separator else after
