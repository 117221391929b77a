"""Paths through a JSON value that may lead to several places: `series[*].pointlist[*][1]`, `columns[?type=number].values`.

`.name` and `['name']` are a member, `[0]` an item, `[*]` every item, and `[?name=text]` every item whose member has that value.
Where one value is asked for, `web.json_path` is stricter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.errors import ExpressionInvalid

PATH_MAX = 512
SEGMENTS_MAX = 24

_SEGMENT = re.compile(
    r"""\.?(?P<name>[\w@$/:-]+)
    |\[(?P<place>-?\d{1,6})\]
    |\[(?P<every>\*)\]
    |\[\?(?P<member>[\w-]+)=(?P<text>[^\]]*)\]
    |\['(?P<quoted>[^'\]]+)'\]""",
    re.VERBOSE,
)


class EveryItem(Struct, frozen=True):
    """All items of a list, or with a member those in which it has that text."""

    member: str = ""
    text: str = ""


MemberPath: TypeAlias = tuple[str | int | EveryItem, ...]


class NotThereError(ValueError):
    """Nothing is where the path leads, or something of another type on the way."""


@lru_cache(maxsize=512)
def member_path(source: str) -> MemberPath:
    """The path as steps. Raises: ExpressionInvalid, with words that have no part of it."""
    if len(source) > PATH_MAX:
        raise ExpressionInvalid(f"must have at most {PATH_MAX} characters")
    steps: list[str | int | EveryItem] = []
    at = 0
    while at < len(source):
        found = _SEGMENT.match(source, at)
        if found is None:
            raise ExpressionInvalid(f"cannot be read at its character {at + 1}: write data[*].value")
        at = found.end()
        if found["place"] is not None:
            steps.append(int(found["place"]))
        elif found["every"] or found["member"]:
            steps.append(EveryItem(found["member"] or "", found["text"] or ""))
        else:
            steps.append(found["name"] or found["quoted"])
    if len(steps) > SEGMENTS_MAX:
        raise ExpressionInvalid(f"must have at most {SEGMENTS_MAX} members and items")
    return tuple(steps)


def values_at(value: Any, path: str) -> list[Any]:
    """The values there, in their order; the value itself for an empty path. Raises: NotThereError."""
    values = [value]
    for step in member_path(path):
        values = [found for each in values for found in _stepped(each, step)]
    return values


def found_at(value: Any, path: str) -> list[Any]:
    """The values there that are something: neither null nor empty nor false nor 0; none where the path leads nowhere."""
    try:
        return [found for found in values_at(value, path) if found]
    except NotThereError:
        return []


def _stepped(value: Any, step: str | int | EveryItem) -> list[Any]:
    match value, step:
        case dict(), str() if step in value:
            return [value[step]]
        case list(), int() if -len(value) <= step < len(value):
            return [value[step]]
        case list(), EveryItem(member=""):
            return value
        case list(), EveryItem(member=member, text=text):
            return [item for item in value if isinstance(item, dict) and item.get(member) == text]
    raise NotThereError
