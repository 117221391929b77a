"""The manifests that Argo Rollouts brings, by the fields that they use (argo_manifests.txt), with short values of our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouts.objects import Manifest
from tests.api.specs import ANALYSIS, CANARY, GONE, Spec, changed

_FROM_SECRET: Spec = {"secretKeyRef": {"name": "token", "key": "token"}}
_OAUTH: Spec = {"tokenUrl": "https://sso.example/token", "clientId": "me", "clientSecret": "{{args.secret}}"}
_HEADER: Spec = {"headerName": "trace", "headerValue": {"exact": "debug"}}
_OF_BOTH: list[Spec] = [{"name": name, "specRef": name} for name in ("stable", "canary")]
_VIRTUAL_SERVICE: Spec = {"name": "cart", "routes": ["primary"]}

STEPS: Mapping[str, Spec] = {
    "setWeight": {"setWeight": 20},
    "pause": {"pause": {"duration": 15}},
    "setCanaryScale": {"setCanaryScale": {"replicas": 1}},
    "setHeaderRoute": {"setHeaderRoute": {"name": "managed", "match": [_HEADER]}},
    "setMirrorRoute": {"setMirrorRoute": {"name": "managed", "percentage": 5, "match": [{"path": {"prefix": "/"}}]}},
    "step.analysis": {"analysis": ANALYSIS},
    "step.analysis.fieldRef": {
        "analysis": {**ANALYSIS, "args": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
    },
    "experiment": {"experiment": {"templates": _OF_BOTH}},
    "experiment.weight": {"experiment": {"duration": "1m", "templates": [{**each, "weight": 5} for each in _OF_BOTH]}},
    "experiment.analyses": {
        "experiment": {
            "templates": _OF_BOTH,
            "analyses": [
                {
                    "name": "compare",
                    "templateName": "compare",
                    "requiredForCompletion": True,
                    "args": [{"name": "hash", "valueFrom": {"podTemplateHashValue": "Latest"}}],
                }
            ],
        }
    },
    "plugin": {"plugin": {"name": "ours/step"}},
}
"""What a step of that kind is."""

FIELDS: Mapping[str, Spec] = {
    "canary": {"strategy": {"canary": {}}},
    "blueGreen": {"strategy": {"blueGreen": {"activeService": "cart"}}},
    "workloadRef": {
        "template": GONE,
        "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"},
    },
    "workloadRef.scaleDown": {"workloadRef__scaleDown": "never"},
    "rollbackWindow": {"rollbackWindow": {"revisions": 1}},
    "progressDeadlineAbort": {"progressDeadlineAbort": True},
    "progressDeadlineSeconds": {"progressDeadlineSeconds": 30},
    "minReadySeconds": {"minReadySeconds": 5},
    "services": {"$canaryService": "cart-canary", "$stableService": "cart"},
    "analysis": {"$analysis": ANALYSIS},
    "analysis.startingStep": {"$analysis__startingStep": 1},
    "analysis.startingStep.last": {"$analysis__startingStep": 2},
    "canaryMetadata": {"$canaryMetadata": {"labels": {"role": "canary"}, "annotations": {"role": "canary"}}},
    "stableMetadata": {"$stableMetadata": {"labels": {"role": "stable"}}},
    "activeMetadata": {"$activeMetadata": {"labels": {"role": "active"}}},
    "previewMetadata": {"$previewMetadata": {"labels": {"role": "preview"}}},
    "abortScaleDownDelaySeconds": {"$abortScaleDownDelaySeconds": 2},
    "scaleDownDelaySeconds": {"$scaleDownDelaySeconds": 2},
    "scaleDownDelayRevisionLimit": {"$scaleDownDelayRevisionLimit": 1},
    "dynamicStableScale": {"$dynamicStableScale": True},
    "maxSurge": {"$maxSurge": 1},
    "maxUnavailable": {"$maxUnavailable": "50%"},
    "pingPong": {"$pingPong": {"pingService": "ping", "pongService": "pong"}},
    "autoPromotionEnabled": {"$autoPromotionEnabled": False},
    "autoPromotionSeconds": {"$autoPromotionSeconds": 5},
    "previewReplicaCount": {"$previewReplicaCount": 1},
    "previewService": {"$previewService": "cart-preview"},
    "prePromotionAnalysis": {"$prePromotionAnalysis": ANALYSIS},
    "postPromotionAnalysis": {"$postPromotionAnalysis": ANALYSIS},
    "alb.ingress": {"$trafficRouting__alb__ingress": "cart", "$trafficRouting__alb__servicePort": 80},
    "alb.ingresses": {"$trafficRouting__alb__ingresses": ["cart", "shop"], "$trafficRouting__alb__servicePort": 80},
    "alb.rootService": {"$trafficRouting__alb__rootService": "cart-root"},
    "istio.virtualService": {"$trafficRouting__istio__virtualService": _VIRTUAL_SERVICE},
    "istio.virtualServices": {
        "$trafficRouting__istio__virtualServices": [_VIRTUAL_SERVICE, {"name": "shop", "routes": ["secondary"]}]
    },
    "istio.destinationRule": {
        "$trafficRouting__istio__destinationRule": {
            "name": "cart",
            "canarySubsetName": "canary",
            "stableSubsetName": "stable",
        }
    },
    "nginx.stableIngress": {"$trafficRouting__nginx": {"stableIngress": "cart"}},
    "apisix": {"$trafficRouting__apisix": {"route": {"name": "cart", "rules": ["cart"]}}},
    "ambassador": {"$trafficRouting__ambassador": {"mappings": ["cart"]}},
    "appMesh": {"$trafficRouting__appMesh": {"virtualService": {"name": "cart"}}},
    "smi": {"$trafficRouting__smi": {}},
}
"""What is written for a field of a Rollout; `$` is its strategy."""

PROVIDERS: Mapping[str, tuple[Spec, str]] = {
    "cloudWatch": ({"metricDataQueries": [{"id": "rate", "expression": "a/b"}]}, "len(result[0].Values) > 0"),
    "datadog": ({"apiVersion": "v2", "interval": "5m", "query": "sum:errors{*}"}, "default(result, 0) < 5"),
    "graphite": ({"address": "http://graphite.example", "query": "target=a"}, "result[0] >= 90"),
    "influxdb": ({"profile": "ours", "query": 'from(bucket: "b")'}, "result[0] <= 0.01"),
    "job": (
        {"spec": {"backoffLimit": 0, "template": {"spec": {**CANARY["template"]["spec"], "restartPolicy": "Never"}}}},
        "",
    ),
    "kayenta": ({"address": "https://kayenta.example", "canaryConfigName": "a", "application": "cart"}, ""),
    "newRelic": ({"profile": "ours", "query": "FROM Transaction"}, "result.rate >= 0.95"),
    "prometheus": ({"address": "http://prometheus.example", "query": "up"}, "result[0] >= 0.95"),
    "skywalking": (
        {"address": "http://skywalking.example", "interval": "3m", "query": "query q($duration: Duration!) {a}"},
        "result.a > 1",
    ),
    "wavefront": ({"address": "example.wavefront.com", "query": "ts(x)"}, "result >= 0.95"),
    "web": ({"url": "http://server.example/measure"}, "result.ok"),
}
"""What is written for a metric that asks this server, and a condition about its answers."""

OF_PROVIDERS: Mapping[str, Any] = {
    "datadog.formula": "a * 100",
    "datadog.queries": {"a": "sum:a{*}"},
    "datadog.secretRef.namespaced": True,
    "newRelic.timeout": 10,
    "prometheus.authentication.basicAuth": {"username": "me", "password": "{{args.secret}}"},
    "prometheus.authentication.oauth2": _OAUTH,
    "prometheus.headers": [{"key": "X-Scope-OrgID", "value": "tenant"}],
    "prometheus.rangeQuery": {"start": "now() - duration('5m')", "end": "now()", "step": "1m"},
    "prometheus.timeout": 40,
    "web.authentication.oauth2": _OAUTH,
    "web.headers": [{"key": "Authorization", "value": "Bearer {{args.secret}}"}],
    "web.insecure": True,
    "web.jsonPath": "{$.data}",
    "web.timeoutSeconds": 20,
}
OF_METRICS: Spec = {
    "count": 1,
    "failureLimit": 1,
    "inconclusiveLimit": 3,
    "initialDelay": "10s",
    "interval": "5s",
    "failureCondition": "default(result, 0) > 10",
    "successCondition.results": "results[0] >= 90",
}
OF_TEMPLATES: Mapping[str, Any] = {
    "args": {"name": "service"},
    "args.value": {"name": "port", "value": "9090"},
    "args.secretKeyRef": {"name": "secret", "valueFrom": _FROM_SECRET},
}
OF_EXPERIMENTS: Mapping[str, Any] = {
    "duration": "30s",
    "progressDeadlineSeconds": 30,
    "scaleDownDelaySeconds": 5,
    "analyses": [{"name": "pass", "templateName": "pass"}],
    "dryRun": [{"metricName": "pass.*"}],
    "measurementRetention": [{"metricName": "pass.*", "limit": 20}],
}
OF_GROUPS: Mapping[str, Any] = {"service": {}, "replicas": 1, "minReadySeconds": 5}
OF_ANALYSES: Mapping[str, Any] = {"args": [{"name": "host", "value": "a"}], "requiredForCompletion": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgoManifests:
    """Manifests of Argo Rollouts that use the same fields.

    Args:
        row: the subject of the row that says why they are refused; "" for those that are taken.
    """

    kind: str
    fields: tuple[str, ...]
    number: int
    row: str

    @property
    def manifest(self) -> Manifest:
        """One of them, with another `apiVersion` and short values."""
        spec = {"Rollout": _rollout, "Experiment": _experiment}.get(self.kind, _analysis)(self.fields)
        return {
            "apiVersion": "rollouts.dev/v1alpha1",
            "kind": self.kind,
            "metadata": {"name": "cart"},
            "spec": spec,
        }


def _rollout(fields: tuple[str, ...]) -> Spec:
    strategy = f"strategy__{fields[0]}"
    spec = deepcopy(changed(CANARY, **FIELDS[fields[0]]))
    for name in fields[1:]:
        if name in FIELDS:
            changes = {path.replace("$", f"{strategy}__"): value for path, value in FIELDS[name].items()}
            spec = deepcopy(changed(spec, **changes))
            continue
        step: Spec = {}
        for kind in name.split("+"):
            step |= STEPS[kind]
        spec["strategy"]["canary"].setdefault("steps", []).append(step)
        if "Route" in name:
            spec["strategy"]["canary"]["trafficRouting"]["managedRoutes"] = [{"name": "managed"}]
    return spec


def _analysis(fields: tuple[str, ...]) -> Spec:
    spec: Spec = {}
    metric: Spec = {"name": "m"}
    condition = ""
    for name in fields:
        if name in PROVIDERS:
            settings, condition = PROVIDERS[name]
            metric["provider"] = {name: settings}
            spec["metrics"] = [metric]
        elif name in OF_PROVIDERS:
            if name == "datadog.queries":
                metric = changed(metric, provider__datadog__query=GONE)
            metric = changed(metric, **{f"provider__{name.replace('.', '__')}": OF_PROVIDERS[name]})
            spec["metrics"] = [metric]
        elif name == "templates":
            spec["templates"] = [{"templateName": "other", "clusterScope": False}]
        elif name in OF_TEMPLATES:
            spec.setdefault("args", []).append(OF_TEMPLATES[name])
        else:
            metric[name.split(".")[0]] = condition if name == "successCondition" else OF_METRICS[name]
    return spec


def _experiment(fields: tuple[str, ...]) -> Spec:
    group = {"name": "a", "selector": CANARY["selector"], "template": CANARY["template"]}
    spec: Spec = {"templates": [group]}
    for name in fields:
        if name in OF_GROUPS:
            group[name] = OF_GROUPS[name]
        elif name.startswith("analyses."):
            spec["analyses"] = [{**spec["analyses"][0], name.split(".")[1]: OF_ANALYSES[name.split(".")[1]]}]
        else:
            spec[name] = OF_EXPERIMENTS[name]
    return spec


def _read() -> Iterator[ArgoManifests]:
    kind = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            kind = line.removeprefix("## ")
        elif not line.startswith("#"):
            found, _, row = line.partition(" | ")
            number, *fields = found.split()
            yield ArgoManifests(kind=kind, fields=tuple(fields), number=int(number), row=row)


ARGO_MANIFESTS: tuple[ArgoManifests, ...] = tuple(_read())
