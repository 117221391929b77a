"""Promise: from one measurement of each metric a person learns how a whole run would end, by the rules of real runs."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.rehearsal import RunRehearsal, rehearsed
from rollouts.core.model.analysis import AnalysisPhase

GOOD, BAD, ERROR = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED, AnalysisPhase.ERROR
NEITHER = AnalysisPhase.INCONCLUSIVE
TEN = {"interval_s": 60, "count": 10}
Metrics = dict[str, tuple[dict[str, Any], AnalysisPhase]]
"""The rules of each, and what each of its measurements comes to."""

ENDS: dict[str, tuple[Metrics, AnalysisPhase, int, float]] = {
    "once": ({"rate": ({}, GOOD)}, GOOD, 1, 0),
    "five times": ({"rate": ({"interval_s": 60, "count": 5}, GOOD)}, GOOD, 5, 240),
    "failures are borne": ({"rate": ({"interval_s": 60, "count": 5, "failure_limit": 2}, BAD)}, BAD, 3, 120),
    "after its delay": ({"rate": ({"initial_delay_s": 30}, NEITHER)}, NEITHER, 1, 30),
    "errors come again after 10 s": ({"rate": ({"interval_s": 60}, ERROR)}, ERROR, 5, 40),
    "in a row": ({"rate": ({"interval_s": 60, "consecutive_success_limit": 3}, GOOD)}, GOOD, 3, 120),
    "the first bad metric ends the run": ({"good": (TEN, GOOD), "bad": (TEN, BAD)}, BAD, 2, 0),
    "a dry run is measured and ends nothing": ({"good": ({}, GOOD), "trial": ({"dry_run": True}, BAD)}, GOOD, 2, 0),
}


def _rehearsed(metrics: Metrics) -> RunRehearsal:
    rules = tuple(MetricRules(name=name, **rules) for name, (rules, _) in metrics.items())
    like = {name: Measurement(phase=phase, started_at_s=1.0, finished_at_s=2.0) for name, (_, phase) in metrics.items()}
    return rehearsed(rules, like)


@pytest.mark.parametrize(("metrics", "phase", "measurements", "took_s"), ENDS.values(), ids=list(ENDS))
def test_the_end_is_that_of_a_real_run(
    metrics: Metrics, phase: AnalysisPhase, measurements: int, took_s: float
) -> None:
    """Limits, counts and intervals are what authors get wrong, and a real run of hours is a slow way to learn it."""
    found = _rehearsed(metrics)

    assert (found.ends, found.status.phase, found.measurements, found.took_s) == (True, phase, measurements, took_s)


def test_a_background_metric_that_succeeds_has_no_end_of_its_own() -> None:
    """It is ended with the update; a rehearsal must not wait for that."""
    found = _rehearsed({"rate": ({"interval_s": 60}, GOOD)})

    assert (found.ends, found.status.phase) == (False, AnalysisPhase.RUNNING)
