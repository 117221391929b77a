"""Values of custom.metrics.k8s.io and external.metrics.k8s.io: where they are asked for, and what an answer says.

Source: kubernetes, staging/src/k8s.io/metrics/pkg/apis/custom_metrics and external_metrics
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from rollouts.metrics.kubernetes_values import ListedItems, ListedPart, decoded, quantity, time_s
from rollouts.objects import path_segment

CUSTOM_GROUP = "custom.metrics.k8s.io"
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
"""The newest first."""
EXTERNAL_GROUP = "external.metrics.k8s.io"
EXTERNAL_VERSION = "v1beta1"
ALL_OBJECTS = "*"


class MetricValue(Struct, frozen=True, kw_only=True):
    """One value."""

    of: str
    value: float | None
    at_s: float | None


def custom_path(version: str, namespace: str, resource: str, name: str, metric: str) -> str:
    """URL path of a metric of one object, or of all that a label selector names (ALL_OBJECTS); percent-encoded.

    Args:
        resource: plural, with its group if it has one: `pods`, `ingresses.networking.k8s.io`.
    """
    parts = (part if part == ALL_OBJECTS else path_segment(part) for part in (namespace, resource, name, metric))
    return f"/apis/{CUSTOM_GROUP}/{version}/namespaces/{'/'.join(parts)}"


def external_path(namespace: str, metric: str) -> str:
    """URL path of an external metric; percent-encoded."""
    return f"/apis/{EXTERNAL_GROUP}/{EXTERNAL_VERSION}/namespaces/{path_segment(namespace)}/{path_segment(metric)}"


def metric_values(body: bytes) -> tuple[MetricValue, ...]:
    """The values in a MetricValueList or an ExternalMetricValueList. Raises: ValueError when it is no list."""
    return tuple(map(_value, decoded(_LIST, body).items or ()))


def versions_in(body: bytes) -> tuple[str, ...]:
    """The versions that an APIGroup serves. Raises: ValueError when it is none."""
    return tuple(version.version for version in decoded(_GROUP, body).versions)


def plural_in(body: bytes, kind: str) -> str | None:
    """The plural of a kind in an APIResourceList; None when it is not there. Raises: ValueError when it is no such list."""
    resources = decoded(_RESOURCES, body).resources
    return next((resource.name for resource in resources if resource.kind == kind and "/" not in resource.name), None)


class _Version(ListedPart, frozen=True):
    version: str


class _Group(ListedPart, frozen=True):
    versions: tuple[_Version, ...]


class _Resource(ListedPart, frozen=True):
    name: str = ""
    kind: str = ""


class _Resources(ListedPart, frozen=True):
    resources: tuple[_Resource, ...]


_LIST = msgspec.json.Decoder(ListedItems[Any])
_GROUP = msgspec.json.Decoder(_Group)
_RESOURCES = msgspec.json.Decoder(_Resources)


def _value(item: object) -> MetricValue:
    """Whatever is not as it should be is no number: a list with it is partial."""
    if not isinstance(item, dict):
        return MetricValue(of="", value=None, at_s=None)
    of = item.get("describedObject")
    name = of.get("name") if isinstance(of, dict) else None
    return MetricValue(
        of=name if isinstance(name, str) else "", value=quantity(item.get("value")), at_s=time_s(item.get("timestamp"))
    )
