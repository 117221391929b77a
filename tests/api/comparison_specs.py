"""Comparisons of canary and stable: templates of them, and one bad one for every rule."""

from __future__ import annotations

from typing import Any

from tests.api.specs import GONE, Bad, Spec, changed

COMPARED: Spec = {
    "canary": "{{args.canary-hash}}",
    "stable": "{{args.stable-hash}}",
    "of": {"prometheus": {"query": 'http_requests_total{hash="{{arm}}",code=~"5.."}'}},
    "total": 'http_requests_total{hash="{{arm}}"}',
    "effect": "1%",
}


def compare(rules: Spec | None = None, **changes: Any) -> Spec:
    """A template of one comparison; its arms are arguments."""
    usual = {"name": "errors", "interval": "30s", "count": 20}
    return {
        "args": [{"name": "canary-hash", "value": "7f9c"}, {"name": "stable-hash", "value": "5d8b"}],
        "metrics": [changed({**usual, "provider": {"compare": changed(COMPARED, **changes)}}, **(rules or {}))],
    }


def against_baseline(**changes: Any) -> Spec:
    """The same between the pods of an Experiment."""
    return {"metrics": compare(canary=GONE, stable=GONE, baseline=True, **changes)["metrics"]}


def value_of(of: Spec) -> Spec:
    """A template that compares one value of each look."""
    return compare(kind="value", of=of, total=GONE, effect="10%")


RANKS: Spec = {
    "prometheus": {
        "query": 'histogram_quantile(0.95, sum by (le) (rate(seconds_bucket{hash="{{arm}}"}[1m])))',
        "rangeQuery": {"start": 'now() - duration("20m")', "end": "now()", "step": "1m"},
    }
}
LATENCY: Spec = {"prometheus": {"query": 'max(seconds{hash="{{arm}}"})'}}
CPU: Spec = {"containerResource": {"container": "app", "resource": "cpu"}}
HITS: Spec = {"customMetric": {"metric": {"name": "hits"}}}
QUEUE: Spec = {"externalMetric": {"metric": {"name": "queue", "selector": {"matchLabels": {"hash": "{{arm}}"}}}}}
STATS: Spec = {
    "web": {
        "url": "http://stats.shop/{{arm}}?since={{window}}",
        "jsonPath": "{$.p95}",
        "headers": [{"key": "X-Arm", "value": "{{arm}}"}],
    }
}
_COMPARE = "spec.metrics[0].provider.compare"

_USE = f"{_COMPARE}.of.containerResource"

