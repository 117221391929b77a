"""Pods, their samples and autoscalers as the API server gives them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

NOW_S = 1_790_000_000.0  # 2026-09-21T14:13:20Z


def at(seconds: float) -> str:
    """RFC 3339, so many seconds from NOW_S, in whole seconds as the API server writes them."""
    return datetime.fromtimestamp(NOW_S + seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def pod(
    name: str = "web-1",
    *,
    revision: str = "new",
    rollout: str = "web",
    ready: str = "True",
    started: str | None = "",
    requests: Any = None,
    container: str = "app",
    **metadata: Any,
) -> dict[str, Any]:
    """A pod with a container and its sidecar `proxy`.

    Args:
        started: of the container; "" for an hour ago; None when it does not run.
        requests: None for half a core and 1 GiB.
    """
    asked = {"cpu": "500m", "memory": "1Gi"} if requests is None else requests
    running = {"running": {"startedAt": started or at(-3600)}} if started is not None else {"waiting": {"reason": "x"}}
    labels = {"rollouts.dev/name": rollout, "rollouts.dev/revision": revision}
    beside = {"running": {"startedAt": at(-3600)}}
    containers = [
        {"name": container, "image": "web:1", "resources": {"requests": asked}},
        {"name": "proxy", "image": "proxy:1", "resources": {"requests": {"cpu": "2"}}},
    ]
    agent = {"name": "agent", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    ended = {"name": "prepare", "state": {"terminated": {"exitCode": 0}}}
    return {
        "metadata": {"name": name, "labels": labels, "uid": f"{name}-uid", **metadata},
        "spec": {"containers": containers, "initContainers": [{"name": "prepare", "resources": {}}, agent]},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": container, "state": running}, {"name": "proxy", "state": beside}],
            "initContainerStatuses": [ended, {"name": "agent", "state": beside}],
        },
    }


def sample(
    name: str = "web-1", cpu: Any = "250m", memory: Any = "512Mi", *, age_s: float = 10, window: Any = "15.04s"
) -> dict[str, Any]:
    """PodMetrics, as metrics-server gives them; the sidecars use little."""
    return {
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": at(0)},
        "timestamp": at(-age_s),
        "window": window,
        "containers": [
            {"name": "app", "usage": {"cpu": cpu, "memory": memory}},
            {"name": "proxy", "usage": {"cpu": "1234567n", "memory": "20Mi"}},
            {"name": "agent", "usage": {"cpu": "30m", "memory": "20Mi"}},
        ],
    }


def autoscaler(name: str = "web", *, target: str = "web", **status: Any) -> dict[str, Any]:
    """A HorizontalPodAutoscaler that wants what there is."""
    conditions = [
        {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale"},
        {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"},
        {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange"},
    ]
    return {
        "metadata": {"name": name, "generation": 2},
        "spec": {
            "scaleTargetRef": {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": target},
            "minReplicas": 2, "maxReplicas": 10,
        },
        "status": {
            "observedGeneration": 2, "currentReplicas": 3, "desiredReplicas": 3, "conditions": conditions, **status,
        },
    }  # fmt: skip


def listed(*items: Any, token: str = "") -> bytes:
    """A list, or a page of one."""
    metadata = {"resourceVersion": "1"} | ({"continue": token} if token else {})
    return msgspec.json.encode({"kind": "List", "metadata": metadata, "items": list(items)})
