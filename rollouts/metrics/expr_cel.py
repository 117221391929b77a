"""A condition's tree as CEL, strict where CEL and Argo Rollouts' expressions are lenient. Pure.

All numbers are doubles, as in Argo Rollouts: CEL adds no int to a double. A comparison has a value only where both sides are of
one type and each number that was worked out is finite: `failureCondition: result.errors / result.total > 0.05` is not false, and
so good, because 0 was divided by 0. In place of a value there is an error then, and it is the measurement's.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from enum import Enum, auto

from msgspec import Struct

from rollouts.errors import ExpressionInvalid
from rollouts.metrics.expr_parser import NOW, RESULT, SOURCE_BYTES_MAX
from rollouts.metrics.expr_tree import (
    At,
    Binary,
    Call,
    Choice,
    Each,
    Items,
    Literal,
    Node,
    Unary,
    Variable,
    children,
    nodes,
)

NOT_FINITE = 99_991
NOT_THERE = 99_992
_NONE = f"[true][{NOT_FINITE}]"
"""An error that is told from others, where a truth is needed."""

_ABSENT = f"[true][{NOT_THERE}]"
"""The same, where what is missing would decide."""

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_SIMPLE = {
    "isNaN": "math.isNaN({})",
    "isInf": "math.isInf({})",
    "abs": "math.abs({})",
    "ceil": "math.ceil({})",
    "floor": "math.floor({})",
    "round": "math.round({})",
    "min": "math.least({})",
    "max": "math.greatest({})",
    "asInt": "double(int({}))",
    "asFloat": "double({})",
    "len": "double(size({}))",
    "string": "string({})",
    "lower": "{}.lowerAscii()",
    "upper": "{}.upperAscii()",
    "trim": "{}.trim()",
    "duration": "duration({})",
    "first": "{}[0]",
    "matches": "{}.matches({})",
    "contains": "{}.contains({})",
    "startsWith": "{}.startsWith({})",
    "endsWith": "{}.endsWith({})",
}
_LAYOUTS = {
    "2006-01-02 15:04:05": "%Y-%m-%d %H:%M:%S",
    "2006-01-02": "%Y-%m-%d",
    "2006-01-02T15:04:05": "%Y-%m-%dT%H:%M:%S",
}


class ValueKind(Enum):
    """What is known of a value before there is one."""

    NUMBER = auto()
    TEXT = auto()
    TRUTH = auto()
    TIME = auto()
    LIST = auto()
    ANY = auto()


_KINDS_OF_CALLS = {
    **dict.fromkeys(("asInt", "asFloat", "len", "abs", "ceil", "floor", "round", "min", "max"), ValueKind.NUMBER),
    **dict.fromkeys(("isNaN", "isInf", "isNil", "matches", "contains", "startsWith", "endsWith"), ValueKind.TRUTH),
    **dict.fromkeys(("date", "duration"), ValueKind.TIME),
    **dict.fromkeys(("string", "lower", "upper", "trim"), ValueKind.TEXT),
}


class Reads(Struct, frozen=True):
    """What a condition asks of `result`, told from its text.

    Args:
        items: constant places of the list that it reads, such as 0 for `result[0]`.
        whole: it goes through the list, so all items count.
        of_missing: it asks whether there is anything (`len`, `isNil`, `default`, `??`).
        of_finite: it asks whether a number is NaN or infinite.
        measured: it reads `result` at all.
        copies: it makes lists of lists, which takes CEL the square of their length.
        members: it reads members of what should be an object, such as `result.ok`.
        may_be_vacuous: it may hold, or not, because something is missing or a list is empty.
    """

    items: frozenset[int]
    whole: bool
    of_missing: bool
    of_finite: bool
    measured: bool
    copies: bool
    members: bool = False
    may_be_vacuous: bool = False

    def all_of(self, count: int) -> bool:
        """Whether it sees each of so many items of a list."""
        return self.whole or len({place % count for place in self.items if -count <= place < count}) == count


def cel_of(tree: Node, *, defaults: bool, present: bool = False) -> str:
    """CEL that has the same value.

    Args:
        defaults: `??` and `default` give their second value where the first is missing; without it that is an error.
        present: what would follow from something that is missing, or from a list that is empty, is an error.

    Raises: ExpressionInvalid.
    """
    return _Writer(defaults, present).cel(tree)


def kind_of(node: Node) -> ValueKind:
    """What type its value has."""
    match node:
        case Literal(bool()) | Unary("!", _):
            return ValueKind.TRUTH
        case Literal(float()) | Unary("-", _):
            return ValueKind.NUMBER
        case Literal(str()):
            return ValueKind.TEXT
        case Binary(("&&" | "||" | "in" | "==" | "!=" | "<" | "<=" | ">" | ">="), _, _):
            return ValueKind.TRUTH
        case Binary(("*" | "/" | "%"), _, _):
            return ValueKind.NUMBER
        case Binary(("+" | "-"), left, right):
            kinds = {kind_of(left), kind_of(right)}
            strongest = (ValueKind.TIME, ValueKind.NUMBER, ValueKind.TEXT)
            return next((kind for kind in strongest if kind in kinds), ValueKind.ANY)
        case Each(kind):
            return ValueKind.LIST if kind in ("filter", "map") else ValueKind.TRUTH
        case Items():
            return ValueKind.LIST
        case Call(name):
            return _KINDS_OF_CALLS.get(name, ValueKind.ANY)
        case Variable(text):
            return ValueKind.TIME if text == NOW else ValueKind.ANY
        case Literal() | At() | Binary() | Choice() | Unary():
            return ValueKind.ANY


def reads_of(tree: Node) -> Reads:
    """What it asks of `result`."""
    items: set[int] = set()
    whole = of_missing = of_finite = measured = members = False
    result = Variable(RESULT)
    for node in nodes(tree):
        match node:
            case Variable(text):
                measured = measured or text == RESULT
            case At(of, Literal(float(place))) if of == result:
                items.add(int(place))
            case At(of, key) if of == result:
                whole, members = True, members or isinstance(key, Literal)
            case Each(_, of) | Binary("in", _, of) if of == result:
                whole = True
            case Call(("min" | "max"), (of,)) if of == result:
                whole = True
            case Call(("len" | "isNil" | "default"), _) | Binary("??", _, _):
                of_missing = True
            case Binary(("==" | "!="), left, right):
                of_missing = of_missing or Literal(None) in (left, right)
            case Call(("isNaN" | "isInf"), _):
                of_finite = True
    copies = any(isinstance(node, Each) and node.kind in ("filter", "map") for node in nodes(tree))
    lists = any(isinstance(node, Each) or (isinstance(node, Binary) and node.sign == "in") for node in nodes(tree))
    return Reads(frozenset(items), whole, of_missing, of_finite, measured, copies, members, of_missing or lists)


class _Writer:
    def __init__(self, defaults: bool, present: bool) -> None:
        self._defaults = defaults
        self._present = present

    def cel(self, node: Node) -> str:
        text = self._cel(node)
        if len(text) > SOURCE_BYTES_MAX:
            raise ExpressionInvalid(f"is too long: in CEL it has more than {SOURCE_BYTES_MAX} bytes")
        return text

    def _cel(self, node: Node) -> str:
        match node:
            case Literal(value):
                return _literal(value)
            case Variable(text):
                return f"timestamp({NOW})" if text == NOW else text
            case At(of, key):
                return self._at(of, key)
            case Unary(sign, of):
                if kind_of(of) not in (ValueKind.TRUTH if sign == "!" else ValueKind.NUMBER, ValueKind.ANY):
                    raise ExpressionInvalid(f"has a {sign} before a value that it cannot stand before")
                return f"{sign}{self.cel(of)}"
            case Binary(sign, left, right):
                return self._binary(sign, left, right)
            case Choice(test, yes, no):
                return f"({self.cel(test)} ? {self.cel(yes)} : {self.cel(no)})"
            case Each(kind, items, name, body):
                if kind != "map" and kind_of(body) not in (ValueKind.TRUTH, ValueKind.ANY):
                    raise ExpressionInvalid("goes through a list and asks nothing of its elements: write {# < 1}")
                return f"{self._range(items)}.{kind}({name}, {self.cel(body)})"
            case Call(name, arguments):
                return self._call(name, arguments)
            case Items(items):
                return f"[{', '.join(map(self.cel, items))}]"

    def _at(self, of: Node, key: Node) -> str:
        base = self.cel(of)
        match key:
            case Literal(str(text)):
                return f"{base}[{_literal(text)}]"
            case Literal(float(place)) if place.is_integer() and abs(place) < 1e6:
                return f"{base}[{int(place)}]" if place >= 0 else f"{base}[size({base}) - {int(-place)}]"
            case _ if kind_of(key) is ValueKind.TEXT:
                return f"{base}[{self.cel(key)}]"
            case _:
                raise ExpressionInvalid(
                    "has a place in a list that is not written down: write result[0], or all and any"
                )

    def _range(self, node: Node) -> str:
        """What a call goes through; CEL's checker takes no member of a dynamic value for a list by itself."""
        text = self.cel(node)
        if self._present:
            return f"(size({text}) > 0 ? dyn({text}) : dyn({_ABSENT}))"
        return text if isinstance(node, Variable | Items | Each) else f"dyn({text})"

    def _binary(self, sign: str, left: Node, right: Node) -> str:
        if sign in _COMPARISONS:
            return self._comparison(sign, left, right)
        one, other = self.cel(left), self.cel(right)
        match sign:
            case "??":
                return self._default(left, right)
            case "in":
                return f"{self._range(right)}.exists(k, k <= {one} && k >= {one})"
            case "&&" | "||":
                for side in (left, right):
                    if kind_of(side) not in (ValueKind.TRUTH, ValueKind.ANY):
                        raise ExpressionInvalid(f"has a {sign} beside a value that is not true or false")
                # CEL's own take an error for nothing where the other side decides; Argo's go from left to right.
                return f"({one} ? {other} : false)" if sign == "&&" else f"({one} ? true : {other})"
            case "%":
                return f"double(int({one}) % int({other}))"
            case _:
                if ValueKind.TRUTH in (kind_of(left), kind_of(right)):
                    raise ExpressionInvalid(f"has a {sign} beside a comparison: put brackets")
                # To CEL's checker the sum of two dynamic values is an int.
                return f"{'double' if kind_of(Binary(sign, left, right)) is ValueKind.NUMBER else ''}({one} {sign} {other})"

    def _comparison(self, sign: str, left: Node, right: Node) -> str:
        if Literal(None) in (left, right):
            if sign not in ("==", "!="):
                raise ExpressionInvalid("compares with nil: only == and != do")
            missing = self._is_nil(left if right == Literal(None) else right)
            return missing if sign == "==" else f"!{missing}"
        kinds = {kind_of(left), kind_of(right)} - {ValueKind.ANY}
        if len(kinds) > 1:
            raise ExpressionInvalid(f"compares values of two types with {sign}: asFloat(…) makes a number of a text")
        if ValueKind.LIST in kinds:
            raise ExpressionInvalid("compares a list: compare its elements, with all or any")
        one, other = self.cel(left), self.cel(right)
        text = f"({one} {sign} {other})"
        if sign == "==":
            text = f"({one} <= {other} && {one} >= {other})"
        elif sign == "!=":
            text = f"({one} < {other} || {one} > {other})"
        checks = [
            f"math.isFinite({text_of_side})"
            for text_of_side, side in ((one, left), (other, right))
            if _worked_out(side)
        ]
        return f"({' && '.join(checks)} ? {text} : {_NONE})" if checks else text

    def _default(self, left: Node, right: Node) -> str:
        if not self._defaults:
            return self.cel(left)
        return f"({self._missing(left)} ? {self.cel(right)} : {self.cel(left)})"

    def _is_nil(self, node: Node) -> str:
        """Whether it is missing, as a condition asks for it."""
        missing = self._missing(node)
        return f"({missing} ? {_ABSENT} : false)" if self._present else missing

    def _missing(self, node: Node) -> str:
        """Whether it is null, or there is no such member or item."""
        text = self.cel(node)
        match node:
            case At(of, Literal(str(key))):
                return f"({self._missing(of)} || !({_literal(key)} in {self.cel(of)}) || {text} == null)"
            case At(of, Literal(float(place))):
                least = int(place) + 1 if place >= 0 else int(-place)
                return f"({self._missing(of)} || size({self.cel(of)}) < {least} || {text} == null)"
            case _:
                return f"({text} == null)"

    def _call(self, name: str, arguments: tuple[Node, ...]) -> str:
        match name, arguments:
            case "isNil", (of,):
                return self._is_nil(of)
            case "default", (of, instead):
                return self._default(of, instead)
            case "last", (of,):
                text = self.cel(of)
                return f"{text}[size({text}) - 1]"
            case "date", (Literal(str(text)), *layout):
                return f"timestamp({_literal(_moment(text, tuple(layout)))})"
            case "date", (of,):
                return f"timestamp({self.cel(of)})"
            case "date", _:
                raise ExpressionInvalid('has a date that cannot be read: write date("2026-01-31T23:59:59Z")')
            case "string", (of,) if kind_of(of) is ValueKind.TRUTH:
                raise ExpressionInvalid("makes a text of a truth: compare with true or false")
            case _:
                return _SIMPLE[name].format(*map(self.cel, arguments))


