"""The workloads that Rollouts name, as the API server has them: what each Rollout may take of one, and what is written to it."""

from __future__ import annotations

from typing import Any

from rollouts.api.spec.parse import WorkloadTemplate
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import MarkWorkload, ReleaseWorkload
from rollouts.core.model.workload import WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import Key, Manifest
from rollouts.sim.cluster import SimulatedCluster
from tests.behaviour.reading import MANAGED, annotations_of, labels_of, manager_of

STORED = {kind: replace(kind.resource, view="") for kind in WorkloadKind}
"""The kinds as the API server has them."""

_MANAGED_BY = "rollouts.dev/managed-by"


class WorkloadTruth:
    """Reads the simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def named(self, rollout: Manifest) -> Manifest | None:
        """The object that `workloadRef` names; None when there is none."""
        reference = rollout["spec"].get("workloadRef")
        if reference is None:
            return None
        resource = STORED[WorkloadKind(reference["kind"])]
        return self._cluster.get(resource, rollout["metadata"]["namespace"], reference["name"])

    def template(self, rollout: Manifest) -> WorkloadTemplate | None:
        """What a Rollout takes of its workload, once that is marked as its own."""
        found = self.named(rollout)
        if found is None or annotations_of(found).get(_MANAGED_BY) != rollout["metadata"]["name"]:
            return None
        spec = found.get("spec") or {}
        return WorkloadTemplate(found.get("template") or spec["template"], spec.get("selector"))

    def seen(self, rollout: Manifest) -> WorkloadSeen | None:
        """The named workload."""
        found = self.named(rollout)
        return None if found is None else _seen(found)

    def left(self, key: Key, rollout: Manifest) -> tuple[WorkloadSeen, ...]:
        """Those that carry the Rollout's mark and that it does not name."""
        found = [each for kind in STORED.values() for each in self._cluster.list(kind, key.namespace)]
        named = (self.named(rollout) or {"metadata": {}})["metadata"].get("uid")
        ours = [each for each in found if manager_of(each) == (key.namespace, key.name)]
        return tuple(_seen(each) for each in ours if MANAGED in labels_of(each) and each["metadata"]["uid"] != named)


def marking(kind: str, name: str, body: Any) -> MarkWorkload | ReleaseWorkload:
    """The intent behind a patch of a workload."""
    metadata, made = body["metadata"], MarkWorkload if body["metadata"]["labels"][MANAGED] else ReleaseWorkload
    return made(kind=WorkloadKind(kind), name=name, uid=metadata["uid"], resource_version=metadata["resourceVersion"])


def _seen(found: Manifest) -> WorkloadSeen:
    metadata, spec = found["metadata"], found.get("spec") or {}
    return WorkloadSeen(
        kind=WorkloadKind(found["kind"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        managed_by=manager_of(found)[1],
        watched=MANAGED in labels_of(found),
        replicas=spec.get("replicas", 0),
        available=(found.get("status") or {}).get("availableReplicas", 0),
    )
