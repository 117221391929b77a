"""Promise: from one measurement of each metric a person learns how a whole run would end, by the rules of real runs."""

from __future__ import annotations

import pytest

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.rehearsal import rehearsed
from rollouts.core.model.analysis import AnalysisPhase


def measurement(phase: AnalysisPhase) -> Measurement:
    """One that is finished."""
    return Measurement(phase=phase, started_at_s=1.0, finished_at_s=2.0)


@pytest.mark.parametrize(
    ("rules", "phase", "ends", "measurements", "took_s"),
    [
        (MetricRules(name="rate"), AnalysisPhase.SUCCESSFUL, AnalysisPhase.SUCCESSFUL, 1, 0),
        (MetricRules(name="rate", interval_s=60, count=5), AnalysisPhase.SUCCESSFUL, AnalysisPhase.SUCCESSFUL, 5, 240),
        (MetricRules(name="rate", interval_s=60, count=5, failure_limit=2), AnalysisPhase.FAILED, AnalysisPhase.FAILED, 3,
            120),
        (MetricRules(name="rate", initial_delay_s=30), AnalysisPhase.INCONCLUSIVE, AnalysisPhase.INCONCLUSIVE, 1, 30),
        (MetricRules(name="rate", interval_s=60), AnalysisPhase.ERROR, AnalysisPhase.ERROR, 5, 40),
        (MetricRules(name="rate", interval_s=60, consecutive_success_limit=3), AnalysisPhase.SUCCESSFUL,
            AnalysisPhase.SUCCESSFUL, 3, 120),
    ],
    ids=["once", "five times", "failures are borne", "after its delay", "errors come again after 10 s", "in a row"],
)  # fmt: skip
def test_the_end_is_that_of_a_real_run(
    rules: MetricRules, phase: AnalysisPhase, ends: AnalysisPhase, measurements: int, took_s: float
) -> None:
    """Limits, counts and intervals are what authors get wrong, and a real run of hours is a slow way to learn it."""
    found = rehearsed((rules,), {"rate": measurement(phase)})

    assert (found.ends, found.status.phase, found.measurements, found.took_s) == (True, ends, measurements, took_s)


def test_a_background_metric_that_succeeds_has_no_end_of_its_own() -> None:
    """It is ended with the update; a rehearsal must not wait for that."""
    found = rehearsed((MetricRules(name="rate", interval_s=60),), {"rate": measurement(AnalysisPhase.SUCCESSFUL)})

    assert (found.ends, found.status.phase) == (False, AnalysisPhase.RUNNING)


def test_the_first_bad_metric_ends_the_run() -> None:
    """The good one has measurements left, and they are not taken."""
    rules = (MetricRules(name="good", interval_s=60, count=10), MetricRules(name="bad", interval_s=60, count=10))

    found = rehearsed(rules, {"good": measurement(AnalysisPhase.SUCCESSFUL), "bad": measurement(AnalysisPhase.FAILED)})

    assert (found.status.phase, found.measurements, found.took_s) == (AnalysisPhase.FAILED, 2, 0)


def test_a_dry_run_metric_ends_nothing() -> None:
    """It is measured and told, and changes no verdict."""
    rules = (MetricRules(name="good"), MetricRules(name="trial", dry_run=True))

    found = rehearsed(
        rules, {"good": measurement(AnalysisPhase.SUCCESSFUL), "trial": measurement(AnalysisPhase.FAILED)}
    )

    assert found.status.phase is AnalysisPhase.SUCCESSFUL
