"""Reads times in the headers of an HTTP answer. Pure; None for a header that is not a time."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def date_s(header: str | None) -> float | None:
    """The time in a Date header, in whole seconds since 1970, on the server's clock (RFC 9110, 5.6.7)."""
    if header is None:
        return None
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def retry_after_s(header: str | None, *, date: str | None) -> float | None:
    """The seconds in a Retry-After header (RFC 9110, 10.2.3), >= 0; the caller limits them.

    Args:
        date: the answer's own Date header: a date on the same clock gives a duration without another clock.
    """
    if header is None or not header.isascii():
        return None
    if header.isdigit():
        return float(header)
    until_s, now_s = date_s(header), date_s(date)
    return None if until_s is None or now_s is None else max(0.0, until_s - now_s)
