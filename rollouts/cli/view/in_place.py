"""The workload that a Rollout updates in place, and its revisions, as the commands see them. Pure.

A Deployment has a ReplicaSet for each revision; a StatefulSet and a DaemonSet have ControllerRevisions, which hold templates and
count no pods. Commands see those as ReplicaSets with the pods that there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rollouts.core.model.workload_ref import WorkloadKind, WorkloadMode
from rollouts.manifests.ownership import CONTROLLER_REVISION_HASH, DEPLOYMENT_REVISION, revision_of
from rollouts.objects import CONTROLLER_REVISION, REPLICA_SET, Kind, Manifest, mapping


class WorkloadInPlace(Struct, frozen=True):
    """A workload that keeps its pods."""

    kind: WorkloadKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def for_kubectl(self) -> str:
        """As kubectl is given it: `statefulset/db`."""
        return f"{self.kind.lower()}/{self.name}"

    def controls(self, owners: Iterable[Mapping[str, object]]) -> bool:
        """Whether it is the controller among these owners."""
        mine = (self.kind.resource.api_version, self.kind.value, self.name)
        return any((each.get("apiVersion"), each.get("kind"), each.get("name")) == mine for each in owners)


def in_place(rollout: Manifest) -> WorkloadInPlace | None:
    """The workload that the Rollout updates in place; None for pods of its own."""
    reference = mapping(mapping(rollout.get("spec")).get("workloadRef"))
    if reference.get("mode") != WorkloadMode.IN_PLACE.value or reference.get("kind") not in list(WorkloadKind):
        return None
    return WorkloadInPlace(WorkloadKind(str(reference["kind"])), str(reference.get("name")))


def revisions_kind(rollout: Manifest) -> Kind:
    """What holds the revisions of a Rollout."""
    workload = in_place(rollout)
    return REPLICA_SET if workload is None or workload.kind is WorkloadKind.DEPLOYMENT else CONTROLLER_REVISION


def as_replica_sets(found: Iterable[Manifest], pods: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """ReplicaSets as they are, and one for each ControllerRevision with its pods, by the label that these have.

    A StatefulSet calls a revision by the name of the ControllerRevision, a DaemonSet by a label of it. The template is a
    strategic merge patch. Source: k8s.io/kubernetes pkg/controller/history, and `getPatch` of both controllers.
    """
    staying = [each for each in pods if not each["metadata"].get("deletionTimestamp")]
    sizes = Counter(revision_of(each["metadata"].get("labels") or {}) for each in staying)
    ready = Counter(revision_of(each["metadata"].get("labels") or {}) for each in staying if _is_ready(each))
    return tuple(
        _as_replica_set(each, sizes, ready) if each.get("kind") == CONTROLLER_REVISION.kind else each for each in found
    )


def _as_replica_set(found: Manifest, sizes: Counter[str], ready: Counter[str]) -> Manifest:
    metadata, labels = found["metadata"], found["metadata"].get("labels") or {}
    revision = labels.get(CONTROLLER_REVISION_HASH) or metadata["name"]
    template = mapping(mapping(mapping(found.get("data")).get("spec")).get("template"))
    status = {"replicas": sizes[revision], "readyReplicas": ready[revision], "availableReplicas": ready[revision]}
    named = {
        "labels": {**labels, CONTROLLER_REVISION_HASH: revision},
        "annotations": {DEPLOYMENT_REVISION: str(found.get("revision", 0))},
    }
    spec = {
        "replicas": sizes[revision],
        "template": {name: part for name, part in template.items() if name != "$patch"},
    }
    return {**found, "metadata": {**metadata, **named}, "spec": spec, "status": status}


def _is_ready(pod: Manifest) -> bool:
    conditions = mapping(pod.get("status")).get("conditions") or ()
    return any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions)
