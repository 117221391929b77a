"""Rollouts that HorizontalPodAutoscalers scale by every type of metric, under a load that a test sets.

A Rollout's name says its strategy and its metric: `routed-external-average`. The load is told in pods: so many it needs, each at
its target. A metric of one value is that of a queue; its `Value` is at its target when `spec.replicas` are as many as it needs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests import build
from tests.e2e.manifests import Manifest
from tests.e2e.stage import WITHIN_S, Stage
from tests.lab.loopback import Answer
from tests.lab.metrics_api import ServedGroup, pod_metrics, served_groups

TARGET_MILLI = 50  # of each pod: all of the CPU that it requests, in thousandths, and the target of every other metric
_OBJECT = {"apiVersion": "v1", "kind": "Service", "name": "queue"}
_AVERAGE: Manifest = {"type": "AverageValue", "averageValue": f"{TARGET_MILLI}m"}
_VALUE: Manifest = {"type": "Value", "value": f"{TARGET_MILLI}m"}
_UTILIZATION: Manifest = {"type": "Utilization", "averageUtilization": 100}


_CPU = {"name": "cpu"}


def metric(kind: str, name: str) -> Manifest:
    """The item of `spec.metrics` of a type; custom and external metrics have the name of the Rollout."""
    target = _VALUE if kind.endswith("-value") else _AVERAGE
    match kind.partition("-")[0]:
        case "utilization":
            return {"type": "Resource", "resource": {**_CPU, "target": _UTILIZATION}}
        case "usage":
            return {"type": "Resource", "resource": {**_CPU, "target": _AVERAGE}}
        case "container":
            of = {**_CPU, "container": "web", "target": _UTILIZATION}
            return {"type": "ContainerResource", "containerResource": of}
        case "pods":
            return {"type": "Pods", "pods": {"metric": {"name": name}, "target": _AVERAGE}}
        case "object":
            of = {"metric": {"name": name}, "describedObject": _OBJECT, "target": target}
            return {"type": "Object", "object": of}
        case _:
            return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


LOOKS_WITHIN_S = 3 * WITHIN_S  # the autoscalers' controller looks at dozens of them, one after the other
KINDS = (
    *("utilization", "usage", "container", "pods"),
    *("object-average", "object-value", "external-average", "external-value"),
)
"""All types of metrics, with each target that makes a difference."""


@dataclass
class Load:
    """What the metrics APIs say, and how often each Rollout's metric was asked."""

    stage: Stage
    pods: int  # so many the load of each Rollout needs
    asked: Counter[str] = field(default_factory=Counter)
    selectors: list[str] = field(default_factory=list)  # of the pods whose containers were asked about
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for_looks(self, names: Iterable[str], *, looks: int) -> None:
        """Waits until the autoscaler of each Rollout has looked so often again."""
        with self._changed:
            before = Counter(self.asked)
            done = self._changed.wait_for(
                lambda: all(self.asked[name] >= before[name] + looks for name in names), timeout=LOOKS_WITHIN_S
            )
            slow = {name: self.asked[name] - before[name] for name in names}
        assert done, f"autoscalers have looked so often: {slow}"

    def _note(self, name: str) -> None:
        with self._changed:
            self.asked[name] += 1
            self._changed.notify_all()

    def of_containers(self, selector: str) -> Answer:
        """metrics.k8s.io: the load is spread over the pods that the selector finds."""
        pods = self.stage.all("pods", selector)
        self.selectors.append(selector)
        self._note(dict(part.split("=", 1) for part in selector.split(","))["app"])
        usage = {"cpu": f"{self._each_milli(pods)}m", "memory": "1Mi"}
        measured = {"timestamp": _now(), "window": "1s", "containers": [{"name": "web", "usage": usage}]}
        namespace = self.stage.namespace
        items = [{"metadata": {"name": pod["metadata"]["name"], "namespace": namespace}, **measured} for pod in pods]
        return 200, _list("PodMetricsList", "metrics.k8s.io/v1beta1", items)

    def custom(self, path: tuple[str, ...], selector: str) -> Answer | None:
        """custom.metrics.k8s.io: of pods, as of containers; of the object, one value."""
        match path:
            case ("pods", "*", name):
                pods = self.stage.all("pods", selector)
                self._note(name)
                value = self._each_milli(pods)
                described = [{"kind": "Pod", "apiVersion": "/v1", "name": pod["metadata"]["name"]} for pod in pods]
            case ("services", "queue", name):
                value, described = self._one_value(name), [{**_OBJECT, "apiVersion": "/v1"}]
            case _:
                return None
        measured = {"metric": {"name": name}, "timestamp": _now(), "value": f"{value}m"}
        items = [{"describedObject": {**each, "namespace": self.stage.namespace}, **measured} for each in described]
        return 200, _list("MetricValueList", "custom.metrics.k8s.io/v1beta2", items)

    def external(self, path: tuple[str, ...], _selector: str) -> Answer | None:
        """external.metrics.k8s.io: one value."""
        (name,) = path
        value = {"metricName": name, "metricLabels": {}, "timestamp": _now(), "value": f"{self._one_value(name)}m"}
        return 200, _list("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1", [value])

    def _each_milli(self, pods: Sequence[Manifest]) -> int:
        """What each pod has of the load, rounded down: an HPA rounds pods up, and would want one more for nothing."""
        return self.pods * TARGET_MILLI // max(1, len(pods))

    def _one_value(self, name: str) -> int:
        """The length of the whole queue; for a target of type Value how long one waits in it."""
        self._note(name)
        if not name.endswith("-value"):
            return self.pods * TARGET_MILLI
        replicas: int = self.stage.get("rollouts", name)["spec"]["replicas"]
        return self.pods * TARGET_MILLI // replicas


@contextmanager
def loaded(stage: Stage, *, pods: int) -> Iterator[Load]:
    """Serves all metrics APIs for the stage's namespace while the block runs."""
    load = Load(stage, pods)
    custom = ({"name": "*/*", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]},)
    external = ({"name": "*", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]},)
    groups = (
        pod_metrics(load.of_containers),
        ServedGroup("custom.metrics.k8s.io/v1beta2", custom, load.custom),
        ServedGroup("external.metrics.k8s.io/v1beta1", external, load.external),
    )
    with served_groups(stage.plane, *groups, namespace=stage.namespace):
        yield load


def autoscaler(name: str, kind: str, **spec: Any) -> Manifest:
    """An HPA of the Rollout `name` by one metric. It may grow at once; nothing makes it shrink while it is tested."""
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 3600}}
    return build.autoscaler(name, None, metric(kind, name), most=99, minReplicas=1, behavior=behavior, **spec)


def _list(kind: str, version: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