BAD_COMPARISONS: tuple[Bad, ...] = (
    Bad("comparison of a canary with itself", compare(stable="{{args.canary-hash}}"), f"{_COMPARE}.stable", "the same"),
    Bad("comparison without a canary", compare(canary=GONE), f"{_COMPARE}.canary", "is required"),
    Bad("comparison of nothing", compare(of={}), f"{_COMPARE}.of", "needs exactly one of prometheus"),
    Bad("comparison of two sources", compare(of={**CPU, **LATENCY}), f"{_COMPARE}.of", "needs exactly one of"),
    Bad("comparison of Jobs", compare(of={"job": {"spec": {}}}), f"{_COMPARE}.of.job", "no number"),
    Bad("comparison of pods", compare(of={"kubernetes": {}}), f"{_COMPARE}.of.kubernetes", "no number"),
    Bad("comparison of Datadog's rates", compare(of={"datadog": {"query": "a{v:{{arm}}}"}}, total=GONE),
        f"{_COMPARE}.kind", "must be value: a rate is counted"),
    Bad("comparison of Datadog without arms", value_of({"datadog": {"query": "a"}}), f"{_COMPARE}.of.datadog",
        "must have {{arm}} in its fields"),
    Bad("comparison of accounts", value_of({"datadog": {"query": "a{v:{{arm}}}", "metricProvider": "{{arm}}"}}),
        f"{_COMPARE}.of.datadog.metricProvider", "which is no argument"),
    Bad("comparison with an interval of its own", value_of({"datadog": {"query": "a{v:{{arm}}}", "interval": "10m"}}),
        f"{_COMPARE}.of.datadog.interval", "a look asks for the time since the look before"),
    Bad("comparison of rows", value_of({"newRelic": {"query": "SELECT a FROM b WHERE c = '{{arm}}'"}}), f"{_COMPARE}.path",
        "where the number is in what a condition sees"),
    Bad("comparison of numbers by their path", compare(kind="value", of=LATENCY, total=GONE, path="a"), f"{_COMPARE}.path",
        "leave it out"),
    Bad("comparison of SkyWalking", value_of({"skywalking": {"query": "query q($duration: Duration!) { {{arm}} }"}}),
        f"{_COMPARE}.of.skywalking", "is asked by whole minutes"),
    Bad("comparison of an autoscaler", compare(of={"hpa": {}}), f"{_COMPARE}.of.hpa", "one number for all revisions"),
    Bad("rate of a web page", compare(of=STATS, total=GONE), f"{_COMPARE}.kind", "must be value: a rate is counted"),
    Bad("use with a total", compare(kind="value", of=CPU), f"{_COMPARE}.total", "is for kind rate"),
    Bad("ranks of what a container uses",
        compare({"interval": GONE, "count": GONE}, test="mannWhitney", kind="value", of=CPU, total=GONE),
        f"{_COMPARE}.test", "samples of a range"),
    Bad("container without a name", value_of({"containerResource": {"resource": "cpu"}}), f"{_USE}.container", "required"),
    Bad("web page of no address", value_of({"web": {"url": "ftp://{{arm}}"}}), f"{_COMPARE}.of.web.url", "must begin with"),
    Bad("web page that is the same for both arms",
        value_of({"web": {"url": "http://stats/p95", "jsonPath": "{$.p95}"}}), f"{_COMPARE}.of.web",
        "must have {{arm}} in its url, headers or body"),
    Bad("object that is the same for both arms",
        value_of({"customMetric": {"metric": {"name": "hits"}, "describedObject": {"kind": "Service", "name": "web"}}}),
        f"{_COMPARE}.of.customMetric", "must have {{arm}} in its metric's name, selector or object's name"),
    Bad("queue that is the same for both arms", value_of({"externalMetric": {"metric": {"name": "queue"}}}),
        f"{_COMPARE}.of.externalMetric", "must have {{arm}} in its metric's name or selector"),
    Bad("comparison with a baseline and arms", compare(baseline=True), f"{_COMPARE}.canary", "leave one of them out"),
    Bad("comparison with a baseline and stable", compare(baseline=True, canary=GONE), f"{_COMPARE}.stable", "leave one of them"),
    Bad("comparison with nothing", compare(baseline=False, canary=GONE, stable=GONE), f"{_COMPARE}.stable", "is required"),
    Bad("comparison without an effect", compare(effect=GONE), f"{_COMPARE}.effect", "is required"),
    Bad("effect of nothing", compare(effect="0"), f"{_COMPARE}.effect", "above 0"),
    Bad("effect below nothing", compare(effect="-1%"), f"{_COMPARE}.effect", "above 0"),
    Bad("effect of everything", compare(effect="100%"), f"{_COMPARE}.effect", "below 100%"),
    Bad("value that may fall to nothing",
        compare(kind="value", of=LATENCY, total=GONE, effect="100%", direction="decrease"), f"{_COMPARE}.effect", "below 100%"),
    Bad("effect that is a word", compare(effect="NaN"), f"{_COMPARE}.effect", "must be a number"),
    Bad("alpha of a coin", compare(alpha="0.5"), f"{_COMPARE}.alpha", "up to 0.2"),
    Bad("alpha of nothing", compare(alpha="0"), f"{_COMPARE}.alpha", "up to 0.2"),
    Bad("alpha above everything", compare(alpha="5"), f"{_COMPARE}.alpha", "up to 0.2"),
    Bad("comparison without an end", compare({"count": GONE}), "spec.metrics[0].count", "is required"),
    Bad("comparison of one look", compare({"interval": GONE}), "spec.metrics[0].interval", "is required"),
    Bad("rate of nothing", compare(total=GONE), f"{_COMPARE}.total", "is required of a rate"),
    Bad("value with a total", compare(kind="value"), f"{_COMPARE}.total", "has no meaning"),
    Bad("comparison that asks the same of both arms", compare(of={"prometheus": {"query": "errors_total"}}),
        f"{_COMPARE}.of.prometheus.query", "must have {{arm}}"),
    Bad("rate of a rate", compare(total='sum(rate(http_requests_total{hash="{{arm}}"}[1m]))'), f"{_COMPARE}.total",
        "must select counters"),
    Bad("ranks of a rate", compare({"interval": GONE, "count": GONE}, test="mannWhitney", kind="rate"),
        f"{_COMPARE}.kind", "rate is for the sequential test"),
    Bad("ranks again and again", compare(test="mannWhitney", kind="value", of=RANKS, total=GONE),
        "spec.metrics[0].count", "must not be given"),
    Bad("ranks of one moment",
        compare({"interval": GONE, "count": GONE}, test="mannWhitney", kind="value", of=LATENCY, total=GONE),
        f"{_COMPARE}.of.prometheus.rangeQuery", "is required with mannWhitney"),
    Bad("looks at ranges", compare(kind="value", of=RANKS, total=GONE), f"{_COMPARE}.of.prometheus.rangeQuery",
        "is for mannWhitney"),
    Bad("condition beside a comparison", compare({"successCondition": "result[0] < 1"}),
        "spec.metrics[0].successCondition", "has no meaning beside compare"),
    Bad("limit beside a comparison", compare({"failureLimit": 3}), "spec.metrics[0].failureLimit", "has no meaning"),
)  # fmt: skip
