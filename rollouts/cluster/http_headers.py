"""Times in the headers of an HTTP answer. Pure; nonsense is no time."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def date_s(header: str | None) -> float | None:
    """Seconds since 1970 of a Date header: whole seconds, of the server's clock (RFC 9110, 5.6.7)."""
    if header is None:
        return None
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def retry_after_s(header: str | None, *, date: str | None) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, 10.2.3), >= 0; how much of it is believed is for the caller.

    Args:
        date: the answer's own Date header: a date of the same clock becomes a time without asking another clock.
    """
    if header is None or not header.isascii():
        return None
    if header.isdigit():
        return float(header)
    until_s, now_s = date_s(header), date_s(date)
    return None if until_s is None or now_s is None else max(0.0, until_s - now_s)
