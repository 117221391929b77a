"""Promise: whoever reads why a measurement is no success reads the condition that decided, on one line, and never too much of it.

A template has several metrics, each with two conditions and arguments in them: "the success condition does not hold" alone sends
its reader to the run's YAML. Of the answer only numbers are shown: a text may be anything, and more people read a status.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.evidence import QUOTED_MAX, measured
from rollouts.metrics.samples import VALUES_MAX, Absence, NoEvidence, document

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
    """The one of two that decided; both where neither holds. About missing numbers it also says what is wrong."""
    nan = _message(MetricCondition(failure="isNaN(result)"), float("nan"))

    assert _message(condition) == message
    assert nan == "a number is NaN or infinite, and the failure condition holds: isNaN(result)"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (True, "true or false"),
        (2.0, "one number, result"),
        ("slow", "a text"),
        ([1.0], "a list"),
        ({"a": 1.0}, "an object"),
    ],
)
def test_a_condition_that_cannot_be_told_names_what_the_answer_is(answer: Any, kind: str) -> None:
    """The author expected another answer. Its text is not shown, so its kind is all there is to go by."""
    condition = MetricCondition(success="result.b[1] > 5")
    message = measured(document(answer), condition, started_at_s=0.0, finished_at_s=1.0).message

    assert message.startswith(f"successCondition cannot be told of {kind}: ")


def test_a_condition_that_cannot_be_read_says_why() -> None:
    """A run may come from a template of before, when the condition was not checked."""
    found = measured(document(1.0), MetricCondition(success="result >"), started_at_s=0.0, finished_at_s=1.0)

    assert found.phase is AnalysisPhase.ERROR
    assert "successCondition" in found.message


def test_an_answer_that_is_too_large_is_an_error_and_not_a_lack_of_data() -> None:
    """`noData: success` must not make one of it."""
    found = document([0] * (VALUES_MAX + 1))

    assert isinstance(found, NoEvidence)
    assert found.absence is Absence.ERROR


@pytest.mark.parametrize("condition", [MetricCondition(success=LONG), MetricCondition(success=LONG, failure=LONG)])
def test_a_long_condition_is_shortened(condition: MetricCondition) -> None:
    """There is a message for each measurement, and a run of 64 metrics has to fit into one object."""
    found = measured(document(1.0), condition, started_at_s=0.0, finished_at_s=1.0)

    assert found.phase in (AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE)
    assert "result == 2 || result == 3" in found.message and "…" in found.message
    assert len(found.message) <= 2 * QUOTED_MAX + 80


MARK = "m4rk-of-the-answer"
ANSWERS: list[Any] = [MARK, {"a": MARK}, [MARK], {MARK: 1}, {"a": {"b": MARK}}, [{"a": [MARK]}]]
OF = ("result", "result.a", "result[0]", "result.a.b", "result[0].a[0]")
CONDITIONS = [
    *(f"{call}({of}) > 1" for call, of in itertools.product(("asInt", "asFloat", "len", "abs", "isNaN"), OF)),
    *(
        f"{of} {sign}"
        for of, sign in itertools.product(OF, ("> 1", "== 1", "in [1]", "+ 1 > 2", "&& true", "matches '['"))
    ),
    *(f"'a' matches {of}" for of in OF),
    *("date(result) > now()", "duration(result) > duration('1m')", "all(result, # > 1)", "result.zz == 1"),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_neither_a_value_nor_a_reason_has_a_part_of_it(answer: Any) -> None:
    """Whatever a condition does with the text, and however it fails."""
    for text in CONDITIONS:
        for condition in (MetricCondition(success=text), MetricCondition(failure=text)):
            found = measured(document(answer), condition, started_at_s=0.0, finished_at_s=1.0)
            assert MARK not in f"{found.value} {found.message}", text
