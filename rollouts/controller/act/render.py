"""Turns a decision, in the words of `core`, into calls to the API server. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

from rollouts.api.status.wire import can_wait, merge_patch, status_to_wire
from rollouts.controller.act.calls import (
    Adopt,
    Create,
    CreateCopy,
    Delete,
    Patch,
    RemoveRolloutAnnotation,
    RolloutCall,
    Write,
    WriteStatus,
)
from rollouts.controller.act.render_routes import render_routing, render_subset
from rollouts.controller.observe.routes import RouteRead
from rollouts.core.model.author import NOTE_SUFFIX
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
from rollouts.core.model.intents import (
    Adoption,
    AnalysisRunIntent,
    AskAutoscaling,
    AskChosenNodes,
    AskConfig,
    AskDrained,
    AskFeatures,
    AskHold,
    AskLive,
    AskPods,
    AskPodTemplate,
    AskReplicaSets,
    AskRevisions,
    AskRoute,
    AskSecretCopy,
    AskService,
    AskWorkload,
    ConfigCopyIntent,
    CreateAnalysisRun,
    CreateConfigCopy,
    CreateReplicaSet,
    Deletion,
    EvictPod,
    Intent,
    LetPodsGo,
    MakeRoute,
    MarkWorkload,
    PatchPod,
    PatchReplicaSet,
    ReleaseConfigCopy,
    ReleaseRoute,
    ReleaseService,
    ReleaseWorkload,
    RemoveAnnotation,
    ReplicaSetIntent,
    ScaleWorkload,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.traffic import RouteName
from rollouts.core.model.workload import WorkloadSeen
from rollouts.manifests.adoption import adoption_patch, release_patch
from rollouts.manifests.analysis_run import analysis_run, let_go_patch, termination_patch
from rollouts.manifests.in_place import controller_patch, deployment_patch, label_patch, replica_set_in, unmarked
from rollouts.manifests.named_workload import mark_workload, release_workload, scale_workload
from rollouts.manifests.nodes import daemon_set_patch
from rollouts.manifests.ownership import PREFIX
from rollouts.manifests.partition import stateful_set_patch
from rollouts.manifests.service import release_service, switch_service
from rollouts.manifests.workload import pod_patch, replica_set, replica_set_patch
from rollouts.objects import (
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    EXPERIMENT,
    POD,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
)
from rollouts.ports import JSON_PATCH, MERGE_PATCH


def render(
    snapshot: Snapshot, intent: Intent, routes: Mapping[RouteName, RouteRead] = MappingProxyType({})
) -> tuple[RolloutCall, ...]:
    """The calls that carry out `intent`, in order: one; for a route as many as its codec needs, or none when nothing differs.

    Raises: Unroutable, when a codec cannot express the split; ApiConflict, when a route has changed since the decision.
    """
    match intent:
        case SetTraffic() | MakeRoute() | ReleaseRoute() | AskRoute() | AskFeatures() | AskLive() | AskDrained():
            return render_routing(snapshot, intent, routes)
        case SwitchService(name=SubsetName()) | AskService(name=SubsetName()):
            return render_subset(snapshot.rollout, intent, routes)
        case (
            CreateInDeployment()
            | MoveReplicaSet()
            | LabelReplicaSet()
            | StepDeployment()
            | StepStatefulSet()
            | StepDaemonSet()
            | RevertTemplate()
            | DeletePod()
        ):
            return (_in_place(snapshot, intent),)
        case ReleaseWorkload():
            return workload_release(intent)
        case (
            AskService()
            | AskWorkload()
            | AskHold()
            | AskReplicaSets()
            | AskPodTemplate()
            | AskRevisions()
            | AskChosenNodes()
            | AskPods()
            | AskAutoscaling()
            | AskConfig()
            | AskSecretCopy()
        ):
            return (intent,)
        case _:
            return (_write(snapshot.rollout, intent),)


def workload_release(intent: ReleaseWorkload, *, namespace: str = "") -> tuple[Patch, ...]:
    """The patches that take our marks off the ReplicaSets of a workload, and then off itself.

    Args:
        namespace: "" for the Rollout's.
    """
    unmarks = [_patch(REPLICA_SET, each.name, each.uid, unmarked(each)) for each in intent.replica_sets]
    body = release_workload(intent)
    release = replace(_patch(intent.kind.resource, intent.name, intent.uid, body), disowns="spec" in body)
    return tuple([replace(each, leaves_watch=True, namespace=namespace) for each in (*unmarks, release)])


_Written: TypeAlias = (
    ReplicaSetIntent
    | AnalysisRunIntent
    | ConfigCopyIntent
    | SwitchService
    | ReleaseService
    | MarkWorkload
    | ScaleWorkload
    | PatchPod
    | EvictPod
    | RemoveAnnotation
)


def _write(rollout: Rollout, intent: _Written) -> Write:
    match intent:
        case CreateReplicaSet(revision=revision):
            made = replica_set(rollout, intent)
            name = made["metadata"]["name"]
            return Create(kind=REPLICA_SET, name=name, manifest=made, owner_uid=rollout.uid, revision=revision)
        case CreateAnalysisRun(name=name, revision=revision):
            run, kind = analysis_run(rollout, intent), intent.gate.kind.object_kind
            return Create(kind=kind, name=name, manifest=run, owner_uid=rollout.uid, revision=revision)
        case CreateConfigCopy(use, owner):
            return CreateCopy(rollout=rollout, use=use, owner=owner)
        case Deletion():
            version = intent.resource_version
            return Delete(kind=intent.kind, name=intent.name, uid=intent.uid, resource_version=version)
        case Adoption(uid=uid, resource_version=version):
            body = adoption_patch(rollout, uid=uid, resource_version=version, has_owners=intent.has_owners)
            return Adopt(_patch(intent.kind, intent.name, intent.uid, body, JSON_PATCH))
        case ReleaseConfigCopy(uid=uid, resource_version=version):
            body = release_patch(rollout, uid=uid, resource_version=version, owner_index=intent.owner_index)
            return _patch(CONFIG_MAP, intent.name, intent.uid, body, JSON_PATCH)
        case PatchReplicaSet():
            return _patch(REPLICA_SET, intent.name, intent.uid, replica_set_patch(intent))
        case SwitchService():
            return _patch(
                SERVICE,
                intent.name,
                intent.uid,
                switch_service(intent, rollout=rollout.name, label=rollout.spec.revision_label),
            )
        case ReleaseService():
            return _patch(SERVICE, intent.name, intent.uid, release_service(intent), leaves_watch=True)
        case MarkWorkload(kind=kind):
            return _patch(kind.resource, intent.name, intent.uid, mark_workload(intent, rollout=rollout.name))
        case ScaleWorkload(kind=kind):
            return _patch(kind.resource, intent.name, intent.uid, scale_workload(intent))
        case PatchPod():
            return _patch(POD, intent.name, intent.uid, pod_patch(intent))
        case TerminateAnalysisRun():
            return _patch(intent.kind, intent.name, intent.uid, termination_patch(intent))
        case LetPodsGo():
            return _patch(EXPERIMENT, intent.name, intent.uid, let_go_patch(intent))
        case EvictPod():
            return intent
        case RemoveAnnotation(verb=verb, value=value):
            note = f"{verb}{NOTE_SUFFIX}"
            noted = f"{PREFIX}{note}" if note in rollout.annotations else ""
            return RemoveRolloutAnnotation(annotation=f"{PREFIX}{verb}", value=value, note=noted)
        case _:
            assert_never(intent)


def _in_place(snapshot: Snapshot, intent: InPlaceIntent) -> Write:
    workload, rollout = snapshot.workload, snapshot.rollout
    assert isinstance(workload, WorkloadSeen)  # noqa: S101 - `decide` emits these intents only for a workload that was seen
    match intent:
        case CreateInDeployment(revision=revision, beside=beside):
            made = replica_set_in(workload, rollout, intent)
            name, owner_uid = made["metadata"]["name"], rollout.uid if beside else workload.uid
            return Create(kind=REPLICA_SET, name=name, manifest=made, owner_uid=owner_uid, revision=revision)
        case MoveReplicaSet():
            return _patch(REPLICA_SET, intent.name, intent.uid, controller_patch(workload, rollout, intent))
        case LabelReplicaSet():
            return _patch(REPLICA_SET, intent.name, intent.uid, label_patch(rollout, intent))
        case StepDeployment():
            step = _patch(DEPLOYMENT, intent.name, intent.uid, deployment_patch(intent))
            return replace(step, disowns=intent.held is None)
        case StepStatefulSet():
            step = _patch(STATEFUL_SET, intent.name, intent.uid, stateful_set_patch(intent))
            return replace(step, disowns=intent.held is None)
        case StepDaemonSet():
            step = _patch(DAEMON_SET, intent.name, intent.uid, daemon_set_patch(intent))
            return replace(step, disowns=intent.held is None and not intent.on_delete)  # that holds it between updates
        case RevertTemplate():
            return intent
        case DeletePod():
            return Delete(kind=POD, name=intent.name, uid=intent.uid, resource_version=intent.resource_version)


def _patch(
    kind: Kind,
    name: ServiceRef,
    uid: str,
    body: Mapping[str, Any] | Sequence[Any],
    content_type: str = MERGE_PATCH,
    *,
    leaves_watch: bool = False,
) -> Patch:
    return Patch(kind=kind, name=str(name), uid=uid, body=body, content_type=content_type, leaves_watch=leaves_watch)


def render_status(status: RolloutStatus, *, before: Manifest, step_count: int = 0) -> tuple[WriteStatus | None, bool]:
    """The write that brings `.status` from `before` to `status`, None when nothing differs, and whether it can be deferred.

    Args:
        step_count: of the canary, for the printer column; 0 when there are no steps.
    """
    patch = merge_patch(before, status_to_wire(status, step_count=step_count))
    return (WriteStatus(patch=patch) if patch else None), can_wait(patch)
