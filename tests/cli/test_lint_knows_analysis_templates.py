"""Promise: `rollouts lint` names what is wrong in an analysis template, with its line, before anybody relies on its verdict.

A condition that calls a missing number good is told of, with what to write: Argo Rollouts goes on there, and here it would hold
the update. What the remark says is measured.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint_output import summary
from rollouts.cli.commands.lint_rules import LintProblem
from rollouts.cli.commands.metric_names import metric_names
from rollouts.cli.exits import Exit
from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.errors import SettingsInvalid, Unanswered
from rollouts.metrics.evidence import measured
from rollouts.metrics.samples import document
from rollouts.objects import Manifest
from tests import build
from tests.cli.command_line import CommandLine
from tests.linted import lint_text
from tests.probes.servers import ok, raw, serving

TEMPLATE = """\
apiVersion: rollouts.dev/v1alpha1
kind: {kind}
metadata: {{name: rate}}
spec:
  args:
  - name: limit
  metrics:
  - name: rate
    interval: 1m
    {condition}
    provider:
      prometheus: {{query: up}}
"""


@pytest.mark.parametrize("kind", ["AnalysisTemplate", "ClusterAnalysisTemplate"])
@pytest.mark.parametrize(
    "condition", ['successCondition: "result[0] < 0.95"', 'successCondition: "result[0] < {{args.limit}}"']
)
def test_a_good_template_passes(kind: str, condition: str) -> None:
    """A condition with an argument in it is known when the argument is, and no sooner."""
    report = lint_text(TEMPLATE.format(kind=kind, condition=condition))

    assert (report.problems, report.counts) == ([], {kind: 1})
    assert summary([report]) == "0 Rollouts and 1 analysis template checked, no problems"


@pytest.mark.parametrize(
    ("condition", "line", "words"),
    [
        ('successCondition: "result[0] <"', 10, "spec.metrics[0].successCondition"),
        ('successCondition: "true"', 10, "does not look at what was measured"),
        ('failureCondition: "sum(result) > 1"', 10, "spec.metrics[0].failureCondition"),
        ("count: many", 10, "spec.metrics[0].count"),
        ("failureLimit: x", 10, "spec.metrics[0].failureLimit"),
    ],
)
def test_a_bad_one_is_told_with_its_line(condition: str, line: int, words: str) -> None:
    """A condition that nobody can evaluate would make every measurement an Error, hours later."""
    report = lint_text(TEMPLATE.format(kind="AnalysisTemplate", condition=condition))

    told = [each for each in report.problems if words in each.message]
    assert [each.line for each in told] == [line], report.problems
    assert told[0].subject == "AnalysisTemplate rate"


ROLLOUT = """\
apiVersion: rollouts.dev/v1alpha1
kind: Rollout
metadata: {{name: cart, labels: {{team: shop}}}}
spec:
  selector: {{matchLabels: {{app: cart}}}}
  strategy:
    canary:
      steps:
      - analysis:
          templates: [{{templateName: rate}}{more}]
          args: [{args}]
  template:
    metadata: {{labels: {{app: cart}}}}
    spec: {{containers: [{{name: app, image: "app:1"}}]}}
"""
WITH_LIMIT = TEMPLATE.format(kind="AnalysisTemplate", condition='successCondition: "result[0] < {{args.limit}}"')


SERVER = """apiVersion: rollouts.dev/v1alpha1
kind: MetricProvider
metadata: {name: thanos}
spec:
  url: https://thanos.monitoring:9090
  bearer: {file: /mnt/token}
