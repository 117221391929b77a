"""The world after a write, for the rules of `invariants.py` and `routing_invariants.py`; and what both say when one is broken."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rollouts.core.model.intents import (
    AdoptReplicaSet,
    CreateReplicaSet,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
    PatchReplicaSet,
    PointService,
    ReleaseRoute,
    SetTraffic,
)
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import Verb
from rollouts.core.model.traffic import RouteSeen, RouteUnasked


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a decision breaks, and how."""

    rule: str
    message: str


def anticipated(before: Snapshot, intent: Intent) -> Snapshot:
    """The world that is seen once `intent` is carried out and before anybody reacts to it."""
    match intent:
        case PatchReplicaSet(uid=uid, replicas=size) if size is not None:
            sets = tuple(
                replace(each, spec_replicas=size, observed=False) if each.uid == uid else each
                for each in before.replica_sets
            )
            return replace(before, replica_sets=sets)
        case CreateReplicaSet():
            made = ReplicaSet(
                name=intent.revision,
                uid=f"new-{intent.revision}",
                resource_version="",
                revision=intent.revision,
                number=intent.number,
                created_at_s=before.now_s,
                spec_replicas=intent.replicas,
                observed=False,
            )
            return replace(before, replica_sets=(*before.replica_sets, made))
        case AdoptReplicaSet(uid=uid):
            return replace(before, orphans=tuple(each for each in before.orphans if each.uid != uid))
        case DeleteReplicaSet(uid=uid):
            return replace(before, replica_sets=tuple(each for each in before.replica_sets if each.uid != uid))
        case PointService(name=name, revision=revision):
            service = before.services.get(name)
            if not isinstance(service, ServiceSeen):
                return before
            steered = replace(service, revision=revision, managed_by=before.rollout.name, watched=True)
            return replace(before, services={**before.services, name: steered})
        case SetTraffic(route=name, split=split):
            route = before.routes.get(name)
            if not isinstance(route, RouteSeen):
                return before
            routed = replace(route, split=split, managed_by=before.rollout.name, anew="")
            return replace(before, routes={**before.routes, name: routed})
        case ReleaseRoute(route=name):
            return replace(before, routes={key: each for key, each in before.routes.items() if key != name})
        case MakeRoute(route=name):
            return replace(before, routes={**before.routes, name: RouteUnasked(name)})
        case EvictPod(uid=uid) if before.pods is not None:
            left = tuple(replace(each, deleting=True) if each.uid == uid else each for each in before.pods.pods)
            return replace(before, pods=replace(before.pods, pods=left))
        case _:
            return before


def resized(before: Snapshot, intent: Intent) -> tuple[ReplicaSet | None, int]:
    """The ReplicaSet whose size `intent` sets, and that size; (None, 0) when it sets none."""
    if isinstance(intent, PatchReplicaSet) and intent.replicas is not None:
        return next((each for each in before.replica_sets if each.uid == intent.uid), None), intent.replicas
    return None, 0


def limits(before: Snapshot) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods; blue-green has a surge of its own, 1 stands for it."""
    spec = before.rollout.spec
    surge = spec.strategy.max_surge if isinstance(spec.strategy, Canary) else 1
    return surge_and_unavailable(max_surge=surge, max_unavailable=spec.strategy.max_unavailable, replicas=spec.replicas)


def available(before: Snapshot, revision: str) -> int:
    """Available pods of a revision that stay."""
    return sum(lasting(each) for each in before.replica_sets if each.revision == revision)


def lasting(replica_set: ReplicaSet) -> int:
    """Available pods of a ReplicaSet that stay: all pods of one that is being deleted are on their way out."""
    return 0 if replica_set.deleting else min(replica_set.spec_replicas, replica_set.available)


def held(before: Snapshot) -> bool:
    """Somebody pauses the Rollout."""
    return before.rollout.spec.paused or before.rollout.annotations.get(Verb.PAUSE) == "true"
