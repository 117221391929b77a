"""What Kustomize has to know of our kinds: `python -m tests.packaging.kustomize_rollouts`. It needs the lab's control plane.

`configuration.yaml` says which fields name other objects, and where labels, annotations and replicas are; `openapi.json` says
which lists a patch merges by a key. Both follow from the CRDs, and from what the API server publishes about pods. A schema of
ours takes the place of Kustomize's own, so it has all kinds of Kubernetes, as far as their lists are merged.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rollouts.api.schema import crd_manifests
from rollouts.controller.facts.route_kinds import kinds_of
from rollouts.core.analysis.recipes import RECIPES
from rollouts.objects import (
    ANALYSIS_TEMPLATE,
    AUTOSCALER,
    CLUSTER_ANALYSIS_TEMPLATE,
    CONFIG_MAP,
    EXPERIMENT,
    METRIC_PROVIDER,
    ROLLOUT,
    SECRET,
    SERVICE,
    Kind,
)
from rollouts.traffic.gateway_api.codec import KINDS
from rollouts.traffic.registry import registry
from tests.lab import supervisor
from tests.lab.control_plane import ControlPlane

FOLDER = Path(__file__).parents[2] / "kustomize" / "rollout"
CONFIGURATION = FOLDER / "configuration.yaml"
OPENAPI = FOLDER / "openapi.json"

_POD_TEMPLATE, _JOB = "io.k8s.api.core.v1.PodTemplateSpec", "io.k8s.api.batch.v1.JobSpec"
_CANARY = "spec/strategy/canary"
_ROUTING = f"{_CANARY}/trafficRouting"
_TEMPLATES = (ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE)
_WITH_PODS = (
    (ROLLOUT, "spec/template"),
    (EXPERIMENT, "spec/templates/template"),
    *((kind, "spec/metrics/provider/job/spec/template") for kind in _TEMPLATES),
)
_SERVICES = (
    *(
        f"{_CANARY}/{name}"
        for name in ("stableService", "canaryService", "pingPong/pingService", "pingPong/pongService")
    ),
    f"{_ROUTING}/alb/rootService",
    "spec/strategy/blueGreen/activeService",
    "spec/strategy/blueGreen/previewService",
)
_ANALYSES = (
    f"{_CANARY}/steps/analysis",
    f"{_CANARY}/analysis",
    f"{_CANARY}/beforeUpdate",
    f"{_CANARY}/beforeSetWeight",
    "spec/strategy/blueGreen/beforeUpdate",
    "spec/strategy/blueGreen/prePromotionAnalysis",
    "spec/strategy/blueGreen/postPromotionAnalysis",
)
_OF_EXPERIMENTS = ((EXPERIMENT, "spec/analyses"), (ROLLOUT, f"{_CANARY}/steps/experiment/analyses"))
_BY_METRICS = (
    "spec/metrics/provider/prometheus",
    "spec/metrics/provider/compare/of/prometheus",
    *(f"spec/metrics/provider/{where}{name}" for where in ("", "compare/of/") for name in sorted(RECIPES)),
)
_ROUTES = {
    "alb": ("ingress", "ingresses"),
    "apisix": ("route/name",),
    "contour": ("httpProxies/name",),
    "gloo": ("routeTables/name",),
    "nginx": ("stableIngress", "stableIngresses"),
    "skipper": ("ingress", "ingresses"),
    "traefik": ("weightedTraefikServiceName",),
}
"""Where a Rollout names the routes of a router that has one kind of them."""
_BACKENDS = {
    "apisix": ("spec/http/backends/serviceName",),
    "contour": ("spec/routes/services/name",),
    "istio": ("spec/http/route/destination/host", "spec/http/mirror/host", "spec/host"),
    "traefik": ("spec/weighted/services/name", "spec/mirroring/name", "spec/mirroring/mirrors/name"),
}
"""Where routes name Services; for Ingresses Kustomize knows."""
_SCALERS = (
    (AUTOSCALER, "spec/scaleTargetRef/name"),
    (Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"), "spec/scaleTargetRef/name"),
    (Kind("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers"), "spec/targetRef/name"),
)
_SELECTORS = (
    *(
        f"affinity/{side}/requiredDuringSchedulingIgnoredDuringExecution/labelSelector"
        for side in ("podAffinity", "podAntiAffinity")
    ),
    *(
        f"affinity/{side}/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector"
        for side in ("podAffinity", "podAntiAffinity")
    ),
    "topologySpreadConstraints/labelSelector",
)
"""Of a Deployment's pods Kustomize knows the same ones."""

