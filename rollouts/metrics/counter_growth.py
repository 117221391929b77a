"""How much counters have grown in a span of time, from their raw samples: exact where `increase` of Prometheus estimates.

`increase` leaves out what a series began with, and a first error begins a series; and it scales what it saw up to the whole span,
which would make evidence of requests that nobody sent. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from rollouts.metrics.prometheus import STALE_S, Series

LOOKBACK_S = STALE_S
"""The last sample before the span is no older than that; Prometheus itself does not show older ones."""


class Growth(Struct, frozen=True):
    """Of all series together.

    Args:
        by: as whole events.
        series: that there are.
        goes_on: some series has a sample from before the span, so the span follows what was seen before.
        before: what they have grown by before the span, as far as their samples go back.
    """

    by: int
    series: int
    goes_on: bool
    before: int = 0


def growth(series: Iterable[Series], *, since_s: float, until_s: float) -> Growth:
    """What the series have grown by.

    A series whose value fell has begun again at 0, as after a restart; one without a sample before the span has begun in it.

    Args:
        since_s, until_s: seconds since 1970; samples after the first and up to the second count.
    """
    total, count, goes_on, earlier = 0.0, 0, False, 0.0
    for each in series:
        inside = [value for at_s, value in each.samples if since_s < at_s <= until_s]
        before = [value for at_s, value in each.samples if at_s <= since_s]
        count += bool(inside or before)
        goes_on = goes_on or bool(before)
        earlier += _grown(before)
        total += _grown([before[-1] if before else 0.0, *inside])
    return Growth(round(total), count, goes_on, round(earlier))


def _grown(values: Sequence[float]) -> float:
    return sum(after - before if after >= before else after for before, after in pairwise(values))
