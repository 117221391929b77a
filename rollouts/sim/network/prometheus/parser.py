"""PromQL to a tree; what it does not understand it refuses, whether the real one would understand it or not.

Source: https://prometheus.io/docs/prometheus/latest/querying/basics/ and operators/
"""

from __future__ import annotations

import math
import re

from rollouts.sim.network.prometheus.samples import NAME, Matcher
from rollouts.sim.network.prometheus.tree import (
    AGGREGATES,
    COMPARISONS,
    FUNCTIONS,
    SETS,
    Aggregate,
    Negated,
    QueryBinary,
    QueryCall,
    QueryNode,
    QueryNumber,
    QueryRefused,
    Selector,
    ValueType,
    type_of,
)

DEPTH_MAX = 64
_TOKEN = re.compile(
    r"""
    (?P<space> (?: \s | \#[^\n]* )+ )
  | (?P<text> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | `[^`]*` )
  | (?P<duration> (?: \d+(?:ms|[smhdwy]) )+ (?![\w:]) )
  | (?P<number> (?: \d+\.?\d* | \.\d+ ) (?: [eE][+-]?\d+ )? (?![\w:]) )
  | (?P<word> [A-Za-z_:][A-Za-z0-9_:]* )
  | (?P<sign> =~ | !~ | != | == | <= | >= | [-+*/%^<>=@,:(){}\[\]] )
    """,
    re.VERBOSE,
)
_PIECE = re.compile(r"(\d+)(ms|[smhdwy])")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"or"}),
    frozenset({"and", "unless"}),
    COMPARISONS,
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
"""Signs, those first that bind least."""


