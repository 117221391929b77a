"""An always-valid test of two rates: is the canary's share of bad events above stable's by more than `effect`? Pure.

Two stakes of 1 are bet at the same time. The one on "worse" cannot grow, on average, while the canary is worse by at most
`effect`; the one on "not worse" cannot while it is worse by at least that. So the chance that the stake on a false answer ever
reaches 1 / alpha is at most alpha, whenever somebody looks (Ville's inequality).

Each look multiplies a stake by the likelihood of what was counted under a bet, divided by the likelihood under the point of the
other hypothesis that is closest to the bet. A look bets by what earlier looks have shown, never by its own counts. Both rates may
change from look to look, as long as their difference stays on its side of `effect`.

Source: Turner, Ly, Grünwald, "Generic E-variables for exact sequential k-sample tests that allow for optional stopping", 2024,
https://arxiv.org/abs/2106.02693; for a difference as the limit: Turner, Grünwald, https://arxiv.org/abs/2203.09785.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from rollouts.core.compare.stakes import Stakes

_RATES = (0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
_WORSE_BY = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_NOT_WORSE_BY = (0.5, 0.0, -0.5)
"""Multiples of `effect`: what is bet on before anything was counted, at each rate of stable's."""

KEPT = 0.1
"""Part of a stake that a look does not bet, so that a look after a sudden change of both rates cannot lose it all."""

_HALVINGS = 50  # of an interval within 0..1: as exact as a double is


@dataclass(frozen=True, slots=True)
class Counts:
    """Events of one arm.

    Args:
        bad: of them; 0..events.
    """

    events: int = 0
    bad: int = 0

    @property
    def rate(self) -> float:
        """The share that is bad; NaN of no events."""
        return self.bad / self.events if self.events else math.nan

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.events + other.events, self.bad + other.bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateEvidence:
    """All that was counted, and what follows from it."""

    canary: Counts = field(default_factory=Counts)
    stable: Counts = field(default_factory=Counts)
    stakes: Stakes = field(default_factory=Stakes)


class StakeOn(Enum):
    """What a stake bets on."""

    WORSE = 1
    NOT_WORSE = -1


def with_counts(tally: RateEvidence, canary: Counts, stable: Counts, *, effect: float) -> RateEvidence:
    """The tally with what one look has counted. Without events of both arms the stakes stay as they are.

    Args:
        effect: difference of the shares of bad events, above 0 and below 1.
    """
    stakes = tally.stakes
    if canary.events and stable.events:
        look = _Look(canary, stable, effect)
        stakes = Stakes(
            log_worse=stakes.log_worse + _log_growth(tally, look, StakeOn.WORSE),
            log_not_worse=stakes.log_not_worse + _log_growth(tally, look, StakeOn.NOT_WORSE),
        )
    return RateEvidence(canary=tally.canary + canary, stable=tally.stable + stable, stakes=stakes)


@dataclass(frozen=True, slots=True)
class _Look:
    canary: Counts
    stable: Counts
    effect: float


@dataclass(frozen=True, slots=True)
class _Bet:
    """Two rates, each above 0 and below 1."""

    canary: float
    stable: float

    def is_on(self, side: StakeOn, effect: float) -> bool:
        return 0 < self.canary < 1 and (self.canary - self.stable - effect) * side.value > 0


def _log_growth(tally: RateEvidence, look: _Look, side: StakeOn) -> float:
    """Logarithm of what the look multiplies the stake by; 0 where nothing is bet."""
    bets = [each for each in _bets(tally, look.effect, side) if each.is_on(side, look.effect)]
    if not bets:
        return 0.0
    logs = [_log_ratio(each, look) for each in bets]
    most = max(0.0, *logs)
    won = sum(math.exp(each - most) for each in logs) / len(logs)
    return most + math.log(KEPT * math.exp(-most) + (1 - KEPT) * won)


def _bets(tally: RateEvidence, effect: float, side: StakeOn) -> Iterator[_Bet]:
    """A spread of rates at first, then what was seen so far."""
    if tally.canary.events and tally.stable.events:
        yield _Bet(_expected(tally.canary), _expected(tally.stable))
        return
    for stable in _RATES:
        for times in _WORSE_BY if side is StakeOn.WORSE else _NOT_WORSE_BY:
            yield _Bet(stable + times * effect, stable)


def _expected(counts: Counts) -> float:
    """The rate that is bet on: with half an event of each kind more, so that it is never 0 or 1."""
    return (counts.bad + 0.5) / (counts.events + 1)


def _log_ratio(bet: _Bet, look: _Look) -> float:
    """Logarithm of the likelihood under the bet, divided by that under the closest point of the other hypothesis."""
    stable = _closest(bet, look)
    return _log_likelihood(look.canary, bet.canary, stable + look.effect) + _log_likelihood(
        look.stable, bet.stable, stable
    )


def _log_likelihood(counts: Counts, bet: float, other: float) -> float:
    return counts.bad * math.log(bet / other) + (counts.events - counts.bad) * math.log1p((other - bet) / (1 - other))


def _closest(bet: _Bet, look: _Look) -> float:
    """Stable's rate at the point where the rates differ by exactly `effect` that the bet is told apart from worst.

    It maximizes the expected likelihood under the bet, which is concave along that line: the root of its derivative.
    """
    low, high = 0.0, 1 - look.effect
    for _ in range(_HALVINGS):
        stable = (low + high) / 2
        canary = stable + look.effect
        slope = look.canary.events * (bet.canary - canary) / (canary * (1 - canary)) + look.stable.events * (
            bet.stable - stable
        ) / (stable * (1 - stable))
        low, high = (stable, high) if slope > 0 else (low, stable)
    return (low + high) / 2
