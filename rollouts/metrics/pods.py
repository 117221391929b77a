"""Evidence that Kubernetes itself has of a revision: restarts, kills for memory, readiness, waiting reasons. It needs no server.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.source import PodEvidence
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.kubernetes_values import time_s
from rollouts.objects import Manifest, mapping, mappings

OUT_OF_MEMORY = "OOMKilled"
WAITS_IN_VAIN = (
    *("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    *("PreCreateHookError", "PostStartHookError"),
)
"""Reasons of waiting containers that do not go away by waiting. Source: kubelet, pkg/kubelet/images and kuberuntime."""

OVER = ("Failed", "Succeeded")
"""Phases of pods that run no more: evicted, or not taken by the kubelet. They stay until somebody deletes them, and a ReplicaSet
counts them no more. Source: kubernetes, pkg/controller/controller_utils.go, IsPodActive."""


START_ROUNDED_S = 2.0
"""The kubelet sets `startTime` and the first `Ready: False` in one write, both rounded to seconds. Source: kubernetes,
pkg/kubelet/status/status_manager.go, updateStatusInternal."""

STARTING_S = 600.0
"""A pod that has not been ready for so long counts as one that is not ready, as a Deployment's progressDeadlineSeconds has it."""


class Container(Struct, frozen=True, kw_only=True):
    """What a pod's status says of one container.

    Args:
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
        starts_since_s: of one that has neither been ready nor restarted yet, when it was created; None for any other.
        over_at_s: of one that runs no more, such as an evicted one, when that was; None while it runs, or without a time.
    """

    ready: bool
    leaves: bool
    created_at_s: float
    containers: tuple[Container, ...]
    over_at_s: float | None = None
    starts_since_s: float | None = None

    def is_starting(self, *, now_s: float) -> bool:
        """Whether it has not had the time yet to become ready."""
        return self.starts_since_s is not None and now_s < self.starts_since_s + STARTING_S


def pod_seen(pod: Manifest) -> PodSeen:
    """What a pod shows; whatever is missing or of a strange type is not ready, and no restart."""
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    conditions = mappings(status.get("conditions"))
    created_s = time_s(metadata.get("creationTimestamp"))
    containers = tuple(map(_container, mappings(status.get("containerStatuses"))))
    is_over = status.get("phase") in OVER
    over_at_s = None
    if is_over:  # the latest time that it shows
        changed = (time_s(condition.get("lastTransitionTime")) for condition in conditions)
        times = (created_s, *changed, *(container.ended_at_s for container in containers))
        over_at_s = max((at_s for at_s in times if at_s is not None), default=None)
    readiness = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
    is_ready = readiness.get("status") == "True"
    is_starting = not (
        is_over or is_ready or _has_been_ready(status, readiness) or any(one.restarts for one in containers)
    )
    return PodSeen(
        ready=is_ready,
        leaves=bool(metadata.get("deletionTimestamp")),
        created_at_s=-math.inf if created_s is None else created_s,
        containers=containers,
        over_at_s=over_at_s,
        starts_since_s=created_s if is_starting else None,
    )


def pods_measured(
    source: PodEvidence, pods: Iterable[PodSeen], *, since_s: float, started_at_s: float, finished_at_s: float
) -> Measurement:
    """The measurement that follows from the pods. Without a pod there is no evidence.

    A container of a pod that is older than the run counts with all its restarts when the latest was since: nobody can tell
    how many there were before. A pod that still starts is neither ready nor unready: a step or an autoscaler has just asked for
    it, and the step waits for it.

    Args:
        pods: of the revision, all of them; one that was over before the run began says nothing about it.
    """
    seen = tuple(pod for pod in pods if pod.over_at_s is None or pod.over_at_s >= since_s)
    counted = [(pod, container) for pod in seen for container in pod.containers if source.counts(container.name)]
    restarts = sum(
        container.restarts
        for pod, container in counted
        if pod.created_at_s >= since_s or _has_ended(container, since_s)
    )
    present = [pod for pod in seen if not pod.leaves]
    serving = [pod for pod in present if not pod.is_starting(now_s=finished_at_s)]
    phase, message = _verdict(source, [container for _, container in counted], restarts, present, serving, since_s)
    ready = sum(pod.ready for pod in serving)
    return Measurement(
        phase=phase,
        started_at_s=started_at_s,
        finished_at_s=finished_at_s,
        value=f"[{restarts}, {ready}, {len(serving)}]" if seen else "",
        message=message,
        samples=len(seen),
    )


def _verdict(
    source: PodEvidence,
    containers: list[Container],
    restarts: int,
    present: list[PodSeen],
    serving: list[PodSeen],
    since_s: float,
) -> tuple[AnalysisPhase, str]:
    killed = [container for container in containers if container.killed_for_memory and _has_ended(container, since_s)]
    if killed:
        return AnalysisPhase.FAILED, f"{len(killed)} containers were killed for memory"
    waiting = sorted({container.waits for container in containers if container.waits in WAITS_IN_VAIN})
    if waiting:
        return AnalysisPhase.FAILED, f"containers wait: {', '.join(waiting)}"
    if restarts > source.restarts_max:
        return AnalysisPhase.FAILED, f"containers were restarted {restarts} times, {source.restarts_max} are allowed"
    if not serving:
        return AnalysisPhase.INCONCLUSIVE, f"the revision has no pods{' that have been ready yet' if present else ''}"
    if not containers:
        return AnalysisPhase.INCONCLUSIVE, "no container that is asked about has a status"
    ready, needed_percent = sum(pod.ready for pod in serving), source.ready_percent_min
    if ready * 100 < needed_percent * len(serving):
        return AnalysisPhase.FAILED, f"{ready} of {len(serving)} pods are ready, {needed_percent} % are needed"
    return AnalysisPhase.SUCCESSFUL, ""


def _has_been_ready(status: Mapping[str, Any], readiness: Mapping[str, Any]) -> bool:
    """Whether a pod that is not ready was ready once. One whose times are missing counts as if it had been."""
    if not readiness:
        return False  # the kubelet has not written its status yet
    started_s, changed_s = time_s(status.get("startTime")), time_s(readiness.get("lastTransitionTime"))
    return started_s is None or changed_s is None or changed_s > started_s + START_ROUNDED_S


def _has_ended(container: Container, since_s: float) -> bool:
    return container.ended_at_s is not None and container.ended_at_s >= since_s


def _container(status: Mapping[str, Any]) -> Container:
    state, last = mapping(status.get("state")), mapping(status.get("lastState"))
    ends = [end for end in (mapping(state.get("terminated")), mapping(last.get("terminated"))) if end]
    times = [at_s for end in ends if (at_s := time_s(end.get("finishedAt"))) is not None]
    restarts, waits = status.get("restartCount"), mapping(state.get("waiting")).get("reason")
    return Container(
        name=str(status.get("name", "")),
        restarts=restarts if isinstance(restarts, int) and restarts >= 0 else 0,
        killed_for_memory=any(end.get("reason") == OUT_OF_MEMORY for end in ends),
        ended_at_s=max(times, default=None),
        waits=waits if isinstance(waits, str) else "",
    )
