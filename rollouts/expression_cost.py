"""An upper limit of what an expression costs for its input, known before it is evaluated. Pure; no library.

CEL always ends, and its library stops after 10,000 iterations. Even so gigabytes are possible: each iteration may join texts,
and the results of one round are the input of the next. So the limit follows from what makes them grow: the text of the
expression, counted once, and the largest text and list of the data, measured each time. One unit is about 0.1 µs, or 250 bytes
of text that are read or written; so a limit of units limits both time and memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.pattern_cost import STEPS_LARGE, steps_of

ITERATIONS_MAX = 10_000  # cel-cpp's own limit, for all rounds of one evaluation together
VALUES_MAX = 20_000  # objects, lists, texts and numbers in the data of one evaluation
UNITS_MAX = 100_000
"""For one evaluation: about 10 ms and 25 MB."""

_BYTES_A_UNIT = 250
_COMPARED_A_UNIT = 5_000
_STEPS_OF_A_MAKER = 10  # for creating a list or an object: measured 0.7 µs
_QUOTED_TIMES = 6  # `\u0000` instead of one character
_UNITS_A_VALUE = 2
_UNITS_A_COPY = 2  # a list that `map` makes is copied with each item it gets: measured 0.13 µs for each in it
_STEPS_A_UNIT = 2  # measured: 0.15 µs for a round of three
_UNITS_LARGE = 10**18  # more than this is all the same
_UNITS_A_STEP = 10  # a step of a pattern, compiled in each call: measured up to 1 µs
_SEARCHED_A_UNIT = 10  # bytes of text times steps of a pattern: measured up to 10 ns

_TEXT = re.compile(
    r"""
      //[^\n]*
    | [bB]?[rR][bB]?(?P<raw_quote>"{3}|'{3}|"|')(?P<raw>.*?)(?P=raw_quote)
    | [bB]?(?P<quote>"{3}|'{3}|"|')(?P<escaped>(?:\\.|[^\\])*?)(?P=quote)
    """,
    re.VERBOSE | re.DOTALL,
)
"""A comment, or a text in quotes. Source: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax"""
_ESCAPED = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MATCH = re.compile(r"\bmatches\s*\((?P<constant>\s*''\s*\))?")
_ROUND = re.compile(
    r"\.\s*(?:map|filter|all|exists|exists_one|existsOne|transformList|transformMap|transformMapEntry)\s*\("
)
_COPIES = re.compile(r"\.\s*(?:map|transform\w+)\s*\(")
_MAKER = re.compile(r"[\[{]|\.\s*(?:map|filter|transform\w+)\s*\(")
_CALL = re.compile(r"[A-Za-z_]\w*\s*\(")
_STEP = re.compile(r"[A-Za-z_]\w*|[-+*/%<>=!?&|\[{]+|\d+")
_MULTIPLIES = re.compile(r"\.\s*(?:replace|format)\s*\(")
_QUOTES = re.compile(r"\bquote\s*\(")
_JOINS = re.compile(r"\.\s*join\s*\(")
_SPLITS = re.compile(r"\.\s*split\s*\(")


class DataSize(Struct, frozen=True):
    """The size of an expression's input.

    Args:
        values: how many values it has.
        text_bytes: length of the longest text, names included.
        items: length of the largest list or object.
    """

    values: int
    text_bytes: int
    items: int


SMALL = DataSize(values=32, text_bytes=64, items=8)
"""The smallest input to expect: an expression that costs too much for it costs too much for any input."""


def size_of(data: Mapping[str, Any]) -> DataSize:
    """The size of JSON data; beyond VALUES_MAX values, only of the part that was looked at."""
    values, longest, most = 0, 0, 0
    waiting: list[Any] = [data]
    while waiting and values <= VALUES_MAX:  # every backend of every route comes here: no match, no isinstance
        value = waiting.pop()
        kind = type(value)
        values += 1
        if kind is str:
            longest = max(longest, len(value) if value.isascii() else 4 * len(value))
        elif kind is dict:
            most = max(most, len(value))
            waiting += value
            waiting += value.values()
        elif kind is list:
            most = max(most, len(value))
            waiting += value
    return DataSize(values, longest, most)


class Shape(Struct, frozen=True, kw_only=True):
    """The parts of an expression's text that decide its cost.

    Args:
        source_bytes: its length.
        rounds: calls that iterate over a list; `depth` of them are nested.
        steps, calls, compares: operators, names, and created lists and objects; function calls; comparisons.
        sums, commas, quotes: how often values are joined or made longer.
        multiplies, joins, splits: whether a call multiplies texts, makes one text of a list, or makes a list of a text.
        copies: whether a call makes a list of a list, one item after the other.
        pattern_steps: size of all regular expressions, see `pattern_cost.py`; STEPS_LARGE when one is no text in quotes.
        spreads: the result may be a list or an object, in which one value may occur many times.
    """

    source_bytes: int
    rounds: int
    depth: int
    steps: int
    calls: int
    compares: int
    sums: int
    commas: int
    quotes: int
    multiplies: bool
    joins: bool
    splits: bool
    copies: bool
    spreads: bool
    pattern_steps: int

    def units(self, size: DataSize) -> int:
        """The most that the expression may cost for an input of that size."""
        if size.values > VALUES_MAX:
            return _UNITS_LARGE
        rounds = max(1, self.rounds)
        text: int = (size.text_bytes + self.source_bytes) * (1 + self.sums) ** rounds * _QUOTED_TIMES**self.quotes
        if self.multiplies:
            text *= text
        items = (max(size.items, text if self.splits else 0) + self.commas + 1) * (1 + self.sums)
        if self.joins:
            text *= items
        iterations: int = min(ITERATIONS_MAX, self.rounds * items**self.depth) if self.rounds else 1
        work = (
            self.steps // _STEPS_A_UNIT + self.calls * text // _BYTES_A_UNIT + self.compares * text // _COMPARED_A_UNIT
        )
        work += self.pattern_steps * (_UNITS_A_STEP + text // _SEARCHED_A_UNIT)
        result = text // _BYTES_A_UNIT
        if self.spreads and self.rounds:  # each item may be the whole input
            result = (1 + self.commas) ** self.rounds * iterations * (1 + result + size.values * _UNITS_A_VALUE)
        made = (items if self.splits else 0) + (items * _UNITS_A_COPY if self.copies else 0)
        return min(_UNITS_LARGE, size.values * _UNITS_A_VALUE + iterations * (work + made) + result)


def shape_of(source: str, *, spreads: bool) -> Shape:
    """The shape of an expression.

    Args:
        spreads: see `Shape`.
    """
    texts: list[str] = []

    def blanked(quoted: re.Match[str]) -> str:
        """What stands in place of a comment or of a text in quotes, whose value is kept."""
        if quoted["raw"] is None and quoted["escaped"] is None:
            return " "
        texts.append(_ESCAPED.sub(_sign, quoted["escaped"]) if quoted["raw"] is None else quoted["raw"])
        return "''"

    bare = _TEXT.sub(blanked, source)
    certain = not re.search(r"['\"\\]", bare.replace("''", ""))
    looked_at = bare if certain else source  # this counts too much then, never too little
    rounds = len(_ROUND.findall(looked_at))
    pattern_steps = 0
    for match in _MATCH.finditer(bare):
        number = bare.count("''", 0, match.start())  # of its pattern among the texts
        is_constant = match["constant"] and number < len(texts)
        pattern_steps += steps_of(texts[number]) if is_constant else STEPS_LARGE
    return Shape(
        source_bytes=len(source.encode()),
        rounds=rounds,
        depth=_depth(looked_at) if certain else rounds,
        steps=len(_STEP.findall(looked_at)) + _STEPS_OF_A_MAKER * len(_MAKER.findall(looked_at)),
        calls=len(_CALL.findall(looked_at)) - rounds + looked_at.count("+"),
        compares=sum(map(looked_at.count, ("=", "<", ">", " in "))),
        sums=looked_at.count("+"),
        commas=looked_at.count(","),
        quotes=len(_QUOTES.findall(looked_at)),
        multiplies=_MULTIPLIES.search(looked_at) is not None,
        joins=_JOINS.search(looked_at) is not None,
        splits=_SPLITS.search(looked_at) is not None,
        copies=_COPIES.search(looked_at) is not None,
        spreads=spreads,
        pattern_steps=min(STEPS_LARGE, pattern_steps),
    )


def _sign(escape: re.Match[str]) -> str:
    """The character that an escape sequence stands for. Source: the CEL specification, "string and bytes values"."""
    of_two, of_four, of_eight, octal, one = escape.groups()
    if one is not None:
        return _SIGNS.get(one, one)
    code = int(octal, 8) if octal else int(of_two or of_four or of_eight, 16)
    return chr(min(code, 0x10FFFF))


def _depth(source: str) -> int:
    """How deep calls that iterate over lists are nested."""
    opened = {found.end() - 1 for found in _ROUND.finditer(source)}
    stack: list[bool] = []
    deepest = 0
    for at, sign in enumerate(source):
        if sign == "(":
            stack.append(at in opened)
            deepest = max(deepest, sum(stack))
        elif sign == ")" and stack:
            stack.pop()
    return deepest
