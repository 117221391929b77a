"""Promise: a condition that calls a missing number good is told of by `lint`, with what to write: here it would hold the update.

What the remark says is what is measured: each condition is measured, too.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.evidence import measured
from rollouts.metrics.samples import document
from tests.build import analysis_template
from tests.linted import lint_text

GOOD, BAD, NEITHER = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE
IDIOMS = [
    {"successCondition": "isNaN(result) || result < 0.05"},
    {"successCondition": "isNaN(result[0]) || result[0] < 0.05"},
    {"successCondition": "default(result, 0) == 0"},
    {"successCondition": "len(result) == 0 || result[0] < 0.05"},
    {"successCondition": "isNil(result) || result < 5"},
    {"failureCondition": "default(result, 0) < 5"},
]
GUARDS = [
    {"successCondition": "len(result) > 0 && result[0] < 0.05"},
    {"successCondition": "!isNaN(result[0]) && result[0] < 0.05"},
    {"successCondition": "result[0] < 0.05"},
    {"failureCondition": "isNaN(result[0]) || result[0] > 0.05"},
    {"failureCondition": "len(result) == 0"},
    {"successCondition": "isNaN({{args.x}}) || result < 1"},
    {"successCondition": "result <"},
]


def _remarks(**metric: Any) -> list[str]:
    provider = {"prometheus": {"address": "http://prometheus:9090", "query": "up"}}
    template = analysis_template({"name": "rate", "provider": provider, **metric}, args=[{"name": "x"}])
    report = lint_text(yaml.safe_dump(template))
    return [each.message for each in report.advice if each.rule == "NoEvidence"]


@pytest.mark.parametrize("metric", IDIOMS, ids=str)
def test_a_condition_that_calls_nothing_good_is_told_of(metric: dict[str, str]) -> None:
    """Argo Rollouts measures a success there, and this one would stand still: the author meant a service without requests."""
    (told,) = _remarks(**metric)

    assert next(iter(metric)) in told and "minSamples: 0" in told and "inconclusive" in told
    assert "(fail)" in _remarks(**metric, noData="fail")[0]


@pytest.mark.parametrize("metric", IDIOMS, ids=str)
def test_with_that_setting_the_condition_decides_and_nothing_is_told(metric: dict[str, str]) -> None:
    """That it is the way out is measured: without it nothing is a success, nor a failure."""
    success, failure = metric.get("successCondition", ""), metric.get("failureCondition", "")

    def phases(least: int) -> set[AnalysisPhase]:
        condition = MetricCondition(success=success, failure=failure, min_samples=least)
        samples = (document(nothing) for nothing in (None, [], math.nan, [math.nan]))
        return {measured(each, condition, started_at_s=0.0, finished_at_s=1.0).phase for each in samples}

    assert _remarks(**metric, minSamples=0) == []
    assert (GOOD if success else BAD) in phases(0)
    assert not {GOOD, BAD} & phases(1)


@pytest.mark.parametrize("metric", GUARDS, ids=str)
def test_a_condition_that_asks_for_evidence_is_no_idiom(metric: dict[str, str]) -> None:
    """It calls nothing good that was not measured, or it is heard as it is; and what cannot be read is a problem of its own."""
    assert _remarks(**metric) == []
