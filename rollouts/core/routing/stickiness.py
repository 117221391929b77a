"""A share of clients instead of a share of requests: who goes to the canary is told by the end of a cookie that they bring.

The ends of session ids are spread evenly, so those with an end out of 12 of 256 are 4.7 % of the clients. The set of ends only
grows while the share does: whoever was sent to the canary stays there, whoever was not moves once at most. Nothing is set in a
browser, so nothing is left there, and a client that cannot be told, for it has no such cookie yet, goes to the stable revision.

A cookie of our own was decided against. Set by the canary alone it makes its share grow with every request, until it has all of
the clients that come often (at 5 %, 64 % of those that sent 20 requests); set by both it keeps the clients of the first step on
the stable revision through all others; and an abort followed by a retry finds the cookies of the first attempt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from fractions import Fraction

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import MatchKind, MatchRoute, NamedMatch, RequestMatch, Split, Sticky, TextMatch

STICKY_ROUTE = "rollouts-sticky"
"""Name of the route that takes those clients to the canary; no managed route may have it."""


def sticking(split: Split, sticky: Sticky | None) -> Split:
    """The same as a share of clients, where that makes a difference."""
    wanted = sticky if 0 < split.share < 1 else None
    return split if split.sticky == wanted else replace(split, sticky=wanted)


def as_said(split: Split) -> Split:
    """The same in the words of routers: no request by weight, and a route for the clients with certain cookies.

    The share is rounded down to a whole number of ends, one at least.
    """
    if split.sticky is None:
        return split
    pattern = f"[^;]*(?:{ends_pattern(split.sticky, split.share)})"
    cookie = NamedMatch(split.sticky.cookie, TextMatch(MatchKind.REGEX, pattern))
    route = MatchRoute(STICKY_ROUTE, RequestMatch(cookies=(cookie,)))
    return Split(Fraction(0), (*split.matches, route), split.mirrors, split.whole)


def ends_pattern(sticky: Sticky, share: Fraction) -> str:
    """A regular expression (RE2) for the last two characters of the values that make up `share`, 0..1."""
    digits = sticky.digits
    ends = len(digits) ** 2
    first = int.from_bytes(hashlib.sha256(sticky.seed.encode()).digest(), "big") % ends
    taken = sorted((first + at) % ends for at in range(max(1, int(share * ends))))
    seconds: dict[str, list[str]] = {}
    for end in taken:
        seconds.setdefault(digits[end // len(digits)], []).append(digits[end % len(digits)])
    firsts: dict[str, list[str]] = {}
    for one, others in seconds.items():
        firsts.setdefault(_one_of(others), []).append(one)
    return "|".join(f"{_one_of(ones)}{others}" for others, ones in firsts.items())


def _one_of(characters: Iterable[str]) -> str:
    return f"[{''.join(map(re.escape, characters))}]"
