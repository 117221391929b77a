"""Promise: whenever somebody looks, the chance that a comparison has given a wrong answer is at most alpha; and it answers early.

docs/compare.md says where no test could answer in less than half of ten looks (`benchmarks/fewest_looks.py`). `ROLLOUTS_DEEP=1`
plays 2,000 comparisons of each kind; `python -m benchmarks.comparisons` writes the table of docs/compare.md.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import statistics

import pytest

from benchmarks.fewest_looks import fewest_looks
from rollouts.core.compare.stakes import Conclusion
from rollouts.core.compare.values import Sides
from tests.core.compare.arms import RateArms, ValueArms, Verdict, most_by_chance

RUNS = 2_000 if os.environ.get("ROLLOUTS_DEEP") == "1" else 80
ALPHA = 0.05
LOOKS_MAX = 30
FIXED_SAMPLES = 10


def rates(canary_bad: float, **more: float) -> RateArms:
    """A canary with a tenth of some 100 requests in a second, looked at every 30 s; stable fails 5 of 1,000."""
    arms = {"canary_requests": 300, "stable_requests": 2_700, "stable_bad": 0.005, **more}
    return RateArms(canary_bad=canary_bad, **arms)  # type: ignore[arg-type]


AS_GOOD: dict[str, RateArms | ValueArms] = {
    "as good": rates(0.005),
    "better": rates(0.001),
    "as good, half of the requests": rates(0.005, canary_requests=1_500, stable_requests=1_500),
    "no failures at all": rates(0.0, stable_bad=0.0),
    "as good, in an outage behind both": rates(0.005, grows_at=3, grows_by=0.05),
    "as good, a latency": ValueArms(ratio=1.0, noise=0.03),
}
AS_BAD: dict[str, RateArms | ValueArms] = {
    "worse by twice the effect": rates(0.025),
    "much worse": rates(0.05),
    "worse, in an outage behind both": rates(0.055, grows_at=2, grows_by=0.05),
    "a worse latency": ValueArms(ratio=1.25, noise=0.03),
}
AT_THE_EDGE: dict[str, RateArms | ValueArms] = {
    "worse by exactly the effect": rates(0.015),
    "worse by exactly the effect, half of the requests": rates(0.015, canary_requests=300, stable_requests=300),
    "a latency at the edge": ValueArms(ratio=1.1),
}


@functools.cache
def _compared(arms: RateArms | ValueArms) -> tuple[Verdict, ...]:
    return tuple(arms.compared(seed, alpha=ALPHA, looks_max=LOOKS_MAX) for seed in range(RUNS))


def _share_of(answer: Conclusion, verdicts: tuple[Verdict, ...]) -> int:
    return sum(each.answer is answer for each in verdicts)


@pytest.mark.parametrize("name", [*AS_GOOD, *AT_THE_EDGE])
def test_a_good_canary_is_seldom_aborted(name: str) -> None:
    """At the edge too, where the chance is greatest."""
    found = _compared({**AS_GOOD, **AT_THE_EDGE}[name])

    assert _share_of(Conclusion.WORSE, found) <= most_by_chance(RUNS, ALPHA)


@pytest.mark.parametrize("name", [*AS_BAD, *AT_THE_EDGE])
def test_a_bad_canary_is_seldom_promoted(name: str) -> None:
    """At the edge too: both answers are wrong there."""
    found = _compared({**AS_BAD, **AT_THE_EDGE}[name])

    assert _share_of(Conclusion.NOT_WORSE, found) <= most_by_chance(RUNS, ALPHA)


@pytest.mark.parametrize("name", ["as good", "no failures at all", "much worse", "as good, half of the requests"])
def test_the_answer_comes_in_less_than_half_of_ten_looks(name: str) -> None:
    """A fixed threshold takes all of its samples before it promotes."""
    found = _compared({**AS_GOOD, **AS_BAD}[name])

    assert statistics.median(each.looks for each in found) < FIXED_SAMPLES / 2


@pytest.mark.parametrize(
    "name", ["as good", "better", "as good, a latency", "worse by twice the effect", "a worse latency"]
)
def test_nearly_all_comparisons_answer(name: str) -> None:
    """A test that says nothing is never wrong."""
    found = _compared({**AS_GOOD, **AS_BAD}[name])

    assert _share_of(Conclusion.UNDECIDED, found) <= RUNS // 20


def test_of_little_traffic_no_test_promotes_early() -> None:
    """60 requests of the canary in a look: it would be expected to fail 0.3 of them, and 0.9 were it worse."""
    fewest = fewest_looks(rates(0.005, canary_requests=60, stable_requests=540), alpha=ALPHA, looks_max=20)

    assert fewest is not None and fewest > 5


@pytest.mark.parametrize("bad", [0.005, 0.025, 0.05])
def test_more_traffic_and_a_clearer_answer_need_no_more_looks(bad: float) -> None:
    """Otherwise the bound would be none."""
    found = [
        fewest_looks(rates(bad, canary_requests=canary, stable_requests=9 * canary), alpha=ALPHA, looks_max=20) or 20
        for canary in (60, 120, 300)
    ]

    assert found == sorted(found, reverse=True)


def test_a_bound_is_not_above_what_was_reached() -> None:
    """Half of these comparisons answer within three looks."""
    arms = AS_GOOD["as good"]
    looks = sorted(arms.compared(seed, alpha=ALPHA, looks_max=20).looks for seed in range(60))

    assert (fewest_looks(arms, alpha=ALPHA, looks_max=20) or 20) <= looks[len(looks) // 2]


def test_values_are_answered_as_early_as_any_test_could() -> None:
    """All on one side are as likely as 1 in 2^n where nothing is true, so four looks prove nothing with an alpha of 5 %."""
    fewest = fewest_looks(ValueArms(ratio=1.0), alpha=ALPHA, looks_max=20)
    first = next(n for n in itertools.count(1) if Sides(looks=n, below=n).stakes.answer(ALPHA) is Conclusion.NOT_WORSE)

    assert fewest == first == math.ceil(math.log2(1 / ALPHA)) == 5
