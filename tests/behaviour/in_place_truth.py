"""Workloads that keep their pods, as the API server has them: sizes are counted from pods, limits are their user's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import (
    CreateInDeployment,
    DeletePod,
    InPlaceIntent,
    LabelReplicaSet,
    MoveReplicaSet,
    RevertTemplate,
    StepDaemonSet,
    StepDeployment,
    StepStatefulSet,
)
from rollouts.core.model.rollout import Canary, IntOrPercent, Percent
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet, Snapshot
from rollouts.core.model.workload import NamedReplicaSet, PartitionFields, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import CONTROLLER_REVISION, POD, REPLICA_SET, ROLLOUT, Manifest
from rollouts.sim.actors.pods import is_ready, is_terminating
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import CommittedWrite, Stored
from tests.behaviour import reading
from tests.behaviour.reading import NAME, controller_of, labels_of
from tests.behaviour.workload_truth import STORED, WorkloadTruth

POD_TEMPLATE_HASH = "pod-template-hash"
_REVISION = {
    WorkloadKind.DEPLOYMENT: POD_TEMPLATE_HASH,
    WorkloadKind.STATEFUL_SET: "controller-revision-hash",
    WorkloadKind.DAEMON_SET: "controller-revision-hash",
}
_STEPPED = {
    WorkloadKind.DEPLOYMENT: {"paused", "minReadySeconds", "progressDeadlineSeconds", "strategy"},
    WorkloadKind.STATEFUL_SET: {"updateStrategy"},
    WorkloadKind.DAEMON_SET: {"updateStrategy"},
}
"""The fields of `spec` that a step may give a workload."""


class FieldsLetGo:
    """A write of `managedFields` alone: our field manager owns no more what it has given back."""


OfInPlace: TypeAlias = InPlaceIntent | FieldsLetGo


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """A workload at one instant.

    Args:
        own: its `spec` as its user wrote it first.
        revision: of its template; "" while its controller has not seen that.
    """

    kind: WorkloadKind
    manifest: Manifest
    own: Manifest
    pods: tuple[Pod, ...]
    replica_sets: tuple[ReplicaSet, ...]
    revision: str

    @property
    def replicas(self) -> int:
        """Pods that it is to have; of a DaemonSet nodes."""
        if self.kind is WorkloadKind.DAEMON_SET:
            return int((self.manifest.get("status") or {}).get("desiredNumberScheduled", 0))
        return int(self.manifest["spec"]["replicas"])

    @property
    def surge(self) -> IntOrPercent:
        """Pods beside them, as its user allows."""
        return _limit(_rolling(self.own).get("maxSurge", 0)) if self.kind is WorkloadKind.DEPLOYMENT else 0

    @property
    def unavailable(self) -> int:
        """So many of them may be missing, as its user allows: a Deployment rounds down, and others up, to one at least."""
        limit, replicas = _limit(_rolling(self.own).get("maxUnavailable", 1)), self.replicas
        if self.kind is WorkloadKind.DEPLOYMENT:
            pods = limit.value * replicas // 100 if isinstance(limit, Percent) else limit
            return pods or int(self.surge in (0, Percent(0)))
        return max(1, -(-limit.value * replicas // 100) if isinstance(limit, Percent) else limit)

    @property
    def ready(self) -> Counter[str]:
        """Ready pods that stay, by revision."""
        return Counter(each.revision for each in self.pods if each.ready and not each.deleting)

    @property
    def staying(self) -> Counter[str]:
        """Pods that stay, by revision."""
        return Counter(each.revision for each in self.pods if not each.deleting)

    def joined(self, seen: Snapshot) -> Snapshot:
        """What a controller sees of a Rollout with what the workload says, and with a ReplicaSet for each revision."""
        spec, strategy, workload = seen.rollout.spec, seen.rollout.spec.strategy, seen.workload
        if isinstance(strategy, Canary):
            strategy = replace(strategy, max_surge=self.surge, max_unavailable=self.unavailable)
        named = self.revision or spec.revision
        spec = replace(spec, replicas=self.replicas, revision=named, template_hash=named, strategy=strategy)
        if isinstance(workload, WorkloadSeen):
            strays = [NamedReplicaSet(each.name, each.uid) for each in self.replica_sets if each.inside]
            workload = replace(workload, strays=tuple(strays))
        return replace(
            seen,
            rollout=replace(seen.rollout, spec=spec),
            workload=workload,
            replica_sets=self.replica_sets,
            pods=PodsSeen(seen.now_s, self.pods),
        )


class InPlaceTruth:
    """Reads the simulated cluster, and remembers what users wrote first."""

    def __init__(self, cluster: SimulatedCluster, workloads: WorkloadTruth) -> None:
        self._cluster = cluster
        self._workloads = workloads
        self._own: dict[str, Manifest] = {}
        for kind in _REVISION:
            cluster.api.history.listen(STORED[kind], self._follow)

    def of(self, rollout: Manifest) -> InPlace | None:
        """The workload that a Rollout updates in place; None for others, and while there is none."""
        reference, found = rollout["spec"].get("workloadRef") or {}, self._workloads.named(rollout)
        if found is None or reference.get("mode") != "InPlace":
            return None
        kind, uid = WorkloadKind(found["kind"]), found["metadata"]["uid"]
        pods = tuple(_pod(each, kind) for each in self._pods(found))
        if kind is WorkloadKind.DEPLOYMENT:
            sets = tuple(_counted(each, pods, inside) for each, inside in self._sets(found, rollout))
            revision = self._of_template(found, rollout)
        else:
            revision = self._newest(found)
            revisions = sorted({each.revision for each in pods} | {revision} - {""})
            sets = tuple(_made_up(each, found, pods) for each in revisions)
        return InPlace(
            kind=kind, manifest=found, own=self._own[uid], pods=pods, replica_sets=sets, revision=revision
        )  # fmt: skip

    def _follow(self, change: CommittedWrite) -> None:
        self._own.setdefault(change.new.metadata["uid"], change.new.manifest["spec"])

    def _pods(self, workload: Manifest) -> list[Stored]:
        selector, namespace = workload["spec"]["selector"]["matchLabels"].items(), workload["metadata"]["namespace"]
        return [each for each in self._cluster.api.history.select(POD, namespace) if selector <= each.labels.items()]

    def _sets(self, workload: Manifest, rollout: Manifest) -> Iterator[tuple[Manifest, bool]]:
        """Those that the Deployment or the Rollout controls, and whether it is the Deployment."""
        for each in self._cluster.list(REPLICA_SET, workload["metadata"]["namespace"]):
            controller = (controller_of(each) or {}).get("uid")
            if controller in (workload["metadata"]["uid"], rollout["metadata"]["uid"]):
                yield each, controller == workload["metadata"]["uid"]

    def _of_template(self, workload: Manifest, rollout: Manifest) -> str:
        template: Manifest = workload["spec"]["template"]
        for each, _ in self._sets(workload, rollout):
            its: Manifest = json.loads(json.dumps(each["spec"]["template"]))
            revision = str(its["metadata"]["labels"].pop(POD_TEMPLATE_HASH))
            if its == template:
                return revision
        return ""

    def _newest(self, workload: Manifest) -> str:
        """The revision that pods get now."""
        metadata, status = workload["metadata"], workload.get("status") or {}
        if status.get("observedGeneration", 0) < metadata["generation"]:
            return ""
        if workload["kind"] == WorkloadKind.STATEFUL_SET:
            return str(status.get("updateRevision", ""))
        listed = self._cluster.list(CONTROLLER_REVISION, metadata["namespace"])
        mine = [each for each in listed if (controller_of(each) or {}).get("uid") == metadata["uid"]]
        newest = max(mine, key=lambda each: int(each["revision"]), default=None)
        return "" if newest is None else labels_of(newest)[_REVISION[WorkloadKind.DAEMON_SET]]


def meaning_of_step(kind: WorkloadKind, name: str, body: Any) -> OfInPlace | None:
    """What a patch of a workload in place does; None for one that no pass makes."""
    if isinstance(body, list):
        if all(each["path"].startswith(("/metadata/managedFields/", "/metadata/uid")) for each in body):
            return FieldsLetGo()
        seen = {each["path"]: each["value"] for each in body}
        if kind is not WorkloadKind.DAEMON_SET or seen.keys() - {"/metadata/uid", "/metadata/resourceVersion"} != {
            "/spec/template"
        }:
            return None
        uid, version = seen.get("/metadata/uid", ""), seen.get("/metadata/resourceVersion", "")
        return RevertTemplate(name=name, uid=uid, resource_version=version, controller_revision="")
    spec, metadata = body.get("spec") or {}, body["metadata"]
    if spec.keys() - _STEPPED[kind] or set(metadata["annotations"]) - {"rollouts.dev/held", "rollouts.dev/partition"}:
        return None
    seen = {"name": name, "uid": metadata["uid"], "resource_version": metadata.get("resourceVersion", "")}
    match kind:
        case WorkloadKind.DEPLOYMENT:
            return StepDeployment(**seen, paused=bool(spec.get("paused")), fields=UpdateFields(), held=None)
        case WorkloadKind.STATEFUL_SET:
            strategy = spec["updateStrategy"]
            fields = PartitionFields(
                on_delete=strategy["type"] == "OnDelete", partition=(strategy["rollingUpdate"] or {}).get("partition")
            )
            return StepStatefulSet(**seen, fields=fields, held=None)
        case _:
            return StepDaemonSet(**seen, on_delete=spec["updateStrategy"]["type"] == "OnDelete", held=None)


def meaning_for_pods(method: str, name: str, body: Any) -> DeletePod | None:
    """What a write of a pod does."""
    if method != "DELETE":
        return None
    seen = body.get("preconditions") or {}
    return DeletePod(name=name, uid=seen.get("uid", ""), resource_version=seen.get("resourceVersion", ""))


def meaning_for_replica_sets(method: str, name: str, body: Any) -> InPlaceIntent | None:
    """What a write of a ReplicaSet that a Deployment has, or gets, does; None for one that is not about that."""
    metadata: Any = body["metadata"] if isinstance(body, dict) and "metadata" in body else {}
    owners: Any = metadata.get("ownerReferences") or ({},)
    ours, revision = owners[0].get("kind") == ROLLOUT.kind, metadata.get("labels", {}).get(POD_TEMPLATE_HASH, "")
    match method:
        case "POST" if revision:
            return CreateInDeployment(revision=revision, beside=ours)
        case "PATCH" if "ownerReferences" in metadata:
            version = metadata.get("resourceVersion", "")
            return MoveReplicaSet(
                name=name, uid=metadata["uid"], resource_version=version, revision="", into=not ours
            )  # fmt: skip
        case "PATCH" if metadata.keys() == {"uid", "labels"} and set(metadata["labels"]) == {NAME}:
            return LabelReplicaSet(name=name, uid=metadata["uid"])
        case _:
            return None


def _pod(found: Stored, kind: WorkloadKind) -> Pod:
    return replace(
        reading.pod(found),
        revision=found.labels.get(_REVISION[kind], ""),
        resource_version=found.metadata["resourceVersion"],
        ready=is_ready(found) and not is_terminating(found),
        node=found.manifest["spec"].get("nodeName", ""),
    )


def _counted(found: Manifest, pods: tuple[Pod, ...], inside: bool) -> ReplicaSet:
    """A ReplicaSet of the Deployment with the pods that there are; what it was told beyond them does not serve."""
    revision = labels_of(found).get(POD_TEMPLATE_HASH, "")
    return replace(_with_pods(reading.replica_set(found), revision, pods), inside=inside)


def _made_up(revision: str, workload: Manifest, pods: tuple[Pod, ...]) -> ReplicaSet:
    """The ReplicaSet that stands for the pods of a revision."""
    made = ReplicaSet(
        name=revision, uid=revision, resource_version="", revision=revision, number=0, created_at_s=0.0,
        spec_replicas=0, inside=True,
    )  # fmt: skip
    made = _with_pods(made, revision, pods)
    return replace(made, spec_replicas=made.replicas)


def _with_pods(made: ReplicaSet, revision: str, pods: tuple[Pod, ...]) -> ReplicaSet:
    of_it = [each for each in pods if each.revision == revision and not each.deleting]
    ready = sum(each.ready for each in of_it)
    return replace(made, revision=revision, replicas=len(of_it), ready=ready, available=ready)


def _rolling(spec: Manifest) -> Manifest:
    strategy: Manifest = spec.get("strategy") or spec.get("updateStrategy") or {}
    return strategy.get("rollingUpdate") or {}


def _limit(value: int | str) -> IntOrPercent:
    return Percent(int(value.removesuffix("%"))) if isinstance(value, str) else value
