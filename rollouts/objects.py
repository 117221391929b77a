"""Kubernetes objects in general: kinds, keys, manifests, names. No I/O, no knowledge of Rollouts' fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias
from urllib.parse import quote

from msgspec import Struct

Manifest: TypeAlias = dict[str, Any]
"""An object as JSON, as the API server sends and receives it."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""The pattern of an object's name, at most 253 characters. Source: apimachinery, validation.IsDNS1123Subdomain."""
NAME_MAX = 253
NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""The pattern of a namespace's name, at most 63 characters. Source: apimachinery, validation.IsDNS1123Label."""
NAMESPACE_MAX = 63

_NAME = re.compile(NAME_PATTERN[1:-1])
_NAMESPACE = re.compile(NAMESPACE_PATTERN[1:-1])


VALUES_MAX = 10_000
"""Fields and entries of lists that one object's spec may have: to read as many takes 20 ms, in which nothing else is done."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_NEXT_VALUE = re.compile(rb'[^"\[{,]*+(?:' + _STRING + rb'[^"\[{,]*+)*+(?:([\[{,])|\Z)', re.DOTALL)


def has_more_values(data: bytes, *, most: int = VALUES_MAX) -> bool:
    """Whether JSON has more values than that, told by its commas and opening brackets; what is behind them is not read."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= most:
        return False
    found = next(islice(_TO_NEXT_VALUE.finditer(data), most, None), None)
    return found is not None and found[1] is not None


def has_more_parts(value: Any, *, most: int = VALUES_MAX) -> bool:
    """Whether a value that was read, from a file for example, has more fields and entries than that."""
    count = 0
    for parts in _parts_by_level(value):
        count += sum(map(len, parts))
        if count > most:
            return True
    return False


def is_deeper(value: Any, *, most_levels: int) -> bool:
    """Whether a JSON value has more levels of arrays and objects than that."""
    return next(islice(_parts_by_level(value), most_levels, None), None) is not None


def _parts_by_level(value: Any) -> Iterator[list[Collection[Any]]]:
    """The entries of arrays and the values of objects, for each level that has some. It needs no stack."""
    level = [value]
    while True:
        arrays = [each for each in level if type(each) is list]
        objects = [each.values() for each in level if type(each) is dict]
        if not arrays and not objects:
            return
        yield (parts := [*arrays, *objects])
        level = [*chain.from_iterable(parts)]


def name_problem(name: str) -> str:
    """What is wrong with an object's name; "" when it is valid."""
    if _NAME.fullmatch(name) and len(name) <= NAME_MAX:
        return ""
    return (
        f"must be the name of an object: lower-case letters, digits, '-' and '.', {NAME_MAX} at most, not {name[:80]!r}"
    )


def namespace_problem(name: str) -> str:
    """What is wrong with a namespace's name; "" when it is valid."""
    if _NAMESPACE.fullmatch(name) and len(name) <= NAMESPACE_MAX:
        return ""
    return f"must be the name of a namespace: lower-case letters, digits and '-', {NAMESPACE_MAX} at most, not {name[:80]!r}"


def mapping(value: object) -> Mapping[str, Any]:
    """The JSON object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The JSON objects in a list; [] for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def whole_number(text: str, *, digits: int) -> int | None:
    """The number in a text of so many decimal digits at most; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


class Kind(Struct, frozen=True):
    """A resource type that the API server serves.

    Args:
        group: `""` for the core group.
        plural: lower-case name in paths and RBAC rules.
        view: tells two watches of one type apart that show different objects of it; "" for the only or the first one.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    view: str = ""

    @property
    def api_version(self) -> str:
        """`apiVersion` as in manifests: `apps/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def head(self) -> dict[str, str]:
        """The `apiVersion` and `kind` of its objects."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object, or of its subresource; percent-encoded, so no name leads to another path.

        Args:
            namespace: None for all namespaces, or for a cluster-scoped kind.
            name: None for the collection.
            subresource: `status`, `scale`, `eviction`; needs `name`.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{path_segment(namespace)}" if namespace else ""
        what = f"/{path_segment(name)}" if name else ""
        part = f"/{subresource}" if subresource else ""
        return f"{root}{where}/{self.plural}{what}{part}"


def path_segment(name: str) -> str:
    """One segment of a path. Source: RFC 3986, sections 2.1 and 5.2.4 (the segments `.` and `..` have a meaning of their own)."""
    if _NAME.fullmatch(name):  # all names but hostile ones
        return name
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


ROLLOUT = Kind("rollouts.dev", "v1alpha1", "Rollout", "rollouts")
TRAFFIC_PROVIDER = Kind("rollouts.dev", "v1alpha1", "TrafficProvider", "trafficproviders", namespaced=False)
METRIC_PROVIDER = Kind("rollouts.dev", "v1alpha1", "MetricProvider", "metricproviders", namespaced=False)
ANALYSIS_TEMPLATE = Kind("rollouts.dev", "v1alpha1", "AnalysisTemplate", "analysistemplates")
CLUSTER_ANALYSIS_TEMPLATE = Kind(
    "rollouts.dev", "v1alpha1", "ClusterAnalysisTemplate", "clusteranalysistemplates", namespaced=False
)
ANALYSIS_RUN = Kind("rollouts.dev", "v1alpha1", "AnalysisRun", "analysisruns")
EXPERIMENT = Kind("rollouts.dev", "v1alpha1", "Experiment", "experiments")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets")
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
POD_TEMPLATE = Kind("", "v1", "PodTemplate", "podtemplates")
NAMED_REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", view="workloads")
"""A ReplicaSet that a Rollout names in `workloadRef`, in contrast to those that it makes."""
EXPERIMENT_REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", view="experiments")
"""A ReplicaSet of an Experiment."""
SERVICE = Kind("", "v1", "Service", "services")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
POD = Kind("", "v1", "Pod", "pods")
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
JOB = Kind("batch", "v1", "Job", "jobs")
METRIC_VALUES = Kind("custom.metrics.k8s.io", "v1beta2", "MetricValueList", "metrics")
EXTERNAL_METRIC_VALUES = Kind("external.metrics.k8s.io", "v1beta1", "ExternalMetricValueList", "externalmetrics")
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")
AUTOSCALER = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")


class Key(Struct, frozen=True):
    """Namespace and name of a Rollout: the unit of work of the queue and of one pass."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
