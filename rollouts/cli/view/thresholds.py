"""What a condition says about one number: from where on, and on which side, it is bad. Pure.

A condition may say anything; of most that people write each part compares the number with another one. Of the others nothing is
known here, and a chart shows the numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from rollouts.errors import ExpressionInvalid
from rollouts.metrics.expr_parser import RESULT, parsed
from rollouts.metrics.expr_tree import At, Binary, Call, Each, Literal, Node, Unary, Variable

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_THE_SAME_NUMBER = ("asFloat", "default")
_FALSE_OF_A_NUMBER = ("isNaN", "isInf", "isNil")


class Threshold(Struct, frozen=True):
    """A number that others are bad above, or below.

    Args:
        included: it is bad itself.
        undecided: beyond it the measurement is inconclusive, and failed only where another threshold says so.
    """

    value: float
    above: bool
    included: bool = False
    undecided: bool = False

    def is_bad(self, number: float) -> bool:
        """Whether the number is on the bad side."""
        if number == self.value:
            return self.included
        return (number > self.value) is self.above


def thresholds_of(condition: str, *, good: bool, name: str = "") -> tuple[Threshold, ...]:
    """Each is a number from which on the condition is certainly not met (`good`), or is met (a condition of failure).

    Args:
        condition: with the values of its arguments.
        name: the condition reads the number as `result.NAME`; "" for `result` or `result[0]`.

    Returns: what can be said; nothing for a condition that cannot be read.
    """
    try:
        return tuple(dict.fromkeys(_bad(parsed(condition), wanted=good, name=name, elements=())))
    except ExpressionInvalid:
        return ()


def _bad(node: Node, *, wanted: bool, name: str, elements: tuple[str, ...]) -> Iterator[Threshold]:
    """The thresholds of a part that is good when it is `wanted`.

    Where one part alone makes it bad (`a && b` that is to hold, `a || b` that is not), each says its own. Where all have to be
    bad, only one may be left beside those that no number changes.
    """
    match node:
        case Unary("!", of):
            yield from _bad(of, wanted=not wanted, name=name, elements=elements)
        case Each("all" | "exists", Variable(text), element, body) if text == RESULT and not name:
            yield from _bad(body, wanted=wanted, name=name, elements=(*elements, element))
        case Binary("&&" | "||" as sign, left, right):
            parts = [left, right]
            if (sign == "&&") is not wanted:
                parts = [part for part in parts if not _says_nothing(part, sign=sign)]
                if len(parts) > 1:
                    return
            for part in parts:
                yield from _bad(part, wanted=wanted, name=name, elements=elements)
        case Binary():
            yield from _of_comparison(node, wanted=wanted, name=name, elements=elements)
        case _:
            return


def _of_comparison(node: Binary, *, wanted: bool, name: str, elements: tuple[str, ...]) -> Iterator[Threshold]:
    """The threshold of `result < 5` or `5 > result`."""
    sign, number, other = node.sign, _literal(node.right), node.left
    if number is None:
        sign, number, other = _MIRRORED.get(sign, ""), _literal(node.left), node.right
    if number is not None and sign in _OPPOSITE and _is_the_number(other, name, elements):
        bad = _OPPOSITE[sign] if wanted else sign
        yield Threshold(number, above=bad[0] == ">", included=bad[-1] == "=")


def _says_nothing(node: Node, *, sign: str) -> bool:
    """Whether the part is false of every number in `a || b`, or true in `a && b`: there was no number, or none that counts."""
    false: bool | None = None
    match node:
        case Unary("!", of):
            return _says_nothing(of, sign="&&" if sign == "||" else "||")
        case Call(name, _) if name in _FALSE_OF_A_NUMBER:
            false = True
        case Binary("==" | "!=" as equal, _, Literal(None)):
            false = equal == "=="
        case Binary("==" | "!=" as equal, Call("len", _), Literal(0.0)):
            false = equal == "=="
        case Binary(">", Call("len", _), Literal(0.0)):
            false = False
        case _:
            return False
    return false is (sign == "||")


def _is_the_number(node: Node, name: str, elements: tuple[str, ...]) -> bool:
    match node:
        case Call(called, (of, *_)) if called in _THE_SAME_NUMBER:
            return _is_the_number(of, name, elements)
        case At(Variable(text), Literal(key)) if text == RESULT:
            return key == name if name else key == 0 and not isinstance(key, bool)
        case Variable(text):
            return not name and (text == RESULT or text in elements)
        case _:
            return False


def _literal(node: Node) -> float | None:
    match node:
        case Unary("-", of):
            number = _literal(of)
            return None if number is None else -number
        case Literal(float() as number):
            return number
        case _:
            return None
