"""One look of the controller at an autoscaler: what it wants, and what it says about it. Pure.

Source: k8s.io/kubernetes pkg/controller/podautoscaler/horizontal.go, `reconcileAutoscaler` and `computeReplicasForMetrics`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from msgspec import Struct

from rollouts.objects import Manifest
from rollouts.sim.actors.autoscaling.limits import (
    WITHIN,
    AutoscalerLook,
    AutoscalerMemory,
    ConditionReason,
    limited,
)
from rollouts.sim.actors.autoscaling.replicas import NoProposal, PodUsage, Proposal, proposal_of
from rollouts.sim.actors.autoscaling.spec import (
    AutoscalerSpec,
    MetricTarget,
    ResourceTarget,
    UnservedTarget,
    target_of,
)
from rollouts.sim.storage.history import Stored
from rollouts.sim.storage.quantities import binary_text, decimal_text

ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"

_CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
_UNSERVED = {
    "Pods": f"unable to get metric {{0}}: {_CUSTOM}",
    "Object": f"unable to get metric {{0}}: {_CUSTOM}",
    "External": "unable to get external metric {0}: unable to fetch metrics from external metrics API: "
    "the server could not find the requested resource (get {0}.external.metrics.k8s.io)",
}


class StatusCondition(Struct, frozen=True):
    """A condition that a look sets; `status` says whether it is True."""

    kind: str
    status: bool
    reason: str
    message: str


class PodsFound(Struct, frozen=True):
    """The pods of the target, and their usage, or why it is not known."""

    pods: tuple[Stored, ...]
    usage: tuple[PodUsage, ...] | NoProposal


class ScalingDecision(Struct, frozen=True):
    """What follows from a look. Without a size that could be worked out the status keeps what it says."""

    desired: int | None
    conditions: tuple[StatusCondition, ...]
    metrics: tuple[Manifest, ...] | None
    memory: AutoscalerMemory


def needs_metrics(spec: AutoscalerSpec, current: int) -> bool:
    """Whether the metrics decide, and not the bounds alone. A target of no pods is left alone."""
    return current > 0 and spec.min_replicas <= current <= spec.max_replicas


def decide(look: AutoscalerLook, found: PodsFound | ConditionReason | None) -> ScalingDecision:
    """What the controller does after a look.

    Args:
        found: why the target's selector does not lead to pods of its own; None where metrics are not needed (`needs_metrics`).
    """
    match found:
        case None if look.current == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            disabled = StatusCondition(ACTIVE, False, "ScalingDisabled", text)
            return ScalingDecision(0, (disabled,), None, look.memory)
        case None:
            bound = look.spec.max_replicas if look.current > look.spec.max_replicas else look.spec.min_replicas
            return ScalingDecision(bound, (), None, look.memory)
        case ConditionReason() as why:
            return ScalingDecision(None, (StatusCondition(ACTIVE, False, *why),), None, look.memory)
        case PodsFound():
            replicas, active, statuses = _computed(look, found)
    if replicas is None:
        return ScalingDecision(None, (active,), statuses, look.memory)
    result = limited(look, replicas)
    able = result.stabilized or ConditionReason("ReadyForNewScale", "recommended size matches current size")
    bounds = StatusCondition(LIMITED, result.limited_by is not WITHIN, *result.limited_by)
    conditions = (active, StatusCondition(ABLE, True, *able), bounds)
    return ScalingDecision(result.replicas, conditions, statuses, result.memory)


def _computed(look: AutoscalerLook, found: PodsFound) -> tuple[int | None, StatusCondition, tuple[Manifest, ...]]:
    """The greatest of what the metrics ask for; a metric that fails prevents that fewer pods are asked for.

    Returns: the size, None for nothing; the condition ScalingActive; the statuses of the metrics.
    """
    replicas, metric = 0, ""
    failures: list[StatusCondition] = []
    statuses: list[Manifest] = []
    for target in map(target_of, look.spec.metrics):
        proposal = _proposal(target, look, found)
        statuses.append(_status(target, proposal))
        match proposal:
            case NoProposal(message):
                text = f"the HPA was unable to compute the replica count: {message}"
                failures.append(StatusCondition(ACTIVE, False, f"FailedGet{target.source}Metric", text))
            case Proposal():
                if replicas == 0 or proposal.replicas > replicas:
                    replicas, metric = proposal.replicas, _name(target)
    if failures and (len(failures) == len(statuses) or replicas < look.current):
        return None, failures[0], tuple(statuses)
    text = f"the HPA was able to successfully calculate a replica count from {metric}"
    return replicas, StatusCondition(ACTIVE, True, "ValidMetricFound", text), tuple(statuses)


def _proposal(target: MetricTarget, look: AutoscalerLook, found: PodsFound) -> Proposal | NoProposal:
    if isinstance(target, UnservedTarget):
        return NoProposal(_UNSERVED[target.source].format(target.name))
    usage = found.usage or NoProposal("no metrics returned from resource metrics API")
    if isinstance(usage, NoProposal):
        proposal: Proposal | NoProposal = NoProposal(
            f"unable to get metrics for resource {target.resource}: {usage.message}"
        )
    else:
        proposal = proposal_of(target, usage, found.pods, look)
    if isinstance(proposal, NoProposal):
        what = "usage" if target.utilization_percent is None else "utilization"
        return NoProposal(f"failed to get {target.resource} {what}: {proposal.message}")
    return proposal


def _name(target: MetricTarget) -> str:
    match target:
        case UnservedTarget(source, name):
            return f"{source.lower()} metric {name}"
        case ResourceTarget(resource, _, _, None):
            return f"{resource} resource"
        case ResourceTarget(resource, container):
            of = "container resource" if container is not None else "resource"
            return f"{resource} {of} utilization (percentage of request)"


def _status(target: MetricTarget, proposal: Proposal | NoProposal) -> Manifest:
    """An item of `status.currentMetrics`; an empty one for a metric that fails."""
    if isinstance(proposal, NoProposal) or isinstance(target, UnservedTarget):
        return {"type": ""}
    text = binary_text if target.resource == "memory" else decimal_text
    current: dict[str, Any] = {"averageValue": text(Fraction(proposal.average_milli, 1000))}
    if proposal.utilization_percent is not None:
        current["averageUtilization"] = proposal.utilization_percent
    given: Manifest = {"name": target.resource, "current": current}
    if target.container is not None:
        given["container"] = target.container
    return {"type": target.source, target.source[0].lower() + target.source[1:]: given}
