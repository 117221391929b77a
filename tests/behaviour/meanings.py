"""What a controller's request means: the intent that a write carries out, read from its bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    AnalysisRunIntent,
    CreateAnalysisRun,
    CreateReplicaSet,
    DeleteAnalysisRun,
    DeleteExperiment,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    LetPodsGo,
    PatchReplicaSet,
    ReleaseService,
    RemoveAnnotation,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.rollout import PodMetadata
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.snapshot import ServiceSeen
from rollouts.core.model.status import Verb
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES, WorkloadKind
from rollouts.objects import ANALYSIS_RUN, REPLICA_SET, SERVICE, Key, Kind
from rollouts.objects import EXPERIMENT as EXPERIMENT_KIND
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from tests.behaviour.in_place_truth import (
    POD_TEMPLATE_HASH,
    FieldsLetGo,
    meaning_for_pods,
    meaning_for_replica_sets,
    meaning_of_step,
)
from tests.behaviour.reading import (
    EXPERIMENT,
    KEEP_PODS,
    MANAGED,
    PREFIX,
    RESTART_SURGE,
    REVISION,
    REVISION_NUMBER,
    config_note,
    gate,
)
from tests.behaviour.route_truth import INGRESS
from tests.behaviour.truth import Truth
from tests.behaviour.workload_truth import meaning_of_patch


class StatusWrite:
    """A write of the Rollout's status, which is no intent."""


@dataclass(frozen=True, slots=True)
class RunStatusWrite:
    """A write of an AnalysisRun's status, by a look at it.

    Args:
        was_over: it had a verdict already.
    """

    name: str
    was_over: bool


@dataclass(frozen=True, slots=True)
class ExperimentWrite:
    """A write by which an Experiment gets what it asks for, or loses it, or its status.

    Args:
        experiment: its name.
        leaves: pods go with it, or a Service.
    """

    experiment: str
    leaves: bool = False


Meaning: TypeAlias = Intent | StatusWrite | RunStatusWrite | ExperimentWrite | FieldsLetGo


