"""Whether a PromQL query looks only at series of one namespace, told from its text. Pure.

A Prometheus has the series of everybody. A query that a tenant writes is asked with the operator's rights, so each selector in
it must name the tenant's namespace. This is no parser of PromQL: it knows the forms that a query of one's own namespace has, and
what it does not know counts as looking beyond. Source: https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollouts.core.promql import LABEL_LISTS, OPERATORS, Token, tokens_of

_NAMESPACE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*_)?namespace")
_AFTER_NAMES = ("(", "{", "by", "without")  # of functions, metrics, and aggregations: sum by (pod) (…)
_DURATION = re.compile(r"(?:\d[0-9a-z]*)?(?::(?:\d[0-9a-z]*)?)?")  # of a range, and of the steps in it
_MATCHES = frozenset({"=", "!=", "=~", "!~"})


def beyond_namespace(query: str, namespace: str) -> str:
    """What in the query may look at other namespaces than this one; "" for nothing.

    Args:
        query: PromQL, with all names put in.
        namespace: one selector is of it when it has `namespace="…"`, or a label whose name ends with `_namespace`.
    """
    tokens = tokens_of(query)
    if tokens is None:
        return "a part of it that cannot be read"
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if text in _CLOSES:
            end = _end(tokens, at, _CLOSES[text])
            if problem := _beyond_inside(text, tokens[at + 1 : end], namespace, closed=end < len(tokens)):
                return problem
            at = end
        elif kind == "word" and text.lower() in LABEL_LISTS:
            at = _end(tokens, at + 1, ")") if after == "(" else at
        elif kind == "word" and text.lower() not in OPERATORS and after.lower() not in _AFTER_NAMES:
            return f"{text} without a selector"
        at += 1
    return ""


_CLOSES = {"{": "}", "[": "]"}


def _beyond_inside(bracket: str, inside: list[Token], namespace: str, *, closed: bool) -> str:
    """What a selector or a range may look at besides; "" for nothing."""
    text = " ".join(each for _, each in inside)
    if bracket == "{":
        return "" if closed and _is_of(inside, namespace) else f"the selector {{{text}}}"
    return "" if all(_DURATION.fullmatch(each) for _, each in inside) else f"the range [{text}]"


def _end(tokens: Sequence[Token], start: int, closing: str) -> int:
    """Index of the next `closing`; of the end where there is none. Strings are tokens of their own, so none hides in one."""
    return next((at for at in range(start, len(tokens)) if tokens[at][1] == closing), len(tokens))


def _is_of(matchers: Sequence[Token], namespace: str) -> bool:
    """Whether one of the matchers says that the namespace is this one; and nothing between them but commas.

    Some that speak PromQL know `or` between matchers, which would make any of them mean nothing.
    """
    found = False
    part: list[Token] = []
    for token in (*matchers, ("sign", ",")):
        if token != ("sign", ","):
            part.append(token)
            continue
        match [*part]:
            case []:
                pass
            case [("text", _)]:  # the name of the metric, as Prometheus 3 takes it
                pass
            case [("word" | "text", label), ("sign", match), ("text", value)] if match in _MATCHES:
                is_namespace = _NAMESPACE.fullmatch(label.strip("\"'`")) is not None
                found = found or (is_namespace and match == "=" and value[1:-1] == namespace)
            case _:
                return False
        part = []
    return found
