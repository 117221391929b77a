"""The manifests in Argo Rollouts' documentation of each provider and in its examples, as those in argo_examples.py.

Source: Argo Rollouts v1.10.0, the pages analysis/*.md of its documentation; its folder examples.
"""

from __future__ import annotations

from typing import Any

from tests.api.argo_examples import (
    ADDRESS,
    BEARER,
    FEATURES,
    HASHES,
    RATES,
    TAKES_SERVICE,
    TOKEN,
    Example,
    example,
    of_rollout,
    of_template,
    prometheus,
    rate,
    template,
    web,
)
from tests.api.specs import Spec, canary, changed

JOBS = "metrics that are Jobs"
OTHERS = "other metric providers"
SERVERS = "metric servers whose account is a Secret"

JSON: Spec = {"key": "Content-Type", "value": "application/json"}
BODY: Spec = {"key1": "a", "key2": {"nestedObj": "b", "key3": "{{ args.service-name }}"}}
WITH_TOKEN = [*TAKES_SERVICE, TOKEN]
TENANT: Spec = {"key": "X-Scope-OrgID", "value": "tenant_a"}
LOOKBACK: Spec = {"start": 'now() - duration("{{args.lookback-duration}}")', "end": "now()", "step": "1m"}
OAUTH_SECRET: Spec = {"name": "oauthSecret", "valueFrom": {"secretKeyRef": {"name": "oauth", "key": "secret"}}}
OAUTH: Spec = {
    "oauth2": {
        "tokenUrl": "https://sso.example/token",
        "clientId": "me",
        "clientSecret": "{{ args.oauthSecret }}",
        "scopes": ["metrics"],
    }
}
BASIC_SECRETS: list[Spec] = [
    {"name": name, "valueFrom": {"secretKeyRef": {"name": "basicauth", "key": key}}}
    for name, key in (("basicAuthUsername", "username"), ("basicAuthSecret", "secret"))
]
BASIC: Spec = {"basicAuth": {"username": "{{ args.basicAuthUsername }}", "password": "{{ args.basicAuthSecret }}"}}
_EXPERIMENT: Spec = {
    "duration": "1h",
    "templates": [{"name": "baseline", "specRef": "stable"}, {"name": "canary", "specRef": "canary"}],
    "analyses": [{"name": "mann-whitney", "templateName": "mann-whitney", "args": HASHES}],
}
_KAYENTA = {"address": "https://kayenta.example", "application": "guestbook", "canaryConfigName": "my-test"}
_LOAD = {"command": ["sh", "-c", "-x", "-e"], "args": ["wrk http://rollout.{{ args.namespace }}.svc/color"]}


def job(name: str, count: int | None, **container: Any) -> Spec:
    pod = {"containers": [{"name": "c", "image": "alpine:3", **container}], "restartPolicy": "Never"}
    counted = {} if count is None else {"count": count, "interval": "5s", "failureLimit": 1}
    return {"name": name, **counted, "provider": {"job": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}}}


def other(provider: str, condition: str, **settings: Any) -> Spec:
    return template({"name": "m", "interval": "5m", "successCondition": condition, "provider": {provider: settings}})


