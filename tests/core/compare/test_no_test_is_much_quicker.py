"""Promise: docs/compare.md says where no test could answer in less than half of ten looks, and that is so.

The bound itself is worked out in `benchmarks/fewest_looks.py`.
"""

from __future__ import annotations

import itertools
import math

import pytest

from benchmarks.fewest_looks import fewest_looks
from rollouts.core.compare.stakes import Conclusion
from rollouts.core.compare.values import Sides
from tests.core.compare.arms import RateArms, ValueArms

ALPHA = 0.05


def rates(canary: int, *, bad: float = 0.005) -> RateArms:
    """A canary with a tenth of the requests; stable fails 5 of 1,000."""
    return RateArms(canary_requests=canary, stable_requests=9 * canary, canary_bad=bad, stable_bad=0.005)


def test_of_little_traffic_no_test_promotes_early() -> None:
    """60 requests of the canary in a look: it would be expected to fail 0.3 of them, and 0.9 were it worse."""
    fewest = fewest_looks(rates(60), alpha=ALPHA, looks_max=20)

    assert fewest is not None
    assert fewest > 5


@pytest.mark.parametrize("bad", [0.005, 0.025, 0.05])
def test_more_traffic_and_a_clearer_answer_need_no_more_looks(bad: float) -> None:
    """Otherwise the bound would be none."""
    found = [fewest_looks(rates(canary, bad=bad), alpha=ALPHA, looks_max=20) or 20 for canary in (60, 120, 300)]

    assert found == sorted(found, reverse=True)


def test_a_bound_is_not_above_what_was_reached() -> None:
    """Half of these comparisons answer within three looks."""
    arms = rates(300)
    looks = sorted(arms.compared(seed, alpha=ALPHA, looks_max=20).looks for seed in range(60))

    assert (fewest_looks(arms, alpha=ALPHA, looks_max=20) or 20) <= looks[len(looks) // 2]


def test_values_are_answered_as_early_as_any_test_could() -> None:
    """All on one side are as likely as 1 in 2^n where nothing is true, so four looks prove nothing with an alpha of 5 %."""
    fewest = fewest_looks(ValueArms(ratio=1.0), alpha=ALPHA, looks_max=20)
    first = next(
        looks
        for looks in itertools.count(1)
        if Sides(looks=looks, below=looks).stakes.answer(ALPHA) is Conclusion.NOT_WORSE
    )

    assert fewest == first == math.ceil(math.log2(1 / ALPHA)) == 5
