"""Places in a text that values are put into: `{{name}}`, with spaces or without. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

PLACE = re.compile(r"\{\{([^{}]*)\}\}")
UNCLOSED = "has a {{ without a }}"
STRING = r"""(?P<text> "(?:\\.|[^"\\\n])*+" | '(?:\\.|[^'\\\n])*+' | `[^`]*+` )"""
"""A string in PromQL, and in expressions; for patterns that are verbose."""

UNCLOSED_STRING = r"""(?P<open> ["'][^\n]*+ | `[^`]*+ )"""
"""What begins as a string and does not end as one; after `STRING`, so that no text is looked through twice."""

_PLACE_IN_STRING = re.compile(r"(?<!\\)(\\*+)" + PLACE.pattern)
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

ValueOf: TypeAlias = Callable[[str], str | None]
"""The value of a name; None for a place that stays."""

Refuse: TypeAlias = Callable[[str, str], None]
"""Is given the name of a value that may not stand in its place, and why."""


def named_in(text: str) -> tuple[str, ...]:
    """The names that stand in the text, in their order, as often as they do."""
    return tuple(name.strip() for name in PLACE.findall(text))


def is_unclosed(text: str) -> bool:
    """Whether a `{{` in the text opens no place."""
    return "{{" in PLACE.sub("", text)


def filled(text: str, value_of: ValueOf) -> str:
    """The text with values put in."""

    def value(found: re.Match[str]) -> str:
        given = value_of(found[1].strip())
        return found[0] if given is None else given

    return PLACE.sub(value, text)


def checked(value_of: ValueOf, refuse: Refuse, problem_of: ValueOf) -> ValueOf:
    """`value_of` that refuses values.

    Args:
        problem_of: why a value may not stand in its place; None or "" for one that may.
    """

    def value(name: str) -> str | None:
        given = value_of(name)
        if given is not None and (problem := problem_of(given)):
            refuse(name, problem)
        return given

    return value


def filled_parts(text: str, part: re.Pattern[str], value_of: ValueOf, refuse: Refuse, *, bare: ValueOf) -> str:
    """A text with strings in quotes, with values put in: escaped inside a string, so that none of them can end it.

    Args:
        part: finds the strings, as `STRING` does, and what else may hold places.
        bare: the value of a name that stands outside of all strings.
    """
    ends = "has a ` in it, which would end its string; write the string in double quotes"
    raw = checked(value_of, refuse, lambda given: ends if "`" in given else "")

    def value(found: re.Match[str]) -> str:
        string = found["text"]
        if string is None:
            return filled(found[0], bare)
        if string[0] == "`":
            return filled(string, raw)
        escape = partial(_escaped, quote=string[0])
        return filled_string(string, value_of, refuse, lambda given: "".join(map(escape, given)))

    return part.sub(value, text)


def filled_string(
    text: str, value_of: ValueOf, refuse: Refuse, escaped: Callable[[str], str], *, where: str = ""
) -> str:
    """A string in which a backslash escapes what follows, with escaped values put in.

    Args:
        where: of which language it is, for messages: ` in JSON`.
    """

    def value(found: re.Match[str]) -> str:
        name = found[2].strip()
        given = value_of(name)
        if given is None:
            return found[0]
        if len(found[1]) % 2:
            refuse(name, f"must not stand behind a backslash{where}, which would escape the value's first character")
        return found[1] + escaped(given)

    return _PLACE_IN_STRING.sub(value, text)


def _escaped(character: str, quote: str) -> str:
    """As Go reads it back, and so Prometheus; CEL and expr read these alike."""
    if character == quote:
        return f"\\{character}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() or ord(character) > 0xFFFF else f"\\u{ord(character):04x}"