"""


def test_a_metric_provider_is_checked_as_the_controller_checks_it() -> None:
    """Whichever folder of credentials its controller has; a password in the place of a file is not repeated."""
    good = lint_text(SERVER)
    assert (good.problems, good.skipped) == ([], [])
    assert summary([good]) == "0 Rollouts and 1 MetricProvider checked, no problems"

    bad = lint_text(SERVER.replace("https://", "ftp://").replace("{file: /mnt/token}", "{file: ../token}"))
    assert [(each.line, each.message.partition(":")[0]) for each in bad.problems] == [(5, "spec.url"), (4, "spec")]


def problems_of(args: str, template: str = WITH_LIMIT, more: str = "") -> list[tuple[int, str]]:
    """Line and text of what is wrong with a Rollout that comes before its template."""
    report = lint_text(f"{ROLLOUT.format(args=args, more=more)}---\n{template}")
    assert report.counts["Rollout"] == 1 and report.counts.total() == 2
    return [(each.line, each.message) for each in report.problems if each.subject == "Rollout cart"]


FIELD = '{{name: limit, valueFrom: {{fieldRef: {{fieldPath: "{}"}}}}}}'
FIELDS = ("metadata.generation", "status.replicas", "metadata.labels['team']")


@pytest.mark.parametrize("args", ['{name: limit, value: "0.1"}', *map(FIELD.format, FIELDS)])
def test_a_rollout_with_all_that_its_template_asks_for_passes(args: str) -> None:
    """What only the cluster knows is taken for granted."""
    assert not [message for _, message in problems_of(args) if "the Rollout has no" in message]


ANALYSIS = "spec.strategy.canary.steps[0].analysis"


@pytest.mark.parametrize(
    ("args", "line", "words"),
    [
        ("", 11, ".args: needs a value for 'limit', which a template asks for"),
        (FIELD.format("metadata.labels['x']"), 11, "the Rollout has no metadata.labels['x']"),
        ('{name: limit, value: "<"}', 9, "metrics[0].successCondition: args.limit is '<' and stands outside of quotes"),
        (r"""{name: limit, value: "'\\q'"}""", 9, ": successCondition of 'rate', with its arguments: "),
    ],
    ids=["no value", "no such field", "another condition", "no condition"],
)
def test_what_a_template_does_not_get_of_its_rollout_is_told(args: str, line: int, words: str) -> None:
    """The run could not be made, and the update would stand at its step. Alone the template says nothing wrong."""
    ((at, message),) = problems_of(args)

    assert at == line
    assert message.startswith(ANALYSIS) and words in message


@pytest.mark.parametrize(
    ("template", "more"),
    [
        (WITH_LIMIT.replace("name: rate}", "name: other}"), ""),
        (WITH_LIMIT.replace("name: rate}", "name: rate, namespace: shop}"), ""),
        (WITH_LIMIT.replace("AnalysisTemplate", "ClusterAnalysisTemplate"), ""),
        (WITH_LIMIT, ", {templateName: elsewhere}"),
        (WITH_LIMIT.replace("interval: 1m", "interval: soon"), ""),
    ],
)
def test_what_is_not_in_the_files_is_no_problem_of_the_rollout(template: str, more: str) -> None:
    """It may be in the cluster; and what is wrong with a template is told there."""
    assert problems_of("", template, more) == []


def test_templates_may_be_in_another_file(typed: CommandLine) -> None:
    """As everything may that belongs together."""
    rollout = typed.file(ROLLOUT.format(args="", more=""), name="rollout.yaml")

    typed("lint", "-f", rollout)
    typed("lint", "-f", rollout, "-f", typed.file(WITH_LIMIT, name="template.yaml"), code=1)


WEIGHED = """\
apiVersion: rollouts.dev/v1alpha1
kind: Rollout
metadata: {name: cart}
spec:
  selector: {matchLabels: {app: cart}}
  strategy:
    %s
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: app, image: "app:1"}]}
"""
ANALYSIS_OF_RATE = "{templates: [{templateName: rate}]}"
STEP = WEIGHED % f"canary: {{steps: [{{analysis: {ANALYSIS_OF_RATE}}}]}}"
BACKGROUND = WEIGHED % f"canary: {{analysis: {ANALYSIS_OF_RATE}, steps: [{{pause: {{}}}}]}}"
BEFORE = WEIGHED % f"blueGreen: {{activeService: cart, prePromotionAnalysis: {ANALYSIS_OF_RATE}}}"
AFTER = WEIGHED % f"blueGreen: {{activeService: cart, postPromotionAnalysis: {ANALYSIS_OF_RATE}}}"


def endless(rollout: str, **metric: Any) -> list[str]:
    """The problems of a Rollout that measures with such a metric."""
    measured = {
        "name": "rate",
        "successCondition": "result[0] < 1",
        "provider": {"prometheus": {"query": "up"}},
        **metric,
    }
    args = [{"name": "count", "value": "0"}, {"name": "often", "value": "5"}]
    template = build.analysis_template(measured, name="rate", args=args)
    report = lint_text(f"{rollout}---\n{yaml.safe_dump(template)}")
    assert {each.rule for each in report.problems} <= {LintProblem.ANALYSIS_ENDLESS}
    return [each.message for each in report.problems]


@pytest.mark.parametrize("rollout", [STEP, BEFORE, AFTER], ids=["a step", "before a promotion", "after it"])
@pytest.mark.parametrize("metric", [{}, {"count": 0}, {"count": "0"}, {"count": "{{args.count}}"}], ids=str)
def test_an_analysis_without_an_end_that_the_update_must_pass_is_a_problem(rollout: str, metric: Manifest) -> None:
    """Argo Rollouts refuses such a spec; here the update would stand at that place until somebody promotes it."""
    (message,) = endless(rollout, interval="1m", **metric)

    assert "nalysis: never ends by itself: 'rate' has an interval and no count, so the update cannot pass it" in message


@pytest.mark.parametrize(
    ("rollout", "metric"),
    [
        (BACKGROUND, {"interval": "1m"}),
        (STEP, {}),
        (STEP, {"interval": "1m", "count": 5}),
        (STEP, {"interval": "1m", "count": "{{args.often}}"}),
        (AFTER, {"interval": "1m", "consecutiveSuccessLimit": 3}),
    ],
    ids=["beside the steps", "once", "five times", "by an argument", "until it was good three times"],
)
def test_an_analysis_that_ends_or_runs_beside_the_steps_is_none(rollout: str, metric: Manifest) -> None:
    """The end of the steps ends the analysis beside them."""
    assert endless(rollout, **metric) == []


RUN = """\
apiVersion: rollouts.dev/v1alpha1
kind: AnalysisRun
metadata: {name: try}
spec:
  args: [{name: limit, value: "%s"}]
  metrics:
  - name: rate
    successCondition: "result[0] < {{args.limit}}"
    provider:
      %s
