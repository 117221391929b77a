"""Promise: two conditions on one text become the condition that both mean, or none; a regular expression is refused in words.

A managed route with another condition than the step's takes requests of users that nobody meant.
"""

from __future__ import annotations

import re
from itertools import product

import pytest

from rollouts.core.model.traffic import MatchKind, TextMatch
from rollouts.errors import Unroutable
from rollouts.traffic.rules.text_matches import as_regex, both

TEXTS = ("", "/", "/a", "/ab", "/abc", "/b", "/b.c", "/bxc")
PLAIN = [TextMatch(kind, text) for kind in (MatchKind.EXACT, MatchKind.PREFIX) for text in TEXTS]
PATTERN = TextMatch(MatchKind.REGEX, "/a.*")


def matched(condition: TextMatch | None) -> set[str]:
    """Which of the texts, and of those that go on after one, it finds."""
    texts = {*TEXTS, *(f"{text}z" for text in TEXTS)}
    match condition:
        case TextMatch(MatchKind.EXACT, value):
            return texts & {value}
        case TextMatch(MatchKind.PREFIX, value):
            return {text for text in texts if text[: len(value)] == value}
    return set()


@pytest.mark.parametrize(("own", "want"), [*product(PLAIN, PLAIN)])
def test_both_finds_what_each_of_them_finds(own: TextMatch, want: TextMatch) -> None:
    """Of all pairs of exact texts and prefixes."""
    assert matched(both(own, want, of="paths")) == matched(own) & matched(want)


@pytest.mark.parametrize("condition", [*PLAIN, PATTERN])
def test_a_condition_alone_stays_as_it_is(condition: TextMatch) -> None:
    """Also beside the same one, which says nothing more."""
    assert both(condition, None, of="paths") == condition
    assert both(None, condition, of="paths") == condition
    assert both(condition, condition, of="paths") == condition
    assert both(None, None, of="paths") is None


@pytest.mark.parametrize("other", PLAIN)
def test_a_pattern_beside_anything_else_is_refused(other: TextMatch) -> None:
    """Whether two of them find the same text cannot be told."""
    for own, want in ((PATTERN, other), (other, PATTERN)):
        words = f"it cannot be known which paths match both {own.kind} {own.value} and {want.kind} {want.value}; "
        with pytest.raises(Unroutable, match=re.escape(words)):
            both(own, want, of="paths")


@pytest.mark.parametrize("condition", PLAIN)
def test_as_a_pattern_it_finds_the_same_texts(condition: TextMatch) -> None:
    """For routers that have no other conditions: a dot in a text is a dot."""
    found = {text for text in matched(TextMatch(MatchKind.PREFIX, "")) if re.search(as_regex(condition), text)}

    assert found == matched(condition)
    assert as_regex(PATTERN) == PATTERN.value
