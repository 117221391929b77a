"""How large a regular expression becomes when RE2 compiles it: known from its text, before it is compiled. Pure; no library.

RE2 needs no time beyond text times size, but a pattern of ten characters may be of any size: `x{1000}` is a thousand times x, and
`\\pL` is some hundred ranges of bytes. Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re

STEPS_LARGE = 10**9  # more than this is all the same
PATTERN_MAX = 1_024
"""Characters of a pattern; a longer one is as large as any."""

_PLAIN_STEPS = 2  # a class of ASCII letters and ranges
_CLASS_STEPS = 16  # measured: a negated class takes 8 times a letter, with (?i) 12 times
_ANY_STEPS = 4
_UNICODE_STEPS = 1_250  # measured for \pL

_TOKEN = re.compile(
    r"""
      (?P<quoted>\\Q(?P<text>.*?)(?:\\E|\Z))
    | (?P<unicode>\\[pP](?:\{[^}]*\}|.))
    | (?P<escaped>\\x\{[^}]*\}|\\.)
    | (?P<class>\[\^?\]?(?:\[:\^?\w*:\]|\\[pP]\{[^}]*\}|\\.|[^\]\\])*+(?:\]|\Z|\\))
    | (?P<flags>\(\?[a-zA-Z-]*\))
    | (?P<open>\((?:\?P?<\w*>|\?[a-zA-Z-]*:)?)
    | (?P<close>\))
    | (?P<times>\{(?P<least>\d+)(?P<range>,(?P<most>\d*))?\})
    | (?P<repeat>[*+?|])
    | (?P<one>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_CLASS = re.compile(r"\[[^\\^\[]*\]")
_UNICODE = re.compile(r"\\[pP]")


def steps_of(pattern: str) -> int:
    """An upper limit of the pattern's size, in the time and memory that one letter takes; STEPS_LARGE is the most."""
    if len(pattern) > PATTERN_MAX:
        return STEPS_LARGE
    # For each open group: steps before the last part of it, and steps of the last part, which a repetition multiplies.
    groups = [[0, 0]]
    for found in _TOKEN.finditer(pattern):
        steps = 1
        match found.lastgroup:
            case "open":
                groups.append([0, 0])
                continue
            case "times":
                least, most = _number(found["least"]), _number(found["most"] or "0")
                groups[-1][1] = min(
                    STEPS_LARGE, groups[-1][1] * max(1, least + 1 if found["range"] == "," else least, most)
                )
                continue
            case "close" if len(groups) > 1:
                steps = 2 + sum(groups.pop())
            case "class":
                plain = found[0].isascii() and _PLAIN_CLASS.fullmatch(found[0])
                steps = _PLAIN_STEPS if plain else _CLASS_STEPS + _UNICODE_STEPS * len(_UNICODE.findall(found[0]))
            case "unicode":
                steps = _UNICODE_STEPS
            case "quoted":
                steps = _bytes_of(found["text"])
            case "escaped":
                steps = _CLASS_STEPS
            case "one":
                steps = _ANY_STEPS if found[0] == "." else _bytes_of(found[0])
            case _:  # flags, and a repetition that multiplies nothing
                pass
        groups[-1][0] += groups[-1][1]
        groups[-1][1] = steps
    return min(STEPS_LARGE, sum(map(sum, groups)))


def _bytes_of(text: str) -> int:
    return len(text.encode(errors="replace"))


def _number(digits: str) -> int:
    """RE2 refuses more than 1000; a longer number is as large as any."""
    return int(digits) if len(digits) < 10 else STEPS_LARGE
