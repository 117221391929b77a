"""Fills the placeholders in the query of a drain probe. Pure.

A value cannot end the string around it or mean anything to PromQL: names of Kubernetes objects and revisions consist of
lower-case letters, digits, `-` and `.`. In a regular expression a `.` matches any character, so the query may count too much,
never too little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rollouts.core.placeholders import UNCLOSED, filled, is_unclosed, named_in

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
    if is_unclosed(query):
        return UNCLOSED
    return ""


def filled_query(query: str, values: Mapping[str, str]) -> str | None:
    """The query with the `values` of its placeholders; None when one is missing or not a valid name."""
    if not all(_NAME.fullmatch(values.get(each, "")) for each in named_in(query)):
        return None
    return filled(query, values.get)
