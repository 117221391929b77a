"""Rollouts and Services as people write them, short enough to be read in a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Manifest = dict[str, Any]

KUBE_PROXY: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
    "data": {"config.conf": "kind: KubeProxyConfiguration\nmode: nftables\nnftables: {minSyncPeriod: 1s}\n"},
}
"""What kubeadm leaves in every cluster: by it the controller knows how long proxies take."""

STEPS: Sequence[Manifest] = (
    {"setWeight": 25},
    {"pause": {}},
    {"setWeight": 50},
    {"pause": {"duration": "5s"}},
)
"""A gate for a person at a quarter, then five seconds at a half."""

GATE, HALF = 1, 3
"""Indices of the two pauses in STEPS."""


def canary(
    name: str,
    *,
    image: str = "web:1",
    replicas: int = 4,
    steps: Sequence[Manifest] = STEPS,
    spec: Manifest | None = None,
    configured_by: Sequence[str] = (),
    **fields: Any,
) -> Manifest:
    """A canary Rollout that surges by one pod and lacks none; `fields` go into `strategy.canary`, `spec` into `spec`.

    Args:
        configured_by: names of ConfigMaps from which its container has its environment.
    """
    strategy = {"maxSurge": 1, "maxUnavailable": 0, "steps": list(steps), **fields}
    made = rollout(name, image=image, strategy={"canary": strategy}, spec={"replicas": replicas, **(spec or {})})
    if configured_by:
        (container,) = made["spec"]["template"]["spec"]["containers"]
        container["envFrom"] = [{"configMapRef": {"name": each}} for each in configured_by]
    return made


def blue_green(
    name: str, *, image: str = "web:1", replicas: int = 3, spec: Manifest | None = None, **fields: Any
) -> Manifest:
    """A blue-green Rollout with Services NAME-active and NAME-preview; `fields` go into `strategy.blueGreen`."""
    strategy = {"activeService": f"{name}-active", "previewService": f"{name}-preview", **fields}
    return rollout(name, image=image, strategy={"blueGreen": strategy}, spec={"replicas": replicas, **(spec or {})})


def rollout(name: str, *, image: str, strategy: Manifest, spec: Manifest) -> Manifest:
    """A Rollout of one container; its pods are labelled `app: NAME`."""
    container = {"name": "web", "image": image, "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}}}
    return {
        "apiVersion": "rollouts.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "strategy": strategy,
            "drain": {"maxRequestSeconds": 1},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def service(name: str, *, app: str) -> Manifest:
    """A Service for the pods labelled `app`."""
    spec = {"selector": {"app": app}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def config_map(name: str, data: Manifest | None = None, **more: Any) -> Manifest:
    """A ConfigMap of a user's."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"color": "blue"} if data is None else data,
        **more,
    }
