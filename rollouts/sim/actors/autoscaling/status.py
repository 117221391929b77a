"""The status of a HorizontalPodAutoscaler, as its controller writes it. It never writes `observedGeneration`.

Source: k8s.io/kubernetes pkg/controller/podautoscaler/horizontal.go, `setStatus` and `setConditionInList`.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.objects import Manifest
from rollouts.sim.actors.autoscaling.decision import StatusCondition


def with_conditions(status: Manifest, conditions: Iterable[StatusCondition], *, now: str) -> Manifest:
    """The status with conditions set. The time of one is that of its last change between True and False."""
    found: dict[str, Manifest] = {each["type"]: each for each in status.get("conditions") or ()}
    for condition in conditions:
        before, value = found.get(condition.kind, {}), "True" if condition.status else "False"
        since = before["lastTransitionTime"] if before.get("status") == value else now
        found[condition.kind] = {
            "type": condition.kind,
            "status": value,
            "lastTransitionTime": since,
            "reason": condition.reason.word,
            "message": condition.reason.message,
        }
    return {**status, "conditions": list(found.values())}


def with_numbers(
    status: Manifest, *, current: int, metrics: Iterable[Manifest] | None, desired: int | None = None
) -> Manifest:
    """The status with numbers of pods; with `desired` None it keeps what it said."""
    wanted = status.get("desiredReplicas", 0) if desired is None else desired
    kept: Manifest = {name: status[name] for name in ("lastScaleTime", "conditions") if name in status}
    numbers: Manifest = {"currentReplicas": current} if current else {}
    shown = list(metrics) if metrics is not None else None
    return {**kept, **numbers, "desiredReplicas": wanted, "currentMetrics": shown}
