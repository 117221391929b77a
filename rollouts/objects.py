"""What a Kubernetes object is to us: a kind, a reference, a JSON manifest. No I/O, no knowledge of Rollouts' fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]
"""A JSON object as the API server takes and gives it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource type that the API server serves.

    Args:
        group: API group, `""` for the core group.
        version: `v1`, `v1alpha1`.
        kind: CamelCase name of one object.
        plural: lower-case name in paths and RBAC rules.
        namespaced: whether objects live in a namespace.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`apiVersion` as manifests carry it: `apps/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object, or of its subresource.

        Args:
            namespace: None for all namespaces, or for a cluster-scoped kind.
            name: None for the collection.
            subresource: `status`, `scale`, `eviction`; needs `name`.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        what = f"/{name}" if name else ""
        part = f"/{subresource}" if subresource else ""
        return f"{root}{where}/{self.plural}{what}{part}"


ROLLOUT = Kind("rollouts.dev", "v1alpha1", "Rollout", "rollouts")
TRAFFIC_PROVIDER = Kind("rollouts.dev", "v1alpha1", "TrafficProvider", "trafficproviders", namespaced=False)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
SERVICE = Kind("", "v1", "Service", "services")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
POD = Kind("", "v1", "Pod", "pods")
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")


@dataclass(frozen=True, slots=True)
class Key:
    """Which Rollout: the unit of work of the queue and of one pass."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
