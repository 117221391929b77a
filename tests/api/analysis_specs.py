"""Templates of analyses: good ones of every shape, Argo Rollouts' documentation first, and one bad one for every rule."""

from __future__ import annotations

from typing import Any

from rollouts.api.v1alpha1.analysis_template import PLANNED
from tests.api.argo_provider_examples import ALL
from tests.api.comparison_specs import BAD_COMPARISONS, CPU, HITS, LATENCY, QUEUE, RANKS, STATS, compare, value_of
from tests.api.specs import GONE, Bad, Spec, changed

PROMETHEUS: Spec = {"prometheus": {"address": "http://prometheus.monitoring:9090", "query": "sum(errors)"}}
JOB: Spec = {
    "job": {
        "spec": {
            "backoffLimit": 0,
            "template": {"spec": {"containers": [{"name": "load", "image": "load:1"}], "restartPolicy": "Never"}},
        }
    }
}
WEB: Spec = {"web": {"url": "http://shop.example/health"}}
METRIC: Spec = {"name": "errors", "successCondition": "result[0] < 0.05", "provider": PROMETHEUS}
TEMPLATE: Spec = {"metrics": [METRIC]}


def metric(**changes: Any) -> Spec:
    """A template of one metric; `provider__web__url=…` as in `changed`."""
    return {"metrics": [changed(METRIC, **changes)]}


def web(**changes: Any) -> Spec:
    return {"metrics": [{"name": "web", "provider": {"web": {**WEB["web"], **changes}}}]}


def prometheus(**changes: Any) -> Spec:
    """A template of one metric of Prometheus, without its address."""
    return {"metrics": [{"name": "m", "provider": {"prometheus": {"query": "up", **changes}}}]}


GOOD: dict[str, Spec] = {
    **{each.where: each.spec for each in ALL if each.kind.endswith("Template") and not each.refused},
    "successes in a row and failures, counted": metric(interval="1m", consecutiveSuccessLimit=4, count=4),
    "a web request with a text": web(method="PUT", body="text", insecure=True),
    "a gate that answers by its status": metric(provider={"web": {**WEB["web"], "result": "status", "notYet": [204, 403]}}),
    "arguments in numbers and durations": {
        "args": [{"name": "n"}, {"name": "d"}, {"name": "limit", "value": "2"}],
        **metric(
            count="{{args.n}}",
            interval="{{ args.d }}",
            initialDelay="{{args.d}}",
            failureLimit="{{args.limit}}",
            successCondition="result[0] < {{args.limit}}",
        ),
    },
    "canary against stable": compare(),
    "canary against stable, everything said": compare({"initialDelay": "1m", "consecutiveErrorLimit": 2},
        test="sequential", kind="rate", alpha="0.01", direction="decrease", undecided="fail"),
    "canary against stable, a value": value_of(LATENCY),
    "canary against stable, by a body": value_of({"web": {"url": "http://s", "method": "POST", "body": "{{arm}}"}}),
    "canary against stable, by JSON": value_of({"web": {"url": "http://s", "method": "POST", "jsonBody": {"of": "{{arm}}"}}}),
    "canary against stable, a container's use": value_of(CPU),
    "canary against stable, a metric of pods": value_of(HITS),
    "canary against stable, a metric of objects": value_of(
        {"customMetric": {**HITS["customMetric"], "describedObject": {"kind": "Service", "name": "web-{{arm}}"}}}),
    "canary against stable, an external metric": value_of(QUEUE),
    "canary against stable, a web page": value_of(STATS),
    "canary against stable, by ranks": compare({"interval": GONE, "count": GONE}, test="mannWhitney", kind="value",
        of=RANKS, total=GONE, effect="0.05"),
    "what is ours": {
        "metrics": [
            {"name": "pods", "noData": "wait", "provider": {"kubernetes": {"maxRestarts": 1, "minReadyPercent": "90"}}},
            {"name": "p", "minSamples": 5, "provider": {"prometheus": {"query": "up", "metricProvider": "main"}}},
        ]
    },
    "what the cluster measures": {
        "args": [{"name": "container"}, {"name": "shop"}],
        "metrics": [
            {"name": name, "successCondition": "result.value < 1", "provider": provider}
            for name, provider in (
                ("use", {"containerResource": {"container": "{{args.container}}", "resource": "cpu"}}),
                ("room", {"hpa": {}}),
                ("queue", {"externalMetric": {"metric": {"name": "s0-queue", "selector": {}}, "maxAgeSeconds": "30"}}),
                (
                    "hits",
                    {
                        "customMetric": {
                            "metric": {"name": "hits", "selector": {"matchLabels": {"shop": "{{args.shop}}"}}},
                            "describedObject": {
                                "apiVersion": "networking.k8s.io/v1",
                                "kind": "Ingress",
                                "name": "{{args.shop}}",
                            },
                        }
                    },
                ),
            )
        ],
    },
}  # fmt: skip

