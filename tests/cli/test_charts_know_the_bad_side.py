"""Promise: what a chart shades as bad is bad by the metric's own conditions, or nothing is shaded."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.cli.view.runs import run_line
from rollouts.cli.view.thresholds import Threshold, thresholds_of
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.errors import ExpressionFailed
from rollouts.metrics.conditions import condition_of
from tests.cli.runs import measurement, metric, result, run

NUMBERS = (-7.0, -5.0, -1.0, 0.0, 0.05, 0.1, 0.5, 0.99, 1.0, 2.0, 5.0, 100.0)
ALONE = {
    "result[0] >= 0.99": "<0.99",
    "result < 5": ">=5",
    "0.5 > result[0]": ">=0.5",
    "result[0] >= 0.1 && result[0] <= 5": "<0.1 >5",
    "!(result > 5)": ">5",
    "isNaN(result) || result <= 0.05": ">0.05",
    "!isNaN(result) && result <= 0.05": ">0.05",
    "len(result) == 0 || result[0] < 1": ">=1",
    "result.size() > 0 && result[0] > -5": "<=-5",
    "default(result, 0) < 5": ">=5",
    "asFloat(result[0]) < 5": ">=5",
    "all(result, {# < 1})": ">=1",
    "result[0] == 1": "",
    "result[0] < 1 || result[0] > 5": "",
    "result[0] * 2 < 1": "",
    "result[1] < 1": "",
    "len(result) < 5": "",
    "result[0] < 1 ? true : false": "",
    "not a condition": "",
    "": "",
}


def told(thresholds: tuple[Threshold, ...]) -> str:
    """In short: `<0.1 >=5`, what is bad; `?<0.1`, what is inconclusive."""
    return " ".join(
        f"{'?' if each.undecided else ''}{'>' if each.above else '<'}{'=' if each.included else ''}{each.value:g}"
        for each in thresholds
    )


@pytest.mark.parametrize(("condition", "bad"), ALONE.items())
def test_a_condition_says_from_where_on_a_number_is_bad(condition: str, bad: str) -> None:
    """What is bad of a condition of success; what is met of the same one as a condition of failure is the rest."""
    assert told(thresholds_of(condition, good=True)) == bad


@pytest.mark.parametrize(
    ("condition", "bad"),
    [
        ("result[0] > 0.05", ">0.05"),
        ("result[0] < 0.1 || result[0] > 5", "<0.1 >5"),
        ("!isNaN(result) && result > 5", ">5"),
        ("result[0] > 1 && result[0] < 5", ""),
        ("!(result[0] >= 0.99)", "<0.99"),
    ],
)
def test_a_condition_of_failure_is_bad_where_it_is_met(condition: str, bad: str) -> None:
    """There either of two parts is enough, and both together say nothing of one number's side."""
    assert told(thresholds_of(condition, good=False)) == bad


@pytest.mark.parametrize("condition", [each for each, bad in ALONE.items() if bad])
def test_no_number_on_the_bad_side_meets_the_condition_itself(condition: str) -> None:
    """The controller's own evaluation is what counts; a shaded point that it calls good would be a lie."""
    shaped = [
        number if "result[0]" not in condition and "(result, {" not in condition else [number] for number in NUMBERS
    ]
    if "size()" in condition or "len(" in condition:
        shaped = [[number] for number in NUMBERS]
    compiled, thresholds = condition_of(condition, defaults=False), thresholds_of(condition, good=True)
    for number, given in zip(NUMBERS, shaped, strict=True):
        try:
            holds = compiled.holds(given, now_s=0.0)
        except ExpressionFailed as error:
            raise AssertionError((condition, given)) from error
        assert holds is not any(each.is_bad(number) for each in thresholds), (condition, number)


def test_a_number_with_a_name_has_the_threshold_of_its_name() -> None:
    """`result.headroomPercent` says nothing about `result.pods`."""
    condition = "result.headroomPercent >= 20 && result.pods > 2"
    assert told(thresholds_of(condition, good=True, name="headroomPercent")) == "<20"
    assert told(thresholds_of(condition, good=True, name="pods")) == "<=2"
    assert told(thresholds_of(condition, good=True)) == ""


def test_a_run_has_the_thresholds_of_both_conditions_with_its_arguments() -> None:
    """An argument is part of the condition; of pods the restarts count, and of a comparison there is none."""

    def of(value: str, **fields: Any) -> str:
        measured = result(measurement(value), phase=AnalysisPhase.RUNNING)
        status = RunStatus(phase=AnalysisPhase.RUNNING, results=(measured,), started_at_s=0.0)
        args = [{"name": "least", "value": "0.95"}]
        (line,) = run_line(run(status=status, args=args, metrics=[metric(**fields)])).metrics
        return told(line.thresholds)

    both = {"successCondition": "result[0] >= {{args.least}}", "failureCondition": "result[0] < 0.5"}
    assert of("[0.97]", **both) == "?<0.95 <0.5"
    assert of("nothing", **both) == ""
    assert of("[3, 1, 2]", provider={"kubernetes": {"maxRestarts": 2}}) == ">2"
    assert of("[3, 1, 2]", provider={"kubernetes": {}}) == ">0"
    assert of("0.2", provider={"compare": {"effect": "1%"}}) == ""
    named = {"successCondition": "result.pods > 2 && result.ageSeconds < 60"}
    assert of("pods=3 ageSeconds=9", **named) == "<=2"
