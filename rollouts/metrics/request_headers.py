"""Headers that people give to a metric: which of them are sent."""

from __future__ import annotations

import re

from rollouts.secret import Secret

HEADERS_MAX = 32
HEADER_MAX_CHARACTERS = 8_192

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
"""Source: RFC 9110, section 5.6.2."""
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OURS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect")
) | frozenset(("accept-encoding", "proxy-authorization", "proxy-connection"))


def header_problem(headers: tuple[tuple[str, str], ...]) -> str:
    """What is wrong with them, without a part of them; "" for nothing."""
    if len(headers) > HEADERS_MAX:
        return f"headers: {HEADERS_MAX} at most"
    for place, (name, value) in enumerate(headers):
        if not _NAME.fullmatch(name):
            return f"headers[{place}]: its key is no name of a header"
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            return f"headers[{place}]: it is not for a metric to set"
        if len(value) > HEADER_MAX_CHARACTERS or not _VALUE.fullmatch(value):
            return f"headers[{place}]: its value has a line break, is too long, or is not ASCII"
    return ""


def sent(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, Secret], ...]:
    """As they are sent: any of them may be a credential."""
    return tuple((name, Secret(value.strip())) for name, value in headers)