_NO_LABEL = (".metric.selector.matchLabels[?]", "is not a label key")
_KINDLESS = (".describedObject.kind", "is required")
_NAMELESS = (".describedObject.name", "is required")
_TOO_OLD = (".maxAgeSeconds", "must be from 1 to 600")
_NO_KIND = (".describedObject.kind", "must be a kind such as Ingress")
_NO_VERSION = (".describedObject.apiVersion", "must be an API version")
_POD = {"kind": "Pod", "name": "b"}
_SECRET = {"name": "s", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def _secret_in(**changes: Any) -> Spec:
    return {"args": [_SECRET], **metric(**changes)}


_OF_CLUSTER = tuple(
    Bad(f"{name}{where} {words}", metric(provider={name: spec}), f"spec.metrics[0].provider.{name}{where}", words)
    for name, spec, where, words in (
        ("containerResource", {"resource": "cpu"}, ".container", "is required"),
        ("containerResource", {"container": "app"}, ".resource", "is required: cpu or memory"),
        ("containerResource", {"container": "app", "resource": "gpu"}, ".resource", "must be cpu or memory"),
        ("containerResource", {"container": "app", "resource": "cpu", "maxAgeSeconds": 601}, *_TOO_OLD),
        ("customMetric", {}, ".metric.name", "is required"),
        ("customMetric", {"metric": {"name": "../../../nodes"}}, ".metric.name", "one segment of a path"),
        ("customMetric", {"metric": {"name": "a", "selector": {"matchLabels": {"?": "b"}}}}, *_NO_LABEL),
        ("customMetric", {"metric": {"name": "a"}, "describedObject": {"name": "b"}}, *_KINDLESS),
        ("customMetric", {"metric": {"name": "a"}, "describedObject": {"kind": "Pod"}}, *_NAMELESS),
        ("customMetric", {"metric": {"name": "a"}, "describedObject": {"kind": "../x", "name": "b"}}, *_NO_KIND),
        (
            "customMetric",
            {"metric": {"name": "a"}, "describedObject": {**_POD, "apiVersion": "v1/../.."}},
            *_NO_VERSION,
        ),
        ("externalMetric", {"metric": {"name": ".."}}, ".metric.name", "one segment of a path"),
        ("externalMetric", {"metric": {"name": "a"}, "maxAgeSeconds": 0}, *_TOO_OLD),
    )
)

_METRIC = "spec.metrics[0]"
_V2 = {"apiVersion": "v2"}
_OF_SERVERS = tuple(
    Bad(name, metric(provider={server: fields}), f"{_METRIC}.provider.{server}{path}", words)
    for name, server, fields, path, words in (
        ("query of Datadog left out", "datadog", {}, ".query", "is required"),
        ("two queries of Datadog", "datadog", {**_V2, "query": "a", "queries": {"a": "b"}}, ".query", "one of them"),
        ("queries of version 1", "datadog", {"queries": {"a": "b"}}, ".queries", "apiVersion: v2"),
        ("formula of version 1", "datadog", {"query": "a", "formula": "a"}, ".formula", "apiVersion: v2"),
        ("formula of one query", "datadog", {**_V2, "query": "a", "formula": "a"}, ".formula", "needs queries"),
        ("queries without a formula", "datadog", {**_V2, "queries": {"a": "b", "c": "d"}}, ".formula", "is required"),
        ("aggregator that is none", "datadog", {**_V2, "query": "a", "aggregator": "p99"}, ".aggregator", "must be"),
        ("interval of nothing for Datadog", "datadog", {"query": "a", "interval": "0s"}, ".interval", "more than 0"),
        ("a month", "datadog", {"query": "a", "interval": "720h"}, ".interval", "at most 604800"),
        (
            "an account of a tenant",
            *("datadog", {"query": "a", "secretRef": {"name": "a", "namespaced": True}}),
            *(".secretRef.namespaced", "not supported"),
        ),
        ("query of New Relic left out", "newRelic", {"profile": "a"}, ".query", "is required"),
        ("time of nothing for New Relic", "newRelic", {"query": "a", "timeout": 0}, ".timeout", "more than 0"),
        ("query of Graphite left out", "graphite", {}, ".query", "is required"),
        ("query without a target", "graphite", {"query": "from=-5min"}, ".query", "must have a target"),
        ("query with more parameters", "graphite", {"query": "target=a&jsonp=b"}, ".query", "has 'jsonp'"),
        ("two servers of Graphite", "graphite", {"query": "target=a", "address": "http://a", "metricProvider": "b"},
            ".address", "one of them"),
        ("queries of CloudWatch left out", "cloudWatch", {}, ".metricDataQueries", "is required"),
        ("no query of CloudWatch", "cloudWatch", {"metricDataQueries": []}, ".metricDataQueries", "must not be empty"),
        ("query of CloudWatch without an id", "cloudWatch", {"metricDataQueries": [{"expression": "a"}]},
            ".metricDataQueries[0].id", "is required"),
        ("query of CloudWatch of two kinds", "cloudWatch", {"metricDataQueries": [
            {"id": "a", "expression": "a", "metricStat": {"stat": "Sum"}}]}, ".metricDataQueries[0]", "one of expression"),
        ("statistic without a metric", "cloudWatch", {"metricDataQueries": [{"id": "a", "metricStat": {"stat": "Sum"}}]},
            ".metricDataQueries[0].metricStat", "needs a stat and a metric"),
        ("query of Wavefront left out", "wavefront", {}, ".query", "is required"),
        ("two servers of Wavefront", "wavefront", {"query": "a", "address": "a", "metricProvider": "b"},
            ".address", "one of them"),
        ("query of InfluxDB left out", "influxdb", {}, ".query", "is required"),
        ("query of SkyWalking without a time", "skywalking", {"query": "{a}"}, ".query", "$duration"),
        ("two servers of SkyWalking", "skywalking", {"query": "$duration", "address": "http://a", "metricProvider": "b"},
            ".address", "one of them"),
        ("selector of Dynatrace left out", "dynatrace", {}, ".query", "is required"),
        ("program of Splunk left out", "splunk", {}, ".query", "is required"),
        ("neither a filter nor a query", "cloudMonitoring", {}, ".filter", "is required, or query"),
        ("a filter and a query", "cloudMonitoring", {"filter": "a", "query": "b"}, ".filter", "both given"),
        ("index left out", "elasticsearch", {"aggregations": {}}, ".index", "is required"),
        ("index that is an API", "elasticsearch", {"index": "_all", "aggregations": {}}, ".index", "the name of an index"),
        ("an aggregation that pages", "elasticsearch", {"index": "a", "aggregations": {"a": {"composite": {"sources": []}}}},
            ".aggregations.a", "use terms, with a size"),
        ("one that pages within another", "elasticsearch",
            {"index": "a", "aggregations": {"a": {"filter": {}, "aggs": {"composite": {"composite": {}}}}}},
            ".aggregations.a.aggs.composite", "use terms, with a size"),
        ("aggregations left out", "elasticsearch", {"index": "a"}, ".aggregations", "is required"),
        ("address of Graphite without a scheme", "graphite", {"query": "target=a", "address": "a"}, ".address", "http"),
    )
)  # fmt: skip
_PROMETHEUS = f"{_METRIC}.provider.prometheus"
_WEB = f"{_METRIC}.provider.web"
BAD: tuple[Bad, ...] = (
    *_OF_CLUSTER,
    *BAD_COMPARISONS,
    Bad("arm outside of a comparison", prometheus(query='up{hash="{{arm}}"}'), f"{_PROMETHEUS}.query", "which is no argument"),
    Bad("nothing to measure", {}, "spec.metrics", "is required"),
    Bad("unknown field of a template", {**TEMPLATE, "color": "red"}, "spec.color", "unknown field"),
    Bad("metric without a name", metric(name=GONE), f"{_METRIC}.name", "is required"),
    Bad("metric without a provider", metric(provider=GONE), f"{_METRIC}.provider", "is required"),
    Bad("provider that is none", metric(provider={}), f"{_METRIC}.provider", "it has none"),
    Bad("two providers", metric(provider={**PROMETHEUS, **WEB}), f"{_METRIC}.provider", "prometheus and web"),
    Bad("two metrics of one name", {"metrics": [METRIC, METRIC]}, "spec.metrics[1].name", "spec.metrics[0]"),
    Bad("count below 0", metric(count=-1), f"{_METRIC}.count", "0 or more"),
    Bad("count below failureLimit", metric(count=1, failureLimit=2), f"{_METRIC}.count", "at least"),
    Bad("count below both limits", metric(count=4, interval="1m", failureLimit=2, consecutiveSuccessLimit=3),
        f"{_METRIC}.count", "which is 5"),
    Bad("count below consecutiveSuccessLimit",
        metric(count=2, interval="1m", failureLimit=-1, consecutiveSuccessLimit=3), f"{_METRIC}.count", "which is 3"),
    Bad("count below inconclusiveLimit", metric(count=1, inconclusiveLimit=2), f"{_METRIC}.count", "at least"),
    Bad("count without interval", metric(count=2), f"{_METRIC}.interval", "is required"),
    Bad("count that is a word", metric(count="many"), f"{_METRIC}.count", "must be an integer"),
    Bad("count that is a fraction", metric(count=1.5), f"{_METRIC}.count", "must be an integer"),
    Bad("interval that cannot be read", metric(interval="60s-typo"), f"{_METRIC}.interval", "duration"),
    Bad("interval of nothing", metric(interval="0s"), f"{_METRIC}.interval", "1s or more"),
    Bad("delay that cannot be read", metric(initialDelay="soon"), f"{_METRIC}.initialDelay", "duration"),
    Bad("failureLimit below -1", metric(failureLimit=-2), f"{_METRIC}.failureLimit", "-1"),
    Bad("both limits off", metric(failureLimit=-1), f"{_METRIC}.failureLimit", "is off"),
    Bad("inconclusiveLimit below 0", metric(inconclusiveLimit=-1), f"{_METRIC}.inconclusiveLimit", "0 or more"),
    Bad("consecutiveErrorLimit below 0", metric(consecutiveErrorLimit=-1), f"{_METRIC}.consecutiveErrorLimit", "0 or more"),
    Bad("consecutiveSuccessLimit below 0", metric(consecutiveSuccessLimit=-1),
        f"{_METRIC}.consecutiveSuccessLimit", "0 or more"),
    Bad("samples below 0", metric(minSamples=-1), f"{_METRIC}.minSamples", "0 or more"),
    Bad("noData that makes a success", metric(noData="success"), f"{_METRIC}.noData", "must be"),
    Bad("condition of a book", metric(successCondition="x" * 1025), f"{_METRIC}.successCondition", "at most"),
    *(
        Bad(f"{name} is not carried out", metric(provider={name: {}}), f"{_METRIC}.provider.{name}", "not supported")
        for name in PLANNED
    ),
    *_OF_SERVERS,
    Bad("query left out", prometheus(query=""), f"{_PROMETHEUS}.query", "is required"),
    Bad("two servers", prometheus(address="http://a", metricProvider="b"), f"{_PROMETHEUS}.address", "one of them"),
    Bad("address without a scheme", prometheus(address="prom:9090"), f"{_PROMETHEUS}.address", "http"),
    Bad("endless timeout", prometheus(timeout=301), f"{_PROMETHEUS}.timeout", "from 1 to 300"),
    Bad("range without a step", prometheus(rangeQuery={"start": "now()", "end": "now()"}),
        f"{_PROMETHEUS}.rangeQuery.step", "is required"),
    Bad("signatures of AWS", prometheus(authentication={"sigv4": {"region": "eu-west-1"}}),
        f"{_PROMETHEUS}.authentication.sigv4", "not supported"),
    Bad("user without a password", prometheus(authentication={"basicAuth": {"username": "me"}}),
        f"{_PROMETHEUS}.authentication.basicAuth.password", "is required"),
    Bad("user with a colon", web(authentication={"basicAuth": {"username": "me:you", "password": "p"}}),
        f"{_WEB}.authentication.basicAuth.username", "must have no ':'"),
    Bad("user with a line break", web(authentication={"basicAuth": {"username": "me\n", "password": "p"}}),
        f"{_WEB}.authentication.basicAuth.username", "no control characters"),
    Bad(
        "two identities",
        web(
            authentication={
                "basicAuth": {"username": "me", "password": "p"},
                "oauth2": {"tokenUrl": "https://x", "clientId": "c", "clientSecret": "y"},
            }
        ),
        f"{_WEB}.authentication",
        "give one of them",
    ),
    Bad("credentials without a client", prometheus(authentication={"oauth2": {"tokenUrl": "https://x", "clientSecret": "y"}}),
        f"{_PROMETHEUS}.authentication.oauth2.clientId", "is required"),
    Bad("URL left out", {"metrics": [{"name": "w", "provider": {"web": {}}}]}, f"{_WEB}.url", "is req"),
    Bad("URL of a file", web(url="file:///etc/passwd"), f"{_WEB}.url", "http://"),
    Bad("URL of two lines", web(url="http://a/\r\nHost: b"), f"{_WEB}.url", "one line"),
    Bad("method that changes things", web(method="DELETE"), f"{_WEB}.method", "must be"),
    Bad("body of a GET", web(body="x"), f"{_WEB}.body", "POST or PUT"),
    Bad("JSON of a GET", web(jsonBody={"a": 1}), f"{_WEB}.jsonBody", "POST or PUT"),
    Bad("two bodies", web(method="PUT", body="x", jsonBody={}), f"{_WEB}.body", "one of them"),
    Bad("path into a status", web(result="status", jsonPath="{$.a}"), f"{_WEB}.jsonPath", "result: status"),
    Bad("status without a condition", web(result="status"), f"{_METRIC}.successCondition", "say which are good"),
    Bad("status that only fails", metric(provider={"web": {**WEB["web"], "result": "status"}}, successCondition=GONE,
        failureCondition="result == 403"), f"{_METRIC}.successCondition", "say which are good"),
    Bad("result of the headers", web(result="headers"), f"{_WEB}.result", "must be"),
    Bad("200 that is not yet", web(notYet=[403, 200]), f"{_WEB}.notYet[1]", "201"),
    Bad("status that is none", web(notYet=[600]), f"{_WEB}.notYet[0]", "599"),
    Bad("one status without a list", web(notYet=403), f"{_WEB}.notYet", "list"),
    Bad("too many statuses", web(notYet=[*range(400, 417)]), f"{_WEB}.notYet", "16"),
    Bad("canary against stable by statuses", value_of({"web": {"url": "http://s/{{arm}}", "result": "status"}}),
        f"{_METRIC}.provider.compare.of.web.result", "a metric of its own"),
    Bad("canary against stable, not yet", value_of({"web": {"url": "http://s/{{arm}}", "notYet": [403]}}),
        f"{_METRIC}.provider.compare.of.web.notYet", "a metric of its own"),
    Bad("header of two lines", web(headers=[{"key": "A", "value": "b\r\nC: d"}]), f"{_WEB}.headers[0].value", "one line"),
    Bad("header without a name", web(headers=[{"value": "b"}]), f"{_WEB}.headers[0].key", "is required"),
    Bad("header without a value", web(headers=[{"key": "A"}]), f"{_WEB}.headers[0].value", "is required"),
    Bad("Job of nothing", metric(provider={"job": {}}), f"{_METRIC}.provider.job.spec", "is required"),
    Bad("more than all pods", metric(provider={"kubernetes": {"minReadyPercent": 101}}),
        f"{_METRIC}.provider.kubernetes.minReadyPercent", "from 0 to 100"),
    Bad("argument without a name", {**TEMPLATE, "args": [{"value": "x"}]}, "spec.args[0].name", "is required"),
    Bad("two arguments of one name", {**TEMPLATE, "args": [{"name": "a"}] * 2}, "spec.args[1].name", "another argument"),
    Bad("argument with a value and a secret", {**TEMPLATE, "args": [{**_SECRET, "value": "x"}]}, "spec.args[0]", "it has both"),
    Bad("argument from nowhere", {**TEMPLATE, "args": [{"name": "a", "valueFrom": {}}]}, "spec.args[0].valueFrom", "one of"),
    Bad("field without a path", {**TEMPLATE, "args": [{"name": "a", "valueFrom": {"fieldRef": {}}}]},
        "spec.args[0].valueFrom.fieldRef.fieldPath", "is required"),
    Bad("secret without a key", {**TEMPLATE, "args": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
        "spec.args[0].valueFrom.secretKeyRef.key", "is required"),
    Bad("argument that is a template", {**TEMPLATE, "args": [{"name": "a", "value": "{{args.b}}"}]},
        "spec.args[0].value", "must not have {{"),
    Bad("argument that is a list", {**TEMPLATE, "args": [{"name": "a", "value": []}]}, "spec.args[0].value", "a string"),
    Bad("dry run without a name", {**TEMPLATE, "dryRun": [{}]}, "spec.dryRun[0].metricName", "is required"),
    Bad("two rules of one name", {**TEMPLATE, "dryRun": [{"metricName": "errors"}] * 2}, "spec.dryRun[1].metricName",
        "another rule"),
    Bad("rule that is no expression", {**TEMPLATE, "dryRun": [{"metricName": "*"}]}, "spec.dryRun[0].metricName",
        "regular expression"),
    Bad("retention without a limit", {**TEMPLATE, "measurementRetention": [{"metricName": ".*"}]},
        "spec.measurementRetention[0].limit", "is required"),
    Bad("rule that takes long", {**TEMPLATE, "dryRun": [{"metricName": "(a{900}){900}"}]},
        "spec.dryRun[0].metricName", "too large"),
    Bad("more than the status can hold", {**TEMPLATE, "measurementRetention": [{"metricName": ".*", "limit": 1001}]},
        "spec.measurementRetention[0].limit", "1000 or less"),
    Bad("reference without a name", {"templates": [{}]}, "spec.templates[0].templateName", "is required"),
    Bad("place that does not end", metric(successCondition="{{args.x"), f"{_METRIC}.successCondition", "}}"),
    Bad("place of something else", metric(name="{{ .Values.x }}"), f"{_METRIC}.name", "no argument"),
    Bad("secret in a query", _secret_in(provider__prometheus__query='a{b="{{args.s}}"}'), f"{_PROMETHEUS}.query", "a secret"),
    Bad("secret in an address", _secret_in(provider__prometheus__address="http://{{args.s}}"),
        f"{_PROMETHEUS}.address", "a secret"),
    Bad("secret in a condition", _secret_in(successCondition="'{{args.s}}' == ''"), f"{_METRIC}.successCondition", "a secret"),
    Bad("secret in a name", _secret_in(name="{{args.s}}"), f"{_METRIC}.name", "a secret"),
    Bad("secret in a Job", _secret_in(provider={"job": {"spec": {"env": "{{args.s}}"}}}),
        f"{_METRIC}.provider.job.spec.env", "a secret"),
    Bad("PromQL in an argument",
        {"args": [{"name": "x", "value": "1 or vector(1)"}], **metric(provider__prometheus__query="errors > {{args.x}}")},
        f"{_PROMETHEUS}.query", "outside of quotes"),
)  # fmt: skip
