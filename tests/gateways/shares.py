"""Which shares of requests chance allows when each is sent to the canary with a given probability."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCE = 0.999


@dataclass(frozen=True)
class Share:
    """What was counted while one weight was live."""

    percent: float  # the weight
    answers: int  # of both versions
    canary: int  # those of the canary

    @property
    def within_chance(self) -> bool:
        """The count is not among the 0.1 % that are the farthest off, half of them on each side."""
        from scipy.stats import binom  # noqa: PLC0415 - a second, which only these tests need

        low, high = binom.interval(CONFIDENCE, self.answers, self.percent / 100)
        return bool(low <= self.canary <= high)
