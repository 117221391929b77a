"""Matches of texts, as most routers have them: both of two conditions as one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rollouts.core.model.traffic import MatchKind, NamedMatch, TextMatch
from rollouts.errors import Unroutable


def both(own: TextMatch | None, want: TextMatch | None, *, of: str) -> TextMatch | None:
    """The texts that match both; None when there is none of them.

    Args:
        own, want: None for any text; at most one of them.
        of: what the text is, for the message.

    Raises: Unroutable when nobody can tell: for a regular expression beside anything else.
    """
    if own is None or want is None or own == want:
        return own or want
    match own.kind, want.kind:
        case MatchKind.EXACT, MatchKind.EXACT:
            return None
        case MatchKind.EXACT, MatchKind.PREFIX:
            return own if own.value.startswith(want.value) else None
        case MatchKind.PREFIX, MatchKind.EXACT:
            return want if want.value.startswith(own.value) else None
        case MatchKind.PREFIX, MatchKind.PREFIX if own.value.startswith(want.value):
            return own
        case MatchKind.PREFIX, MatchKind.PREFIX:
            return want if want.value.startswith(own.value) else None
    raise Unroutable(
        f"nobody can tell which {of} match both {own.kind} {own.value} and {want.kind} {want.value}; "
        f"use exact or prefix, or leave {of} out of the step"
    )


def cookie_pattern(cookie: NamedMatch) -> str:
    """A regular expression (RE2) for the whole Cookie header of requests that carry that cookie."""
    value = cookie.value.value
    pattern: Mapping[MatchKind, str] = {
        MatchKind.EXACT: re.escape(value),
        MatchKind.PREFIX: re.escape(value) + "[^;]*",
        MatchKind.REGEX: f"(?:{value})",
    }
    return rf"^(?:.*;\s*)?{re.escape(cookie.name)}={pattern[cookie.value.kind]}(?:;.*)?$"


def as_regex(text: TextMatch) -> str:
    """A regular expression (RE2) that matches the same texts."""
    pattern: Mapping[MatchKind, str] = {
        MatchKind.EXACT: f"^{re.escape(text.value)}$",
        MatchKind.PREFIX: f"^{re.escape(text.value)}.*$",
        MatchKind.REGEX: text.value,
    }
    return pattern[text.kind]
