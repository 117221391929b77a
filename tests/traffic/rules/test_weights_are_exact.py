"""Promise: two whole numbers whose quotient is the share, over the user's own total where that can be."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.errors import Unroutable
from rollouts.traffic.rules.weights import WeightPair, weights_for

MOST = 1_000_000
SHARES = st.fractions(0, 1, max_denominator=1000)
PAIRS = st.builds(WeightPair, st.integers(0, 500), st.integers(0, 500)).filter(
    lambda pair: pair.stable + pair.canary > 0
)


@given(share=SHARES, users=PAIRS)
def test_the_share_is_said_exactly(share: Fraction, users: WeightPair) -> None:
    """A tenth of a percent is a tenth of a percent: rounding is what a canary is not for."""
    found = weights_for(share, users=users, most=MOST, fixed_total=False)

    assert found.share == share
    assert found.stable >= 0
    assert found.canary >= 0


@given(share=SHARES, users=PAIRS)
def test_the_total_is_the_least_multiple_of_the_users_that_can(share: Fraction, users: WeightPair) -> None:
    """Whoever reads the object finds their own numbers again."""
    total = users.stable + users.canary
    found = weights_for(share, users=users, most=MOST, fixed_total=False)
    scale, rest = divmod(found.stable + found.canary, total)

    assert rest == 0
    assert not any((total * smaller * share).denominator == 1 for smaller in range(1, scale))


@pytest.mark.parametrize(
    ("users", "share", "found"),
    [
        (WeightPair(3, 1), Fraction(1, 2), WeightPair(2, 2)),
        (WeightPair(3, 1), Fraction(1, 4), WeightPair(3, 1)),
        (WeightPair(100, 0), Fraction(5, 100), WeightPair(95, 5)),
        (WeightPair(100, 0), Fraction(1, 1000), WeightPair(999, 1)),
        (WeightPair(1, 0), Fraction(5, 100), WeightPair(19, 1)),
        (WeightPair(0, 7), Fraction(0), WeightPair(7, 0)),
    ],
)
def test_known_pairs(users: WeightPair, share: Fraction, found: WeightPair) -> None:
    """What people will see in their objects."""
    assert weights_for(share, users=users, most=MOST, fixed_total=False) == found


def test_other_backends_keep_their_part() -> None:
    """Beside others the pair's total must stay: 2.5 % of 90 is no whole number, 10 % is."""
    assert weights_for(Fraction(1, 10), users=WeightPair(90, 0), most=MOST, fixed_total=True) == WeightPair(81, 9)
    with pytest.raises(Unroutable, match="multiply every weight of the rule by 4"):
        weights_for(Fraction(1, 40), users=WeightPair(90, 0), most=MOST, fixed_total=True)


def test_a_weight_that_the_api_would_refuse_is_refused_in_words() -> None:
    """422 from the API server would say nothing about the step that asked for it."""
    with pytest.raises(Unroutable, match="total weight of 3000000"):
        weights_for(Fraction(1, 3), users=WeightPair(1_000_000, 0), most=MOST, fixed_total=False)


def test_0_and_0_is_nobody() -> None:
    """Envoy Gateway answers 500, Traefik 503, and Contour shares half and half."""
    with pytest.raises(Unroutable, match="both Services are 0"):
        weights_for(Fraction(1, 2), users=WeightPair(0, 0), most=MOST, fixed_total=False)
