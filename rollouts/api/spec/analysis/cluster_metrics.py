"""Sources of metrics that the cluster itself has: their rules, and core's words for them."""

from __future__ import annotations

import re

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_needed, core_value
from rollouts.api.spec.selectors import check_selector, selector_text
from rollouts.api.v1alpha1.analysis_template import (
    CompareOfWire,
    DescribedObjectWire,
    MetricIdentifier,
    MetricSourceWire,
)
from rollouts.api.v1alpha1.template_scalars import OPEN
from rollouts.core.analysis import cluster_source as core
from rollouts.core.model.autoscaling import ContainerMetric

MAX_AGE_MAX_S = 600
"""What is older says nothing about the present weight."""

_API_VERSION = re.compile(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?v[0-9a-z]{1,20}", re.ASCII)
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}", re.ASCII)
_RESOURCES = tuple(resource.value for resource in ContainerMetric)


def check_cluster_source(wire: MetricSourceWire | CompareOfWire, path: str, problems: Problems) -> None:
    """Adds every rule that a source of the cluster's own breaks; any other source breaks none."""
    if (resource := wire.container_resource) is not None:
        root = f"{path}.containerResource"
        check_needed(resource, root, problems)
        if resource.resource is not None and OPEN not in resource.resource and resource.resource not in _RESOURCES:
            problems.add(f"{root}.resource", f"must be cpu or memory, not {resource.resource[:40]!r}")
        _check_age(resource.max_age_seconds, root, problems)
    if wire.custom_metric is not None:
        _check_metric(wire.custom_metric.metric, f"{path}.customMetric", problems)
        _check_age(wire.custom_metric.max_age_seconds, f"{path}.customMetric", problems)
        if wire.custom_metric.described_object is not None:
            _check_object(wire.custom_metric.described_object, f"{path}.customMetric.describedObject", problems)
    if wire.external_metric is not None:
        _check_metric(wire.external_metric.metric, f"{path}.externalMetric", problems)
        _check_age(wire.external_metric.max_age_seconds, f"{path}.externalMetric", problems)


def cluster_source(wire: MetricSourceWire | CompareOfWire) -> core.ClusterSource | None:
    """The source, if it is the cluster's own; `check_cluster_source` has found nothing wrong with it."""
    if wire.container_resource is not None:
        return core_value(core.ContainerResourceMetric, wire.container_resource)
    if isinstance(wire, MetricSourceWire) and wire.hpa is not None:
        return core_value(core.AutoscalerMetric, wire.hpa)
    if (custom := wire.custom_metric) is not None:
        described = custom.described_object
        of = None
        if described is not None:
            of = core_value(core.DescribedObject, described, api_version=described.api_version or "v1")
        return core_value(core.CustomMetric, custom, **_metric(custom.metric), of=of)
    if (external := wire.external_metric) is not None:
        return core_value(core.ExternalMetric, external, **_metric(external.metric))
    return None


def _metric(wire: MetricIdentifier | None) -> dict[str, str]:
    """The name and the selector of a metric."""
    wire = wire or MetricIdentifier.empty()
    return {"metric": wire.name or "", "selector": "" if wire.selector is None else selector_text(wire.selector)}


def _check_metric(wire: MetricIdentifier | None, path: str, problems: Problems) -> None:
    if wire is None or not wire.name:
        problems.add_missing(f"{path}.metric.name", "is required")
        return
    if OPEN not in wire.name and ("/" in wire.name or "%" in wire.name or not wire.name.strip(".")):
        problems.add(f"{path}.metric.name", "must be one segment of a path: without / and %, and not . or ..")
    given = wire.selector is not None and (wire.selector.match_labels or wire.selector.match_expressions)
    if wire.selector is not None and given and OPEN not in wire.selector.model_dump_json():
        check_selector(wire.selector, f"{path}.metric.selector", problems)


def _check_object(wire: DescribedObjectWire, path: str, problems: Problems) -> None:
    check_needed(wire, path, problems, "name")
    check_needed(wire, path, problems, "kind")
    if wire.kind is not None and OPEN not in wire.kind and not _KIND.fullmatch(wire.kind):
        problems.add(f"{path}.kind", f"must be a kind such as Ingress, not {wire.kind[:40]!r}")
    version = wire.api_version
    if version is not None and OPEN not in version and not _API_VERSION.fullmatch(version):
        problems.add(f"{path}.apiVersion", f"must be an API version such as apps/v1, not {version[:40]!r}")


def _check_age(value: int | str | None, path: str, problems: Problems) -> None:
    if isinstance(value, int) and not 1 <= value <= MAX_AGE_MAX_S:
        problems.add(f"{path}.maxAgeSeconds", f"must be from 1 to {MAX_AGE_MAX_S}, not {value}")
