"""Matches of texts, as most routers have them: combines two conditions into one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rollouts.core.model.traffic import MatchKind, NamedMatch, TextMatch
from rollouts.errors import Unroutable


def both(own: TextMatch | None, want: TextMatch | None, *, of: str) -> TextMatch | None:
    """The condition for texts that match both; None when no text can.

    Raises: Unroutable when it cannot be known: for a regular expression together with any other condition.
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
        f"it cannot be known which {of} match both {own.kind} {own.value} and {want.kind} {want.value}; "
        f"use exact or prefix, or remove {of} from the step"
    )


def cookie_pattern(cookie: NamedMatch) -> str:
    """A regular expression (RE2) for the whole Cookie header of requests with that cookie."""
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
