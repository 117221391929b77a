"""An always-valid test of two rates: is the canary's share of bad events above stable's by more than `effect`? Pure.

Two stakes of 1 are bet at the same time. The one on "worse" cannot grow, on average, while the canary is worse by at most
`effect`; the one on "not worse" cannot while it is worse by at least that. So the chance that the stake on a false answer ever
reaches 1 / alpha is at most alpha, whenever somebody looks (Ville's inequality).

Each look multiplies a stake by the likelihood of what was counted under a bet, divided by the likelihood under the point of the
other hypothesis that is closest to the bet. A look bets by what was counted before, never by its own counts: on several
differences at once, each with as much as it has explained so far. Both rates may change from look to look, as long as their
difference stays on its side of `effect`.

Source: Turner, Ly, Grünwald, "Generic E-variables for exact sequential k-sample tests that allow for optional stopping", 2024,
https://arxiv.org/abs/2106.02693; for a difference as the limit: Turner, Grünwald, https://arxiv.org/abs/2203.09785.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct, field

from rollouts.core.compare.stakes import Stakes

_RATES = (0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
"""Of stable, where nothing was counted."""
_WORSE_BY = ((1.5, 0.25), (2.0, 0.3), (3.0, 0.25), (5.0, 0.1), (10.0, 0.05), (20.0, 0.05))
_NOT_WORSE_BY = ((0.5, 0.15), (0.25, 0.15), (0.0, 0.6), (-0.5, 0.1))
"""Differences that are bet on, as multiples of `effect`, each with its share of the bet: a large one wins quickly with little."""
_SEEN_SHARE = 0.1
"""Of the bet on the difference that was seen so far."""

KEPT = 0.1
"""Part of a stake that a look does not bet, so that a look after a sudden change of both rates cannot lose it all."""

_STEPS_MAX = 100  # by Newton's method, within an interval that is halved where a step leaves it: ten are usual
_LAST_STEP = 1e-9  # of the rate; after it Newton's method is exact as a double is


class Counts(Struct, frozen=True):
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


NOTHING = Counts()


class RateEvidence(Struct, frozen=True, kw_only=True):
    """All that was counted, and what follows from it."""

    canary: Counts = field(default_factory=Counts)
    stable: Counts = field(default_factory=Counts)
    stakes: Stakes = field(default_factory=Stakes)


class StakeOn(Enum):
    """What a stake bets on."""

    WORSE = 1
    NOT_WORSE = -1


def with_counts(
    tally: RateEvidence, canary: Counts, stable: Counts, *, effect: float, stable_before: Counts = NOTHING
) -> RateEvidence:
    """The tally with what one look has counted. Without events of both arms the stakes stay as they are.

    Args:
        effect: difference of the shares of bad events, above 0 and below 1.
        stable_before: what stable has done before the first look, as far as known: that look bets by it, and it is no evidence.
    """
    stakes = tally.stakes
    if canary.events and stable.events:
        look = _Look(canary, stable, effect)
        known = tally.stable if tally.stable.events else stable_before
        stakes = Stakes(
            log_worse=stakes.log_worse + _log_growth(tally.canary, known, look, StakeOn.WORSE),
            log_not_worse=stakes.log_not_worse + _log_growth(tally.canary, known, look, StakeOn.NOT_WORSE),
        )
    return RateEvidence(canary=tally.canary + canary, stable=tally.stable + stable, stakes=stakes)


class _Look(Struct, frozen=True):
    canary: Counts
    stable: Counts
    effect: float


class _Bet(Struct, frozen=True):
    """Two rates, each above 0 and below 1.

    Args:
        log_share: logarithm of its share among the bets of a look, not scaled.
    """

    canary: float
    stable: float
    log_share: float


def _log_growth(canary: Counts, stable: Counts, look: _Look, side: StakeOn) -> float:
    """Logarithm of what the look multiplies the stake by; 0 where nothing is bet.

    Args:
        canary, stable: what was counted before.
    """
    log_shares: list[float] = []
    log_won: list[float] = []
    for bet in _bets(canary, stable, look.effect, side):
        if not (0 < bet.canary < 1 and (bet.canary - bet.stable - look.effect) * side.value > 0):
            continue  # it is no rate, or bets on the other side
        other = _closest(bet, look)  # what the other hypothesis says of stable
        advantage = _log_advantage(look.canary, bet.canary, other + look.effect)
        advantage += _log_advantage(look.stable, bet.stable, other)
        log_shares.append(bet.log_share)
        log_won.append(bet.log_share + advantage)
    if not log_won:
        return 0.0
    won = _log_sum(log_won) - _log_sum(log_shares)
    return _log_sum([math.log(KEPT), math.log(1 - KEPT) + won])


def _log_sum(logs: Sequence[float]) -> float:
    """Logarithm of a sum, of the logarithms of its parts."""
    most = max(logs)
    return most + math.log(sum(math.exp(log - most) for log in logs))


def _bets(canary: Counts, stable: Counts, effect: float, side: StakeOn) -> Iterator[_Bet]:
    """Differences at the rate that stable had, or at many where nothing was counted; those that are no rates are left out."""
    for rate in (_expected(stable),) if stable.events else _RATES:
        for times, share in _WORSE_BY if side is StakeOn.WORSE else _NOT_WORSE_BY:
            if 0 < (worse := rate + times * effect) < 1:
                yield _Bet(worse, rate, math.log(share) + _log_likelihood(canary, worse))
        if canary.events:
            seen = _expected(canary)
            yield _Bet(seen, rate, math.log(_SEEN_SHARE) + _log_likelihood(canary, seen))


def _log_likelihood(counts: Counts, rate: float) -> float:
    return counts.bad * math.log(rate) + (counts.events - counts.bad) * math.log1p(-rate)


def _expected(counts: Counts) -> float:
    """The rate that is bet on: with half an event of each kind more, so that it is never 0 or 1."""
    return (counts.bad + 0.5) / (counts.events + 1)


def _log_advantage(counts: Counts, bet: float, other: float) -> float:
    """Logarithm of how much more likely the counts are under the bet than under the other rate."""
    return counts.bad * math.log(bet / other) + (counts.events - counts.bad) * math.log1p((other - bet) / (1 - other))


def _closest(bet: _Bet, look: _Look) -> float:
    """Stable's rate at the point where the rates differ by exactly `effect` that the bet is told apart from worst.

    It maximizes the expected likelihood under the bet, which is concave along that line: the root of its derivative.
    """
    low, high = 0.0, 1 - look.effect
    stable = bet.stable if bet.stable < high else high / 2
    for _ in range(_STEPS_MAX):
        slope, bend = _slope(look.canary.events, bet.canary, stable + look.effect)
        more_slope, more_bend = _slope(look.stable.events, bet.stable, stable)
        slope, bend = slope + more_slope, bend + more_bend
        low, high = (stable, high) if slope > 0 else (low, stable)
        step = stable - slope / bend
        if low <= step <= high and abs(step - stable) <= _LAST_STEP * stable:
            return step
        stable = step if low < step < high else (low + high) / 2
    return stable


def _slope(events: int, bet: float, rate: float) -> tuple[float, float]:
    """Of the expected logarithm of the likelihood of a rate, under the bet: its first and its second derivative."""
    variance = rate * (1 - rate)
    return events * (bet - rate) / variance, -events * (variance + (bet - rate) * (1 - 2 * rate)) / variance**2
