"""Kubernetes objects as people write them, as JSON: the builders of all tests. A room with other defaults wraps one in a line.

Names of fields are the API's; `namespace=None` leaves it out, as in a file that `kubectl apply -n` is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rollouts.objects import (
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    CONFIG_MAP,
    REPLICA_SET,
    ROLLOUT,
    SECRET,
    SERVICE,
    Kind,
    Manifest,
)

HPA = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
INGRESS = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
NOTHING: Mapping[str, Any] = {}


def manifest(kind: Kind, name: str, namespace: str | None = None, *, metadata: Mapping[str, Any] = NOTHING,
             **fields: Any) -> Manifest:  # fmt: skip
    """Any object; `fields` stand beside its metadata."""
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **where, **metadata},
        **fields,
    }


def pod_template(app: str, *, image: str, container: Mapping[str, Any] = NOTHING, metadata: Mapping[str, Any] = NOTHING,
                 **pod: Any) -> Manifest:  # fmt: skip
    """Pods labelled `app` with one container `app`; `container` and `pod` are more of their fields."""
    containers = [{"name": "app", "image": image, **container}]
    return {"metadata": {"labels": {"app": app}, **metadata}, "spec": {"containers": containers, **pod}}


def rollout(strategy: Manifest, name: str = "web", namespace: str | None = None, *, image: str = "web:1",
            metadata: Mapping[str, Any] = NOTHING, **spec: Any) -> Manifest:  # fmt: skip
    """A Rollout of two pods labelled `app: NAME`; `strategy` is what `canary` or `blue_green` gives."""
    usual = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": name}},
        "strategy": strategy,
        "template": pod_template(name, image=image),
    }
    return manifest(ROLLOUT, name, namespace, metadata=metadata, spec={**usual, **spec})


def canary(*steps: Manifest, **fields: Any) -> Manifest:
    """A canary strategy that surges by one pod and lacks none, unless `fields` say otherwise."""
    return {"canary": {"maxSurge": 1, "maxUnavailable": 0, **fields, "steps": list(steps)}}


def blue_green(active: str = "active", preview: str = "preview", **fields: Any) -> Manifest:
    """A blue-green strategy."""
    return {"blueGreen": {"activeService": active, "previewService": preview, **fields}}


def service(
    name: str, namespace: str | None = None, *, metadata: Mapping[str, Any] = NOTHING, **selector: str
) -> Manifest:
    """A Service on port 80 of the pods with those labels; of `app: NAME` when none is given."""
    spec = {"selector": selector or {"app": name}, "ports": [{"port": 80}]}
    return manifest(SERVICE, name, namespace, metadata=metadata, spec=spec)


def replica_set(name: str, namespace: str | None = None, *, replicas: int = 0, image: str = "app:1",
                metadata: Mapping[str, Any] = NOTHING, **spec: Any) -> Manifest:  # fmt: skip
    """A ReplicaSet of pods labelled `app: NAME`."""
    usual = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name, image=image),
    }
    return manifest(REPLICA_SET, name, namespace, metadata=metadata, spec={**usual, **spec})


def deployment(name: str, namespace: str | None = None, *, replicas: int = 1, image: str = "app:1",
               metadata: Mapping[str, Any] = NOTHING, **spec: Any) -> Manifest:  # fmt: skip
    """A Deployment of pods labelled `app: NAME`."""
    usual = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name, image=image),
    }
    return manifest(DEPLOYMENT, name, namespace, metadata=metadata, spec={**usual, **spec})


def config_map(
    name: str, namespace: str | None = None, *, metadata: Mapping[str, Any] = NOTHING, **fields: Any
) -> Manifest:
    """A ConfigMap; `data=`, `binaryData=` and `immutable=` are its fields."""
    return manifest(CONFIG_MAP, name, namespace, metadata=metadata, **fields)


def secret(
    name: str, namespace: str | None = None, *, metadata: Mapping[str, Any] = NOTHING, **fields: Any
) -> Manifest:
    """A Secret; `data=`, `stringData=` and `type=` are its fields."""
    return manifest(SECRET, name, namespace, metadata=metadata, **fields)


def autoscaler(
    name: str,
    namespace: str | None = None,
    *metrics: Manifest,
    target: Kind = ROLLOUT,
    most: int = 10,
    metadata: Mapping[str, Any] = NOTHING,
    **spec: Any,
) -> Manifest:
    """A HorizontalPodAutoscaler of the object of its name; by half of the CPU of container `app` when no metric is given."""
    usual = {
        "scaleTargetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": name},
        "maxReplicas": most,
        "metrics": list(metrics) or [container_cpu(50)],
    }
    return manifest(HPA, name, namespace, metadata=metadata, spec={**usual, **spec})


def container_cpu(percent: int, container: str = "app") -> Manifest:
    """An autoscaler's metric: CPU of one container, in percent of its request."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": container, "target": target}}


def analysis_template(*metrics: Mapping[str, Any], name: str = "rate", namespace: str | None = None, cluster: bool = False,
                      **spec: Any) -> Manifest:  # fmt: skip
    """An AnalysisTemplate, or a ClusterAnalysisTemplate, of those metrics."""
    kind = CLUSTER_ANALYSIS_TEMPLATE if cluster else ANALYSIS_TEMPLATE
    return manifest(kind, name, None if cluster else namespace, spec={"metrics": list(metrics), **spec})


def metric(name: str = "rate", query: str = "up", condition: str = "result[0] >= 0.95", **fields: Any) -> Manifest:
    """A metric that Prometheus is asked for."""
    return {"name": name, "successCondition": condition, "provider": {"prometheus": {"query": query}}, **fields}


def backend(name: str, weight: int | None = None, *, port: int = 80, **fields: Any) -> Manifest:
    """A Service as a rule of an HTTPRoute names it."""
    return {"name": name, "port": port, **({} if weight is None else {"weight": weight}), **fields}


def http_rule(*backends: Manifest, path: str | None = None, **fields: Any) -> Manifest:
    """A rule of an HTTPRoute, for a path prefix or for everything."""
    matches = {} if path is None else {"matches": [{"path": {"type": "PathPrefix", "value": path}}]}
    return {**matches, "backendRefs": list(backends), **fields}


def role_binding(name: str, namespace: str | None, role: str, *, to: Manifest, kind: str = "Role") -> Manifest:
    """Gives a Role, or a ClusterRole, to a subject."""
    reference = {"apiGroup": ROLE.group, "kind": kind, "name": role}
    return manifest(ROLE_BINDING, name, namespace, roleRef=reference, subjects=[to])


def granted(name: str, namespace: str | None, rules: Sequence[Manifest], *, to: Manifest) -> tuple[Manifest, Manifest]:
    """A Role with these rules, and what gives it to a subject."""
    return manifest(ROLE, name, namespace, rules=list(rules)), role_binding(name, namespace, name, to=to)
