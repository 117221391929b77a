"""The workloads that Rollouts name, as the API server has them: what each Rollout may take of one, and what is written to it."""

from __future__ import annotations

import json
from typing import Any

from rollouts.api.spec.parse import WorkloadTemplate
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import MarkWorkload, ReleaseWorkload, ScaleWorkload, WorkloadIntent
from rollouts.core.model.workload import ScaledDown, WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import ROLLOUT, Key, Manifest
from rollouts.sim.cluster import SimulatedCluster
from tests.behaviour.reading import MANAGED, annotations_of, labels_of, manager_of

STORED = {kind: replace(kind.resource, view="") for kind in WorkloadKind}
"""The kinds as the API server has them."""

_MANAGED_BY, _SCALED_DOWN = "rollouts.dev/managed-by", "rollouts.dev/scaled-down"


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
        if found is None:
            return None
        seen = _seen(found)
        marked = seen.watched or self._cluster.get(ROLLOUT, *manager_of(found)) is not None
        return seen if marked else replace(seen, managed_by="")  # what a Rollout that is gone has left

    def left(self, key: Key, rollout: Manifest) -> tuple[WorkloadSeen, ...]:
        """Those that carry the Rollout's mark and that it does not name."""
        found = [each for kind in STORED.values() for each in self._cluster.list(kind, key.namespace)]
        named = (self.named(rollout) or {"metadata": {}})["metadata"].get("uid")
        ours = [each for each in found if manager_of(each) == (key.namespace, key.name)]
        return tuple(_seen(each) for each in ours if MANAGED in labels_of(each) and each["metadata"]["uid"] != named)


def meaning_of_patch(kind: str, name: str, body: Any) -> WorkloadIntent:
    """The intent behind a patch of a workload."""
    metadata: Any = body["metadata"]
    replicas: Any = (body.get("spec") or {}).get("replicas")
    seen: dict[str, Any] = {
        "kind": WorkloadKind(kind),
        "name": name,
        "uid": metadata["uid"],
        "resource_version": metadata["resourceVersion"],
    }
    if "labels" not in metadata:
        note = json.loads(metadata["annotations"][_SCALED_DOWN] or "null")
        return ScaleWorkload(**seen, replicas=replicas, own=None if note is None else note["own"])
    return MarkWorkload(**seen) if metadata["labels"][MANAGED] else ReleaseWorkload(**seen, replicas=replicas)


def _seen(found: Manifest) -> WorkloadSeen:
    metadata, spec = found["metadata"], found.get("spec") or {}
    note = json.loads(annotations_of(found).get(_SCALED_DOWN, "null"))
    return WorkloadSeen(
        kind=WorkloadKind(found["kind"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        managed_by=manager_of(found)[1],
        watched=MANAGED in labels_of(found),
        replicas=spec.get("replicas", 0),
        scaled_down=None if note is None else ScaledDown(own=note["own"], to=note["to"]),
        available=(found.get("status") or {}).get("availableReplicas", 0),
    )
