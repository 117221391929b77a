"""Promise: the schemas of the kinds of analyses are structural, bounded, documented, and take what the parser takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from rollouts.api.schema import structural
from rollouts.api.v1alpha1.analysis_run import AnalysisRunStatus
from rollouts.api.v1alpha1.analysis_template import AnalysisRunSpecWire, AnalysisTemplateSpec
from rollouts.api.v1alpha1.metric_provider import MetricProviderSpec, MetricProviderStatus
from rollouts.api.v1alpha1.wire import Wire

SPECS = [AnalysisTemplateSpec, AnalysisRunSpecWire, MetricProviderSpec]
ALL = [*SPECS, AnalysisRunStatus, MetricProviderStatus]


def _parts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from _parts(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _parts(schema[key], f"{path}[]")


@pytest.mark.parametrize("model", ALL)
def test_a_schema_is_structural(model: type[Wire]) -> None:
    """Else it loses pruning and server-side apply."""
    for path, part in _parts(structural(model), "spec"):
        assert not {"$ref", "$defs", "title", "allOf", "oneOf", "const"} & set(part), path
        free = part.get("x-kubernetes-int-or-string") or part.get("x-kubernetes-preserve-unknown-fields")
        assert free or ("type" in part and "anyOf" not in part), path


@pytest.mark.parametrize("model", SPECS)
def test_every_field_is_documented_and_bounded(model: type[Wire]) -> None:
    """`kubectl explain` reads the descriptions; the API server needs the bounds to know what a rule can cost."""
    for path, part in _parts(structural(model), "spec"):
        assert part.get("description") or path.endswith("[]"), path
        bound = {"array": "maxItems", "string": "maxLength", "integer": "maximum"}.get(part.get("type", ""))
        assert bound is None or bound in part or "enum" in part, path


@pytest.mark.parametrize("model", ALL)
def test_a_schema_fits_into_an_annotation(model: type[Wire]) -> None:
    """`kubectl apply` keeps the whole CRD in one."""
    assert len(json.dumps(structural(model))) < 262_144 // 2


ARGOS_METRIC = {
    *("name", "interval", "initialDelay", "count", "successCondition", "failureCondition", "failureLimit", "provider"),
    *("inconclusiveLimit", "consecutiveErrorLimit", "consecutiveSuccessLimit"),
}
ARGOS_PROVIDERS = {
    *("prometheus", "kayenta", "web", "datadog", "wavefront", "newRelic", "job", "cloudWatch", "graphite"),
    *("influxdb", "skywalking", "plugin"),
}


def test_every_field_of_argos_is_there() -> None:
    """And ours beside them."""
    run = structural(AnalysisRunSpecWire)["properties"]
    metric = run["metrics"]["items"]["properties"]
    providers = metric["provider"]["properties"]

    assert set(structural(AnalysisTemplateSpec)["properties"]) == {
        *("metrics", "args", "dryRun", "measurementRetention", "templates")
    }
    assert set(run) == {"metrics", "args", "dryRun", "measurementRetention", "terminate", "ttlStrategy"}
    assert set(metric) == ARGOS_METRIC | {"noData", "minSamples"}
    assert set(providers) == ARGOS_PROVIDERS | {
        *("kubernetes", "compare", "containerResource", "hpa", "customMetric", "externalMetric")
    }
    assert set(providers["prometheus"]["properties"]) == {
        *("address", "query", "authentication", "timeout", "insecure", "headers", "rangeQuery", "metricProvider")
    }
    assert set(providers["web"]["properties"]) == {
        *("method", "url", "headers", "body", "timeoutSeconds", "jsonPath", "insecure", "jsonBody", "authentication")
    }
    assert set(providers["job"]["properties"]) == {"metadata", "spec"}


def test_every_field_of_argos_status_is_there() -> None:
    """Dashboards read them."""
    status = structural(AnalysisRunStatus)["properties"]
    result = status["metricResults"]["items"]["properties"]

    assert set(status) == {
        *("phase", "message", "metricResults", "runSummary", "dryRunSummary", "startedAt", "completedAt")
    }
    assert set(result) == {
        *("name", "phase", "message", "measurements", "count", "successful", "failed", "inconclusive", "error"),
        *("consecutiveError", "consecutiveSuccess", "dryRun", "metadata"),
    }
    assert set(result["measurements"]["items"]["properties"]) == {
        *("phase", "message", "startedAt", "finishedAt", "resumeAt", "value", "metadata", "samples")
    }


def test_a_metric_provider_holds_no_secret() -> None:
    """Everybody may read it who may read objects of the cluster: passwords and tokens are named, not given."""
    spec = {
        "url": "https://prom.example",
        "tls": {"caFile": "/etc/ca.pem"},
        "basic": {"username": "me", "password": {"secretKeyRef": {"name": "prom", "key": "password"}}},
        "headers": [{"name": "X-Scope-OrgID", "value": "a"}, {"name": "X-Token", "valueFrom": {"file": "/run/token"}}],
    }
    MetricProviderSpec.model_validate(spec)

    for secret in ({"basic": {"password": "hunter2"}}, {"bearer": "hunter2"}, {"oauth2": {"clientSecret": "hunter2"}}):
        with pytest.raises(pydantic.ValidationError):
            MetricProviderSpec.model_validate({"url": "https://prom.example", **secret})