Definitions = Mapping[str, Mapping[str, Any]]
Field = tuple[str, str, Kind, str]
"""Group and kind of what is named, the kind that names it, and the path; lists are passed through."""


def published(plane: ControlPlane) -> Definitions:
    """The definitions of Kubernetes' own kinds, whatever CRDs the cluster has: `io.k8s.networking.gateway…` is one of these."""
    found: Definitions = plane.api.get("/openapi/v2").raise_for_status().json()["definitions"]
    own = tuple(f"io.k8s.{of}." for of in ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator"))
    return {name: schema for name, schema in found.items() if name.startswith(own)}


def fields(kubernetes: Definitions) -> Iterator[Field]:
    """Every field that names another object."""
    for kind, path in _WITH_PODS:
        for named, within in _named_by(kubernetes, _POD_TEMPLATE):
            yield "", named, kind, f"{path}{within}"
    for path in _SERVICES:
        yield "", SERVICE.kind, ROLLOUT, path
    for template in _TEMPLATES:
        for where in _ANALYSES:
            yield template.group, template.kind, ROLLOUT, f"{where}/templates/templateName"
        for of in _TEMPLATES:
            yield template.group, template.kind, of, "spec/templates/templateName"
        for kind, where in _OF_EXPERIMENTS:
            yield template.group, template.kind, kind, f"{where}/templateName"
        yield "", SECRET.kind, template, "spec/args/valueFrom/secretKeyRef/name"
        for where in _BY_METRICS:
            yield METRIC_PROVIDER.group, METRIC_PROVIDER.kind, template, f"{where}/metricProvider"
        yield AUTOSCALER.group, AUTOSCALER.kind, template, "spec/metrics/provider/hpa/name"
    for kind, where in _OF_EXPERIMENTS:
        yield "", SECRET.kind, kind, f"{where}/args/valueFrom/secretKeyRef/name"
    for router, places in _ROUTES.items():
        for place in places:
            yield *_first(router), ROLLOUT, f"{_ROUTING}/{router}/{place}"
    for place in ("virtualService/name", "virtualServices/name"):
        yield "networking.istio.io", "VirtualService", ROLLOUT, f"{_ROUTING}/istio/{place}"
    yield "networking.istio.io", "DestinationRule", ROLLOUT, f"{_ROUTING}/istio/destinationRule/name"
    for name, (kind, *_) in KINDS.items():
        yield kind.group, kind.kind, ROLLOUT, f"{_ROUTING}/gatewayAPI/{name}/name"
        for place in ("backendRefs/name", "filters/requestMirror/backendRef/name"):
            yield "", SERVICE.kind, kind, f"spec/rules/{place}"
    for router, places in _BACKENDS.items():
        for kinds in kinds_of(registry()[router]):
            for place in places:
                yield "", SERVICE.kind, kinds[0], place
    for scaler, path in _SCALERS:
        yield ROLLOUT.group, ROLLOUT.kind, scaler, path


def _first(router: str) -> tuple[str, str]:
    kind = next(iter(kinds_of(registry()[router])))[0]
    return kind.group, kind.kind


def _named_by(kubernetes: Definitions, name: str, path: str = "") -> Iterator[tuple[str, str]]:
    """What fields of a definition name: the kind, and where."""
    short = name.rpartition(".")[2]
    for field, schema in kubernetes[name].get("properties", {}).items():
        here = f"{path}/{field}"
        of = str(schema.get("items", schema).get("$ref", "")).rpartition("/")[2]
        if of:
            yield from _named_by(kubernetes, of, here)
        elif short.startswith(CONFIG_MAP.kind) and field == "name":
            yield CONFIG_MAP.kind, here
        elif field == "secretName" or (short.startswith((SECRET.kind, "LocalObjectReference")) and field == "name"):
            yield SECRET.kind, here
        elif kind := {"claimName": "PersistentVolumeClaim", "serviceAccountName": "ServiceAccount",
                      "priorityClassName": "PriorityClass"}.get(field):  # fmt: skip
            yield kind, here


def configuration(kubernetes: Definitions) -> str:
    """The text of configuration.yaml."""
    references: dict[tuple[str, str], list[dict[str, str]]] = {}
    for group, kind, of, path in fields(kubernetes):
        place = _of(of, path)
        if place not in (places := references.setdefault((group, kind), [])):
            places.append(place)
    labels = [_of(ROLLOUT, "spec/template/metadata/labels", create=True)]
    selectors = [_of(ROLLOUT, f"spec/template/spec/{path}/matchLabels", create=False) for path in _SELECTORS]
    text = {
        "nameReference": [
            {**({"group": group} if group else {"version": "v1"}), "kind": kind, "fieldSpecs": places}
            for (group, kind), places in sorted(references.items())
        ],
        "commonLabels": [_of(ROLLOUT, "spec/selector/matchLabels", create=True), *labels, *selectors],
        "templateLabels": labels,
        "commonAnnotations": [_of(ROLLOUT, "spec/template/metadata/annotations", create=True)],
        "replicas": [_of(ROLLOUT, "spec/replicas", create=True)],
    }
    return "# Written by `make kustomize` from the CRDs.\n" + yaml.dump(
        text, Dumper=_NoAliases, sort_keys=False, width=130
    )


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, _: object) -> bool:
        return True


