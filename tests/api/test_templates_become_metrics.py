"""Promise: a template of any shape that Argo Rollouts takes becomes metrics of the core, with Argo's defaults."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.api.spec.analysis.run import parse_run, parse_template, time_to_live_in
from rollouts.core.analysis.cluster_source import (
    AutoscalerMetric,
    ContainerResourceMetric,
    CustomMetric,
    DescribedObject,
    ExternalMetric,
)
from rollouts.core.analysis.metric import Metric, MetricCondition, MetricRules, NoData, SecretReference
from rollouts.core.analysis.run_spec import TimeToLive
from rollouts.core.analysis.source import (
    BasicAuth,
    ComparedBy,
    Comparison,
    Effect,
    JobMetric,
    OAuth2,
    PodEvidence,
    PrometheusQuery,
    QueryRange,
    WebQuery,
    WebResult,
)
from rollouts.core.model.autoscaling import ContainerMetric
from rollouts.errors import SpecInvalid
from tests.api.analysis_specs import GOOD, JOB, METRIC, PROMETHEUS, metric, prometheus, web
from tests.api.comparison_specs import LATENCY, against_baseline, compare
from tests.api.specs import GONE, Spec

VALUES = {"n": "5", "d": "30s"}


def run_of(template: Spec) -> Spec:
    """A run of a template that names no other: every argument has a value."""
    args = template.get("args", ())
    asked = {each["name"]: VALUES.get(each["name"], "web") for each in args if not {"value", "valueFrom"} & set(each)}
    given = [{**each, "value": asked[each["name"]]} if each["name"] in asked else each for each in args]
    return {**template, "args": given}


def _metric(spec: Spec) -> Metric:
    (found,) = parse_run(spec).metrics
    return found


@pytest.mark.parametrize("name", [name for name, spec in GOOD.items() if "templates" not in spec])
def test_a_template_is_taken_and_its_run_is_measured(name: str) -> None:
    """Nobody changes a manifest but for its apiVersion. Arguments fill every place, but for those of secrets."""
    parse_template(GOOD[name])

    run = parse_run(run_of(GOOD[name]))

    assert run.rules
    for each in run.metrics:
        left = str(msgspec.to_builtins(each, enc_hook=str)).replace("{{arm}}", "").replace("{{window}}", "")
        assert ("{{" in left) == bool(each.secrets)


def test_defaults_are_argos() -> None:
    """What is left out means what it means there."""
    found = _metric({"metrics": [{"name": "m", "provider": PROMETHEUS}]})

    assert found == Metric(
        rules=MetricRules(name="m"),
        condition=MetricCondition(),
        source=PrometheusQuery(query="sum(errors)", endpoint="http://prometheus.monitoring:9090"),
    )
    assert found.rules.effective_count == 1
    assert found.rules.consecutive_error_limit == 4
    assert found.condition.no_data is NoData.INCONCLUSIVE


def test_every_rule_of_a_metric_arrives() -> None:
    """As a number or as a text, and as an argument."""
    found = _metric(
        {
            "args": [{"name": "n", "value": 7}, {"name": "d", "value": "1m30s"}],
            **metric(
                count="{{args.n}}", interval="{{args.d}}", initialDelay=20, failureLimit="1", inconclusiveLimit=2,
                consecutiveErrorLimit=3, consecutiveSuccessLimit=4, minSamples=5, noData="fail",
                failureCondition="result[0] > {{args.n}}",
            ),
            "dryRun": [{"metricName": "err"}],
            "measurementRetention": [{"metricName": ".*", "limit": 3}, {"metricName": "errors", "limit": 25}],
        },
    )  # fmt: skip

    assert found.rules == MetricRules(
        name="errors", interval_s=90.0, initial_delay_s=20.0, count=7, failure_limit=1, inconclusive_limit=2,
        consecutive_error_limit=3, consecutive_success_limit=4, dry_run=True, kept=25,
    )  # fmt: skip
    assert found.condition == MetricCondition(
        success="result[0] < 0.05", failure="result[0] > 7", no_data=NoData.FAIL, min_samples=5
    )


@pytest.mark.parametrize(
    ("count", "interval", "effective"), [(0, None, 1), (0, "1m", None), (3, "1m", 3), (1, None, 1)]
)
def test_a_count_of_0_is_none(count: int, interval: str | None, effective: int | None) -> None:
    """As in Argo Rollouts: it ends never, or after one."""
    more = {} if interval is None else {"interval": interval}

    assert _metric(metric(count=count, **more)).rules.effective_count == effective


SOURCES: list[tuple[Spec, Any]] = [
    (prometheus(), PrometheusQuery(query="up", endpoint="default")),
    (prometheus(metricProvider="main"), PrometheusQuery(query="up", endpoint="main")),
    (prometheus(timeout=40, insecure=True, headers=[{"key": "X-Scope-OrgID", "value": "a"}]),
        PrometheusQuery(query="up", timeout_s=40.0, insecure=True, headers=(("X-Scope-OrgID", "a"),))),
    (prometheus(rangeQuery={"start": "now() - duration('5m')", "end": "now()", "step": "1m"}),
        PrometheusQuery(query="up", range=QueryRange(start="now() - duration('5m')", end="now()", step_s=60.0))),
    (prometheus(authentication={"oauth2": {"tokenUrl": "https://s", "clientId": "c", "clientSecret": "x"}}),
        PrometheusQuery(query="up", authentication=OAuth2(token_url="https://s", client_id="c", client_secret="x"))),
    (prometheus(authentication={"basicAuth": {"username": "me", "password": "x"}}),
        PrometheusQuery(query="up", authentication=BasicAuth(username="me", password="x"))),
    (web(authentication={"sigv4": {}, "oauth2": {}, "basicAuth": {"username": "me", "password": "x"}}),
        WebQuery(url="http://shop.example/health", authentication=BasicAuth(username="me", password="x"))),
    (web(authentication={"basicAuth": {}}), WebQuery(url="http://shop.example/health")),
    (web(), WebQuery(url="http://shop.example/health")),
    (web(method="POST", body="a", jsonPath="{$.x}", timeoutSeconds=3, insecure=True),
        WebQuery(url="http://shop.example/health", method="POST", body="a", json_path="{$.x}", timeout_s=3.0, insecure=True)),
    (web(method="PUT", jsonBody={"b": 1, "a": ["x"]}),
        WebQuery(url="http://shop.example/health", method="PUT", body='{"a": ["x"], "b": 1}', body_is_json=True)),
    (metric(provider={"web": {"url": "http://shop.example/health", "result": "status", "notYet": [403, 409]}}),
        WebQuery(url="http://shop.example/health", result=WebResult.STATUS, not_yet=(403, 409))),
    (metric(provider=JOB), JobMetric(metadata={}, spec=JOB["job"]["spec"])),
    (metric(provider={"job": {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}}),
        JobMetric(metadata={"labels": {"a": "b"}}, spec={"x": 1})),
    (metric(provider={"kubernetes": {}}), PodEvidence()),
    (metric(provider={"kubernetes": {"maxRestarts": 2, "minReadyPercent": 90, "containers": ["app"]}}),
        PodEvidence(restarts_max=2, ready_percent_min=90, containers=("app",))),
    (metric(provider={"containerResource": {"container": "app", "resource": "memory", "maxAgeSeconds": 30}}),
        ContainerResourceMetric(container="app", resource=ContainerMetric.MEMORY, max_age_s=30.0)),
    (metric(provider={"hpa": {}}), AutoscalerMetric()),
    (metric(provider={"hpa": {"name": "keda-hpa-web"}}), AutoscalerMetric(name="keda-hpa-web")),
    (metric(provider={"customMetric": {"metric": {"name": "hits"}}}), CustomMetric(metric="hits")),
    (metric(provider={"customMetric": {"metric": {"name": "hits", "selector": {"matchLabels": {"b": "c", "a": "d"}}},
        "describedObject": {"kind": "Service", "name": "web"}}}),
        CustomMetric(metric="hits", selector="a=d,b=c", of=DescribedObject(api_version="v1", kind="Service", name="web"))),
    (metric(provider={"externalMetric": {"metric": {"name": "s0-queue"}, "maxAgeSeconds": "120"}}),
        ExternalMetric(metric="s0-queue", max_age_s=120.0)),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "source"), SOURCES)
def test_a_source_arrives_whole(spec: Spec, source: Any) -> None:
    """What is lost on the way would be asked in another way."""
    assert _metric(spec).source == source


def test_a_secret_stays_a_reference() -> None:
    """No value of a Secret is ever part of a metric: it can be shown, logged and recorded."""
    secret = {"name": "token", "valueFrom": {"secretKeyRef": {"name": "shop-token", "key": "k"}}}
    other = {"name": "other", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}
    headers = [{"key": "Authorization", "value": "Bearer {{ args.token }}"}]

    found = _metric({"args": [secret, other], **web(headers=headers)})

    assert found.secrets == (SecretReference(argument="token", name="shop-token", key="k"),)
    assert isinstance(found.source, WebQuery)
    assert found.source.headers == (("Authorization", "Bearer {{ args.token }}"),)


def test_secrets_stand_where_requests_have_them() -> None:
    """URL, header, body, JSON body and credentials of a web request; header and credentials of a query."""
    args = [{"name": "s", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    oauth2 = {"oauth2": {"tokenUrl": "https://x", "clientId": "{{args.s}}", "clientSecret": "{{args.s}}"}}
    basic = {"basicAuth": {"username": "me", "password": "{{args.s}}"}}
    headers = [{"key": "A", "value": "{{args.s}}"}]
    specs = [
        web(url="https://x/?token={{args.s}}"), web(method="PUT", body="{{args.s}}"),
        web(method="PUT", jsonBody={"a": [{"b": "{{args.s}}"}]}), web(headers=headers, authentication=oauth2),
        prometheus(headers=headers, authentication=oauth2), web(authentication=basic), prometheus(authentication=basic),
    ]  # fmt: skip

    assert all(len(_metric({"args": args, **spec}).secrets) == 1 for spec in specs)


def test_a_value_in_quotes_of_a_condition_is_one_text() -> None:
    """An apostrophe in a version's name must not end the text that it is compared with."""
    args = [{"name": "v", "value": 'it\'s "1.0"'}, {"name": "n", "value": "0.5"}]
    condition = "result.version == '{{args.v}}' && all(result, # > {{args.n}} && # != \"{{args.v}}\")"

    found = _metric({"args": args, **metric(successCondition=condition)})

    assert found.condition.success == (
        """result.version == 'it\\'s "1.0"' && all(result, # > 0.5 && # != "it's \\"1.0\\"")"""
    )


