"""What a write leaves behind, as far as the rules look at it. The policy's own model of its writes may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from rollouts.core.model.analysis import RunSeen
from rollouts.core.model.config import CopySeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AdoptReplicaSet,
    CreateAnalysisRun,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteAnalysisRun,
    DeleteConfigCopy,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    LetPodsGo,
    MakeRoute,
    MarkWorkload,
    PatchReplicaSet,
    ReleaseConfigCopy,
    ReleaseRoute,
    ReleaseService,
    ReleaseWorkload,
    ScaleWorkload,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.traffic import RouteSeen
from rollouts.core.model.workload import ScaledDown, WorkloadSeen

_Stored = TypeVar("_Stored", ReplicaSet, ServiceSeen, RouteSeen, WorkloadSeen)
_Object = TypeVar("_Object", ReplicaSet, RunSeen, CopySeen, WorkloadSeen)


def left_by(before: Snapshot, intent: Intent) -> Snapshot:
    """The world once `intent` is carried out, before anybody reacts to it. Questions leave it as it is."""
    match intent:
        case CreateReplicaSet() | AdoptReplicaSet() | PatchReplicaSet() | DeleteReplicaSet():
            return _of_replica_set(before, intent)
        case SwitchService() | ReleaseService():
            return _of_service(before, intent)
        case MarkWorkload() | ScaleWorkload() | ReleaseWorkload():
            return _of_workload(before, intent)
        case SetTraffic() | MakeRoute() | ReleaseRoute():
            return _of_route(before, intent)
        case EvictPod(uid=uid) if before.pods is not None:
            pods = tuple(replace(each, deleting=each.deleting or each.uid == uid) for each in before.pods.pods)
            return replace(before, pods=replace(before.pods, pods=pods))
        case CreateAnalysisRun() | TerminateAnalysisRun() | LetPodsGo() | DeleteAnalysisRun():
            return _of_run(before, intent)
        case CreateConfigCopy() | DeleteConfigCopy() | AdoptConfigCopy() | ReleaseConfigCopy():
            return _of_copy(before, intent)
        case _:
            return before


def _of_replica_set(
    before: Snapshot, intent: CreateReplicaSet | AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet
) -> Snapshot:
    match intent:
        case CreateReplicaSet(revision=revision):
            made = ReplicaSet(
                name=revision, uid=f"new {revision}", resource_version="1", revision=revision, number=intent.number,
                created_at_s=before.now_s, spec_replicas=intent.replicas, observed=False, config=intent.config,
            )  # fmt: skip
            return replace(before, replica_sets=(*before.replica_sets, made))
        case AdoptReplicaSet(uid=uid):
            return replace(before, orphans=tuple(each for each in before.orphans if each.uid != uid))
        case PatchReplicaSet(uid=uid):
            return replace(before, replica_sets=_changed(before.replica_sets, uid, lambda each: _patched(each, intent)))
        case DeleteReplicaSet(uid=uid):
            return replace(before, replica_sets=_without(before.replica_sets, uid))


def _patched(found: ReplicaSet, patch: PatchReplicaSet) -> ReplicaSet:
    given: dict[str, Any] = {
        "spec_replicas": patch.replicas,
        "restart_surge": patch.restart_surge,
        "number": patch.number,
        "abort_note": patch.abort_note,
        "config": patch.config,
    }
    return _written(found, replace(found, **{name: value for name, value in given.items() if value is not None}))


def _of_service(before: Snapshot, intent: SwitchService | ReleaseService) -> Snapshot:
    found = before.services.get(intent.name)
    if not isinstance(found, ServiceSeen):
        return before
    ours = isinstance(intent, SwitchService)
    revision, owner = (intent.revision, before.rollout.name) if isinstance(intent, SwitchService) else ("", "")
    now = _written(found, replace(found, revision=revision, managed_by=owner, watched=ours))
    return replace(before, services={**before.services, intent.name: now})


def _of_workload(before: Snapshot, intent: MarkWorkload | ScaleWorkload | ReleaseWorkload) -> Snapshot:
    if isinstance(intent, ReleaseWorkload):
        return replace(before, left_workloads=_without(before.left_workloads, intent.uid))
    if not isinstance(found := before.workload, WorkloadSeen):
        return before
    if isinstance(intent, ScaleWorkload):
        note = None if intent.own is None else ScaledDown(intent.own, intent.replicas)
        now = replace(found, replicas=intent.replicas, scaled_down=note)
    else:
        now = replace(found, managed_by=before.rollout.name, watched=True, read_at_s=None)
    return replace(before, workload=_written(found, now))


def _of_route(before: Snapshot, intent: SetTraffic | MakeRoute | ReleaseRoute) -> Snapshot:
    name, ours = intent.route, before.rollout.name
    found = before.routes.get(name)
    match intent:
        case MakeRoute(split=split):
            made = RouteSeen(route=name, uid=f"new {name}", resource_version="1", split=split, managed_by=ours)
            return replace(before, routes={**before.routes, name: made})
        case SetTraffic(split=split) if isinstance(found, RouteSeen):
            now = _written(found, replace(found, split=split, managed_by=ours, rewrite_because=""))
            return replace(before, routes={**before.routes, name: now})
        case SetTraffic():
            return before
        case ReleaseRoute():
            return replace(before, routes={each: seen for each, seen in before.routes.items() if each != name})


def _of_run(
    before: Snapshot, intent: CreateAnalysisRun | TerminateAnalysisRun | LetPodsGo | DeleteAnalysisRun
) -> Snapshot:
    match intent:
        case CreateAnalysisRun(name=name):
            made = RunSeen(
                name=name, uid=f"new {name}", resource_version="1", gate=intent.gate, revision=intent.revision,
                created_at_s=before.now_s, spec_hash=intent.draft.spec_hash,
                kept_until_s=math.inf if intent.draft.keeps_pods else 0.0,
            )  # fmt: skip
            return replace(before, runs=(*before.runs, made))
        case TerminateAnalysisRun(uid=uid):
            return replace(before, runs=_changed(before.runs, uid, lambda each: replace(each, terminate=True)))
        case LetPodsGo(uid=uid, until_s=until_s):
            return replace(before, runs=_changed(before.runs, uid, lambda each: replace(each, kept_until_s=until_s)))
        case DeleteAnalysisRun(uid=uid):
            return replace(before, runs=_without(before.runs, uid))


def _of_copy(
    before: Snapshot, intent: CreateConfigCopy | DeleteConfigCopy | AdoptConfigCopy | ReleaseConfigCopy
) -> Snapshot:
    match intent:
        case CreateConfigCopy(use=use, owner=None):
            made = CopySeen(
                kind=use.kind, name=use.copy, uid=f"new {use.copy}", resource_version="1", source=use.source,
                content=use.content, created_at_s=before.now_s, owned=not before.rollout.spec.config_versioning.retain,
            )  # fmt: skip
            others = (each for each in before.copies if (each.kind, each.name) != (use.kind, use.copy))
            return replace(before, copies=(*others, made))
        case CreateConfigCopy():  # of a Secret, which nobody sees
            return before
        case DeleteConfigCopy(uid=uid):
            return replace(before, copies=_without(before.copies, uid))
        case AdoptConfigCopy(uid=uid) | ReleaseConfigCopy(uid=uid):
            owned = isinstance(intent, AdoptConfigCopy)
            return replace(before, copies=_changed(before.copies, uid, lambda each: replace(each, owned=owned)))


def _changed(among: tuple[_Object, ...], uid: str, change: Callable[[_Object], _Object]) -> tuple[_Object, ...]:
    return tuple(change(each) if each.uid == uid else each for each in among)


def _without(among: tuple[_Object, ...], uid: str) -> tuple[_Object, ...]:
    return tuple(each for each in among if each.uid != uid)


def _written(found: _Stored, now: _Stored) -> _Stored:
    """The next version, unless nothing changes."""
    return found if now == found else replace(now, resource_version=f"{found.resource_version} and one more")
