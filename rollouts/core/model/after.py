"""What our writes do: the Snapshot after one intent, before anybody reacts to it. Pure; the only such model.

Callers add what they need. The forecast adds virtual time and controllers that react at once. The random worlds of the tests add
the API server's refusals and versions, and pods with their clocks. An Ask changes nothing here; callers add its answer.

Each `…_after` function takes the object that the intent writes, for models that store their objects in another way.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, assert_never

from rollouts.core.model.analysis import RunSeen
from rollouts.core.model.author import NOTE_SUFFIX
from rollouts.core.model.config import CopySeen
from rollouts.core.model.frozen import replace
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
    CopyOwner,
    CreateAnalysisRun,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteAnalysisRun,
    DeleteConfigCopy,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
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
from rollouts.core.model.revision import replica_set_name
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.snapshot import Pod, ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import Verb
from rollouts.core.model.traffic import RouteSeen

_OfReplicaSets: TypeAlias = CreateReplicaSet | AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet
_OfCopies: TypeAlias = CreateConfigCopy | DeleteConfigCopy | AdoptConfigCopy | ReleaseConfigCopy
_OfRoutes: TypeAlias = SetTraffic | MakeRoute | ReleaseRoute
_Stored = TypeVar("_Stored", Rollout, ReplicaSet, ServiceSeen, RouteSeen)


def after(seen: Snapshot, intent: Intent) -> Snapshot:
    """The Snapshot once `intent` is carried out. Objects that were not seen stay unseen, and status does not change."""
    match intent:
        case CreateReplicaSet() | AdoptReplicaSet() | PatchReplicaSet() | DeleteReplicaSet():
            return _with_replica_sets(seen, intent)
        case SwitchService(name=name) | ReleaseService(name=name):
            service = seen.services.get(name)
            if not isinstance(service, ServiceSeen):
                return seen
            return replace(seen, services={**seen.services, name: service_after(service, intent, by=seen.rollout)})
        case SetTraffic() | MakeRoute() | ReleaseRoute():
            return _with_routes(seen, intent)
        case PatchPod() | EvictPod():
            return _with_pods(seen, intent)
        case RemoveAnnotation():
            return replace(seen, rollout=rollout_after(seen.rollout, intent))
        case CreateAnalysisRun() | TerminateAnalysisRun() | DeleteAnalysisRun():
            return replace(seen, runs=runs_after(seen.runs, intent, now_s=seen.now_s))
        case CreateConfigCopy() | DeleteConfigCopy() | AdoptConfigCopy() | ReleaseConfigCopy():
            return replace(seen, copies=copies_after(seen.copies, intent, by=seen.rollout, now_s=seen.now_s))
        case AskConfig() | AskSecretCopy():
            return seen
        case AskService() | AskPods() | AskRoute() | AskFeatures() | AskLive() | AskDrained() | AskAutoscaling():
            return seen
        case never:
            assert_never(never)


def runs_after(
    runs: tuple[RunSeen, ...], intent: CreateAnalysisRun | TerminateAnalysisRun | DeleteAnalysisRun, *, now_s: float
) -> tuple[RunSeen, ...]:
    """The runs once `intent` is carried out; a run that exists already stays as it is."""
    match intent:
        case CreateAnalysisRun(name=name):
            if any(each.name == name for each in runs):
                return runs
            made = RunSeen(
                name=name,
                uid=f"uid-of-{name}",
                resource_version="1",
                gate=intent.gate,
                revision=intent.revision,
                created_at_s=now_s,
                spec_hash=intent.draft.spec_hash,
            )
            return (*runs, made)
        case TerminateAnalysisRun(uid=uid):
            return tuple([replace(each, terminate=True) if each.uid == uid else each for each in runs])
        case DeleteAnalysisRun(uid=uid):
            return tuple([each for each in runs if each.uid != uid])


def copies_after(copies: tuple[CopySeen, ...], intent: _OfCopies, *, by: Rollout, now_s: float) -> tuple[CopySeen, ...]:
    """The copies once `intent` is carried out; a copy that exists already gets an owner and stays as it is else.

    One of a Secret is seen by nobody.
    """
    match intent:
        case CreateConfigCopy(owner=CopyOwner()):
            return copies
        case CreateConfigCopy(use=use):
            owned = not by.spec.config_versioning.retain
            if any((each.kind, each.name) == (use.kind, use.copy) for each in copies):
                return tuple(
                    [
                        _owned(each, owned=owned) if (each.kind, each.name) == (use.kind, use.copy) else each
                        for each in copies
                    ]
                )
            made = CopySeen(
                kind=use.kind,
                name=use.copy,
                uid=f"uid-of-{use.copy}",
                resource_version="1",
                source=use.source,
                content=use.content,
                created_at_s=now_s,
                owned=owned,
                owners=1 if owned else 0,
                owner_index=0 if owned else -1,
            )
            return (*copies, made)
        case DeleteConfigCopy(uid=uid):
            return tuple([each for each in copies if each.uid != uid])
        case AdoptConfigCopy(uid=uid) | ReleaseConfigCopy(uid=uid):
            adopts = isinstance(intent, AdoptConfigCopy)
            return tuple([_owned(each, owned=adopts) if each.uid == uid else each for each in copies])


def _owned(copy: CopySeen, *, owned: bool) -> CopySeen:
    """The copy with the Rollout as its last owner, or without it."""
    if copy.owned is owned:
        return copy
    if owned:
        return replace(copy, owned=True, owners=copy.owners + 1, owner_index=copy.owners)
    return replace(copy, owned=False, owners=copy.owners - 1, owner_index=-1)


def replica_set_made(intent: CreateReplicaSet, *, by: Rollout, now_s: float) -> ReplicaSet:
    """The new ReplicaSet, before its controller has observed it."""
    name = replica_set_name(rollout=by.name, revision=intent.revision)
    return ReplicaSet(
        name=name,
        uid=f"new-{name}",
        resource_version="1",
        revision=intent.revision,
        number=intent.number,
        created_at_s=now_s,
        spec_replicas=intent.replicas,
        observed=False,
        min_ready_s=by.spec.min_ready_s,
        pod_metadata=intent.pod_metadata,
        injection=intent.injection,
        config=intent.config,
    )


def replica_set_after(found: ReplicaSet, intent: PatchReplicaSet) -> ReplicaSet:
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


def service_after(found: ServiceSeen, intent: SwitchService | ReleaseService, *, by: Rollout) -> ServiceSeen:
    """The Service with its new selector and our marks, or without both; its EndpointSlices are the old ones."""
    match intent:
        case SwitchService(revision=revision):
            return _written(found, replace(found, revision=revision, managed_by=by.name, watched=True))
        case ReleaseService():
            return _written(found, replace(found, revision="", managed_by="", watched=False))
        case never:
            assert_never(never)


def route_made(intent: MakeRoute, *, by: Rollout) -> RouteSeen:
    """The new route: not accepted yet, and the features of its gateways are not known yet."""
    uid = f"new-{intent.route.name}"
    return RouteSeen(
        route=intent.route, uid=uid, resource_version="1", split=intent.split, managed_by=by.name, features=None
    )


def route_after(found: RouteSeen, intent: SetTraffic, *, by: Rollout) -> RouteSeen:
    """The route with its new split and our marks; the last answer of its data plane is about the earlier version."""
    return _written(found, replace(found, split=intent.split, managed_by=by.name, anew=""))


def pod_after(found: Pod, intent: PatchPod | EvictPod) -> Pod:
    """The pod with its new metadata, or being deleted."""
    match intent:
        case PatchPod(metadata=given, removed=removed):
            labels = {key: value for key, value in found.labels.items() if key not in removed.labels}
            annotations = {key: value for key, value in found.annotations.items() if key not in removed.annotations}
            return replace(found, labels={**labels, **given.labels}, annotations={**annotations, **given.annotations})
        case EvictPod():
            return replace(found, deleting=True)
        case never:
            assert_never(never)


def rollout_after(found: Rollout, intent: RemoveAnnotation) -> Rollout:
    """The Rollout without that annotation and the note of who gave it, and without what was read from it."""
    gone = (intent.verb, f"{intent.verb}{NOTE_SUFFIX}")
    left = {name: value for name, value in found.annotations.items() if name not in gone}
    asked_at_s = None if intent.verb is Verb.RESTART else found.restart_asked_at_s
    return _written(found, replace(found, annotations=left, restart_asked_at_s=asked_at_s))


def _with_replica_sets(seen: Snapshot, intent: _OfReplicaSets) -> Snapshot:
    match intent:
        case CreateReplicaSet():
            made = replica_set_made(intent, by=seen.rollout, now_s=seen.now_s)
            return replace(seen, replica_sets=(*seen.replica_sets, made))
        case AdoptReplicaSet(uid=uid):  # its fields are not known here: the next Snapshot shows it as a ReplicaSet
            return replace(seen, orphans=tuple(each for each in seen.orphans if each.uid != uid))
        case PatchReplicaSet(uid=uid):
            sets = (replica_set_after(each, intent) if each.uid == uid else each for each in seen.replica_sets)
            return replace(seen, replica_sets=tuple(sets))
        case DeleteReplicaSet(uid=uid):
            return replace(seen, replica_sets=tuple(each for each in seen.replica_sets if each.uid != uid))
        case never:
            assert_never(never)


def _with_routes(seen: Snapshot, intent: _OfRoutes) -> Snapshot:
    found = seen.routes.get(intent.route)
    match intent:
        case MakeRoute():
            return replace(seen, routes={**seen.routes, intent.route: route_made(intent, by=seen.rollout)})
        case SetTraffic() if isinstance(found, RouteSeen):
            return replace(seen, routes={**seen.routes, intent.route: route_after(found, intent, by=seen.rollout)})
        case SetTraffic():
            return seen
        case ReleaseRoute():  # neither named by the spec nor managed any longer: a Snapshot does not show it
            return replace(seen, routes={name: each for name, each in seen.routes.items() if name != intent.route})
        case never:
            assert_never(never)


def _with_pods(seen: Snapshot, intent: PatchPod | EvictPod) -> Snapshot:
    if seen.pods is None:
        return seen
    pods = tuple(pod_after(each, intent) if each.uid == intent.uid else each for each in seen.pods.pods)
    return replace(seen, pods=replace(seen.pods, pods=pods))


def _written(before: _Stored, now: _Stored) -> _Stored:
    """The stored object: with a new resourceVersion, unless the write changes nothing."""
    return before if now == before else replace(now, resource_version=f"{before.resource_version}+")
