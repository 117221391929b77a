"""Which shares of requests chance allows when each is sent to the canary with a given probability."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """What was counted while one weight was live.

    Args:
        percent: the weight.
        answers: of both versions.
        canary: those of the canary.
    """

    percent: float
    answers: int
    canary: int

    @property
    def within_chance(self) -> bool:
        """The count is not among the 0.1 % that are the farthest off, half of them on each side."""
        low, high = band(self.answers, self.percent / 100)
        return low <= self.canary <= high


def band(requests: int, probability: float, *, confidence: float = 0.999) -> tuple[int, int]:
    """The smallest and the largest count of a binomial variable that leave half of the rest on either side."""
    if probability in (0, 1):
        return (round(requests * probability),) * 2
    tail = (1 - confidence) / 2
    below, low, high = 0.0, -1, requests
    for count in range(requests + 1):
        below += math.exp(_log_chance(count, requests, probability))
        if low < 0 and below > tail:
            low = count
        if below >= 1 - tail:
            high = count
            break
    return low, high


def _log_chance(count: int, requests: int, probability: float) -> float:
    ways = math.lgamma(requests + 1) - math.lgamma(count + 1) - math.lgamma(requests - count + 1)
    return ways + count * math.log(probability) + (requests - count) * math.log1p(-probability)
