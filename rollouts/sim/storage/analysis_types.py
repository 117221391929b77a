"""The project's types of analyses whose CRDs are not among those that `api/schema.py` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rollouts.api.schema import crd_manifests, structural
from rollouts.api.v1alpha1.analysis_run import AnalysisRunStatus
from rollouts.api.v1alpha1.analysis_template import AnalysisRunSpecWire, AnalysisTemplateSpec
from rollouts.api.v1alpha1.metric_provider import MetricProviderSpec, MetricProviderStatus
from rollouts.api.v1alpha1.wire import Wire
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, METRIC_PROVIDER, Kind, Manifest

_OPTIONAL = ("args", "dryRun", "measurementRetention", "ttlStrategy")
_UNCHANGED = " && ".join(
    (
        "self.metrics == oldSelf.metrics",
        *(f"has(self.{name}) == has(oldSelf.{name})" for name in _OPTIONAL),
        *(f"(!has(self.{name}) || self.{name} == oldSelf.{name})" for name in _OPTIONAL),
    )
)


@dataclass(frozen=True, slots=True)
class _Type:
    kind: Kind
    spec: type[Wire]
    status: type[Wire] | None = None
    rules: tuple[Mapping[str, str], ...] = ()


_TYPES = (
    _Type(ANALYSIS_TEMPLATE, AnalysisTemplateSpec),
    _Type(CLUSTER_ANALYSIS_TEMPLATE, AnalysisTemplateSpec),
    _Type(
        ANALYSIS_RUN,
        AnalysisRunSpecWire,
        AnalysisRunStatus,
        rules=({"rule": _UNCHANGED, "message": "only spec.terminate can be changed"},),
    ),
    _Type(METRIC_PROVIDER, MetricProviderSpec, MetricProviderStatus),
)


def analysis_crds() -> tuple[Manifest, ...]:
    """CustomResourceDefinitions of the types of analyses that `crd_manifests` does not have yet."""
    there = {crd["spec"]["names"]["kind"] for crd in crd_manifests()}
    return tuple(_crd(each) for each in _TYPES if each.kind.kind not in there)


def _crd(served: _Type) -> Manifest:
    spec = structural(served.spec)
    if served.rules:
        spec["x-kubernetes-validations"] = [*spec.get("x-kubernetes-validations", ()), *served.rules]
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
    }
    if served.status is not None:
        properties["status"] = structural(served.status) | {"x-kubernetes-map-type": "atomic"}
    version = {
        "name": served.kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": properties}},
        "subresources": {} if served.status is None else {"status": {}},
    }
    names = {"kind": served.kind.kind, "listKind": f"{served.kind.kind}List", "plural": served.kind.plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{served.kind.plural}.{served.kind.group}"},
        "spec": {
            "group": served.kind.group,
            "names": {**names, "singular": served.kind.kind.lower()},
            "scope": "Namespaced" if served.kind.namespaced else "Cluster",
            "versions": [version],
        },
    }
