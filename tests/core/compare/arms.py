"""Simulated traffic of two arms with a known truth, and comparisons that look at it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rollouts.core.compare.rates import Counts, RateEvidence, with_counts
from rollouts.core.compare.stakes import Conclusion, Stakes
from rollouts.core.compare.values import Sides, with_values

BEFORE_LOOKS = 10
"""What the first look sees of stable's time before, in looks: five minutes of an interval of 30 s."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one comparison ended.

    Args:
        path: the stakes after each look.
    """

    answer: Conclusion
    path: tuple[Stakes, ...]

    @property
    def looks(self) -> int:
        """That were taken."""
        return len(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateArms:
    """Requests that fail, by chance.

    Args:
        canary_requests, stable_requests: of a look, on average.
        canary_bad, stable_bad: chance that a request fails.
        grows_at, grows_by: look from which both chances are higher by so much, as in an outage behind both.
    """

    canary_requests: int
    stable_requests: int
    canary_bad: float
    stable_bad: float
    effect: float = 0.01
    grows_at: int = 0
    grows_by: float = 0.0

    def counts(self, rng: random.Random, look: int) -> tuple[Counts, Counts]:
        """What a look counts of each arm; looks are numbered from 1."""
        more = self.grows_by if 0 < self.grows_at <= look else 0.0
        canary, stable = arrived(rng, self.canary_requests), arrived(rng, self.stable_requests)
        return (
            Counts(canary, binomial(rng, canary, self.canary_bad + more)),
            Counts(stable, binomial(rng, stable, self.stable_bad + more)),
        )

    def compared(self, seed: int, *, alpha: float, looks_max: int) -> Verdict:
        """One comparison until its answer."""
        rng, tally = random.Random(seed), RateEvidence()  # noqa: S311 - a simulation
        earlier = BEFORE_LOOKS * self.stable_requests
        before = Counts(earlier, binomial(rng, earlier, self.stable_bad))

        def stakes(look: int) -> Stakes:
            nonlocal tally
            tally = with_counts(tally, *self.counts(rng, look), effect=self.effect, stable_before=before)
            return tally.stakes

        return _until_answer(stakes, alpha=alpha, looks_max=looks_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueArms:
    """A latency of each look: both move together from look to look, each has noise of its own with a long tail.

    Args:
        ratio: median of the canary's value to stable's.
    """

    ratio: float
    noise: float = 0.15
    effect: float = 0.1

    def values(self, rng: random.Random) -> tuple[float, float]:
        """Of the canary and of stable."""
        common = math.exp(rng.gauss(0.0, 0.5))
        return tuple(0.2 * common * ratio * math.exp(rng.gauss(0.0, self.noise)) for ratio in (self.ratio, 1.0))  # type: ignore[return-value]

    def compared(self, seed: int, *, alpha: float, looks_max: int) -> Verdict:
        """One comparison until its answer."""
        rng, sides = random.Random(seed), Sides()  # noqa: S311 - a simulation

        def stakes(_look: int) -> Stakes:
            nonlocal sides
            canary, stable = self.values(rng)
            sides = with_values(sides, canary, stable * (1 + self.effect))
            return sides.stakes

        return _until_answer(stakes, alpha=alpha, looks_max=looks_max)


def _until_answer(stakes: Callable[[int], Stakes], *, alpha: float, looks_max: int) -> Verdict:
    path: list[Stakes] = []
    for look in range(1, looks_max + 1):
        path.append(stakes(look))
        if (answer := path[-1].answer(alpha)) is not Conclusion.UNDECIDED:
            return Verdict(answer, tuple(path))
    return Verdict(Conclusion.UNDECIDED, tuple(path))


def most_by_chance(runs: int, share: float) -> int:
    """So many of the runs at most, but for one case in 10,000, where each has a chance of `share`."""
    return math.ceil(runs * share + 3.72 * math.sqrt(runs * share * (1 - share)))


def arrived(rng: random.Random, mean: int) -> int:
    """Requests of a look: near enough to what clients send that do not know of each other (Poisson)."""
    return max(0, round(rng.gauss(mean, math.sqrt(mean))))


def binomial(rng: random.Random, trials: int, chance: float) -> int:
    """How many of the trials happen: exact, by the gaps between those that do."""
    return sum(1 for _ in _hits(rng, trials, chance)) if chance > 0 else 0


def _hits(rng: random.Random, trials: int, chance: float) -> Iterator[int]:
    at = -1
    while True:
        at += 1 + int(math.log(1 - rng.random()) / math.log1p(-chance))
        if at >= trials:
            return
        yield at
