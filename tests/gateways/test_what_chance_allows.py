"""A count of requests is judged against the chance of each, not against a margin that somebody felt was right."""

from __future__ import annotations

import pytest

from tests.gateways.report import Share


@pytest.mark.parametrize(
    ("percent", "answers", "allowed", "not_allowed"),
    [
        (10, 1500, (113, 189), (112, 190)),
        (1, 2400, (10, 42), (9, 43)),
        (0, 2400, (0,), (1,)),
        (100, 2400, (2400,), (2399,)),
        (25, 2400, (600,), (720,)),
    ],
    ids=["ten percent", "one percent", "zero leaves nothing to chance", "nor does all", "30 % is told from 25"],
)
def test_the_band_holds_999_of_1000(
    percent: float, answers: int, allowed: tuple[int, ...], not_allowed: tuple[int, ...]
) -> None:
    """From the quantile at 0.0005 to the one at 0.9995, both included: a band that everything fits into proves nothing."""
    assert all(Share(percent, answers, count).within_chance for count in allowed)
    assert not any(Share(percent, answers, count).within_chance for count in not_allowed)
