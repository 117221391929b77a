"""The status of a Deployment: its counts, and the conditions Available and Progressing.

It has no condition ReplicaFailure, since the simulated ReplicaSets have none.
Source: k8s.io/kubernetes pkg/controller/deployment/{sync.go,progress.go} and util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from rollouts.objects import Manifest
from rollouts.sim.actors.deployments.replica_sets import counted, replicas
from rollouts.sim.actors.deployments.sizes import limits_of
from rollouts.sim.actors.pods import seconds
from rollouts.sim.storage.history import Stored

AVAILABLE, PROGRESSING = "Available", "Progressing"
CREATED, FOUND, UPDATED = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"
COMPLETE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
_NO_LIMIT = 2**31 - 1


class StatusTime(Struct, frozen=True):
    """The time of a pass, in seconds since 1970 and as the API writes it."""

    now_s: float
    now: str


def has_deadline(spec: Manifest) -> bool:
    """Whether progress is judged: the largest deadline means none."""
    return bool(spec["progressDeadlineSeconds"] != _NO_LIMIT)


def history_limit(spec: Manifest) -> int | None:
    """How many old ReplicaSets are kept; None for all of them."""
    limit: int = spec["revisionHistoryLimit"]
    return None if limit == _NO_LIMIT else limit


def condition(status: Manifest, kind: str) -> Manifest:
    """The condition of a type; {} when it is not set."""
    return next((each for each in status.get("conditions") or () if each["type"] == kind), {})


def with_condition(
    status: Manifest, kind: str, value: str, reason: str, message: str, time: StatusTime, *, renew: bool = False
) -> Manifest:
    """The status with a condition; the same status when it says so already, unless `renew` asks for a new update time."""
    before = condition(status, kind)
    if (before.get("status"), before.get("reason")) == (value, reason) and not renew:
        return status
    new = {
        "type": kind,
        "status": value,
        "lastUpdateTime": time.now,
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == value else time.now,
        "reason": reason,
        "message": message,
    }
    return {**without_condition(status, kind), "conditions": [*_others(status, kind), new]}


def without_condition(status: Manifest, kind: str) -> Manifest:
    """The status without a condition of this type."""
    bare = {name: value for name, value in status.items() if name != "conditions"}
    others = _others(status, kind)
    return bare | ({"conditions": others} if others else {})


def counted_status(
    deployment: Stored, before: Manifest, replica_sets: Sequence[Stored], new: Stored | None, time: StatusTime
) -> Manifest:
    """The status with what the ReplicaSets say now, and the condition Available."""
    spec = deployment.manifest["spec"]
    ready, available, actual = (
        sum(counted(each, name) for each in replica_sets) for name in ("readyReplicas", "availableReplicas", "replicas")
    )
    counts = {
        "observedGeneration": deployment.metadata["generation"],
        "replicas": actual,
        "updatedReplicas": counted(new, "replicas") if new else 0,
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(replicas, replica_sets)) - available),
    }
    status: Manifest = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = sum(counted(each, "terminatingReplicas") for each in replica_sets)
    status |= {name: before[name] for name in ("collisionCount", "conditions") if name in before}
    limits = limits_of(spec)
    if available >= limits.replicas - limits.max_unavailable:
        message = "Deployment has minimum availability."
        return with_condition(status, AVAILABLE, "True", "MinimumReplicasAvailable", message, time)
    message = "Deployment does not have minimum availability."
    return with_condition(status, AVAILABLE, "False", "MinimumReplicasUnavailable", message, time)


def is_complete(deployment: Stored, status: Manifest) -> bool:
    """Whether all replicas are updated and available, and no others are there."""
    wanted = deployment.manifest["spec"]["replicas"]
    counts = {status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")}
    return counts == {wanted} and status.get("observedGeneration", 0) >= deployment.metadata["generation"]


def with_progress(
    deployment: Stored, before: Manifest, status: Manifest, new: Stored | None, time: StatusTime
) -> Manifest:
    """The status with the condition Progressing; a Deployment that was complete and still has only new pods keeps it."""
    if not has_deadline(deployment.manifest["spec"]):
        return without_condition(status, PROGRESSING)
    progressing = condition(before, PROGRESSING)
    all_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if all_new and progressing.get("reason") == COMPLETE:
        return status
    what = f'ReplicaSet "{new.metadata["name"]}"' if new else f'Deployment "{deployment.metadata["name"]}"'
    if is_complete(deployment, status):
        return with_condition(status, PROGRESSING, "True", COMPLETE, f"{what} has successfully progressed.", time)
    if _has_progressed(before, status):
        return with_condition(status, PROGRESSING, "True", UPDATED, f"{what} is progressing.", time, renew=True)
    if progressing and progressing["reason"] != COMPLETE and _left_s(deployment, progressing, time) < 0:
        return with_condition(status, PROGRESSING, "False", TIMED_OUT, f"{what} has timed out progressing.", time)
    return status


def next_look_s(deployment: Stored, status: Manifest, time: StatusTime) -> float | None:
    """Seconds until the deadline will have passed; None when there is nothing to wait for."""
    progressing = condition(status, PROGRESSING)
    if not has_deadline(deployment.manifest["spec"]) or progressing.get("reason") in (None, TIMED_OUT):
        return None
    if is_complete(deployment, status):
        return None
    return max(0.0, _left_s(deployment, progressing, time)) + 0.01


def _left_s(deployment: Stored, progressing: Manifest, time: StatusTime) -> float:
    deadline_s: int = deployment.manifest["spec"]["progressDeadlineSeconds"]
    return seconds(progressing["lastUpdateTime"]) + deadline_s - time.now_s


def _has_progressed(before: Manifest, after: Manifest) -> bool:
    """Whether there are more new pods, fewer old ones, or more that are ready or available."""

    def old(status: Manifest) -> int:
        return int(status.get("replicas", 0) - status.get("updatedReplicas", 0))

    grew = any(after.get(f"{each}Replicas", 0) > before.get(f"{each}Replicas", 0)
               for each in ("updated", "ready", "available"))  # fmt: skip
    return grew or old(after) < old(before)


def _others(status: Manifest, kind: str) -> list[Any]:
    return [each for each in status.get("conditions") or () if each["type"] != kind]
