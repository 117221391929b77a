"""RFC 3339 times to seconds since 1970-01-01T00:00:00Z and back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_MICROSECOND = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_MICROSECOND = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=1024)  # the passes of one update read and write the same few times
def parse_time(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time, to the microsecond.

    Raises: ValueError when `text` is not an RFC 3339 time between the years 1 and 9999.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"must be an RFC 3339 time such as 2026-01-31T12:00:00Z, not {text!r}")
    day, clock, fraction, sign, hours, minutes = found.groups()
    if sign and (int(hours) > 23 or int(minutes) > 59):
        raise ValueError(f"must be an RFC 3339 time such as 2026-01-31T12:00:00Z, not {text!r}")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    except ValueError as error:
        raise ValueError(f"must be a time that exists, not {text!r}") from error
    microseconds = (moment - _EPOCH) // _MICROSECOND + (int(fraction.ljust(6, "0")[:6]) if fraction else 0)
    if sign:
        offset = (int(hours) * 60 + int(minutes)) * 60_000_000
        microseconds += offset if sign == "-" else -offset
    return microseconds / 1_000_000


def time_or_0(text: object) -> float:
    """Seconds since 1970 of a time that stands in an object; 0 when there is none, or what stands there is no time."""
    try:
        return parse_time(text) if isinstance(text, str) and text else 0.0
    except ValueError:
        return 0.0


@lru_cache(maxsize=1024)
def format_time(at_s: float) -> str:
    """RFC 3339 in UTC; microseconds only when there are any: `2026-01-31T12:00:00.250000Z`.

    A time outside of the years 1 to 9999, which an edited status may contain, is written as the nearest time in these years.
    """
    microseconds = min(max(round(at_s * 1_000_000), _FIRST_MICROSECOND), _LAST_MICROSECOND)
    moment = _EPOCH + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
