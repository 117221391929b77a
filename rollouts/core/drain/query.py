"""The query of a drain probe, with what it is about put in its place. Pure.

A value comes only where it cannot end the string that it stands in or mean anything to PromQL: names of Kubernetes objects and
revisions have lower-case letters, digits, `-` and `.` alone. In a regular expression a `.` matches any character, which can count
too much and never too little.
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
        return f"has {{{{{unknown[0]}}}}}, which is none of {known}"
    if "revision" not in named:
        return "needs {{revision}}: without it the requests of other revisions are counted too"
    if is_unclosed(query):
        return UNCLOSED
    return ""


def filled_query(query: str, values: Mapping[str, str]) -> str | None:
    """The query with `values` of PLACES put in; None when one of those that it uses is missing or no name."""
    if not all(_NAME.fullmatch(values.get(each, "")) for each in named_in(query)):
        return None
    return filled(query, values.get)
