"""Times in objects and answers, as seconds since 1970."""

from __future__ import annotations

from datetime import datetime

FUTURE_S = 5.0
"""What was measured is no younger than the time it was asked for, but for rounding and for clocks that NTP keeps. What seems
younger may be from before the step that it is to judge."""


def time_s(value: object) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None for what is none, and for one without a zone."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.timestamp() if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