@dataclass(frozen=True, slots=True)
class Meanings:
    """Reads requests that are about the objects of one cluster."""

    cluster: SimulatedCluster
    truth: Truth

    def of(self, request: Request, key: Key) -> Meaning | None:
        """The intent that a write carries out; None for one that no pass of ours makes.

        Args:
            key: the Rollout whose routes are meant.
        """
        target = self.cluster.api.target(request.path)
        if target is None:
            return None
        kind, name, body = target.resource.kind, target.name or "", msgspec.json.decode(request.body or b"null")
        routes = self.truth.routes
        if request.method == "PATCH" and _is_of_workload(kind, body):
            return meaning_of_patch(kind.kind, name, body)
        if (of := self._of_experiment(kind, request.method, target.part, target.home, name, body)) is not None:
            return of
        match kind.plural, request.method, target.part:
            case "rollouts", "PATCH", "status":
                return StatusWrite()
            case "rollouts", "PATCH", "":
                removed = next(each for each in body if each["op"] == "remove")  # the note of who gave it goes with it
                return RemoveAnnotation(verb=Verb(removed["path"].rpartition("~1")[2]), value="")
            case "deployments" | "statefulsets" | "daemonsets", "PATCH", "":
                return meaning_of_step(WorkloadKind(kind.kind), name, body)
            case "pods", method, "":
                return meaning_for_pods(method, name, body)
            case "replicasets", method, "":
                return meaning_for_replica_sets(method, name, body) or self._of_replica_set(
                    method, target.home, name, body
                )
            case "pods", "POST", "eviction":
                return EvictPod(name=name, uid=body["deleteOptions"]["preconditions"]["uid"])
            case "configmaps" | "secrets", method, "":
                return self.truth.config.meaning(kind, method, name, body)
            case "services", "PATCH", "":
                return self._marking(key, body) or _pointing(name, body)
            case "destinationrules", "PATCH", "":
                return routes.pointing_subset(target.home, name, body)
            case "virtualservices" | "httproutes" | "ingresses", method, "":
                return self._of_route(key, kind, method, target.home, name, body)
            case "analysisruns" | "experiments", method, part:
                return self._of_run(key, kind, method, part, target.home, name, body)
            case _:
                return None

    def _of_replica_set(self, method: str, namespace: str, name: str, body: Any) -> Intent | None:
        match method:
            case "POST":
                return _creation(body)
            case "PATCH" if isinstance(body, list):
                given = {each["path"]: each["value"] for each in body}
                return AdoptReplicaSet(
                    name=name, uid=given["/metadata/uid"], resource_version=given["/metadata/resourceVersion"]
                )
            case "PATCH":
                return self._resizing(namespace, name, body)
            case "DELETE":
                seen = body.get("preconditions") or {}
                return DeleteReplicaSet(name=name, uid=seen["uid"], resource_version=seen["resourceVersion"])
            case _:
                return None

    def _of_route(self, key: Key, kind: Kind, method: str, namespace: str, name: str, body: Any) -> Intent | None:
        routes, places = self.truth.routes, self.truth.places(key)
        if kind == INGRESS and not isinstance(body, list):
            seen = self.truth.snapshot(key)
            owned = body if method == "PATCH" else None
            return routes.beside(places, seen, namespace, name, owned) if seen is not None else None
        match method:
            case "POST":
                return routes.making(places, body)
            case "PATCH":
                return routes.steering(places, kind, namespace, name, body)
            case _:
                return None

    def _of_experiment(
        self, kind: Kind, method: str, part: str, namespace: str, name: str, body: Any
    ) -> ExperimentWrite | None:
        """What the controller of Experiments writes; None for a write of a Rollout's."""
        if (kind, part) == (EXPERIMENT_KIND, "status"):
            return ExperimentWrite(name)
        if kind not in (REPLICA_SET, SERVICE, ANALYSIS_RUN) or part:
            return None
        stored = body if method == "POST" else self.cluster.get(kind, namespace, name) or {}
        metadata = stored.get("metadata") or {}
        if EXPERIMENT not in (metadata.get("labels") or {}):
            return None
        (owner,) = metadata["ownerReferences"]
        replicas = (body or {}).get("spec", {}).get("replicas") if method == "PATCH" else None
        return ExperimentWrite(owner["name"], leaves=method == "DELETE" or replicas == 0)

    def _of_run(
        self, key: Key, kind: Kind, method: str, part: str, namespace: str, name: str, body: Any
    ) -> AnalysisRunIntent | RunStatusWrite | None:
        match method, part:
            case "POST", "":
                return self._run_made(key, body)
            case "PATCH", "" if "annotations" in body["metadata"]:
                until_s = float(body["metadata"]["annotations"][KEEP_PODS])
                return LetPodsGo(name=name, uid=body["metadata"]["uid"], until_s=until_s)
            case "PATCH", "":
                return TerminateAnalysisRun(name=name, uid=body["metadata"]["uid"], kind=kind)
            case "PATCH", "status":
                stored = self.cluster.get(ANALYSIS_RUN, namespace, name) or {}
                return RunStatusWrite(name, was_over="completedAt" in (stored.get("status") or {}))
            case "DELETE", "":
                seen = body["preconditions"]
                deletion = DeleteAnalysisRun if kind == ANALYSIS_RUN else DeleteExperiment
                return deletion(name=name, uid=seen["uid"], resource_version=seen["resourceVersion"])
            case _:
                return None

    def _run_made(self, key: Key, manifest: Any) -> CreateAnalysisRun:
        """A run, and the draft that it was made of: the one of its gate, if it says the same."""
        metadata = manifest["metadata"]
        place = gate(metadata["labels"]) or AnalysisGate(AnalysisKind.STEP)
        seen = self.truth.snapshot(key)
        draft = seen.drafts.get(place) if seen is not None else None
        if not isinstance(draft, RunDraft) or json.loads(draft.spec_json) != manifest["spec"]:
            kept = KEEP_PODS in metadata["annotations"]
            draft = RunDraft(json.dumps(manifest["spec"]).encode(), latest="", stable="", keeps_pods=kept)
        revision, attempt = metadata["labels"][REVISION], int(metadata["annotations"][f"{PREFIX}attempt"])
        return CreateAnalysisRun(name=metadata["name"], gate=place, revision=revision, attempt=attempt, draft=draft)

    def _resizing(self, namespace: str, name: str, body: Any) -> PatchReplicaSet:
        stored = self.cluster.api.history.get(REPLICA_SET, namespace, name)
        annotations = body["metadata"].get("annotations") or {}
        told = annotations.get(RESTART_SURGE, "")
        return PatchReplicaSet(
            name=name,
            uid=body["metadata"]["uid"],
            revision=(stored.labels.get(REVISION) or stored.labels.get(POD_TEMPLATE_HASH, "")) if stored else "",
            resource_version=body["metadata"].get("resourceVersion", ""),
            replicas=(body.get("spec") or {}).get("replicas"),
            restart_surge=None if told == "" else int(told or 0),
            config=config_note(annotations),
        )

    def _marking(self, key: Key, body: Any) -> SwitchService | None:
        """The host of a DestinationRule is marked: the second half of pointing its subsets."""
        if body["spec"]["selector"][REVISION] is not None or body["metadata"]["labels"][MANAGED] is None:
            return None
        seen = self.truth.snapshot(key)
        for each in (seen.services if seen is not None else {}).values():
            if isinstance(each.name, SubsetName) and isinstance(each, ServiceSeen) and each.revision:
                version, revision = each.resource_version, each.revision
                return SwitchService(name=each.name, uid=each.uid, resource_version=version, revision=revision)
        return None


def _is_of_workload(kind: Kind, body: Any) -> bool:
    """Whether a patch is one of a workload's marks, or of its size."""
    if kind.plural not in [each.plural for each in WORKLOAD_RESOURCES] or not isinstance(body, dict):
        return False
    metadata = body["metadata"]
    return MANAGED in metadata.get("labels", ()) or f"{PREFIX}scaled-down" in metadata.get("annotations", ())


def _creation(body: Any) -> CreateReplicaSet:
    metadata = body["metadata"]
    return CreateReplicaSet(
        revision=metadata["labels"][REVISION],
        number=int(metadata["annotations"][REVISION_NUMBER]),
        replicas=body["spec"]["replicas"],
        pod_metadata=PodMetadata(),
        config=config_note(metadata["annotations"]) or (),
    )


def _pointing(name: str, body: Any) -> SwitchService | ReleaseService:
    uid, version = body["metadata"]["uid"], body["metadata"]["resourceVersion"]
    revision = body["spec"]["selector"][REVISION]
    if revision is None:
        return ReleaseService(name=name, uid=uid, resource_version=version)
    return SwitchService(name=name, uid=uid, resource_version=version, revision=revision)
