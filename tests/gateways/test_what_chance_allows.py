"""A count of requests is judged against the chance of each, not against a margin that somebody felt was right."""

from __future__ import annotations

import pytest

from tests.gateways.shares import Share


@pytest.mark.parametrize(("low", "high", "answers", "percent"), [(113, 189, 1500, 10), (10, 42, 2400, 1)])
def test_the_band_holds_999_of_1000(low: int, high: int, answers: int, percent: float) -> None:
    """From the quantile at 0.0005 to the one at 0.9995, both included."""
    inside = [Share(percent, answers, count).within_chance for count in (low - 1, low, high, high + 1)]

    assert inside == [False, True, True, False]


def test_nothing_is_left_to_chance_at_zero_and_at_all() -> None:
    """One request to the canary at weight 0 is a fault, as is one to the stable version at weight 100."""
    assert Share(0, 2400, 0).within_chance
    assert not Share(0, 2400, 1).within_chance
    assert Share(100, 2400, 2400).within_chance
    assert not Share(100, 2400, 2399).within_chance


def test_a_wrong_weight_is_found_out() -> None:
    """2,400 answers tell 25 % from 30 %: a band that everything fits into would prove nothing."""
    assert not Share(25, 2400, 720).within_chance