def parsed(query: str) -> QueryNode:
    """The query as a tree. Raises: QueryRefused."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(query):
        token = _TOKEN.match(query, at)
        if token is None or token.lastgroup is None:
            raise QueryRefused(
                f'invalid parameter "query": 1:{at + 1}: parse error: unexpected character: {query[at]!r}'
            )
        if token.lastgroup != "space":
            tokens.append((token.lastgroup, token[0]))
        at = token.end()
    if not tokens:
        raise QueryRefused('invalid parameter "query": 1:1: parse error: no expression found in input')
    parser = _Parser(tokens)
    node = parser.expression(0)
    parser.end()
    return node


def _duration_ms(text: str) -> int:
    return sum(int(number) * _UNIT_MS[unit] for number, unit in _PIECE.findall(text))


def _text(token: str) -> str:
    if token[0] == "`":
        return token[1:-1]

    def plain(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPES:
            raise QueryRefused(f"parse error: the escape {escape[0]!r} is not understood here")
        return _ESCAPES[escape[1]]

    return _ESCAPE.sub(plain, token[1:-1])


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def expression(self, level: int) -> QueryNode:
        """What stands there, with the signs of this level and of those that bind more. Raises: QueryRefused."""
        self._depth += 1
        if self._depth > DEPTH_MAX * len(_LEVELS):
            raise QueryRefused("parse error: the query is too deep")
        node = self._unary() if level == len(_LEVELS) else self._binary(level)
        self._depth -= 1
        return node

    def end(self) -> None:
        """Raises: QueryRefused when something follows."""
        if self._at < len(self._tokens):
            raise self._unexpected()

    def _binary(self, level: int) -> QueryNode:
        left = self.expression(level + 1)
        while self._peek() in _LEVELS[level]:
            sign = self._next()
            bool_there = sign in COMPARISONS and self._takes("bool")
            labels, on = self._labels_after("on", "ignoring")
            if self._peek() in ("group_left", "group_right"):
                raise QueryRefused(f"parse error: {self._peek()} is not understood here")
            right = self.expression(level + 1)
            left = _checked(
                QueryBinary(sign, left, right, keeps=sign in COMPARISONS and not bool_there, labels=labels, on=on)
            )
        return left

    def _labels_after(self, *words: str) -> tuple[tuple[str, ...] | None, bool]:
        """The labels after one of these words, and whether it is the first of them; None without either."""
        if self._peek() not in words:
            return None, False
        is_first = self._next() == words[0]
        self._expect("(")
        labels: list[str] = []
        while self._peek() != ")":
            if labels:
                self._expect(",")
            if self._token()[0] != "word":
                raise self._unexpected()
            labels.append(self._next())
        self._next()
        return tuple(labels), is_first

    def _unary(self) -> QueryNode:
        if self._peek() in ("-", "+"):
            negative = self._next() == "-"
            inner = self.expression(len(_LEVELS))
            if type_of(inner) is ValueType.MATRIX:
                where = "on expressions of type scalar or instant vector"
                raise QueryRefused(f"parse error: unary expression only allowed {where}")
            return Negated(inner) if negative else inner
        base = self._postfix()
        if self._peek() != "^":
            return base
        self._next()
        return _checked(QueryBinary("^", base, self.expression(len(_LEVELS))))

    def _postfix(self) -> QueryNode:
        node = self._primary()
        if self._peek() == "[":
            if not isinstance(node, Selector) or node.offset_ms or node.range_ms is not None:
                raise QueryRefused("parse error: ranges only allowed for vector selectors here")
            self._next()
            range_ms = self._duration()
            if self._peek() == ":":
                raise QueryRefused("parse error: subqueries are not understood here")
            self._expect("]")
            node = Selector(node.matchers, range_ms)
        if self._peek() == "offset":
            if not isinstance(node, Selector):
                raise QueryRefused("parse error: offset modifier must be preceded by a selector here")
            self._next()
            sign = -1 if self._takes("-") else 1
            node = Selector(node.matchers, node.range_ms, sign * self._duration())
        return node

    def _primary(self) -> QueryNode:
        kind, text = self._token()
        match kind:
            case "number":
                self._next()
                return QueryNumber(float(text))
            case "duration":
                self._next()
                return QueryNumber(_duration_ms(text) / 1000)
            case "sign" if text == "(":
                self._next()
                node = self.expression(0)
                self._expect(")")
                return node
            case "sign" if text == "{":
                return self._selector("")
            case "word":
                return self._named(self._next())
            case _:
                raise self._unexpected()

    def _named(self, name: str) -> QueryNode:
        if name.lower() in ("inf", "nan"):
            return QueryNumber(math.inf if name.lower() == "inf" else math.nan)
        if name in AGGREGATES and self._peek() in ("(", "by", "without"):
            return self._aggregate(name)
        if self._peek() == "(":
            return self._call(name)
        if name in SETS or name in ("on", "ignoring", "bool", "by", "without", "offset"):
            raise QueryRefused(f'parse error: unexpected "{name}"')
        return self._selector(name)

    def _aggregate(self, operator: str) -> QueryNode:
        labels, without = self._labels_after("without", "by")
        self._expect("(")
        inner = self.expression(0)
        self._expect(")")
        if labels is None:
            labels, without = self._labels_after("without", "by")
        if type_of(inner) is not ValueType.VECTOR:
            wanted = f"expected type instant vector in aggregation expression, got {type_of(inner)}"
            raise QueryRefused(f"parse error: {wanted}")
        return Aggregate(operator, inner, labels or (), without)

    def _call(self, name: str) -> QueryNode:
        if name not in FUNCTIONS:
            raise QueryRefused(f'parse error: unknown function with name "{name}"')
        self._expect("(")
        arguments: list[QueryNode] = []
        while self._peek() != ")":
            if arguments:
                self._expect(",")
            arguments.append(self.expression(0))
        self._next()
        wanted = FUNCTIONS[name][0]
        if len(arguments) != len(wanted):
            many = f"expected {len(wanted)} argument(s) in call to {name!r}, got {len(arguments)}"
            raise QueryRefused(f"parse error: {many}")
        for argument, kind in zip(arguments, wanted, strict=True):
            if type_of(argument) is not kind:
                raise QueryRefused(
                    f'parse error: expected type {kind} in call to function "{name}", got {type_of(argument)}'
                )
        return QueryCall(name, tuple(arguments))

    def _selector(self, name: str) -> Selector:
        matchers = [Matcher(NAME, "=", name)] if name else []
        if self._peek() == "{":
            self._next()
            while self._peek() != "}":
                matchers.append(self._matcher())
                if self._peek() != "}":
                    self._expect(",")
            self._next()
        if all(matcher.matches("") for matcher in matchers):
            raise QueryRefused("parse error: vector selector must contain at least one non-empty matcher")
        return Selector(tuple(matchers))

    def _matcher(self) -> Matcher:
        kind, name = self._token()
        if kind != "word":
            raise self._unexpected()
        self._next()
        sign = self._next()
        kind, value = self._token()
        if sign not in ("=", "!=", "=~", "!~") or kind != "text":
            raise self._unexpected()
        self._next()
        matcher = Matcher(name, sign, _text(value))
        try:
            matcher.matches("")
        except re.error as error:
            raise QueryRefused(f"parse error: error parsing regexp: {error}") from error
        return matcher

    def _duration(self) -> int:
        kind, text = self._token()
        if kind not in ("duration", "number"):
            raise self._unexpected()
        self._next()
        duration_ms = _duration_ms(text) if kind == "duration" else round(float(text) * 1000)
        if duration_ms <= 0:
            raise QueryRefused("parse error: duration must be greater than 0")
        return duration_ms

    def _peek(self) -> str:
        """The next token, when it is no text; "" at the end."""
        if self._at >= len(self._tokens) or self._tokens[self._at][0] == "text":
            return ""
        return self._tokens[self._at][1]

    def _token(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._unexpected()
        return self._tokens[self._at]

    def _next(self) -> str:
        text = self._token()[1]
        self._at += 1
        return text

    def _takes(self, text: str) -> bool:
        if self._peek() != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._unexpected()

    def _unexpected(self) -> QueryRefused:
        what = repr(self._tokens[self._at][1]) if self._at < len(self._tokens) else "end of input"
        return QueryRefused(f'invalid parameter "query": parse error: unexpected {what}')


def _checked(node: QueryBinary) -> QueryBinary:
    """Raises: QueryRefused for values that the sign cannot stand between."""
    kinds = (type_of(node.left), type_of(node.right))
    if ValueType.MATRIX in kinds:
        raise QueryRefused("parse error: binary expression must contain only scalar and instant vector types")
    if node.sign in SETS and ValueType.SCALAR in kinds:
        raise QueryRefused(f'parse error: set operator "{node.sign}" not allowed in binary scalar expression')
    if node.keeps and kinds == (ValueType.SCALAR, ValueType.SCALAR):
        raise QueryRefused("parse error: comparisons between scalars must use BOOL modifier")
    if node.labels is not None and ValueType.SCALAR in kinds:
        raise QueryRefused("parse error: vector matching only allowed between instant vectors")
    return node
