"""Autoscaling as the policy sees it: the gate that a spec asks for, the autoscalers, and what containers use.

Usage is always per revision. An average over all pods hides a canary that burns its CPU. A figure that is not known is None, and
never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from rollouts.core.model.declared import NEEDED, Json, Time

SAMPLE_MAX_AGE_S = 90.0
"""A sample that is older says nothing about now. metrics-server scrapes every 15 s, some installations every 60 s."""

LOOK_S = 30.0
"""How long an autoscaler needs to see what a step changed: a measurement of 15 s, then the HPA controller's next look, every 15 s
(`--horizontal-pod-autoscaler-sync-period`)."""


class ContainerMetric(StrEnum):
    """A resource that the resource metrics API (metrics.k8s.io) measures of each container."""

    CPU = "cpu"  # in cores
    MEMORY = "memory"  # in bytes, working set


class ContainerLimit(Struct, frozen=True, kw_only=True):
    """The highest use of one container, averaged over the pods of one revision.

    Args:
        max_utilization_percent: of what its pods request, together.
    """

    container: str
    resource: ContainerMetric
    max_utilization_percent: int


class AutoscalingGate(Struct, frozen=True, kw_only=True):
    """What the autoscaler must show before a step is complete.

    Args:
        settled: it must be scaling nothing.
        min_headroom_percent: smallest distance from the desired pods to the maximum, in per cent of the maximum.
    """

    settled: bool = False
    min_headroom_percent: int | None = None
    container: ContainerLimit | None = None


class ScalingCondition(Struct, frozen=True):
    """A condition of a HorizontalPodAutoscaler: ScalingActive, AbleToScale or ScalingLimited.

    Args:
        status: None for Unknown, and for one that is not there.
    """

    status: bool | None = None
    reason: str = ""
    message: str = ""


class AutoscalerSeen(Struct, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler (autoscaling/v2) as it was read.

    Args:
        current, desired: pods by its status; None before its first look.
        observed: its status is about its present spec.
        stabilization_up_s, stabilization_down_s: the windows of `spec.behavior`, with the defaults of the API server.
        owner: who made it, such as `ScaledObject web`.
        by_value: the names of metrics with a target of type Value, which its controller multiplies by all ready pods.
    """

    name: str
    min_replicas: int
    max_replicas: int
    current: int | None
    desired: int | None
    observed: bool
    scaling_active: ScalingCondition = ScalingCondition()
    able_to_scale: ScalingCondition = ScalingCondition()
    scaling_limited: ScalingCondition = ScalingCondition()
    last_scale_at_s: float | None = None
    stabilization_up_s: int = 0
    stabilization_down_s: int = 300
    owner: str = ""
    by_value: tuple[str, ...] = ()


class ContainerUse(Struct, frozen=True, kw_only=True):
    """What one container of a revision's pods uses, all of them together.

    Args:
        used: of the pods that were measured, in cores or bytes; None when no pod was.
        requested: by the same pods; None when one of them requests nothing.
        pods: ready pods of the revision that count.
        measured: those of them with a sample that is fresh and was taken wholly since the container started.
        oldest_at_s, newest_at_s: times of samples, seconds since 1970.
        window_s: how long the longest of the samples lasted; each is an average until its time.
        message: why pods are missing, in words for people.
    """

    used: float | None
    requested: float | None
    pods: int
    measured: int
    oldest_at_s: float | None = None
    newest_at_s: float | None = None
    window_s: float = 0.0
    message: str = ""

    @property
    def complete(self) -> bool:
        """Every pod that counts was measured, and there is one."""
        return self.pods > 0 and self.measured == self.pods

    @property
    def utilization_percent(self) -> float | None:
        """Of the request; None when it is not known of every pod that counts."""
        if not self.complete or self.used is None or not self.requested:
            return None
        return 100.0 * self.used / self.requested


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingSeen:
    """Answer to `AskAutoscaling`: autoscalers and usage as they were at `at_s`.

    Args:
        autoscalers: those whose target is the Rollout; None when they could not be read, or when the gate asks about none.
        use: of the gate's container by revision; a revision that is missing has no ready pod. None when it could not be read, or
            when the gate has no container.
        message: why something could not be read, and what to do.
    """

    at_s: float
    autoscalers: tuple[AutoscalerSeen, ...] | None = None
    use: Mapping[str, ContainerUse] | None = field(default=None, hash=False)
    message: str = ""


class AutoscalerRecord(Struct, frozen=True, kw_only=True):
    """An autoscaler of the Rollout, as it was last read."""

    name: Annotated[str, "Its name.", NEEDED]
    owner: Annotated[str, "Kind and name of the object that made it, such as a ScaledObject of KEDA."] = ""
    desired: Annotated[int | None, "The pods that it wants; absent: it says nothing about the present load."] = None
    max_replicas: Annotated[int, "The most pods that it may want.", Json("max")]
    headroom_percent: Annotated[
        int | None, "Distance from the pods that it wants to its maximum, in percent of the maximum."
    ] = None
    settled_since_s: Annotated[Time | None, "Since when it scales nothing; absent: it scales."] = None


class UseRecord(Struct, frozen=True, kw_only=True):
    """What the container of spec.autoscaling.containerResource uses in one revision."""

    revision: Annotated[str, "The revision.", NEEDED]
    utilization_percent: Annotated[
        int | None, "Use in percent of the request, of all pods together; absent: not known of every pod."
    ] = None
    measured: Annotated[int, "Pods with a sample that counts.", Json("measuredPods")]
    pods: Annotated[int, "Ready pods of the revision."]
    oldest_at_s: Annotated[Time | None, "Time of the oldest sample.", Json("measuredAt")] = None


class AutoscalingRecord(Struct, frozen=True, kw_only=True):
    """What spec.autoscaling was last told during the current update; absent when no update waits or has waited for it.

    It decides nothing.

    Args:
        use: of the revisions that have ready pods, in the order of their names.
    """

    at_s: Annotated[Time, "When it was read; it is written again when it says something else.", NEEDED]
    autoscalers: Annotated[tuple[AutoscalerRecord, ...], "The autoscalers that scale the Rollout."] = ()
    container: Annotated[str, "The container that `use` is about."] = ""
    resource: Annotated[str, "The resource that `use` is about: cpu or memory."] = ""
    use: Annotated[tuple[UseRecord, ...], "What the container uses, by revision."] = ()
