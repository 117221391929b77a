"""Promise: whatever is wrong with a template or a run of an analysis is told, all of it at once, with its path."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.api.v1alpha1.analysis_template import PLANNED
from rollouts.errors import SpecInvalid, SpecProblem
from tests.api.analysis_specs import BAD, METRIC, TEMPLATE, metric, prometheus, web
from tests.api.specs import Bad, Spec


def _problems(spec: Any, *, of_run: bool = False) -> tuple[SpecProblem, ...]:
    with pytest.raises(SpecInvalid) as refused:
        parse_run(spec) if of_run else parse_template(spec)
    return refused.value.problems


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_broken_rule_of_a_template_is_named_with_its_path(bad: Bad) -> None:
    """A template that fails in the middle of an update is found too late."""
    problems = _problems(bad.spec)

    told = [problem.message for problem in problems if problem.path == bad.path]
    assert any(bad.words in message for message in told), problems


def test_there_is_a_row_for_every_rule_of_a_template() -> None:
    """The table is the list of rules; it shrinks only on purpose."""
    assert len(BAD) >= 65
    assert len({bad.name for bad in BAD}) == len(BAD)
    assert len([bad for bad in BAD if bad.name.endswith("is not carried out")]) == len(PLANNED)


def test_everything_wrong_with_a_template_is_told_at_once() -> None:
    """Types, rules, arguments and places of one template come together."""
    spec = {
        "colour": "red",
        "args": [{"name": "a"}, {"name": "a"}],
        "dryRun": [{"metricName": "("}],
        "metrics": [{**METRIC, "count": "x", "failureLimit": -2, "successCondition": "{{nothing}}"}, 5,
            {"name": "web", "interval": "1", "count": 3, "provider": {"web": {"url": "ftp://x"}, "datadog": {}}}],
    }  # fmt: skip

    assert {problem.path.removeprefix("spec.") for problem in _problems(spec)} == {
        *("colour", "args[1].name", "dryRun[0].metricName", "metrics[0].count", "metrics[0].failureLimit"),
        *("metrics[0].successCondition", "metrics[1]", "metrics[2].provider", "metrics[2].provider.datadog.query"),
        "metrics[2].provider.web.url",
    }


RUN_BAD: list[tuple[str, Spec, str, str]] = [
    ("no metrics", {}, "spec.metrics", "is required"),
    ("an argument without value", {**TEMPLATE, "args": [{"name": "a"}]}, "spec.args[0]", "has no value"),
    ("an argument that is still to be taken from a Rollout",
        {**TEMPLATE, "args": [{"name": "a", "valueFrom": {"podTemplateHashValue": "Stable"}}]}, "spec.args[0]",
        "has no value"),
    ("a place that nothing fills", metric(interval="{{args.a}}"), "spec.metrics[0].interval", "has no value"),
    ("a place in the name of a field", web(method="PUT", jsonBody={"{{args.a}}": 1}), "", "has no value"),
    ("a number that is none once it is there", {"args": [{"name": "a", "value": "many"}], **metric(count="{{args.a}}")},
        "spec.metrics[0].count", "must be an integer, not 'many'"),
    ("a limit that is broken once it is there",
        {"args": [{"name": "a", "value": "9"}], **metric(count=1, failureLimit="{{args.a}}")}, "spec.metrics[0].count",
        "which is 9"),
    ("two names that are one once they are there",
        {"args": [{"name": "a", "value": "errors"}], "metrics": [METRIC, {**METRIC, "name": "{{args.a}}"}]},
        "spec.metrics[1].name", "spec.metrics[0]"),
    ("a dry run of nothing", {**TEMPLATE, "dryRun": [{"metricName": "latency"}]}, "spec.dryRun[0].metricName",
        "matches no metric; there are: errors"),
    ("retention of nothing", {**TEMPLATE, "measurementRetention": [{"metricName": "^x", "limit": 3}]},
        "spec.measurementRetention[0].metricName", "matches no metric"),
    ("a header of two lines once it is there",
        {"args": [{"name": "a", "value": "b\r\nC: d"}], **prometheus(headers=[{"key": "A", "value": "{{args.a}}"}])},
        "spec.metrics[0].provider.prometheus.headers[0].value", "one line"),
    ("a URL that is none once it is there", {"args": [{"name": "a", "value": "gopher://x"}], **web(url="{{args.a}}")},
        "spec.metrics[0].provider.web.url", "http://"),
    ("a template that grows",
        {"args": [{"name": "a", "value": "x" * 4000}], **web(method="PUT", jsonBody=["{{args.a}}" * 1000])},
        "spec.metrics[0]", "at most 131072 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "path", "words"), [row[1:] for row in RUN_BAD], ids=[row[0] for row in RUN_BAD])
def test_a_broken_rule_of_a_run_is_named_with_its_path(spec: Spec, path: str, words: str) -> None:
    """What shows only with the values of the arguments shows before anything is measured."""
    problems = _problems(spec, of_run=True)

    assert any(words in problem.message for problem in problems if path in ("", problem.path)), problems


@pytest.mark.parametrize(
    "spec", [None, 5, [], "x", {"metrics": None}, {"metrics": {}}, {"metrics": [None]}, {"args": 1}]
)
def test_what_is_no_template_is_refused(spec: Any) -> None:
    """From a file, or from an API server that does not check."""
    assert _problems(spec)
    assert _problems(spec, of_run=True)


@pytest.mark.parametrize(
    "value", ["\ud800", {"\ud800": 1}, float("nan"), datetime.date(2026, 1, 31), {(1, 2): 3}], ids=repr
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    """A YAML file may have half of a surrogate pair, NaN, a day, and objects whose names are lists; nobody could be sent them."""
    (problem,) = _problems(web(method="PUT", jsonBody={"a": value}))

    assert problem.path == "spec"
    assert "cannot be written as JSON" in problem.message


@pytest.mark.parametrize("pattern", ["(a+)+$", "(.*)*(.*)*(.*)*x", "(x|x|x)*y"])
def test_a_rule_about_names_cannot_stop_the_controller(pattern: str) -> None:
    """Each of them takes Python's own engine longer than anybody waits."""
    spec = {"metrics": [{**METRIC, "name": "a" * 120 + "!"}], "dryRun": [{"metricName": pattern}]}

    (problem,) = _problems(spec, of_run=True)
    assert "matches no metric" in problem.message
