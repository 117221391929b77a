"""Durations: short enough for a table, and as people type them. Pure."""

from __future__ import annotations

import re

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_TYPED = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def short(seconds: float) -> str:
    """`12s`, `3m20s`, `2h`, `5d3h`: the largest unit, and the next one while the first is below ten; 0 for less."""
    left = max(0, int(seconds))
    for index, (unit, size) in enumerate(_UNITS):
        if left < size and unit != "s":
            continue
        first, rest = divmod(left, size)
        if unit == "s" or first >= 10:
            return f"{first}{unit}"
        next_unit, next_size = _UNITS[index + 1]
        second = rest // next_size
        return f"{first}{unit}{second}{next_unit}" if second else f"{first}{unit}"
    raise AssertionError("every number of seconds has a unit")


def seconds_of(text: str) -> float:
    """Seconds of `90`, `90s`, `5m`, `1h30m`. Raises: ValueError, with a sentence for the person who typed it."""
    if text.isdigit():
        return float(text)
    found = _TYPED.fullmatch(text)
    if not text or found is None:
        raise ValueError(f"{text!r} is not a duration: write 90, 90s, 5m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3_600 + minutes * 60 + seconds)
