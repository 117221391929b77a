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
    """A pod that nobody runs: its status is written by hand.

    Args:
        ready: status of its condition Ready; None for no such condition.
        ready_age_s: how old that status is.
        age_s: since its start; None for one that never started.
        requests: of each container, by resource.
        pod_requests: of the pod as a whole.
        deleted: whether its deletion has begun.
    """

    phase: str = "Running"
    ready: str | None = "True"
    ready_age_s: int = LONG_AGO_S - 60
    age_s: int | None = LONG_AGO_S
    requests: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {"app": {"cpu": "100m", "memory": "64Mi"}}
    )
    pod_requests: Mapping[str, str] = field(default_factory=dict)
    deleted: bool = False


@dataclass(frozen=True, kw_only=True)
class Usage:
    """An item of the metrics API.

    Args:
        containers: what each uses, by resource.
    """

    containers: Mapping[str, Mapping[str, str]]
    age_s: int = 0
    window: str = WINDOW


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What is true from now on.

    Args:
        usage: of each pod, None for one that the metrics API does not know; or the status that it answers with.
        replicas: size that somebody else gives to the target; None to leave it.
        spec: a merge patch for the autoscaler's spec.
    """

    usage: tuple[Usage | None, ...] | int
    replicas: int | None = None
    spec: Manifest = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One autoscaler from its creation on.

    Args:
        spec: without scaleTargetRef.
        replicas: size of the target at first.
        selector: of the target; None for one of its own.
        target: `scaleTargetRef`, instead of the situation's own target.
        only_the_end: what comes before depends on which of several autoscalers is first.
        loose: the real controller's words have parts that change, or that name Go's types.
    """

    name: str
    spec: Manifest
    replicas: int
    pods: tuple[Pod, ...]
    stages: tuple[Stage, ...]
    selector: str | None = None
    target: Manifest | None = None
    only_the_end: bool = False
    loose: bool = False

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
