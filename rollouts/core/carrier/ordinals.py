"""The pods of a StatefulSet by their ordinals, and the ReplicaSets that the policy sees in their place: one for each revision."""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import Pod, ReplicaSet, Snapshot
from rollouts.core.model.workload import StatefulSetSeen, WorkloadSeen


class Ordinal(Struct, frozen=True, kw_only=True):
    """One ordinal.

    Args:
        index: counted from the first ordinal.
        pod: one that stays; None while there is none, and while pods are not watched.
        revision: what it has, or will have: its pod is ending, or about to be replaced.
        is_ready: its pod has that revision, stays, and is ready.
        is_available: and has been for `minReadySeconds`.
        available_at_s: when it will be; None while it is not ready, and while pods are not watched.
    """

    index: int
    revision: str
    is_ready: bool
    is_available: bool
    pod: Pod | None = None
    available_at_s: float | None = None


def places_of(seen: Snapshot, workload: WorkloadSeen, found: StatefulSetSeen) -> tuple[Ordinal, ...]:
    """The ordinals that the StatefulSet has now, lowest first; as its status counts them where that is enough.

    The status does not say which pods are ready: those that would go first count as ready.
    """
    replicas = seen.rollout.spec.replicas
    if found.needs_pods:
        pods = {_ordinal(pod) - found.start: pod for pod in (seen.pods.pods if seen.pods is not None else ())}
        return tuple([_place(found, index, pods.get(index), now_s=seen.now_s) for index in range(replicas)])
    revision, ready = found.only_revision, replicas - found.ready
    available = replicas - min(workload.available, found.ready)
    return tuple(
        [
            Ordinal(index=index, revision=revision, is_ready=index >= ready, is_available=index >= available)
            for index in range(replicas)
        ]
    )


def _place(found: StatefulSetSeen, index: int, pod: Pod | None, *, now_s: float) -> Ordinal:
    """An ordinal with the pod that was seen there."""
    kept = found.fields.partition or 0
    revision = found.current_revision if index < kept else found.update_revision
    if pod is None or pod.deleting:
        return Ordinal(index=index, revision=revision, is_ready=False, is_available=False)
    if index < kept or found.fields.on_delete:
        revision = pod.revision
    since_s = pod.ready_since_s if pod.revision == revision and pod.ready else None
    at_s = None if since_s is None else since_s + found.min_ready_s
    available = at_s is not None and at_s <= now_s
    ready = since_s is not None
    return Ordinal(index=index, pod=pod, revision=revision, is_ready=ready, is_available=available, available_at_s=at_s)


def _ordinal(pod: Pod) -> int:
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def as_own(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: with a ReplicaSet for each revision that has pods, is stable, or is the template's."""
    workload = seen.workload
    if not isinstance(workload, WorkloadSeen) or workload.stateful_set is None:
        return seen
    found, places = workload.stateful_set, places_of(seen, workload, workload.stateful_set)
    pods = seen.pods.pods if found.needs_pods and seen.pods is not None else ()
    named = {found.update_revision, seen.rollout.spec.revision, seen.status.stable_revision}
    sets = []
    for revision in sorted({*named, *(pod.revision for pod in pods), *(place.revision for place in places)} - {""}):
        of_it = [place for place in places if place.revision == revision]
        running = sum(pod.revision == revision for pod in pods)
        if not found.needs_pods and revision == found.only_revision:
            running = found.pods
        made = ReplicaSet(
            name=revision,
            uid=f"{workload.uid}/{revision}",
            resource_version=workload.resource_version,
            revision=revision,
            number=0,
            created_at_s=0.0,
            spec_replicas=len(of_it),
            replicas=running,
            ready=sum(place.is_ready for place in of_it),
            available=sum(place.is_available for place in of_it),
            observed=workload.observed,
            min_ready_s=found.min_ready_s,
            inside=True,
        )
        sets.append(made)
    return replace(seen, replica_sets=(*seen.replica_sets, *sets))