PROVIDERS: tuple[Example, ...] = (
    *(
        of_template(f"analysis/web.md: {name}", spec, ADDRESS)
        for name, spec in {
            "a GET": template(web(timeoutSeconds=20), args=WITH_TOKEN),
            "an object": template(web("result.ok && result.successPercent >= 0.90", "{$.data}"), args=WITH_TOKEN),
            "a POST": template(web(method="POST", body="a text", headers=[BEARER, JSON]), args=WITH_TOKEN),
            "a POST of JSON": template(web(method="POST", jsonBody=BODY, headers=[BEARER, JSON]), args=WITH_TOKEN),
            "a certificate that is not checked": template(web(insecure=True), args=WITH_TOKEN),
            "client credentials": template(web(authentication=OAUTH, headers=[JSON]), args=[*TAKES_SERVICE, OAUTH_SECRET]),
        }.items()
    ),
    *(
        of_template(f"analysis/prometheus.md: {name}", spec, ADDRESS)
        for name, spec in {
            "a header and a time": template(rate(provider=prometheus(timeout=40, headers=[TENANT]), **RATES)),
            "client credentials": template(rate(provider=prometheus(timeout=40, authentication=OAUTH), **RATES),
                args=[*TAKES_SERVICE, OAUTH_SECRET]),
            "a password": template(rate(provider=prometheus(timeout=40, authentication=BASIC), **RATES),
                args=[*TAKES_SERVICE, *BASIC_SECRETS]),
            "a certificate that is not checked": template(rate(provider=prometheus(insecure=True))),
            "a range": template(rate(successCondition="all(result, # < 1000)", failureLimit=0,
                provider=prometheus('http_latency_ms{service="{{args.service-name}}"}', rangeQuery=LOOKBACK)),
                args=[*TAKES_SERVICE, {"name": "lookback-duration", "value": "5m"}]),
        }.items()
    ),
    of_template("analysis/prometheus.md: Amazon",
        template(rate(provider=prometheus(authentication={"sigv4": {"region": "r", "profile": "p", "roleArn": "arn"}}))),
        "`authentication.sigv4`",
        refused={"spec.metrics[0].provider.prometheus.authentication.sigv4": "not supported"}),
    of_template("analysis/job.md", template(changed(job("test", None, command=["test", "cart.shop.svc"]),
        provider__job__metadata={"annotations": {"foo": "bar"}, "labels": {"foo": "bar"}}), args=[]), JOBS),
    *(
        of_template(f"analysis/{name.lower()}.md: {condition}", other(name, condition, **settings), SERVERS,
            refused=refused)
        for name, condition, settings, refused in (
            ("datadog", "result <= 0.01", {"apiVersion": "v2", "interval": "5m", "query": "sum:errors{*}"}, {}),
            ("datadog", "default(result, 0) < 10", {"apiVersion": "v1", "interval": "5m", "query": "sum:errors{*}"}, {}),
            ("datadog", "default(result, 0) < 5",
                {"apiVersion": "v2", "aggregator": "sum", "queries": {"a": "x", "b": "y"}, "formula": "a / b"}, {}),
            ("datadog", "result < 10", {"secretRef": {"name": "mine", "namespaced": True}, "query": "sum:errors{*}"},
                {"spec.metrics[0].provider.datadog.secretRef.namespaced": "not supported"}),
            ("graphite", "result[0] >= 90.000000", {"address": "http://graphite.example:9090", "query": "target=x"}, {}),
            ("newRelic", "result.successRate >= 0.95", {"profile": "mine", "query": "FROM Transaction", "timeout": 10}, {}),
            ("cloudWatch", "len(result[0].Values) >= 5 and all(result[0].Values, {# <= 0.01})",
                {"interval": "30m", "metricDataQueries": [{"id": "rate", "expression": "errors / requests"}]}, {}),
            ("influxdb", "result[0] <= 0.01", {"profile": "mine", "query": 'from(bucket: "b")'}, {}),
            ("skywalking", "all(result.service_apdex.values.values, {asFloat(.value) >= 9900})",
                {"interval": "3m", "address": "http://skywalking.example:12800", "query": "query q($duration: D!) {a}"}, {}),
            ("wavefront", "result >= 0.95", {"address": "example.wavefront.com", "query": "ts(x)"}, {}),
        )
    ),
    *(
        of_template(f"analysis/{name.lower()}.md: {condition}", other(name, condition, **settings), OTHERS,
            refused={f"spec.metrics[0].provider.{name}": "is not supported: compare canary and stable"})
        for name, condition, settings in (
            ("kayenta", "", {**_KAYENTA, "interval": "3600", "count": 3, "thresholds": {"pass": 90, "marginal": 75}}),
        )
    ),
    of_template(
        "analysis/datadog.md: arguments with dots in their names",
        template(
            {
                "name": "kubernetes.containers.restarts",
                "initialDelay": "{{ args.restarts.initial-delay }}",
                "interval": "15s",
                "failureCondition": "default(result, 0) > {{ args.restarts.max-restarts }}",
                "failureLimit": 0,
                "provider": {"datadog": {"apiVersion": "v2", "queries": {"q": "max:restarts{hash:{{args.canary-hash}}}"}}},
            },
            args=[
                {"name": "canary-hash"},
                {"name": "restarts.initial-delay", "value": "60s"},
                {"name": "restarts.max-restarts", "value": "4"},
            ],
        ),
        SERVERS,
    ),
    of_rollout("analysis/kayenta.md: in an experiment", canary(steps=[{"experiment": _EXPERIMENT}])),
)  # fmt: skip

EXAMPLES: tuple[Example, ...] = (
    of_template("examples/analysis-templates.yaml: pass",
        template(job("pass", 1, command=["sh", "-c"], args=["exit 0"]), args=[]), JOBS),
    of_template("examples/analysis-templates.yaml: random-fail",
        template(job("random-fail", 2, command=["sh", "-c"], args=["exit $(($RANDOM%2))"]), args=[]), JOBS),
    example("ClusterAnalysisTemplate", "examples/cluster-analysis-templates.yaml",
        template(job("pass", 1, command=["sh", "-c"], args=["exit 0"]), args=[]), JOBS),
    of_rollout("examples/rollout-analysis-step.yaml", canary(steps=[{"setWeight": 25}, {"analysis": {"templates": [
        {"templateName": "random-fail"}, {"templateName": "always-pass", "clusterScope": True}]}}])),
    of_rollout("examples/rollout-background-analysis.yaml",
        canary(analysis={"templates": [{"templateName": "random-fail"}]})),
    of_template("examples/rollout-secret.yaml", template({"name": "webmetric", "successCondition": "result == 'It worked!'",
            "provider": {"web": {"url": "{{args.secret-url}}", "jsonPath": "{$.message}"}}},
            args=[{"name": "secret-url", "valueFrom": {"secretKeyRef": {"name": "s", "key": "secretUrl"}}}]),
        ADDRESS, "a Secret in a query, a condition, a name or a Job"),
    of_rollout("examples/rollout-experiment-step.yaml, rollout-baseline-vs-canary.yaml",
        canary(steps=[{"setWeight": 25}, {"experiment": {"templates": _EXPERIMENT["templates"]}}])),
    of_template("examples/traffic-management: load-test",
        template(job("pass", None, **_LOAD), args=[{"name": "namespace"}]), JOBS),
    of_template("examples/appmesh: success-rate", template(
        rate(provider=prometheus('sum(irate(rq_xx{cluster="{{args.envoy_cluster_name}}",class!~"5.*"}[5m]))'), **RATES),
        args=[{"name": "envoy_cluster_name"}])),
    of_rollout("examples/appmesh: the Rollout",
        canary(stableService="s", canaryService="c", trafficRouting={"appMesh": {"virtualService": {"name": "v"}}}),
        "ambassador, appMesh, smi", refused={"spec.strategy.canary.trafficRouting.appMesh": "not supported"}),
    of_rollout("examples/traffic-management/rollout-linkerd.yaml",
        canary(stableService="s", canaryService="c", trafficRouting={"smi": {"rootService": "r"}}, steps=[{"setWeight": 5}]),
        "ambassador, appMesh, smi", refused={"spec.strategy.canary.trafficRouting.smi": "not supported"}),
)  # fmt: skip

ALL: tuple[Example, ...] = (*FEATURES, *PROVIDERS, *EXAMPLES)
