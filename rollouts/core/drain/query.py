"""Fills the placeholders in the query of a drain probe. Pure.

A value cannot end the string around it or mean anything to PromQL: names of Kubernetes objects and revisions consist of
lower-case letters, digits, `-` and `.`. In a regular expression a `.` matches any character, so the query may count too much,
never too little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rollouts.core.placeholders import UNCLOSED, filled, is_unclosed, named_in
from rollouts.core.promql import Token, parts_of, split_at_commas, tokens_of

PLACES = ("namespace", "rollout", "revision", "service")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def query_problem(query: str) -> str:
    """What is wrong with a query as its user wrote it; "" for nothing."""
    named = named_in(query)
    unknown = sorted(set(named) - set(PLACES))
    if unknown:
        known = ", ".join("{{" + each + "}}" for each in PLACES)
        return f"has the unknown placeholder {{{{{unknown[0]}}}}}: use {known}"
    if "revision" not in named:
        return "needs {{revision}}: without it the query counts the requests of other revisions too"
    return UNCLOSED if is_unclosed(query) else ""


def filled_query(query: str, values: Mapping[str, str]) -> str | None:
    """The query with the `values` of its placeholders; None when one is missing or not a valid name."""
    if not all(_NAME.fullmatch(values.get(each, "")) for each in named_in(query)):
        return None
    return filled(query, values.get)


# --- whether a PromQL query reads only series of one namespace
#
# One Prometheus has the series of all tenants. A tenant's query runs with the operator's rights, so each of its selectors must
# name the tenant's namespace. This is no PromQL parser: it knows the usual forms of a query for one namespace, and treats
# everything else as reading beyond it. Source: https://prometheus.io/docs/prometheus/latest/querying/basics/

_NAMESPACE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*_)?namespace")
_AFTER_NAMES = ("(", "{", "by", "without")  # follow functions, metrics, and aggregations: sum by (pod) (…)
_DURATION = re.compile(r"(?:\d[0-9a-z]*)?(?::(?:\d[0-9a-z]*)?)?")  # a range, and the steps in it
_MATCHES = frozenset({"=", "!=", "=~", "!~"})


def beyond_namespace(query: str, namespace: str) -> str:
    """The part of the query that may read series of other namespaces; "" when there is none.

    Args:
        namespace: a selector is limited to it by `namespace="…"`, or by a label whose name ends with `_namespace`.
    """
    tokens = tokens_of(query)
    if tokens is None:
        return "a part of it that cannot be read"
    for text, inside, after in parts_of(tokens):
        words = [word for _, word in inside]
        if text == "{":
            if not after or not _is_of(inside, namespace):
                return f"the selector {{{' '.join(words)}}}"
        elif text == "[":
            if not all(map(_DURATION.fullmatch, words)):
                return f"the range [{' '.join(words)}]"
        elif after not in _AFTER_NAMES:
            return f"{text} without a selector"
    return ""


def _is_of(matchers: Sequence[Token], namespace: str) -> bool:
    """Whether one of the matchers limits the selector to this namespace, and only commas stand between the matchers.

    Some dialects of PromQL have `or` between matchers, and then a single matcher limits nothing.
    """
    found = False
    for part in split_at_commas(matchers):
        match part:
            case [] | [("text", _)]:  # the name of the metric, as Prometheus 3 allows it
                pass
            case [("word" | "text", label), ("sign", match), ("text", value)] if match in _MATCHES:
                is_namespace = _NAMESPACE.fullmatch(label.strip("\"'`")) is not None
                found = found or (is_namespace and match == "=" and value[1:-1] == namespace)
            case _:
                return False
    return found
