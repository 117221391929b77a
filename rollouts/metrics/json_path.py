"""Which part of a JSON answer is the result: of kubectl's JSONPath what names one value. Pure.

`{$.data.items[0]['p99']}`; without the braces it means the same. What may name several values (`*`, `..`, `[?()]`, `[0:2]`) is
refused: Argo Rollouts takes the first of them, and which one that is is chance.
Source: https://kubernetes.io/docs/reference/kubectl/jsonpath/
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

from rollouts.errors import ExpressionFailed, ExpressionInvalid

PATH_MAX = 1_024
SEGMENTS_MAX = 32

Path: TypeAlias = tuple[str | int, ...]

_SEGMENT = re.compile(
    r"""\.(?P<name>(?:[\w@$/:-]|\\.)+)
    |\[\s*(?P<place>-?\d{1,6})\s*\]
    |\[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
    |\[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]""",
    re.VERBOSE,
)
_SEVERAL = re.compile(r"\*|\.\.|\?\(|\[[^'\"\[\]:,]*[:,]")
_ESCAPED = re.compile(r"\\(.)")


@lru_cache(maxsize=512)
def json_path(source: str) -> Path:
    """The members and items to go through. Raises: ExpressionInvalid, with words that have no part of it."""
    text = source.strip()
    if len(text) > PATH_MAX:
        raise ExpressionInvalid(f"must have at most {PATH_MAX} characters")
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$").removeprefix("@")
    found: list[str | int] = []
    at = 0
    while at < len(text):
        match = _SEGMENT.match(text, at)
        if match is None:
            if _SEVERAL.search(text, at):
                raise ExpressionInvalid("may name several values: name one, such as {$.data[0].value}")
            raise ExpressionInvalid(f"cannot be read at its character {at + 1} after $: write {{$.data.value}}")
        at = match.end()
        if match["place"] is not None:
            found.append(int(match["place"]))
        else:
            name = next(each for each in (match["name"], match["single"], match["double"]) if each is not None)
            found.append(_ESCAPED.sub(r"\1", name))
    if len(found) > SEGMENTS_MAX:
        raise ExpressionInvalid(f"must have at most {SEGMENTS_MAX} members and items")
    return tuple(found)


def part_of(value: Any, path: Path) -> Any:
    """The value there. Raises: ExpressionFailed when there is none."""
    for depth, each in enumerate(path, start=1):
        match value, each:
            case dict(), str() if each in value:
                value = value[each]
            case list(), int() if -len(value) <= each < len(value):
                value = value[each]
            case _:
                raise ExpressionFailed(f"there is nothing at its part {depth} of {len(path)}")
    return value
