"""Evidence that Kubernetes itself has of a revision: restarts, kills for memory, readiness, waiting reasons. It needs no server.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.source import PodEvidence
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.times import time_s
from rollouts.objects import Manifest

OUT_OF_MEMORY = "OOMKilled"
WAITS_IN_VAIN = (
    *("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"),
    *(
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PostStartHookError",
    ),
)
"""Reasons of waiting containers that do not go away by waiting. Source: kubelet, pkg/kubelet/images and kuberuntime."""

OVER = ("Failed", "Succeeded")
"""Phases of pods that run no more: evicted, or not taken by the kubelet. They stay until somebody deletes them, and a ReplicaSet
counts them no more. Source: kubernetes, pkg/controller/controller_utils.go, IsPodActive."""


class Container(Struct, frozen=True, kw_only=True):
    """What a pod's status says of one container.

    Args:
        restarts: since the pod began.
        killed_for_memory: its present or its latest run ended so.
        ended_at_s: when its latest run ended, seconds since 1970; None when none has.
        waits: the kubelet's reason; "" when it does not wait.
    """

    name: str
    restarts: int = 0
    killed_for_memory: bool = False
    ended_at_s: float | None = None
    waits: str = ""


class PodSeen(Struct, frozen=True, kw_only=True):
    """What a pod shows.

    Args:
        leaves: it is being deleted; it need not be ready, and its restarts count.
        over_at_s: of one that runs no more, such as an evicted one, when that was; None of any other.
    """

    ready: bool
    leaves: bool
    created_at_s: float
    containers: tuple[Container, ...]
    over_at_s: float | None = None


def pod_seen(pod: Manifest) -> PodSeen:
    """What a pod shows; whatever is missing or of a strange type is not ready, and no restart."""
    metadata, status = _object(pod.get("metadata")), _object(pod.get("status"))
    conditions = [each for each in _objects(status.get("conditions")) if each.get("type") == "Ready"]
    created_s = time_s(metadata.get("creationTimestamp"))
    containers = tuple(map(_container, _objects(status.get("containerStatuses"))))
    over = status.get("phase") in OVER
    return PodSeen(
        ready=any(each.get("status") == "True" for each in conditions),
        leaves=bool(metadata.get("deletionTimestamp")),
        created_at_s=-math.inf if created_s is None else created_s,
        containers=containers,
        over_at_s=_over_at_s(status, containers, created_s) if over else None,
    )


def pods_measured(
    source: PodEvidence, pods: Iterable[PodSeen], *, since_s: float, started_at_s: float, finished_at_s: float
) -> Measurement:
    """The measurement that follows from the pods. Without a pod there is no evidence.

    A container of a pod that is older than the run counts with all its restarts when the latest was since: nobody can tell
    how many there were before.

    Args:
        pods: of the revision, all of them; one that was over before the run began says nothing about it.
        since_s: when the run began, seconds since 1970.
    """
    seen = tuple(each for each in pods if each.over_at_s is None or each.over_at_s >= since_s)
    counted = [
        (pod, each)
        for pod in seen
        for each in pod.containers
        if not source.containers or each.name in source.containers
    ]
    restarts = sum(_restarts(pod, each, since_s) for pod, each in counted)
    serving = [each for each in seen if not each.leaves]
    ready = sum(each.ready for each in serving)
    phase, message = _verdict(source, [each for _, each in counted], restarts, ready, len(serving), since_s)
    return Measurement(
        phase=phase,
        started_at_s=started_at_s,
        finished_at_s=finished_at_s,
        value=f"[{restarts}, {ready}, {len(serving)}]" if seen else "",
        message=message,
        samples=len(seen),
    )


def _verdict(
    source: PodEvidence, containers: list[Container], restarts: int, ready: int, serving: int, since_s: float
) -> tuple[AnalysisPhase, str]:
    killed = [each for each in containers if each.killed_for_memory and _since(each, since_s)]
    if killed:
        return AnalysisPhase.FAILED, f"{len(killed)} containers were killed for memory"
    waiting = sorted({each.waits for each in containers if each.waits in WAITS_IN_VAIN})
    if waiting:
        return AnalysisPhase.FAILED, f"containers wait: {', '.join(waiting)}"
    if restarts > source.restarts_max:
        return AnalysisPhase.FAILED, f"containers were restarted {restarts} times, {source.restarts_max} are allowed"
    if serving == 0:
        return AnalysisPhase.INCONCLUSIVE, "the revision has no pods"
    if not containers:
        return AnalysisPhase.INCONCLUSIVE, "no container that is asked about has a status"
    if ready * 100 < source.ready_percent_min * serving:
        return AnalysisPhase.FAILED, f"{ready} of {serving} pods are ready, {source.ready_percent_min} % are needed"
    return AnalysisPhase.SUCCESSFUL, ""


def _restarts(pod: PodSeen, container: Container, since_s: float) -> int:
    return container.restarts if pod.created_at_s >= since_s or _since(container, since_s) else 0


def _since(container: Container, since_s: float) -> bool:
    return container.ended_at_s is not None and container.ended_at_s >= since_s


def _over_at_s(status: dict[str, Any], containers: Iterable[Container], created_s: float | None) -> float:
    """The latest time that the pod shows; infinity without one, so that it counts."""
    changed = (time_s(each.get("lastTransitionTime")) for each in _objects(status.get("conditions")))
    times = (created_s, *changed, *(each.ended_at_s for each in containers))
    return max((at_s for at_s in times if at_s is not None), default=math.inf)


def _container(status: dict[str, Any]) -> Container:
    state, last = _object(status.get("state")), _object(status.get("lastState"))
    ends = [each for each in (_object(state.get("terminated")), _object(last.get("terminated"))) if each]
    times = [at_s for each in ends if (at_s := time_s(each.get("finishedAt"))) is not None]
    restarts, waits = status.get("restartCount"), _object(state.get("waiting")).get("reason")
    return Container(
        name=str(status.get("name", "")),
        restarts=restarts if isinstance(restarts, int) and restarts >= 0 else 0,
        killed_for_memory=any(each.get("reason") == OUT_OF_MEMORY for each in ends),
        ended_at_s=max(times, default=None),
        waits=waits if isinstance(waits, str) else "",
    )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()
