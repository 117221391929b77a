"""Promise: whoever reads why a measurement is no success reads the condition that decided, on one line, and never too much of it.

A template has several metrics, each with two conditions and arguments in them: "the success condition does not hold" alone sends
its reader to the run's YAML.
"""

from __future__ import annotations

import pytest

from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.evidence import QUOTED_MAX, measured
from rollouts.metrics.samples import document

LONG = " || ".join(f"result == {number}" for number in range(2, 20))


def _message(condition: MetricCondition, value: float = 1.0) -> str:
    return measured(document(value), condition, started_at_s=0.0, finished_at_s=1.0).message


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (MetricCondition(success="result >= 5"), "the success condition does not hold: result >= 5"),
        (MetricCondition(failure="result < 5"), "the failure condition holds: result < 5"),
        (MetricCondition(success="result > 5", failure="result < 5"), "the failure condition holds: result < 5"),
        (
            MetricCondition(success="result > 5", failure="result > 9"),
            "neither the success condition nor the failure condition holds: result > 5; result > 9",
        ),
        (MetricCondition(success="result >\n   5"), "the success condition does not hold: result > 5"),
        (MetricCondition(success="result >= 1"), ""),
    ],
)
def test_the_condition_that_decided_is_in_the_message(condition: MetricCondition, message: str) -> None:
    """The one of two that decided; both where neither holds."""
    assert _message(condition) == message


def test_a_failure_condition_that_asks_about_missing_numbers_is_quoted_too() -> None:
    """There the message also says what is wrong with the evidence."""
    message = _message(MetricCondition(failure="isNaN(result)"), float("nan"))

    assert message == "a number is NaN or infinite, and the failure condition holds: isNaN(result)"


@pytest.mark.parametrize("condition", [MetricCondition(success=LONG), MetricCondition(success=LONG, failure=LONG)])
def test_a_long_condition_is_shortened(condition: MetricCondition) -> None:
    """There is a message for each measurement, and a run of 64 metrics has to fit into one object."""
    found = measured(document(1.0), condition, started_at_s=0.0, finished_at_s=1.0)

    assert found.phase in (AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE)
    assert "result == 2 || result == 3" in found.message and "…" in found.message
    assert len(found.message) <= 2 * QUOTED_MAX + 80
