"""Promise: each manifest of Argo Rollouts' documentation of analysis is taken, or refused by name, and the page tells of it."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.api.spec.analysis.arguments import Updated
from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.api.spec.analysis.templates import AnalysisUse, TemplateName, run_of
from rollouts.api.spec.parse import parse_spec
from rollouts.api.v1alpha1.analysis import TemplateRef
from rollouts.api.v1alpha1.analysis_template import TemplateArgument
from rollouts.errors import SpecInvalid
from tests.api.argo_examples import ERROR_RATE, RATES, SERVICE, Example, from_field, rate, template
from tests.api.argo_provider_examples import ALL
from tests.api.specs import CANARY
from tests.architecture.test_differences_from_argo_are_held import ROWS
from tests.metrics.evaluated import assert_can_be_evaluated

SUBJECTS = {row[0] for row in ROWS}


def _read(example: Example) -> None:
    match example.kind:
        case "Rollout":
            parse_spec(example.spec)
        case "AnalysisTemplate" | "ClusterAnalysisTemplate":
            parse_template(example.spec)
        case "AnalysisRun":
            parse_run(example.spec)


def test_there_are_all_of_them() -> None:
    """Of each kind, and none twice."""
    assert len(ALL) >= 70
    assert len({each.where for each in ALL}) == len(ALL)
    assert {each.kind for each in ALL} == {"Rollout", "AnalysisTemplate", "ClusterAnalysisTemplate", "AnalysisRun"}


@pytest.mark.parametrize("example", ALL, ids=lambda each: each.where)
def test_an_example_is_taken_or_refused_by_name(example: Example) -> None:
    """Whoever comes from Argo Rollouts changes `apiVersion` and learns what is left to do, all of it, before anything runs."""
    problems: dict[str, str] = {}
    try:
        _read(example)
    except SpecInvalid as refused:
        problems = {each.path: each.message for each in refused.problems}

    assert set(problems) == set(example.refused)
    assert all(words in problems[path] for path, words in example.refused.items())


@pytest.mark.parametrize("example", [each for each in ALL if "metrics" in each.spec], ids=lambda each: each.where)
def test_its_conditions_can_be_evaluated(example: Example) -> None:
    """A condition that is understood only when it is evaluated is an Error in the middle of somebody's update."""
    for metric in example.spec["metrics"]:
        for name in ("successCondition", "failureCondition"):
            if metric.get(name) and "{{" not in metric[name]:
                assert_can_be_evaluated(metric[name])


@pytest.mark.parametrize("example", [each for each in ALL if each.differs], ids=lambda each: each.where)
def test_what_it_means_here_is_on_the_page(example: Example) -> None:
    """A difference that nobody is told of is found in production."""
    assert set(example.differs) <= SUBJECTS


def test_what_is_refused_has_a_row() -> None:
    """The page says why, and what to do instead."""
    assert [each.where for each in ALL if each.refused and not each.differs] == []


def _run(args: list[dict[str, Any]], *names: str, **templates: dict[str, Any]) -> dict[str, Any]:
    use = AnalysisUse(
        path="spec.strategy.canary.analysis",
        templates=[TemplateRef.model_validate({"templateName": name}) for name in names],
        args=[TemplateArgument.model_validate(each) for each in args],
    )
    labels = {"labels": {"env": "dev"}}
    rollout = {"metadata": {"name": "guestbook", "namespace": "shop", **labels}, "spec": CANARY}

    def find(asked: TemplateName) -> dict[str, Any] | None:
        return templates.get(asked.name.replace("-", "_"))

    return run_of(use, find, Updated(manifest=rollout, stable="a1", latest="b2"))


@pytest.mark.parametrize("names", [("success-rate", "error-rate"), ("rates",)])
def test_several_templates_become_the_run_that_argo_shows(names: tuple[str, ...]) -> None:
    """Named by the Rollout, or by a template: the same metrics, and one argument."""
    rates = {
        "args": [{"name": "service-name"}],
        "templates": [{"templateName": each} for each in ("success-rate", "error-rate")],
    }

    run = _run([SERVICE], *names, success_rate=template(rate(**RATES)), error_rate=template(ERROR_RATE), rates=rates)

    assert run == {"args": [SERVICE], "metrics": [rate(**RATES), ERROR_RATE]}


def test_fields_of_the_rollout_become_values() -> None:
    """All but those of Argo's status: ours is another one, and who names a field of it is told so before the run."""
    asked = template(rate(), args=[{"name": "service-name"}])

    run = _run([from_field("service-name", "metadata.labels['env']")], "one", one=asked)
    with pytest.raises(SpecInvalid, match=r"has no status\.alb\.canaryTargetGroup\.name"):
        _run([from_field("service-name", "status.alb.canaryTargetGroup.name")], "one", one=asked)

    assert run["args"] == [{"name": "service-name", "value": "dev"}]