def test_the_end_and_what_comes_after_it_arrive() -> None:
    """`terminate` and `ttlStrategy`."""
    ttl = {"secondsAfterCompletion": 3600, "secondsAfterSuccess": 1800, "secondsAfterFailure": 0}

    spec = {"metrics": [METRIC], "terminate": True, "ttlStrategy": ttl}

    assert parse_run(spec).terminate
    assert time_to_live_in(spec) == TimeToLive(after_completion_s=3600.0, after_success_s=1800.0, after_failure_s=0.0)
    assert not parse_run({"metrics": [METRIC]}).terminate


def test_a_template_is_not_changed_by_being_read() -> None:
    """It is in a cache that others read."""
    template = GOOD["features/analysis.md: arguments of a template"]
    before = str(template)

    parse_template(template)
    parse_run(run_of(template))

    assert str(template) == before


def test_a_comparison_is_one_measurement_that_goes_on_until_it_answers() -> None:
    """`count` is the comparison's own; the first look comes when there is an interval to look at."""
    found = _metric(compare({"initialDelay": "1m"}))

    assert found.rules == MetricRules(name="errors", interval_s=30.0, initial_delay_s=90.0, count=1)
    assert found.source == Comparison(
        canary="7f9c",
        stable="5d8b",
        by=ComparedBy.RATES,
        of=PrometheusQuery(query='http_requests_total{hash="{{arm}}",code=~"5.."}'),
        total='http_requests_total{hash="{{arm}}"}',
        effect=Effect(size=0.01, relative=True),
        alpha=0.05,
        looks_max=20,
        warm_up_s=60.0,
    )


def test_a_comparison_with_a_baseline_is_for_an_experiment() -> None:
    """A template may ask for it wherever it is used; where there are no such pods, no run is made."""
    template = against_baseline()
    parse_template(template)

    with pytest.raises(SpecInvalid) as refused:
        parse_run(template)

    (problem,) = refused.value.problems
    assert problem.path == "spec.metrics[0].provider.compare.baseline"
    assert "let the analyses of such an Experiment name this template" in problem.message
    assert "give canary and stable in its place" in problem.message


def test_the_effect_on_a_value_is_a_share_or_a_difference() -> None:
    """A percent sign says which."""
    share = _metric(compare(kind="value", of=LATENCY, total=GONE, effect="10 %")).source
    difference = _metric(compare(kind="value", of=LATENCY, total=GONE, effect="0.05")).source

    assert isinstance(share, Comparison)
    assert isinstance(difference, Comparison)
    assert share.effect == Effect(size=0.1, relative=True)
    assert difference.effect == Effect(size=0.05)