def _of(kind: Kind, path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, **({"group": kind.group} if kind.group else {}), "kind": kind.kind, **more}


def openapi(kubernetes: Definitions) -> str:
    """The text of openapi.json: a definition a line, of those with lists that are merged by a key."""
    ours = {f"dev.rollouts.v1alpha1.{kind}": schema for kind, schema in _ours()}
    known = {**kubernetes, **ours}
    merged: dict[str, Any] = {}
    for name in known:
        _keep(name, known, merged)
    lines = [f" {json.dumps(name)}: {json.dumps(merged[name])}" for name in sorted(merged) if merged[name]]
    paths = {
        f"/apis/{kind.group}/{kind.version}/{'namespaces/{namespace}/' if kind.namespaced else ''}{kind.plural}": {
            "get": {"x-kubernetes-group-version-kind": _group_version_kind(kind.kind)}
        }
        for kind in (ROLLOUT, *_TEMPLATES, METRIC_PROVIDER)
    }
    head = {"swagger": "2.0", "info": {"title": "Rollouts", "version": ROLLOUT.version}, "paths": paths}
    body = ",\n".join(lines)
    return f'{json.dumps(head)[:-1]},\n"definitions": {{\n{body}\n}}}}\n'


def _ours() -> Iterator[tuple[str, dict[str, Any]]]:
    """Our kinds with the marks of a patch: lists of things that must have a name are merged by it; pods are Kubernetes' own."""
    for crd in crd_manifests():
        schema = json.loads(json.dumps(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
        kind = crd["spec"]["names"]["kind"]
        _mark(schema)
        spec = schema["properties"]["spec"]["properties"]
        if kind == ROLLOUT.kind:
            spec["template"] = {"$ref": f"#/definitions/{_POD_TEMPLATE}"}
        elif kind in {template.kind for template in _TEMPLATES}:
            job = spec["metrics"]["items"]["properties"]["provider"]["properties"]["job"]
            job["properties"]["spec"] = {"$ref": f"#/definitions/{_JOB}"}
        schema["properties"]["metadata"] = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
        yield kind, {**schema, "x-kubernetes-group-version-kind": [_group_version_kind(kind)]}


def _group_version_kind(kind: str) -> dict[str, str]:
    return {"group": ROLLOUT.group, "version": ROLLOUT.version, "kind": kind}


def _mark(schema: Any) -> None:
    for part in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        _mark(part)
        if "name" in part.get("items", {}).get("required", ()):
            part |= {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}


def _keep(name: str, known: Definitions, merged: dict[str, Any]) -> bool:
    """Whether a definition has a list that is merged; notes what of it leads there."""
    if name not in merged:
        merged[name] = {}  # a definition that has itself as a part
        kept = _kept(known[name], known, merged)
        marks = {key: known[name][key] for key in ("x-kubernetes-group-version-kind",) if key in known[name]}
        merged[name] = {**kept, **marks} if kept else {}
    return bool(merged[name])


def _kept(schema: Mapping[str, Any], known: Definitions, merged: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]} if _keep(schema["$ref"].rpartition("/")[2], known, merged) else {}
    items = _kept(schema["items"], known, merged) if isinstance(schema.get("items"), dict) else {}
    parts = {
        name: _kept(part, known, merged) for name, part in schema.get("properties", {}).items() if name != "status"
    }
    properties = {name: part for name, part in parts.items() if part}
    marks = {key: value for key, value in schema.items() if key.startswith("x-kubernetes-patch-")}
    return {
        **({"type": "array", "items": items} if items or marks else {}),
        **({"properties": properties} if properties else {}),
        **marks,
    }


def main() -> None:
    """Starts a control plane, and writes the files by what it publishes."""
    with tempfile.TemporaryDirectory() as folder, supervisor.own(Path(folder, "plane")) as plane:
        kubernetes = published(plane)
    CONFIGURATION.write_text(configuration(kubernetes), encoding="utf-8")
    OPENAPI.write_text(openapi(kubernetes), encoding="utf-8")


if __name__ == "__main__":
    main()
