"""What our writes do: the Snapshot after one intent, before anybody reacts to it. Pure; the only such model.

Callers add what they need. The forecast adds virtual time and controllers that react at once. The random worlds of the tests add
the API server's refusals and versions, and pods with their clocks. An Ask changes nothing here; callers add its answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from rollouts.core.model.analysis import RunSeen
from rollouts.core.model.author import NOTE_SUFFIX
from rollouts.core.model.config import CopySeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import (
    CreateInDeployment,
    DeletePod,
    DeploymentIntent,
    LabelReplicaSet,
    MoveReplicaSet,
    RevertTemplate,
    StepDaemonSet,
    StepDeployment,
    StepStatefulSet,
)
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AdoptReplicaSet,
    Ask,
    ConfigCopyIntent,
    CopyOwner,
    CreateAnalysisRun,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteAnalysisRun,
    DeleteConfigCopy,
    DeleteExperiment,
    DeleteReplicaSet,
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
    RouteIntent,
    ScaleWorkload,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
    WorkloadIntent,
)
from rollouts.core.model.nodes import DaemonSetSeen
from rollouts.core.model.revision import replica_set_name
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Pod, ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import Verb
from rollouts.core.model.traffic import Route, RouteName, RouteSeen
from rollouts.core.model.workload import ScaledDown, StatefulSetSeen, WorkloadSeen

_Stored = TypeVar("_Stored", Rollout, ReplicaSet, ServiceSeen, RouteSeen, WorkloadSeen)


def after(seen: Snapshot, intent: Intent) -> Snapshot:
    """The Snapshot once `intent` is carried out. Objects that were not seen stay unseen, and status does not change."""
    match intent:
        case CreateReplicaSet():
            return replace(seen, replica_sets=(*seen.replica_sets, _created(seen, intent)))
        case AdoptReplicaSet(uid=uid):  # its fields are not known here: the next Snapshot shows it as a ReplicaSet
            return replace(seen, orphans=tuple([orphan for orphan in seen.orphans if orphan.uid != uid]))
        case PatchReplicaSet(uid=uid):
            sets = [_patched(each, intent) if each.uid == uid else each for each in seen.replica_sets]
            return replace(seen, replica_sets=tuple(sets))
        case DeleteReplicaSet(uid=uid):
            return replace(seen, replica_sets=tuple([each for each in seen.replica_sets if each.uid != uid]))
        case CreateInDeployment() | MoveReplicaSet() | LabelReplicaSet() | StepDeployment():
            return _deployment_after(seen, intent)
        case StepStatefulSet() | StepDaemonSet() | RevertTemplate():
            return _stepped(seen, intent)
        case SwitchService(name=name, revision=revision):
            return _with_service(seen, name, revision=revision, managed_by=seen.rollout.name)
        case ReleaseService(name=name):
            return _with_service(seen, name, revision="", managed_by="")
        case MarkWorkload() | ScaleWorkload() | ReleaseWorkload():
            return _with_workload(seen, intent)
        case SetTraffic() | MakeRoute() | ReleaseRoute():
            return replace(seen, routes=_routes_after(seen, intent))
        case PatchPod() | EvictPod() | DeletePod():
            return _with_pod(seen, intent)
        case RemoveAnnotation():
            # The note of who gave it goes with it, and what was read from it.
            gone = (intent.verb, f"{intent.verb}{NOTE_SUFFIX}")
            left = {name: value for name, value in seen.rollout.annotations.items() if name not in gone}
            asked_at_s = None if intent.verb is Verb.RESTART else seen.rollout.restart_asked_at_s
            rollout = replace(seen.rollout, annotations=left, restart_asked_at_s=asked_at_s)
            return replace(seen, rollout=_written(seen.rollout, rollout))
        case CreateAnalysisRun() | LetPodsGo():
            return _with_run(seen, intent)
        case TerminateAnalysisRun(uid=uid):
            runs = [replace(run, terminate=run.terminate or run.uid == uid) for run in seen.runs]
            return replace(seen, runs=tuple(runs))
        case DeleteAnalysisRun(uid=uid) | DeleteExperiment(uid=uid):
            return replace(seen, runs=tuple([run for run in seen.runs if run.uid != uid]))
        case CreateConfigCopy() | DeleteConfigCopy() | AdoptConfigCopy() | ReleaseConfigCopy():
            return replace(seen, copies=_copies_after(seen, intent))
        case Ask():
            return seen


def _created(seen: Snapshot, intent: CreateReplicaSet) -> ReplicaSet:
    """The new ReplicaSet, before its controller has observed it."""
    name = replica_set_name(rollout=seen.rollout.name, revision=intent.revision)
    return ReplicaSet(
        name=name,
        uid=f"new-{name}",
        resource_version="1",
        revision=intent.revision,
        number=intent.number,
        created_at_s=seen.now_s,
        spec_replicas=intent.replicas,
        observed=False,
        min_ready_s=seen.rollout.spec.min_ready_s,
        pod_metadata=intent.pod_metadata,
        injection=intent.injection,
        config=intent.config,
    )


def _patched(found: ReplicaSet, intent: PatchReplicaSet) -> ReplicaSet:
    """The patched ReplicaSet. Its counts are the old ones; a new spec, unlike an annotation, is still to be observed."""
    names = ("restart_surge", "abort_note", "min_ready_s", "number", "pod_metadata", "pods_carry_metadata", "config")
    given: dict[str, Any] = {name: value for name in names if (value := getattr(intent, name)) is not None}
    if intent.replicas is not None:
        given["spec_replicas"] = intent.replicas
    patched = replace(found, **given)
    same_spec = all(
        getattr(patched, name) == getattr(found, name) for name in ("spec_replicas", "min_ready_s", "pod_metadata")
    )
    return _written(found, replace(patched, observed=found.observed and same_spec))


def _deployment_after(seen: Snapshot, intent: DeploymentIntent) -> Snapshot:
    """With a ReplicaSet more, or one that has changed hands, or other fields; its controller has not reacted yet."""
    workload = seen.workload
    if not isinstance(workload, WorkloadSeen) or workload.deployment is None:
        return seen
    match intent:
        case CreateInDeployment(revision=revision, beside=beside):
            name = f"{workload.name}-{revision}"
            made = ReplicaSet(
                name=name,
                uid=f"new-{name}",
                resource_version="1",
                revision=revision,
                number=0,
                created_at_s=seen.now_s,
                spec_replicas=0,
                observed=False,
                min_ready_s=seen.rollout.spec.min_ready_s if beside else 0,
                inside=not beside,
            )
            return replace(seen, replica_sets=(*seen.replica_sets, made))
        case MoveReplicaSet(uid=uid, into=into):
            sets = [
                _written(each, replace(each, inside=into)) if each.uid == uid else each for each in seen.replica_sets
            ]
            return replace(seen, replica_sets=tuple(sets))
        case LabelReplicaSet():  # its fields are not known here: the next Snapshot shows it
            return seen
        case StepDeployment(paused=paused, fields=fields, held=held):
            deployment = replace(workload.deployment, paused=paused, fields=fields, held=held)
            now = replace(workload, in_place=deployment, observed=False)
            return replace(seen, workload=_written(workload, now))


def _stepped(seen: Snapshot, intent: StepStatefulSet | StepDaemonSet | RevertTemplate) -> Snapshot:
    """With other fields of a StatefulSet or DaemonSet; its controller has not reacted yet."""
    workload = seen.workload
    if not isinstance(workload, WorkloadSeen):
        return seen
    match intent, workload.in_place:
        case StepStatefulSet(fields=fields, held=held), StatefulSetSeen() as stateful_set:
            step = replace(stateful_set, fields=fields, held=held, replaced=None)
            turned = replace(workload, in_place=step, observed=False)
        case StepDaemonSet(on_delete=on_delete, held=note), DaemonSetSeen() as daemon_set:
            update = replace(daemon_set.update, on_delete=on_delete)
            turned = replace(workload, in_place=replace(daemon_set, update=update, held=note), observed=False)
        case _:  # the next Snapshot shows the revision of another template
            return seen
    return replace(seen, workload=_written(workload, turned))


def _with_service(seen: Snapshot, name: ServiceRef, *, revision: str, managed_by: str) -> Snapshot:
    """With a new selector and our marks, or without both; the EndpointSlices are the old ones."""
    service = seen.services.get(name)
    if not isinstance(service, ServiceSeen):
        return seen
    now = replace(service, revision=revision, managed_by=managed_by, watched=bool(managed_by))
    return replace(seen, services={**seen.services, name: _written(service, now)})


def _with_workload(seen: Snapshot, intent: WorkloadIntent) -> Snapshot:
    """With our marks, or released: then a Snapshot does not show it. The joined spec stays as it is."""
    left = tuple([each for each in seen.left_workloads if each.uid != intent.uid])
    workload = seen.workload
    if isinstance(intent, ReleaseWorkload) or not isinstance(workload, WorkloadSeen) or workload.uid != intent.uid:
        return replace(seen, left_workloads=left)
    if isinstance(intent, ScaleWorkload):
        note = None if intent.own is None else ScaledDown(own=intent.own, to=intent.replicas)
        now = replace(workload, replicas=intent.replicas, scaled_down=note, observed=False)
    else:
        now = replace(workload, managed_by=seen.rollout.name, watched=True, read_at_s=None)
    return replace(seen, workload=_written(workload, now))


def _routes_after(seen: Snapshot, intent: RouteIntent) -> Mapping[RouteName, Route]:
    """The routes. A new one is not accepted yet; the last answer of a data plane is about the earlier version of its route."""
    name, manager, found = intent.route, seen.rollout.name, seen.routes.get(intent.route)
    match intent:
        case MakeRoute(split=split):
            uid = f"new-{name.name}"
            made = RouteSeen(route=name, uid=uid, resource_version="1", split=split, managed_by=manager, features=None)
            return {**seen.routes, name: made}
        case SetTraffic(split=split):
            if not isinstance(found, RouteSeen):
                return seen.routes
            now = replace(found, split=split, managed_by=manager, rewrite_because="")
            return {**seen.routes, name: _written(found, now)}
        case ReleaseRoute():  # neither named by the spec nor managed any longer: a Snapshot does not show it
            return {other: route for other, route in seen.routes.items() if other != name}


def _with_pod(seen: Snapshot, intent: PatchPod | EvictPod | DeletePod) -> Snapshot:
    if seen.pods is None:
        return seen
    pods = [_pod_after(pod, intent) if pod.uid == intent.uid else pod for pod in seen.pods.pods]
    return replace(seen, pods=replace(seen.pods, pods=tuple(pods)))


def _pod_after(pod: Pod, intent: PatchPod | EvictPod | DeletePod) -> Pod:
    match intent:
        case PatchPod(metadata=given, removed=removed):
            labels = {key: value for key, value in pod.labels.items() if key not in removed.labels}
            annotations = {key: value for key, value in pod.annotations.items() if key not in removed.annotations}
            return replace(pod, labels={**labels, **given.labels}, annotations={**annotations, **given.annotations})
        case EvictPod() | DeletePod():
            return replace(pod, deleting=True)


def _with_run(seen: Snapshot, intent: CreateAnalysisRun | LetPodsGo) -> Snapshot:
    """With the new run; one that exists already stays as it is. Or with an Experiment that knows until when it keeps its pods."""
    if isinstance(intent, LetPodsGo):
        told = [replace(run, kept_until_s=intent.until_s) if run.uid == intent.uid else run for run in seen.runs]
        return replace(seen, runs=tuple(told))
    if any(run.name == intent.name for run in seen.runs):
        return seen
    made = RunSeen(
        name=intent.name,
        uid=f"uid-of-{intent.name}",
        resource_version="1",
        gate=intent.gate,
        revision=intent.revision,
        created_at_s=seen.now_s,
        spec_hash=intent.draft.spec_hash,
        kept_until_s=math.inf if intent.draft.keeps_pods else 0.0,
    )
    return replace(seen, runs=(*seen.runs, made))


def _copies_after(seen: Snapshot, intent: ConfigCopyIntent) -> tuple[CopySeen, ...]:
    """A copy that exists already gets an owner and stays as it is else. One of a Secret is seen by nobody."""
    copies = seen.copies
    match intent:
        case CreateConfigCopy(owner=CopyOwner()):
            return copies
        case CreateConfigCopy(use=use):
            owned = not seen.rollout.spec.config_versioning.retain
            made = CopySeen(
                kind=use.kind,
                name=use.copy,
                uid=f"uid-of-{use.copy}",
                resource_version="1",
                source=use.source,
                content=use.content,
                created_at_s=seen.now_s,
                owned=owned,
                owners=1 if owned else 0,
                owner_index=0 if owned else -1,
            )
            existing = next((copy for copy in copies if (copy.kind, copy.name) == (made.kind, made.name)), None)
            return (*copies, made) if existing is None else _with_owner(copies, existing.uid, owned=owned)
        case DeleteConfigCopy(uid=uid):
            return tuple([copy for copy in copies if copy.uid != uid])
        case AdoptConfigCopy(uid=uid) | ReleaseConfigCopy(uid=uid):
            return _with_owner(copies, uid, owned=isinstance(intent, AdoptConfigCopy))


def _with_owner(copies: tuple[CopySeen, ...], uid: str, *, owned: bool) -> tuple[CopySeen, ...]:
    """The copies with the Rollout as the last owner of one of them, or without it."""
    changed = []
    for copy in copies:
        if copy.uid != uid or copy.owned is owned:
            changed.append(copy)
        elif owned:
            changed.append(replace(copy, owned=True, owners=copy.owners + 1, owner_index=copy.owners))
        else:
            changed.append(replace(copy, owned=False, owners=copy.owners - 1, owner_index=-1))
    return tuple(changed)


def _written(before: _Stored, now: _Stored) -> _Stored:
    """The stored object: with a new resourceVersion, unless the write changes nothing."""
    return before if now == before else replace(now, resource_version=f"{before.resource_version}+")
