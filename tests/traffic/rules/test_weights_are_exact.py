"""Promise: two whole numbers whose quotient is the share, over the user's own total where that can be."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollouts.errors import Unroutable
from rollouts.traffic.rules.weights import WeightPair, weights_for

MOST = 1_000_000
SHARES = st.fractions(0, 1, max_denominator=1000)
PAIRS = st.builds(WeightPair, st.integers(0, 500), st.integers(0, 500)).filter(
    lambda pair: pair.stable + pair.canary > 0
)


@given(share=SHARES, users=PAIRS)
@example(share=Fraction(1, 1000), users=WeightPair(100, 0))
@example(share=Fraction(1, 2), users=WeightPair(3, 1))
@example(share=Fraction(0), users=WeightPair(0, 7))
def test_the_share_is_said_exactly_over_the_least_multiple_of_the_users_total(
    share: Fraction, users: WeightPair
) -> None:
    """Rounding is what a canary is not for, and whoever reads the object finds their own numbers again."""
    total = users.stable + users.canary
    found = weights_for(share, users=users, most=MOST, fixed_total=False)
    scale, rest = divmod(found.stable + found.canary, total)

    assert (found.share, rest) == (share, 0)
    assert found.stable >= 0
    assert found.canary >= 0
    assert not any((total * smaller * share).denominator == 1 for smaller in range(1, scale))


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
