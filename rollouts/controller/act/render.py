"""Turns a decision, in the words of `core`, into calls to the API server. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

from rollouts.api.status.wire import can_wait, merge_patch, status_to_wire
from rollouts.controller.act.calls import (
    Adopt,
    Ask,
    Create,
    CreateCopy,
    Delete,
    Evict,
    ListPods,
    Patch,
    ReadAutoscaling,
    ReadConfig,
    ReadService,
    RemoveRolloutAnnotation,
    TrySecretCopy,
    Write,
    WriteStatus,
)
from rollouts.controller.act.render_routes import render_routing
from rollouts.controller.act.render_subsets import render_subset
from rollouts.controller.observe.routes import RouteRead
from rollouts.core.model.author import NOTE_SUFFIX
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AdoptReplicaSet,
    AskAutoscaling,
    AskConfig,
    AskDrained,
    AskFeatures,
    AskLive,
    AskPods,
    AskRoute,
    AskSecretCopy,
    AskService,
    CreateAnalysisRun,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteAnalysisRun,
    DeleteConfigCopy,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
    Notice,
    PatchPod,
    PatchReplicaSet,
    ReleaseConfigCopy,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.traffic import RouteName
from rollouts.manifests.adoption import adoption_patch, release_patch
from rollouts.manifests.analysis_run import analysis_run, termination_patch
from rollouts.manifests.config_copy import kind_of
from rollouts.manifests.event import Regarding, event, event_name
from rollouts.manifests.ownership import PREFIX, pods_selector
from rollouts.manifests.pod import pod_patch
from rollouts.manifests.service import release_service, switch_service
from rollouts.manifests.workload import replica_set, replica_set_patch
from rollouts.objects import ANALYSIS_RUN, CONFIG_MAP, POD, REPLICA_SET, ROLLOUT, SERVICE, Kind, Manifest
from rollouts.ports import JSON_PATCH, MERGE_PATCH

Plain: TypeAlias = (
    CreateReplicaSet
    | AdoptReplicaSet
    | PatchReplicaSet
    | DeleteReplicaSet
    | SwitchService
    | ReleaseService
    | PatchPod
    | EvictPod
    | RemoveAnnotation
    | AskService
    | AskPods
)
"""The intents that concern neither routes, nor analyses, nor configuration, nor autoscalers."""


def render(
    snapshot: Snapshot, intent: Intent, routes: Mapping[RouteName, RouteRead] = MappingProxyType({})
) -> tuple[Write | Ask, ...]:
    """The calls that carry out `intent`, in order: one; for a route as many as its codec needs, or none when nothing differs.

    Args:
        routes: the snapshot's routes, as they were read.

    Raises: Unroutable, when a codec cannot express the split; ApiConflict, when a route has changed since the decision.
    """
    match intent:
        case SetTraffic() | MakeRoute() | ReleaseRoute() | AskRoute() | AskFeatures() | AskLive() | AskDrained():
            return render_routing(snapshot, intent, routes)
        case SwitchService(name=name) | AskService(name=name) if not isinstance(name, str):
            return render_subset(snapshot.rollout, intent, routes)
        case CreateAnalysisRun() | TerminateAnalysisRun() | DeleteAnalysisRun():
            return (_render_run(snapshot.rollout, intent),)
        case AskConfig() | CreateConfigCopy() | DeleteConfigCopy():
            return (_render_config(snapshot.rollout, intent),)
        case AdoptConfigCopy() | ReleaseConfigCopy() | AskSecretCopy():
            return (_render_kept_copy(snapshot.rollout, intent),)
        case AskAutoscaling(gate):
            return (ReadAutoscaling(gate),)
        case _:
            return (_render(snapshot.rollout, intent),)


def _render(rollout: Rollout, intent: Plain) -> Write | Ask:
    match intent:
        case CreateReplicaSet():
            manifest = replica_set(rollout, intent)
            return Create(
                kind=REPLICA_SET,
                name=manifest["metadata"]["name"],
                manifest=manifest,
                owner_uid=rollout.uid,
                revision=intent.revision,
            )
        case AdoptReplicaSet(name=name, uid=uid):
            body = adoption_patch(
                rollout, uid=uid, resource_version=intent.resource_version, has_owners=intent.has_owners
            )
            return Adopt(Patch(kind=REPLICA_SET, name=name, uid=uid, body=body, content_type=JSON_PATCH))
        case PatchReplicaSet(name=name, uid=uid):
            return Patch(kind=REPLICA_SET, name=name, uid=uid, body=replica_set_patch(intent), content_type=MERGE_PATCH)
        case DeleteReplicaSet(name=name, uid=uid, resource_version=version):
            return Delete(kind=REPLICA_SET, name=name, uid=uid, resource_version=version)
        case SwitchService(name=name, uid=uid):
            switch = switch_service(intent, rollout=rollout.name)
            return Patch(kind=SERVICE, name=str(name), uid=uid, body=switch, content_type=MERGE_PATCH)
        case ReleaseService(name=name, uid=uid):
            released = release_service(intent)
            return Patch(kind=SERVICE, name=name, uid=uid, body=released, content_type=MERGE_PATCH, leaves_watch=True)
        case PatchPod(name=name, uid=uid):
            return Patch(kind=POD, name=name, uid=uid, body=pod_patch(intent), content_type=MERGE_PATCH)
        case EvictPod(name=name, uid=uid):
            return Evict(pod=name, uid=uid)
        case RemoveAnnotation(verb=verb, value=value):
            note = f"{verb}{NOTE_SUFFIX}"
            noted = f"{PREFIX}{note}" if note in rollout.annotations else ""
            return RemoveRolloutAnnotation(annotation=f"{PREFIX}{verb}", value=value, note=noted)
        case AskService(name=name):
            return ReadService(str(name))
        case AskPods():
            return ListPods(pods_selector(rollout.name))
        case _:
            assert_never(intent)


def _render_run(rollout: Rollout, intent: CreateAnalysisRun | TerminateAnalysisRun | DeleteAnalysisRun) -> Write:
    match intent:
        case CreateAnalysisRun(name=name, revision=revision):
            run = analysis_run(rollout, intent)
            return Create(kind=ANALYSIS_RUN, name=name, manifest=run, owner_uid=rollout.uid, revision=revision)
        case TerminateAnalysisRun(name=name, uid=uid):
            body = termination_patch(intent)
            return Patch(kind=ANALYSIS_RUN, name=name, uid=uid, body=body, content_type=MERGE_PATCH)
        case DeleteAnalysisRun(name=name, uid=uid, resource_version=version):
            return Delete(kind=ANALYSIS_RUN, name=name, uid=uid, resource_version=version)
        case _:
            assert_never(intent)


def _render_config(rollout: Rollout, intent: AskConfig | CreateConfigCopy | DeleteConfigCopy) -> Write | Ask:
    match intent:
        case AskConfig(ref):
            return ReadConfig(ref.kind, ref.name)
        case CreateConfigCopy(use, owner):
            return CreateCopy(rollout=rollout, use=use, owner=owner)
        case DeleteConfigCopy(kind=kind, name=name, uid=uid, resource_version=version):
            return Delete(kind=kind_of(kind), name=name, uid=uid, resource_version=version)
        case _:
            assert_never(intent)


def _render_kept_copy(rollout: Rollout, intent: AdoptConfigCopy | ReleaseConfigCopy | AskSecretCopy) -> Write | Ask:
    match intent:
        case AdoptConfigCopy(name=name, uid=uid, resource_version=version):
            body = adoption_patch(rollout, uid=uid, resource_version=version, has_owners=intent.has_owners)
            return Adopt(Patch(kind=CONFIG_MAP, name=name, uid=uid, body=body, content_type=JSON_PATCH))
        case ReleaseConfigCopy(name=name, uid=uid, resource_version=version):
            body = release_patch(rollout, uid=uid, resource_version=version, owner_index=intent.owner_index)
            return Patch(kind=CONFIG_MAP, name=name, uid=uid, body=body, content_type=JSON_PATCH)
        case AskSecretCopy(name):
            return TrySecretCopy(rollout.name, name)
        case _:
            assert_never(intent)


def render_status(status: RolloutStatus, *, before: Manifest, step_count: int = 0) -> tuple[WriteStatus | None, bool]:
    """The write that brings `.status` to `status`, and whether it can be deferred.

    Args:
        before: `.status` as the API server has it.
        step_count: of the canary, for the printer column; 0 when there are no steps.

    Returns: None for the write when nothing differs.
    """
    patch = merge_patch(before, status_to_wire(status, step_count=step_count))
    return (WriteStatus(patch=patch) if patch else None), can_wait(patch)


def render_notice(
    regarding: Regarding, notice: Notice, *, at_s: float, index: int, instance: str, kind: Kind = ROLLOUT
) -> Manifest:
    """The Kubernetes Event for a notice.

    Args:
        at_s: wall clock.
        index: 0 to 999; makes the names of Events of one microsecond differ.
        instance: the process that reports the Event.
        kind: of the object that the notice is about.
    """
    name = event_name(regarding.name, at_s=at_s, index=index)
    return event(regarding, notice, at_s=at_s, name=name, instance=instance, kind=kind)
