"""Promise: no way to bet on a false answer gains anything on average, which is shown by counting all outcomes of small looks."""

from __future__ import annotations

import math
from itertools import product

import pytest

from rollouts.core.compare.rates import Counts, RateEvidence, with_counts
from rollouts.core.compare.stakes import Conclusion, Stakes
from rollouts.core.compare.values import Sides, with_values

EFFECTS = (0.01, 0.1, 0.4)
RATES = tuple(place / 20 for place in range(21))
BEFORE = {
    "nothing": RateEvidence(),
    "a good canary": RateEvidence(canary=Counts(40, 1), stable=Counts(400, 12)),
    "a bad canary": RateEvidence(canary=Counts(40, 22), stable=Counts(400, 8)),
    "no failures": RateEvidence(canary=Counts(30, 0), stable=Counts(30, 0)),
    "only failures": RateEvidence(canary=Counts(30, 30), stable=Counts(30, 30)),
}
"""What a look bets by."""


def _chance(counts: Counts, rate: float) -> float:
    ways = math.comb(counts.events, counts.bad)
    return ways * rate**counts.bad * (1 - rate) ** (counts.events - counts.bad)


def _outcomes(events: int) -> list[Counts]:
    return [Counts(events, bad) for bad in range(events + 1)]


def _nulls(effect: float, *, worse: bool) -> list[tuple[float, float]]:
    """Rates at which it is false that the canary is worse, or that it is not; the edge is among them."""
    edge = [(stable + effect, stable) for stable in RATES if stable + effect <= 1]
    return edge + [
        (canary, stable)
        for canary, stable in product(RATES, RATES)
        if (canary - stable <= effect if worse else canary - stable >= effect)
    ]


def _assert_no_gain(looks: list[tuple[Counts, Counts, Stakes]], effect: float) -> None:
    """For each pair of rates for which an answer is false."""
    for worse in (True, False):
        for of_canary, of_stable in _nulls(effect, worse=worse):
            mean = sum(
                _chance(canary, of_canary)
                * _chance(stable, of_stable)
                * math.exp(stakes.log_worse if worse else stakes.log_not_worse)
                for canary, stable, stakes in looks
            )
            assert mean <= 1 + 1e-9


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("events", [(1, 1), (3, 6), (7, 2)])
def test_a_look_does_not_raise_the_stake_on_a_false_answer(effect: float, before: str, events: tuple[int, int]) -> None:
    """For each pair of rates for which the answer is false, and whatever was seen before."""
    tally = BEFORE[before]
    looks = [
        (canary, stable, with_counts(tally, canary, stable, effect=effect).stakes)
        for canary, stable in product(_outcomes(events[0]), _outcomes(events[1]))
    ]

    _assert_no_gain(looks, effect)


@pytest.mark.parametrize("before", [Counts(500, 0), Counts(500, 20), Counts(500, 500)])
def test_what_stable_did_before_changes_what_is_bet_and_is_no_evidence(before: Counts) -> None:
    """A first look that bets by it gains nothing on average on a false answer either, however misleading it is."""
    arms = list(product(_outcomes(5), _outcomes(4)))
    found = [with_counts(RateEvidence(), *each, effect=0.1, stable_before=before) for each in arms]

    _assert_no_gain([(*each, tally.stakes) for each, tally in zip(arms, found, strict=True)], 0.1)
    assert {tally.stable.events for tally in found} == {4}


@pytest.mark.parametrize("looks", [1, 2, 5, 9])
@pytest.mark.parametrize("chance", [0.0, 0.2, 0.4, 0.5])
def test_looks_at_values_do_not_raise_the_stake_on_a_false_answer(looks: int, chance: float) -> None:
    """Where each look is above its limit with a chance of at most 1/2."""
    mean = 0.0
    for above in range(looks + 1):
        stakes = Sides(looks=looks, above=above, below=looks - above).stakes
        mean += math.comb(looks, above) * chance**above * (1 - chance) ** (looks - above) * math.exp(stakes.log_worse)

    assert mean <= 1 + 1e-9


def test_without_events_of_both_arms_nothing_is_learnt() -> None:
    """An arm without traffic decides nothing, however much the other one has."""
    alone = with_counts(RateEvidence(), Counts(10_000, 9_000), Counts(), effect=0.01)

    assert alone.stakes == Stakes()
    assert alone.canary == Counts(10_000, 9_000)
    assert with_counts(alone, Counts(), Counts(5_000, 1), effect=0.01).stakes == Stakes()


def test_a_value_at_its_limit_speaks_for_neither_answer() -> None:
    """Counters that stand still must not promote."""
    sides = Sides()
    for _ in range(50):
        sides = with_values(sides, 1.0, 1.0)

    assert sides.stakes.answer(0.05) is Conclusion.UNDECIDED


def test_five_looks_on_one_side_are_enough() -> None:
    """Four are not: (2^4 + 31 / 5) / 2 is less than 20."""
    assert Sides(looks=4, below=4).stakes.answer(0.05) is Conclusion.UNDECIDED
    assert Sides(looks=5, below=5).stakes.answer(0.05) is Conclusion.NOT_WORSE
    assert Sides(looks=5, above=5).stakes.answer(0.05) is Conclusion.WORSE


def test_a_look_bets_on_what_explained_the_looks_before() -> None:
    """A rate that stays as it was is found quickly; by the same shares each time it would take more looks."""
    stable = Counts(1_000, 10)

    def growth(before: int, bad: int) -> float:
        known = with_counts(RateEvidence(), Counts(1_000, before), stable, effect=0.05)
        after = with_counts(known, Counts(1_000, bad), stable, effect=0.05)
        return after.stakes.log_worse - known.stakes.log_worse

    assert growth(before=210, bad=210) > growth(before=85, bad=210) + 10
    assert growth(before=85, bad=85) > growth(before=210, bad=85) + 5


def test_a_sudden_change_of_both_rates_does_not_lose_a_whole_stake() -> None:
    """In an outage behind both arms, what was learnt before is wrong; a look loses nine tenths at most."""
    calm = with_counts(RateEvidence(), Counts(500, 2), Counts(5_000, 20), effect=0.01)

    after = with_counts(calm, Counts(500, 200), Counts(5_000, 2_000), effect=0.01)

    assert after.stakes.log_not_worse >= calm.stakes.log_not_worse + math.log(0.0999)
    assert after.stakes.log_worse >= calm.stakes.log_worse + math.log(0.0999)


@pytest.mark.parametrize("counts", [Counts(10**9, 0), Counts(10**9, 10**9), Counts(1, 1)])
def test_numbers_stay_finite(counts: Counts) -> None:
    """With as many requests as there may be, all of them good or bad."""
    tally = RateEvidence()
    for _ in range(5):
        tally = with_counts(tally, counts, Counts(10**9, 5), effect=1e-6)

    assert math.isfinite(tally.stakes.log_worse)
    assert math.isfinite(tally.stakes.log_not_worse)
