"""Versions that use CPU, and autoscalers of them."""

from __future__ import annotations

import json
from typing import Any

from rollouts.objects import Manifest
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.consumption import CORE_SECONDS_PER_REQUEST, IDLE_CORES, MEMORY_BYTES
from tests.sim.manifests import replica_set

POD_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"


def version(name: str, *, replicas: int = 1, use: dict[str, str] | None = None, **options: Any) -> Manifest:
    """A ReplicaSet whose pods have a container `app` that requests 100m, and a sidecar `proxy` that requests 50m.

    Args:
        use: `idle`, `request`, `memory`: values of the annotations.
    """
    names = {"idle": IDLE_CORES, "request": CORE_SECONDS_PER_REQUEST, "memory": MEMORY_BYTES}
    annotations = {names[key]: value for key, value in (use or {}).items()}
    manifest = replica_set(name, replicas=replicas, startup_s=1, annotations=annotations, **options)
    containers = manifest["spec"]["template"]["spec"]["containers"]
    containers[0]["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    containers.append(
        {"name": "proxy", "image": "proxy:1", "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}}}
    )
    return manifest


def autoscaler(name: str, *, percent: int = 50, most: int = 10, **spec: Any) -> Manifest:
    """An autoscaler of a ReplicaSet of that name, by the CPU of its container `app`."""
    target = {"type": "Utilization", "averageUtilization": percent}
    metric = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": target}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name},
            "maxReplicas": most,
            "metrics": [metric],
            **spec,
        },
    }


def asked(cluster: SimulatedCluster, path: str = POD_METRICS, **query: str) -> tuple[int, Any]:
    """Status and body of a GET, without the port; a body that is no JSON as text."""
    answer = cluster.api.answer(Request("GET", path, query))
    try:
        return answer.status, json.loads(answer.body)
    except ValueError:
        return answer.status, answer.body.decode()


def usage(cluster: SimulatedCluster, **query: str) -> dict[str, dict[str, str]]:
    """CPU of each container, by the start of the pod's name."""
    status, body = asked(cluster, **query)
    assert status == 200, body
    return {
        item["metadata"]["name"].rpartition("-")[0]: {each["name"]: each["usage"]["cpu"] for each in item["containers"]}
        for item in body["items"]
    }
