"""Checks names and texts by which requests are matched: routers put them into the configuration of their proxies.

So each must be one line without control characters, and follow its grammar if it has one. Regular expressions are not checked,
because their grammar depends on the router (RE2, PCRE).
"""

from __future__ import annotations

import re

from rollouts.core.model.traffic import MatchKind

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""RFC 9110, section 5.6.2; the names of cookies are tokens too (RFC 6265, section 4.1.1)."""

_TOKENS = {
    "headerName": "is not a valid header name (RFC 9110)",
    "cookieName": "is not a valid cookie name (RFC 6265)",
    "method": "is not a valid HTTP method (RFC 9110)",
}
_ONE_LINE = "must be one line without control characters"


def problem_of_name(kind: str, name: str) -> str:
    """What is wrong with a name; "" for nothing.

    Args:
        kind: the field with the name: `headerName`, `cookieName`, `queryParamName`, or `name` for a route.
    """
    if kind in _TOKENS and not _TOKEN.fullmatch(name):
        return f"{name[:40]!r} {_TOKENS[kind]}"
    return "" if name.isprintable() else f"{name[:40]!r}: {_ONE_LINE}"


def problem_of_text(field: str, kind: MatchKind, text: str) -> str:
    """What is wrong with a text by which requests are matched; "" for nothing.

    Args:
        field: the field with the text: `path`, `method`, or the field of a value.
    """
    if not text.isprintable():
        return _ONE_LINE
    if kind is MatchKind.REGEX:
        return ""
    if field == "path" and not text.startswith("/"):
        return f"must begin with /, as every path does: /{text[:40]}"
    return f"{text[:40]!r} {_TOKENS['method']}" if field == "method" and not _TOKEN.fullmatch(text) else ""
