"""Turns pods as the API server lists them into pods as `decide` sees them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.api.times import parse_time, time_or_0
from rollouts.cluster.decoding import Decoder, Page
from rollouts.cluster.structs import ObjectCondition, PodObject, ReplicaSetObject
from rollouts.controller.workqueue.owned import pods_of
from rollouts.core.model.snapshot import Pod, PodsSeen
from rollouts.errors import ApiUnavailable
from rollouts.manifests.ownership import REVISION, revision_of

PROBLEM_MAX = 300  # characters: it goes into status

_COMING_UP = frozenset({"", "ContainerCreating", "PodInitializing"})
_DECODER: Decoder[PodObject] = Decoder(PodObject)


def pod_page(data: bytes) -> Page[PodObject]:
    """One page of a list of pods. Raises: ApiUnavailable, when it is not such a page, or when a pod in it cannot be read."""
    page = _DECODER.page(data)
    for pod in page.unreadable:
        raise ApiUnavailable(f"pod {pod.metadata.namespace}/{pod.metadata.name} cannot be read: {pod.why}")
    return page


def pods_of_workload(pods: Iterable[PodObject], workload_uid: str, *, at_s: float) -> PodsSeen:
    """The pods that a StatefulSet or DaemonSet controls, sorted by name; also those that have failed: they hold its place."""
    ours = [pod_of(pod) for pod in pods if pod.metadata.controller_uid == workload_uid]
    return PodsSeen(at_s=at_s, pods=tuple(sorted(ours, key=lambda pod: pod.name)))


def pods_seen(
    pods: Iterable[PodObject], owners: Iterable[ReplicaSetObject], *, at_s: float, workload_uid: str = ""
) -> PodsSeen:
    """The pods that `owners` control, as asked for at `at_s`, sorted by name; others that carry our labels are only counted.

    Args:
        workload_uid: of a StatefulSet or DaemonSet whose pods count, too.
    """
    # The ReplicaSet does not count the others either.
    running = [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]
    ours = [*pods_of(running, owners), *(pod for pod in running if pod.metadata.controller_uid == workload_uid)]
    known = {pod.metadata.uid for pod in ours}
    unowned = sum(REVISION in (pod.metadata.labels or {}) and pod.metadata.uid not in known for pod in running)
    return PodsSeen(at_s=at_s, pods=tuple(sorted(map(pod_of, ours), key=lambda pod: pod.name)), unowned=unowned)


def pod_of(seen: PodObject) -> Pod:
    """One pod, with the kubelet's or the scheduler's reason why it is not ready; "" while it is simply starting."""
    metadata = seen.metadata
    claims = tuple([claim.claim_name for each in seen.spec.volumes or () if (claim := each.persistent_volume_claim)])
    conditions = {condition.type: condition for condition in seen.status.conditions or ()}
    readiness = conditions.get("Ready", ObjectCondition())
    ready = readiness.status == "True"
    return Pod(
        name=metadata.name,
        uid=metadata.uid,
        revision=revision_of(metadata.labels or {}),
        created_at_s=parse_time(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0,
        ready=ready,
        deleting=metadata.deletion_timestamp is not None,
        problem="" if ready else _problem(seen, conditions, claims)[:PROBLEM_MAX],
        ready_since_s=time_or_0(readiness.last_transition_time) if ready else None,
        resource_version=metadata.resource_version,
        node=seen.spec.node_name,
        claims=claims,
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
    )


def _problem(seen: PodObject, conditions: dict[str, ObjectCondition], claims: tuple[str, ...]) -> str:
    """The first reason that the kubelet or the scheduler gives; with the names of the claims where it is about volumes."""
    if seen.status.phase == "Failed":
        return f"{seen.status.reason or 'Failed'}: {seen.status.message}".removesuffix(": ")
    statuses = (*(seen.status.init_container_statuses or ()), *(seen.status.container_statuses or ()))
    for status in statuses:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _COMING_UP:
            return f"{waiting.reason}: {waiting.message}".removesuffix(": ")
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        about = f" ({', '.join(claims)})" if claims and "persistentvolumeclaim" in scheduled.message.lower() else ""
        return f"{scheduled.reason}: {scheduled.message}".removesuffix(": ") + about
    return ""
