"""The manifests in Argo Rollouts' documentation of analysis and in its examples, field by field, with short values of our own.

Only `apiVersion` is another one. Each says where it stands, what of it is refused, and which rows of docs/argo-compatibility.md
tell of what it means here. Manifests of the kind Experiment are in `test_an_experiment_is_read_or_refused.py`.

Source: Argo Rollouts v1.10.0, the page features/analysis.md of its documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from tests.api.specs import Spec, blue_green, canary
from tests.build import NOTHING

Kind: TypeAlias = Literal["Rollout", "AnalysisTemplate", "ClusterAnalysisTemplate", "AnalysisRun"]

ADDRESS = "`prometheus.address` and the URL of a web request"
NO_EVIDENCE = "`noData`, `minSamples`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One manifest.

    Args:
        where: the file, and what the manifest shows.
        refused: path of each problem, and words of its message.
        differs: subjects of rows of the page.
    """

    where: str
    kind: Kind
    spec: Spec
    refused: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[str, ...] = ()


def example(kind: Kind, where: str, spec: Spec, *differs: str, refused: Mapping[str, str] = NOTHING) -> Example:
    return Example(where=where, kind=kind, spec=spec, refused=refused, differs=differs)


of_template, of_rollout = partial(example, "AnalysisTemplate"), partial(example, "Rollout")
SERVICE: Spec = {"name": "service-name", "value": "cart.shop.svc"}
TAKES_SERVICE: list[Spec] = [{"name": "service-name"}]
SELECTED = 'requests_total{reporter="source",destination_service=~"{{args.service-name}}"'
RATE = f'sum(irate(\n  {SELECTED},response_code!~"5.*"}}[5m]\n)) /\nsum(irate(\n  {SELECTED}}}[5m]\n))\n'
ERRORS = f'sum(irate(\n  {SELECTED},response_code=~"5.*"}}[5m]\n))\n'
TOKEN: Spec = {"name": "api-token", "valueFrom": {"secretKeyRef": {"name": "token", "key": "apiToken"}}}
BEARER: Spec = {"key": "Authorization", "value": "Bearer {{ args.api-token }}"}
MEASURE = "http://server.example/measure?service={{ args.service-name }}"


def prometheus(query: str = RATE, **more: Any) -> Spec:
    return {"prometheus": {"address": "http://prometheus.example:9090", "query": query, **more}}


def rate(**more: Any) -> Spec:
    base = {"name": "success-rate", "successCondition": "result[0] >= 0.95", "provider": prometheus()}
    return {**base, **more}


def failing(name: str = "total-errors", **more: Any) -> Spec:
    base = {"interval": "5m", "failureCondition": "result[0] >= 10", "failureLimit": 3, "provider": prometheus(ERRORS)}
    return {"name": name, **base, **more}


def template(*metrics: Spec, args: list[Spec] | None = None, **more: Any) -> Spec:
    """A template with the argument of most pages."""
    return {"args": TAKES_SERVICE if args is None else args, "metrics": list(metrics), **more}


def web(condition: str = "result == true", part: str = "{$.data.ok}", **more: Any) -> Spec:
    request = {"url": MEASURE, "headers": [BEARER], "jsonPath": part, **more}
    return {"name": "webmetric", "successCondition": condition, "provider": {"web": request}}


def analysis(*names: str, args: list[Spec] | None = None, **more: Any) -> Spec:
    return {
        "templates": [{"templateName": name} for name in names],
        "args": [SERVICE] if args is None else args,
        **more,
    }


def from_field(name: str, path: str) -> Spec:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


PAUSE: Spec = {"pause": {"duration": "10m"}}
STEPS: list[Spec] = [each for weight in (20, 40, 60, 80) for each in ({"setWeight": weight}, PAUSE)]
BY_PORT = "http://prometheus.example:{{args.prometheus-port}}"
WITH_PORT = template(
    rate(provider=prometheus(address=BY_PORT)), args=[*TAKES_SERVICE, {"name": "prometheus-port", "value": 9090}]
)
RATES = {"interval": "5m", "failureLimit": 3}
ERROR_RATE = rate(name="error-rate", successCondition="result[0] <= 0.95", provider=prometheus(ERRORS), **RATES)
_TOTALS = (failing("total-5xx-errors"), failing("total-4xx-errors"))
HASHES = [
    {"name": "stable-hash", "valueFrom": {"podTemplateHashValue": "Stable"}},
    {"name": "latest-hash", "valueFrom": {"podTemplateHashValue": "Latest"}},
]
_PAGE = "features/analysis.md"

