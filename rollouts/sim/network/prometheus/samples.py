"""What was scraped: series of samples, in milliseconds as in the real one, with markers where a series ended."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

NAME = "__name__"

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values, sorted by name; the metric's name is the label `__name__`."""

Point: TypeAlias = tuple[int, float]
"""Milliseconds since 1970, and a value."""

RETENTION_MS = 3_600_000
_PRUNED_AT = 512  # samples of one series


def labels_of(name: str = "", **labels: str) -> Labels:
    """Labels with a metric's name; empty ones are left out, as they mean the same."""
    named = {NAME: name, **labels}
    return tuple(sorted((key, value) for key, value in named.items() if value))


class Matcher(Struct, frozen=True):
    """One condition of a selector. A regular expression, of `=~` and `!~`, must match all of a label's value."""

    name: str
    sign: str
    value: str

    def matches(self, value: str) -> bool:
        """Whether a label's value fits; a label that is not there has the value ""."""
        match self.sign:
            case "=":
                return value == self.value
            case "!=":
                return value != self.value
            case "=~":
                return _pattern(self.value).fullmatch(value) is not None
            case _:
                return _pattern(self.value).fullmatch(value) is None


@lru_cache(maxsize=256)
def _pattern(source: str) -> re.Pattern[str]:
    """Raises: re.error. RE2, which the real one uses, and this agree on what selectors of labels have."""
    return re.compile(source, re.DOTALL)


@dataclass(slots=True)
class StoredSeries:
    """One series; a value is None where it ended."""

    labels: Labels
    times_ms: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)

    def latest(self, at_ms: int, lookback_ms: int) -> Point | None:
        """Its sample at a time: the last one in the lookback before it, unless the series has ended since."""
        place = bisect_right(self.times_ms, at_ms) - 1
        if place < 0 or self.times_ms[place] <= at_ms - lookback_ms:
            return None
        value = self.values[place]
        return None if value is None else (self.times_ms[place], value)

    def append(self, at_ms: int, value: float | None) -> None:
        """Adds a sample, or with None the marker that the series has ended; one that is not younger than the last is dropped."""
        times_ms = self.times_ms
        if times_ms and times_ms[-1] >= at_ms:
            return
        times_ms.append(at_ms)
        self.values.append(value)
        if len(times_ms) > _PRUNED_AT:
            old = bisect_right(times_ms, at_ms - RETENTION_MS)
            del times_ms[:old], self.values[:old]

    def between(self, after_ms: int, until_ms: int) -> list[Point]:
        """Its samples later than one time and not later than the other. Source: Prometheus v3, left-open ranges."""
        first, end = bisect_right(self.times_ms, after_ms), bisect_right(self.times_ms, until_ms)
        pairs = zip(self.times_ms[first:end], self.values[first:end], strict=True)
        return [(at_ms, value) for at_ms, value in pairs if value is not None]


class SampleStore:
    """All series."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[Labels, StoredSeries]] = {}

    def series(self, labels: Labels) -> StoredSeries:
        """The series of these labels; a new one has no samples."""
        name = dict(labels).get(NAME, "")
        return self._by_name.setdefault(name, {}).setdefault(labels, StoredSeries(labels))

    def select(self, matchers: Iterable[Matcher]) -> Iterator[StoredSeries]:
        """The series that fit all matchers. Raises: re.error."""
        wanted = tuple(matchers)
        name = next((matcher.value for matcher in wanted if matcher.name == NAME and matcher.sign == "="), None)
        groups = self._by_name.values() if name is None else (self._by_name.get(name, {}),)
        for group in groups:
            for series in group.values():
                known = dict(series.labels)
                if all(matcher.matches(known.get(matcher.name, "")) for matcher in wanted):
                    yield series
