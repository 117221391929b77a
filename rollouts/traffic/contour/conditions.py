"""Conditions of an HTTPProxy's route: those that we write for a match, and the requests that those of a user take.

Source: Contour v1.33.8, HTTPProxy.
"""

from __future__ import annotations

from rollouts.core.model.traffic import MatchKind, NamedMatch, RequestMatch, TextMatch
from rollouts.objects import Manifest
from rollouts.traffic.rules.text_matches import as_regex, cookie_pattern


def request_of(conditions: list[Manifest]) -> RequestMatch:
    """The requests that meet all of the conditions."""
    path = path_of(conditions)
    return RequestMatch(
        path=None if path == TextMatch(MatchKind.PREFIX, "/") else path,
        headers=tuple(_named(each["header"], lower=True) for each in conditions if each.get("header")),
        query=tuple(_named(each["queryParameter"], lower=False) for each in conditions if each.get("queryParameter")),
    )


def is_path(condition: Manifest) -> bool:
    """Whether it is a condition by path."""
    return any(kind.value in condition for kind in MatchKind)


def path_of(conditions: list[Manifest]) -> TextMatch:
    """The path of the conditions."""
    found = next(filter(is_path, conditions), {"prefix": "/"})
    return next(TextMatch(kind, found[kind.value]) for kind in MatchKind if kind.value in found)


def _named(condition: Manifest, *, lower: bool) -> NamedMatch:
    """A condition by header or query parameter; every kind but `exact` is a pattern, which Contour writes in its own way."""
    name, exact = str(condition.get("name", "")), condition.get("exact")
    text = TextMatch(MatchKind.REGEX, "") if exact is None else TextMatch(MatchKind.EXACT, str(exact))
    return NamedMatch(name.lower() if lower else name, text)


def header(want: NamedMatch) -> Manifest:
    """The condition by a header."""
    if want.value.kind is MatchKind.EXACT:
        return {"header": {"name": want.name, "exact": want.value.value}}
    return {"header": {"name": want.name, "regex": as_regex(want.value)}}


def cookie(want: NamedMatch) -> Manifest:
    """The condition by a cookie."""
    return {"header": {"name": "cookie", "regex": cookie_pattern(want)}}


def query(want: NamedMatch) -> Manifest:
    """The condition by a query parameter."""
    return {"queryParameter": {"name": want.name, want.value.kind.value: want.value.value}}
