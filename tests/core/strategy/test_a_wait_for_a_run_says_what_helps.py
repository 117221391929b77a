"""Promise: whoever waits for an AnalysisRun reads how long it takes, and what ends one that does not end by itself."""

from __future__ import annotations

import math

import pytest

from rollouts.core.model.analysis import Analysis
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import Analyze, SetWeight
from tests.core.model import World
from tests.core.worlds import edited, running, settled

CHECK = Analysis(path="spec.strategy.canary.analysis", settings={}, templates=("success-rate",))


def waiting() -> World:
    """Revision b waits for the run of its second step, which nobody measures."""
    strategy = Canary(steps=(SetWeight(50), Analyze(CHECK), SetWeight(75)))
    return settled(edited(replace(running(strategy), unmeasured=True), revision="b"))


@pytest.mark.parametrize(("errors", "told"), [(0, False), (3, False), (4, True), (10_000, True)])
def test_a_run_that_gets_no_answers_says_what_helps(*, errors: int, told: bool) -> None:
    """A metric without count and with a high `consecutiveErrorLimit` asks forever; nothing else would say so."""
    there = waiting()

    there = settled(replace(there, runs=tuple(replace(each, errors_in_a_row=errors) for each in there.runs)))

    unjudged = "rollouts promote cart -n shop --skip-analysis"
    ways = (f"rollouts analysis terminate {there.runs[0].name} -n shop", unjudged, "rollouts abort cart -n shop")
    assert [each in there.status.message for each in ways] == [told] * 3
    assert there.status.waiting_for is not None and there.status.waiting_for.reason is Reason.ANALYSIS_RUNNING


@pytest.mark.parametrize(
    ("shortest_s", "words", "ends"),
    [
        (None, "", False),
        (5.0, "", False),
        (300.0, ", which takes 300 s at least", False),
        (math.inf, ", which has no count of measurements and goes on until somebody ends it", True),
    ],
)
def test_a_wait_for_a_run_says_how_long_it_takes(shortest_s: float | None, words: str, *, ends: bool) -> None:
    """A step whose metric has no count stands there forever, and looked like one that is nearly done."""
    there = waiting()

    there = settled(replace(there, runs=tuple(replace(each, shortest_s=shortest_s) for each in there.runs)))

    (run,) = there.runs
    assert there.status.message.startswith(f"step 1: waiting for AnalysisRun {run.name}{words}")
    assert (f"rollouts analysis terminate {run.name} -n shop" in there.status.message) == ends
