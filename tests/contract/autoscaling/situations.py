"""A situation of a HorizontalPodAutoscaler: its spec, its target's pods, what the metrics API says, and how that changes.

Ages are seconds before the beginning of the play. They are far from every boundary that time moves: a play takes a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rollouts.objects import Manifest
from tests.contract.conversation import WIDGET

LONG_AGO_S, JUST_NOW_S = 7200, 10
WINDOW = "15s"


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod that nobody runs: its status is written by hand."""

    phase: str = "Running"
    ready: str | None = "True"  # status of its condition Ready; None for no such condition
    ready_age_s: int = LONG_AGO_S - 60  # how old that status is
    age_s: int | None = LONG_AGO_S  # since its start; None for one that never started
    requests: Mapping[str, Mapping[str, str]] = field(  # of each container, by resource
        default_factory=lambda: {"app": {"cpu": "100m", "memory": "64Mi"}}
    )
    pod_requests: Mapping[str, str] = field(default_factory=dict)  # of the pod as a whole
    deleted: bool = False  # whether its deletion has begun


@dataclass(frozen=True, kw_only=True)
class Usage:
    """An item of the metrics API."""

    containers: Mapping[str, Mapping[str, str]]  # what each uses, by resource
    age_s: int = 0
    window: str = WINDOW


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What is true from now on."""

    usage: tuple[Usage | None, ...] | int  # of each pod, None for one that the API does not know; or its HTTP status
    replicas: int | None = None  # size that somebody else gives to the target; None to leave it
    spec: Manifest = field(default_factory=dict)  # a merge patch for the autoscaler's spec


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One autoscaler from its creation on."""

    name: str
    spec: Manifest  # without scaleTargetRef
    replicas: int  # size of the target at first
    pods: tuple[Pod, ...]
    stages: tuple[Stage, ...]
    selector: str | None = None  # of the target; None for one of its own
    target: Manifest | None = None  # `scaleTargetRef`, instead of the situation's own target
    only_the_end: bool = False  # what comes before depends on which of several autoscalers is first
    loose: bool = False  # the real controller's words have parts that change, or that name Go's types

    @property
    def own_selector(self) -> str:
        """What selects its pods, and nobody else's."""
        return f"app={self.name}"

    def autoscaler(self) -> Manifest:
        own = {"apiVersion": WIDGET.api_version, "kind": WIDGET.kind, "name": self.name}
        spec = {"scaleTargetRef": self.target or own, **self.spec, **self.stages[0].spec}
        return {"metadata": {"name": self.name}, "spec": spec}

    def pod_name(self, number: int) -> str:
        return f"{self.name}-{number}"

    def pod(self, number: int) -> Manifest:
        """A pod as it is created."""
        pod = self.pods[number]
        containers = [
            {"name": name, "image": "app:1", "resources": {"requests": dict(requests)}}
            for name, requests in pod.requests.items()
        ]
        spec: Manifest = {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": containers,
            **({"resources": {"requests": dict(pod.pod_requests)}} if pod.pod_requests else {}),
        }
        metadata: Manifest = {"name": self.pod_name(number), "labels": {"app": self.name}}
        if pod.deleted:
            metadata["finalizers"] = ["contract.rollouts.dev/stay"]
        return {"metadata": metadata, "spec": spec}

    def pod_status(self, number: int, *, now_s: float) -> Manifest:
        pod = self.pods[number]
        status: Manifest = {"phase": pod.phase, "conditions": []}
        if pod.age_s is not None:
            status["startTime"] = _time(now_s - pod.age_s)
        if pod.ready is not None:
            since = _time(now_s - pod.ready_age_s)
            status["conditions"].append({"type": "Ready", "status": pod.ready, "lastTransitionTime": since})
        return status

    def answer(self, stage: Stage, *, now_s: float) -> tuple[int, dict[str, Any]]:
        """What the metrics API says in a stage: status and body."""
        if isinstance(stage.usage, int):
            return stage.usage, {}
        items = [
            {
                "metadata": {"name": self.pod_name(number), "labels": {"app": self.name}},
                "timestamp": _time(now_s - usage.age_s),
                "window": usage.window,
                "containers": [{"name": name, "usage": dict(used)} for name, used in usage.containers.items()],
            }
            for number, usage in enumerate(stage.usage)
            if usage is not None
        ]
        return 200, {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