"""
PROMETHEUS = "prometheus: {query: up}"


@pytest.mark.parametrize(
    ("limit", "provider", "problems"),
    [
        ("0.1", PROMETHEUS, []),
        ("<", PROMETHEUS, [(8, "spec.metrics[0].successCondition: args.limit is '<'")]),
        ("'", PROMETHEUS, [(8, "spec.metrics[0].successCondition: ")]),
        ("1", "promtheus: {query: up}", [(10, "spec.metrics[0].provider.promtheus: unknown field; did you mean prometheus?")]),
        ("1", "job: {spec: {template: {spec: {containers: [{name: A, image: a}]}}}}",
         [(10, "spec.metrics[0].provider.job.spec.template.spec.containers[0].name: must be lower-case")]),
    ],
)  # fmt: skip
def test_a_run_is_read_as_the_controller_reads_it(limit: str, provider: str, problems: list[tuple[int, str]]) -> None:
    """`kubectl create -f run.yaml` is how people try an analysis, and the run would end with an Error."""
    report = lint_text(RUN % (limit, provider))

    found = [(each.line, each.message) for each in report.remarks if each in report.problems]
    assert [line for line, _ in found] == [line for line, _ in problems], found
    assert [message.startswith(words) for (_, message), (_, words) in zip(found, problems, strict=True)] == [
        True
    ] * len(found)
    assert report.counts == {"AnalysisRun": 1} and summary([report]).startswith("0 Rollouts and 1 AnalysisRun checked")


QUERIES = """\
apiVersion: rollouts.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: rate}
spec:
  args: [{name: metric, value: htp_requests_total}]
  metrics:
  - {name: there, successCondition: "result[0] < 1", provider: {prometheus: {query: "rate(http_requests_total[1m])"}}}
  - name: typed wrong
    successCondition: "result[0] < 1"
    provider:
      prometheus:
        query: "sum(rate(http_request_total[1m]))"
  - {name: by argument, successCondition: "result[0] < 1", provider: {prometheus: {query: "{{args.metric}}"}}}
  - {name: of another, successCondition: "result[0] < 1", provider: {prometheus: {metricProvider: other, query: "nothing"}}}
  - {name: unheard of, successCondition: "result[0] < 1", provider: {prometheus: {query: "zzz"}}}
