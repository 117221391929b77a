"""Promise: the CRDs are generated from the models, in the form that a structural schema must have, and have Argo's fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml

from rollouts.api.schema import crd_files, crd_manifests, main, structural, yaml_text
from rollouts.api.status.analysis_run import run_status_schema
from rollouts.api.v1alpha1.analysis_template import AnalysisRunSpecWire, AnalysisTemplateSpec
from rollouts.api.v1alpha1.metric_provider import MetricProviderSpec
from rollouts.core.analysis.recipes import RECIPES

CRDS = Path(__file__).parent.parent.parent / "crds"


ROLLOUT, TRAFFIC_PROVIDER, *ANALYSES, METRIC_PROVIDER, _ = crd_manifests()
EACH = pytest.mark.parametrize("crd", crd_manifests(), ids=lambda crd: crd["spec"]["names"]["plural"])


def _schema(crd: dict[str, Any] = ROLLOUT) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _columns(crd: dict[str, Any]) -> list[str]:
    """What `kubectl get` shows without `-o wide`."""
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    return [column["name"] for column in columns if not column.get("priority")]


def _parts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from _parts(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _parts(schema[key], f"{path}[]")


def test_the_files_are_what_the_models_say() -> None:
    """`crds/` is what users install; a stale file would refuse or drop what the controller understands."""
    assert {path.name: path.read_text() for path in CRDS.glob("*.yaml")} == crd_files()


def test_check_says_when_a_file_is_stale(tmp_path: Path) -> None:
    """`make check` relies on the exit code."""
    assert main(["--out", str(tmp_path), "--check"]) == 1
    assert main(["--out", str(tmp_path)]) == 0
    assert main(["--out", str(tmp_path), "--check"]) == 0


def test_client_side_apply_has_room_for_it() -> None:
    """`kubectl apply` keeps the object in an annotation; all annotations together may have 262,144 bytes."""
    for crd in crd_manifests():
        assert len(json.dumps(crd, separators=(",", ":"))) < 262_144 // 2


def test_the_yaml_says_the_same_as_the_object() -> None:
    """The writer of the YAML is our own and small; any YAML reader must understand it."""
    awkward = {
        "a": [], "b": {}, "c": [[1, [2]], {"d": [{"e": "x: y", "f": None}]}], "$ref": "yes", "no": "null", "1.0": 1,
    }  # fmt: skip

    assert yaml.safe_load(yaml_text(awkward)) == awkward
    assert [yaml.safe_load(text) for text in crd_files().values()] == list(crd_manifests())


@EACH
def test_every_part_has_a_type_and_nothing_that_crds_forbid(crd: dict[str, Any]) -> None:
    """A schema that is not structural loses pruning and server-side apply."""
    for path, part in _parts(_schema(crd), ""):
        assert not {"$ref", "$defs", "title", "allOf", "oneOf", "const"} & set(part), path
        free = part.get("x-kubernetes-int-or-string") or part.get("x-kubernetes-preserve-unknown-fields")
        assert free or ("type" in part and "anyOf" not in part), path


@EACH
def test_every_field_of_the_spec_is_documented_and_bounded(crd: dict[str, Any]) -> None:
    """`kubectl explain` reads the descriptions; the API server needs the bounds to know what a rule can cost."""
    spec = _schema(crd)["properties"]["spec"]
    for path, part in _parts(spec, "spec"):
        if path.startswith(("spec.template.", "spec.templates[].template.")):
            continue
        if not path.endswith("[]"):
            assert part.get("description"), path
        bound = {"array": "maxItems", "string": "maxLength", "integer": "maximum"}.get(part.get("type", ""))
        assert bound is None or bound in part or "enum" in part, path


def test_the_template_has_no_defaults() -> None:
    """A default would appear in stored templates, change their hash, and roll everybody's workload."""
    template = _schema()["properties"]["spec"]["properties"]["template"]

    assert all("default" not in part for _, part in _parts(template, "template"))


def test_appliers_may_share_the_lists_of_a_template() -> None:
    """As in a Deployment: a sidecar injector and a GitOps tool each own their container."""
    pod = _schema()["properties"]["spec"]["properties"]["template"]["properties"]["spec"]["properties"]

    for name in ("containers", "initContainers", "volumes"):
        assert pod[name]["x-kubernetes-list-map-keys"] == ["name"]
        assert pod[name]["items"]["x-kubernetes-preserve-unknown-fields"] is True
    assert pod["containers"]["items"]["properties"]["env"]["x-kubernetes-list-map-keys"] == ["name"]


def test_kubectl_shows_and_scales_a_rollout() -> None:
    """Names, columns and subresources that users and autoscalers rely on."""
    version = ROLLOUT["spec"]["versions"][0]

    assert ROLLOUT["spec"]["names"]["shortNames"] == ["ro"]
    assert ROLLOUT["spec"]["names"]["categories"] == ["all"]
    assert version["subresources"]["status"] == {}
    assert version["subresources"]["scale"]["labelSelectorPath"] == ".status.selector"
    assert _columns(ROLLOUT) == ["Phase", "Step", "Weight", "Ready", "Desired", "Age"]


def test_kubectl_shows_whether_a_traffic_provider_is_ready() -> None:
    """It belongs to the cluster; its status is the controller's alone."""
    spec = TRAFFIC_PROVIDER["spec"]
    (version,) = spec["versions"]

    assert spec["scope"] == "Cluster"
    assert version["subresources"] == {"status": {}}
    assert _columns(TRAFFIC_PROVIDER) == ["Ready", "Kind", "Age"]


def test_kubectl_shows_the_verdict_of_a_run() -> None:
    """Argo Rollouts' short names; a template has no status, and that of a run is the controller's alone."""
    template, of_cluster, run = ANALYSES

    assert [each["spec"]["names"]["shortNames"] for each in ANALYSES] == [["at"], ["cat"], ["ar"]]
    assert [each["spec"]["scope"] for each in ANALYSES] == ["Namespaced", "Cluster", "Namespaced"]
    assert [each["spec"]["versions"][0]["subresources"] for each in ANALYSES] == [{}, {}, {"status": {}}]
    assert "status" not in _schema(template)["properties"]
    assert _schema(template)["properties"]["spec"] == _schema(of_cluster)["properties"]["spec"]
    assert _columns(run) == ["Status", "Rollout", "Age"]


def test_the_caller_may_change_what_it_gets() -> None:
    """The simulated cluster and the CLI keep their own copies."""
    crd_manifests()[0]["spec"].clear()

    assert crd_manifests()[0]["spec"]


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
    assert set(providers) == ARGOS_PROVIDERS | set(RECIPES) | {
        *("kubernetes", "compare", "containerResource", "hpa", "customMetric", "externalMetric")
    }
    assert set(providers["prometheus"]["properties"]) == {
        *("address", "query", "authentication", "timeout", "insecure", "headers", "rangeQuery", "metricProvider")
    }
    assert set(providers["web"]["properties"]) == {
        *("method", "url", "headers", "body", "timeoutSeconds", "jsonPath", "insecure", "jsonBody", "authentication"),
        *("result", "notYet"),
    }
    assert set(providers["job"]["properties"]) == {"metadata", "spec"}


def test_every_field_of_argos_status_is_there() -> None:
    """Dashboards read them."""
    status = run_status_schema()["properties"]
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
