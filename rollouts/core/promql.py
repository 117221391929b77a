"""PromQL as a text: its tokens, and values put into it so that they cannot change what it means. Pure.

This is no parser of PromQL: it knows where strings and comments begin and end, and what may stand outside of them.
Source: https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rollouts.core.placeholders import PLACE, STRING, UNCLOSED_STRING, Refuse, ValueOf, checked, filled_parts

LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
OPERATORS = frozenset({"and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"})

_TOKEN = re.compile(
    rf"""
    (?P<space> \s+ | \#[^\n]* )
  | {STRING}
  | (?P<number> (?: \d | \.\d ) [0-9A-Za-z_.]* )
  | (?P<word> [A-Za-z_:][A-Za-z0-9_:.]* )
  | (?P<sign> =~ | !~ | != | == | <= | >= | [-+*/%^<>=@,:(){{}}\[\]] )
    """,
    re.VERBOSE,
)
_PART = re.compile(
    rf"(?P<comment> \#[^\n]* ) | {STRING} | {UNCLOSED_STRING} | (?P<place> {PLACE.pattern} )", re.VERBOSE
)
NUMBER = r"[-+]? (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][-+]?[0-9]+ )?"
"""A number in PromQL, and in expressions; for patterns that are verbose."""

_BARE = re.compile(
    rf"""
    {NUMBER}
  | (?: [0-9]+ (?: ms | [smhdwy] ) )+                                      # a duration
  | [A-Za-z_:][A-Za-z0-9_:]*                                               # the name of a metric or of a label
    """,
    re.VERBOSE,
)
_BARE_LENGTH_MAX = 256
_TEXT = re.compile(STRING, re.VERBOSE)

_CLOSES = {"{": "}", "[": "]"}
_IN_SELECTORS = frozenset({"{", "}", ",", "=", "!=", "=~", "!~"})

Token = tuple[str, str]
"""Its group in `_TOKEN`, and its text."""


def tokens_of(query: str) -> list[Token] | None:
    """Those that mean anything; None when some part of the text is no token."""
    found: list[Token] = []
    at = 0
    while at < len(query):
        token = _TOKEN.match(query, at)
        if token is None or token.lastgroup is None:
            return None
        if token.lastgroup != "space":
            found.append((token.lastgroup, token[0]))
        at = token.end()
    return found


def metrics_named_in(query: str) -> tuple[str, ...]:
    """The names of the metrics that a query reads, each once; () for a text whose tokens cannot be told apart.

    Names that are matched by an expression (`{__name__=~"http_.*"}`), and those that a place (`{{args.metric}}`) stands for or
    is a part of, are not known.
    """
    tokens = tokens_of(query)
    if tokens is None or PLACE.search(_TEXT.sub("", query)):
        return ()
    found: list[str] = []
    for text, inside, after in parts_of(tokens):
        if text == "{":
            found += _matched_names(inside)
        elif text != "[" and after not in ("(", "by", "without"):
            found.append(text)
    return tuple(dict.fromkeys(found))


def parts_of(tokens: list[Token]) -> Iterator[tuple[str, list[Token], str]]:
    """The selectors, the ranges and the names of metrics and functions, in their order.

    Each as its bracket or name, what stands inside of the brackets, and what ends or follows it; "" for nothing.
    """
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        after = tokens[at + 1][1].lower() if at + 1 < len(tokens) else ""
        if text in _CLOSES:
            end = _index_of(tokens, at, _CLOSES[text])
            yield text, tokens[at + 1 : end], _CLOSES[text] if end < len(tokens) else ""
            at = end
        elif kind == "word" and text.lower() in LABEL_LISTS:
            at = _index_of(tokens, at, ")") if after == "(" else at
        elif kind == "word" and text.lower() not in OPERATORS:
            yield text, [], after
        at += 1


def _matched_names(matchers: list[Token]) -> list[str]:
    """The metric's name among the matchers of a selector: `__name__="up"`, or `"up"` alone, as Prometheus 3 allows it."""
    names = []
    for part in split_at_commas(matchers):
        match part:
            case [("text", name)] | [("word" | "text", "__name__" | '"__name__"'), ("sign", "="), ("text", name)] if (
                name[1:-1]
            ):
                names.append(name[1:-1])
    return names


def split_at_commas(matchers: Iterable[Token]) -> list[list[Token]]:
    """The matchers of a selector, each as its tokens; [] for one that is left out."""
    parts: list[list[Token]] = [[]]
    for token in matchers:
        if token == ("sign", ","):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _index_of(tokens: list[Token], start: int, closing: str) -> int:
    """Index of the next `closing`, or of the end. A bracket in a string is no token of its own, so it is not found."""
    return next((at for at in range(start, len(tokens)) if tokens[at] == ("sign", closing)), len(tokens))


def is_selector(query: str) -> bool:
    """Whether the query only selects series, such as `http_requests_total{code="500"}`; True for what cannot be told."""
    tokens = tokens_of(query)
    if tokens is None or PLACE.search(_TEXT.sub("", query)):
        return True
    words = [text for kind, text in tokens if kind == "word"]
    rest = tokens[1:] if tokens and tokens[0][0] == "word" else tokens
    if not rest:
        return bool(words)
    texts = [text for kind, text in rest if kind == "sign"]
    return rest[0][1] == "{" and rest[-1][1] == "}" and set(texts) <= _IN_SELECTORS and texts.count("{") == 1


def filled_query(query: str, value_of: ValueOf, refuse: Refuse) -> str:
    """The query with values put in: escaped inside a string; elsewhere only numbers, durations and names may stand."""

    def problem(value: str) -> str:
        if len(value) <= _BARE_LENGTH_MAX and _BARE.fullmatch(value) and value.lower() not in LABEL_LISTS | OPERATORS:
            return ""
        return (
            f"is {value[:40]!r} and stands outside of quotes, where only a number, a duration or the name of a metric or a label"
            " may stand; put the place in quotes if it is a label's value"
        )

    return filled_parts(query, _PART, value_of, refuse, bare=checked(value_of, refuse, problem))