"""
KNOWN = frozenset({"http_requests_total", "http_requests_created", "up"})
NAMES = ok({"status": "success", "data": sorted(KNOWN)})
WRONG = "Prometheus has no metric http_request_total; did you mean http_requests_total or http_requests_created?"


def test_metrics_that_a_prometheus_does_not_have_are_told_with_the_nearest() -> None:
    """A query with a typing error gives no series, and an analysis without evidence stands still for hours."""
    report = lint_text(QUERIES, metrics=KNOWN)

    assert report.problems == [], "what Prometheus has now is no fault of the file"
    assert [(each.line, each.message.partition(": ")[2].partition(": ")[2]) for each in report.advice] == [
        (12, WRONG),
        (13, "Prometheus has no metric htp_requests_total; did you mean http_requests_total or http_requests_created?"),
        (15, "Prometheus has no metric zzz"),
    ]
    assert report.advice[0].message.startswith("warning: spec.metrics[1].provider.prometheus.query: ")
    assert lint_text(QUERIES).advice == []


def compared(interval: str, **compare: Any) -> str:
    """A template that compares canary and stable."""
    both = {"canary": "a", "stable": "b", **compare}
    metric = {"name": "errors", "interval": interval, "count": 10, "provider": {"compare": both}}
    return yaml.safe_dump(build.analysis_template(metric))


def test_both_queries_of_a_comparison_are_looked_up() -> None:
    """Without the second one there are no requests, and a comparison never ends."""
    of, total = (f'{name}_total{{hash="{{{{arm}}}}"}}' for name in ("htp_requests", "http_request"))
    report = lint_text(compared("30s", effect="1%", of={"prometheus": {"query": of}}, total=total), metrics=KNOWN)

    assert report.problems == []
    told = [each.message.removeprefix("warning: ").partition(": ")[0] for each in report.advice]
    assert told == [f"spec.metrics[0].provider.compare.{each}" for each in ("of.prometheus.query", "total")]


def test_looks_that_are_nearer_than_samples_are_told() -> None:
    """Between two samples there is nothing to compare."""
    use = {"kind": "value", "effect": "10%", "of": {"containerResource": {"container": "app", "resource": "cpu"}}}
    near, far = (lint_text(compared(interval, **use)) for interval in ("10s", "60s"))

    assert near.problems == far.problems == []
    assert ["spec.metrics[0].interval: is shorter than 15s" in each.message for each in near.advice] == [True]
    assert far.advice == []


async def test_a_prometheus_is_asked_for_its_metrics(typed: CommandLine) -> None:
    """Once, and only when the command line names it."""
    async with serving({"/api/v1/label/__name__/values": NAMES}) as prometheus:
        said = await typed.run("lint", "-f", typed.file(QUERIES), "--prometheus-url", prometheus.url())

    assert prometheus.asked == ["/api/v1/label/__name__/values"]
    assert WRONG in said.out


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"secret", status="500 Internal Server Error"),
        raw(b"<html>secret"),
        ok({"status": "success", "data": "secret"}),
        ok({"status": "success"}),
        ok(["secret"]),
    ],
)
async def test_what_is_no_prometheus_is_exit_code_4(answer: bytes, typed: CommandLine) -> None:
    """The file may be right; nothing of the answer is printed, which may be anything."""
    async with serving({"/": answer}) as server:
        said = await typed.run("lint", "-f", typed.file(QUERIES), "--prometheus-url", server.url(), code=Exit.FAILED)

    assert server.url() in said.err and "secret" not in said.err + said.out


async def test_a_prometheus_that_does_not_answer_keeps_nobody() -> None:
    """Neither one that is silent nor one that sends a byte at a time, against which a socket's timeout does not help."""
    async with serving({"/": None}) as silent, serving({"/": NAMES}, drip_s=0.05) as slow:
        for each in (silent, slow):
            with pytest.raises(Unanswered, match=r"no answer within 0\.2 s"):
                await metric_names(each.url(), deadline_s=0.2)


@pytest.mark.parametrize(("url", "words"), [("prometheus", "write http://HOST:PORT"), ("ftp://x", "write http://")])
async def test_what_is_no_url_is_told(url: str, words: str) -> None:
    """Before anything is sent."""
    with pytest.raises(SettingsInvalid, match=words):
        await metric_names(url, deadline_s=0.2)


OF_APP = {"containerResource": {"container": "app", "resource": "cpu"}}
QUEUE = {"externalMetric": {"metric": {"name": "queue"}}}


@pytest.mark.parametrize(
    ("provider", "condition", "interval", "words"),
    [
        (OF_APP, "result.utilizationPercent < 90", "30s", []),
        ({"hpa": {}}, "result.settled && result.headroomPercent >= 20", "5s", []),
        (OF_APP, "result[0] < 90", "15s",
         ["result[0] is nothing that containerResource shows: there is ageSeconds, averageValue, pods, utilization"]),
        ({"hpa": {}}, "result.utilizationPercent < 90", "15s",
         ["result.utilizationPercent is nothing that hpa shows: there is ableToScale, current, desired, "]),
        (QUEUE, "result.value < {{args.x}}", "5s", ["is shorter than 15s, in which there is a new sample"]),
    ],
)  # fmt: skip
def test_what_the_cluster_shows_has_names(provider: Manifest, condition: str, interval: str, words: list[str]) -> None:
    """A condition of another provider is copied soon, and would be an Error in each run."""
    metric = build.metric("use", condition=condition, count=2, interval=interval, provider=provider)

    report = lint_text(yaml.safe_dump(build.analysis_template(metric, args=[{"name": "x"}])))

    assert (report.problems, len(report.advice)) == ([], len(words))
    for advice, each in zip(report.advice, words, strict=True):
        assert each in advice.message


GOOD, BAD = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
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
    template = build.analysis_template({"name": "rate", "provider": provider, **metric}, args=[{"name": "x"}])
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
