"""Matches of Istio's http routes: each match of a route, combined by AND with that of a managed route.

Source: istio.io/api v1.28, HTTPMatchRequest: all conditions of one match must hold, and one of several matches. Cookies are one
header.
"""

from __future__ import annotations

from rollouts.core.model.traffic import MatchKind, NamedMatch, RequestMatch, TextMatch
from rollouts.objects import Manifest
from rollouts.traffic.rules.text_matches import both, cookie_pattern


def narrower(own: Manifest, want: RequestMatch) -> Manifest | None:
    """One match for the requests that match both; None when no request can. Raises: Unroutable when that cannot be known."""
    cookies = (NamedMatch("cookie", TextMatch(MatchKind.REGEX, cookie_pattern(each))) for each in want.cookies)
    headers = [*want.headers, *cookies]
    found = dict(own)
    for field, text in (("uri", want.path), ("method", want.method)):
        if text is not None and not _add(found, field, text):
            return None
    for field, named in (("headers", headers), ("queryParams", want.query)):
        conditions = dict(own.get(field) or {})
        for each in named:
            if not _add(conditions, each.name, each.value):
                return None
        found |= {field: conditions} if conditions else {}
    return found


def _add(conditions: Manifest, name: str, want: TextMatch) -> bool:
    own = conditions.get(name)
    has = next((TextMatch(kind, own[kind.value]) for kind in MatchKind if own and kind.value in own), None)
    text = both(has, want, of=name)
    if text is not None:
        conditions[name] = {text.kind.value: text.value}
    return text is not None