def _worked_out(node: Node) -> bool:
    """It is a number that may have become infinite, or none, though all that was measured is finite."""
    match node:
        case Binary(("*" | "/"), _, _) | Call(("asFloat" | "asInt"), _):
            return True
        case Binary(("+" | "-"), _, _) if kind_of(node) is ValueKind.NUMBER:
            return True
        case Choice(_, yes, no):
            return _worked_out(yes) or _worked_out(no)
        case (
            Binary(("%" | "??" | "+" | "-"), _, _)
            | Unary("-", _)
            | Call("abs" | "ceil" | "floor" | "round" | "default")
        ):
            return any(map(_worked_out, children(node)))
        case Variable() | At() | Each() | Items() | Literal() | Call() | Unary() | Binary():
            return False


def _literal(value: float | str | bool | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            if not math.isfinite(value):
                raise ExpressionInvalid("has a number that is too large")
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False)


def _moment(text: str, layout: tuple[Node, ...]) -> str:
    """RFC 3339, in UTC."""
    try:
        match layout:
            case ():
                at = datetime.fromisoformat(text)
            case (Literal(str(how)), *zone) if how in _LAYOUTS and zone in ([], [Literal("UTC")]):
                at = datetime.strptime(text, _LAYOUTS[how]).replace(tzinfo=UTC)
            case _:
                raise ValueError
    except ValueError as error:
        raise ExpressionInvalid('has a date that cannot be read: write date("2026-01-31T23:59:59Z")') from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
