"""How a field of a status is declared: type and default as in any class, its words for people and its JSON in `Annotated`.

    revision: Annotated[str, "The aborted revision.", NEEDED]

The CRD, the writer and the reader follow from that line (`api/status/codec.py`). A text is the field's description in the CRD.
The name in JSON is the field's in camelCase, without `_s` for a time. What is empty ("", false, (), None) is not written; a
number is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Annotated, Any, TypeAlias

from msgspec import Struct

MESSAGE_MAX = 32_768
"""Characters of a message, as of a condition's in apimachinery."""


class Mark(Enum):
    """What is different about a field's JSON."""

    NEEDED = auto()
    """Without it, or when it cannot be read, its whole object is left out."""
    STRICT = auto()
    """When it cannot be read, its whole object is left out; it may be absent."""
    ALWAYS = auto()
    """It is written when it is empty, too."""
    LEFT_OUT = auto()
    """A number that is left out when it is 0."""
    HIDDEN = auto()
    """It is not in JSON; something else there says it."""
    FLAT = auto()
    """The fields of its value stand beside the others; an own text is the description of each."""
    TIME = auto()
    """Seconds since 1970, RFC 3339 in JSON."""
    TRUE_OR_FALSE = auto()
    """The word True or False, as in conditions."""
    LISTED = auto()
    """The CRD lists the words of its enumeration."""
    PONG = auto()
    """The word pong, or nothing."""


NEEDED, STRICT, ALWAYS, LEFT_OUT, HIDDEN, FLAT, LISTED = (
    Mark.NEEDED, Mark.STRICT, Mark.ALWAYS, Mark.LEFT_OUT, Mark.HIDDEN, Mark.FLAT, Mark.LISTED,
)  # fmt: skip


class Json(Struct, frozen=True):
    """Its name in JSON, where that does not follow from its own; `text` is what an entry of its list is, in the CRD.

    Args:
        section: the object of JSON that it stands in.
        schema: more of its schema in the CRD.
    """

    name: str = ""
    section: Section | None = None
    text: str = ""
    schema: Mapping[str, Any] = {}


class Section(Struct, frozen=True):
    """An object of JSON with some of a value's fields, and its description in the CRD."""

    name: str
    text: str


class WhenAbsent(Struct, frozen=True):
    """The value of a field that is absent or cannot be read; without it the class's default, or what is empty."""

    value: Any


class WhenUnreadable(Struct, frozen=True):
    """The value of a field that cannot be read."""

    value: Any


class Entries(Struct, frozen=True):
    """A list of which no more is read: only so many entries at its beginning, or at its end."""

    first: int | None = None
    last: int | None = None


class AtMost(Struct, frozen=True):
    """A text is cut to so many characters as it is written."""

    characters: int


Time: TypeAlias = Annotated[float, Mark.TIME]
"""Seconds since 1970."""
Message: TypeAlias = Annotated[str, AtMost(MESSAGE_MAX)]