FEATURES: tuple[Example, ...] = (
    of_rollout(f"{_PAGE}: in the background", canary(analysis=analysis("success-rate", startingStep=2), steps=STEPS)),
    of_template(f"{_PAGE}: template of the background", template(rate(**RATES)), ADDRESS, "arguments in PromQL"),
    of_rollout(f"{_PAGE}: in a step", canary(steps=[{"setWeight": 20}, PAUSE, {"analysis": analysis("success-rate")}]),
        "an argument of a step's analysis that is changed during the update"),
    of_template(f"{_PAGE}: one measurement, a number for a default", WITH_PORT,
        "a default that is a number (`value: 9090`)"),
    of_template(f"{_PAGE}: several measurements", template(rate(interval="60s", count=5))),
    of_rollout(f"{_PAGE}: of the cluster, in a step", canary(steps=[{"setWeight": 20}, PAUSE,
        {"analysis": {**analysis(), "templates": [{"templateName": "success-rate", "clusterScope": True}]}}])),
    example("ClusterAnalysisTemplate", f"{_PAGE}: of the cluster", WITH_PORT),
    of_rollout(f"{_PAGE}: several templates", canary(analysis=analysis("success-rate", "error-rate"))),
    of_template(f"{_PAGE}: the second of them", template(ERROR_RATE)),
    example("AnalysisRun", f"{_PAGE}: the run of both", {"args": [SERVICE], "metrics": [rate(**RATES), ERROR_RATE]}),
    of_template(f"{_PAGE}: metrics and another template",
        template(rate(**RATES), templates=[{"templateName": "error-rate", "clusterScope": False}]),
        "templates that name each other in a circle"),
    of_template(f"{_PAGE}: other templates alone", {"args": TAKES_SERVICE, "templates": [
        {"templateName": name, "clusterScope": False} for name in ("success-rate", "error-rate")]},
        "two defaults of an argument, of which one is a Secret"),
    of_template(f"{_PAGE}: arguments of a template",
        template(web("result == 'true'", "{$.results.ok}", url="{{ args.api-url }}?service={{ args.service-name }}"),
            args=[*TAKES_SERVICE, {"name": "stable-hash"}, {"name": "latest-hash"},
                {"name": "api-url", "value": "http://server.example/measure"}, TOKEN]),
        "an argument whose value has `{{` in it"),
    of_rollout(f"{_PAGE}: arguments of a Rollout", canary(analysis=analysis(
        "args-example", args=[SERVICE, {"name": "api-url", "value": "http://other.example"}, *HASHES])),
        "an argument of a Rollout in place of a template's Secret"),
    *(
        of_rollout(f"{_PAGE}: an argument from {path}",
            canary(analysis=analysis("args-example", args=[from_field("one", path)])), *differs)
        for path, *differs in (("metadata.labels['env']",), ("metadata.labels['region']",),
            ("status.alb.canaryTargetGroup.name", "status"), ("spec.template.metadata.labels.version",))
    ),
    *(
        of_rollout(f"{_PAGE}: {name}", blue_green(**{name: analysis("smoke-tests")}, scaleDownDelaySeconds=600))
        for name in ("prePromotionAnalysis", "postPromotionAnalysis")
    ),
    of_template(f"{_PAGE}: a failure condition", template(failing())),
    *(
        of_template(f"{_PAGE}: {name}", template(rate(interval="1m", **limits)))
        for name, limits in {
            "successes in a row": {"failureLimit": -1, "consecutiveSuccessLimit": 4},
            "successes in a row and failures": {"failureLimit": 3, "consecutiveSuccessLimit": 4},
        }.items()
    ),
    *(
        of_template(f"{_PAGE}: {name} of {what}", template(*_TOTALS, **{name: [rule]}))
        for name, more in {"dryRun": {}, "measurementRetention": {"limit": 20}}.items()
        for what in ("total-5xx-errors", ".*")
        for rule in ({"metricName": what, **more},)
    ),
    *(
        of_rollout(f"{_PAGE}: {name} in a Rollout",
            canary(steps=[{"analysis": {"templates": [{"templateName": "random-fail"}], name: value}}]))
        for name, value in {
            "dryRun": [{"metricName": ".*"}],
            "measurementRetention": [{"metricName": ".*", "limit": 20}],
            "analysisRunMetadata": {"labels": {"my-label": "a"}, "annotations": {"my-annotation": "b"}},
        }.items()
    ),
    example("AnalysisRun", f"{_PAGE}: time to live", {"args": [SERVICE], "metrics": [rate()],
        "ttlStrategy": {"secondsAfterCompletion": 3600, "secondsAfterSuccess": 1800, "secondsAfterFailure": 1800}},
        "`completedAt` of a run whose spec is wrong"),
    of_template(f"{_PAGE}: no condition", template({"name": "my-query", "provider": prometheus()}),
        "a metric without one successful measurement"),
    of_template(f"{_PAGE}: both conditions",
        template(rate(successCondition="result[0] >= 0.90", failureCondition="result[0] < 0.50"))),
    of_template(f"{_PAGE}: a delay", template(rate(initialDelay="5m"))),
    of_rollout(f"{_PAGE}: a later start",
        canary(analysis=analysis("success-rate", args=[], startingStep=2), steps=STEPS[:4]),
        "`startingStep` beyond the last step"),
    of_template(f"{_PAGE}: a Secret in a header", template(
        {"name": "webmetric", "provider": {"web": {"url": "http://server.example", "headers": [BEARER]}}}, args=[TOKEN]),
        "a Secret in a query, a condition, a name or a Job"),
    *(
        example("AnalysisRun", f"{_PAGE}: {' and '.join(conditions.values())}",
            {"args": [SERVICE], "metrics": [{"name": "success-rate", "provider": prometheus(), **conditions}]}, NO_EVIDENCE)
        for conditions in (
            {"successCondition": "isNaN(result) || result >= 0.95"},
            {"successCondition": "result >= 0.95", "failureCondition": "result < 0.95"},
            {"successCondition": "result >= 0.95"},
            {"failureCondition": "isInf(result)"},
            {"successCondition": "len(result) == 0 || result[0] >= 0.95"},
            {"successCondition": "len(result) > 0 && result[0] >= 0.95"},
            {"successCondition": "default(result, 0) < 0.05"},
        )
    ),
)  # fmt: skip
