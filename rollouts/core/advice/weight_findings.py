"""Whether the weights of a canary reach the clients of the Service that its strategy switches. Pure.

Without `trafficRouting` a weight is a ratio of pods, so only a Service that selects the pods of both revisions shares requests
by it. `stableService` selects the stable revision alone until the update is over: at `setWeight: 90` its clients have one of ten
pods.
"""

from __future__ import annotations

from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.model.rollout import Canary, RolloutSpec
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.steps import SetWeight


def service_without_weight(spec: RolloutSpec) -> ServiceRef | None:
    """The Service whose clients no step's weight reaches, though steps set one."""
    match spec.strategy:
        case Canary(traffic_routing=None, stable_service=str() as service, steps=steps):
            partial = any(isinstance(step, SetWeight) and 0 < step.weight_percent < 100 for step in steps)
            return service if partial else None
        case _:
            return None


def weight_findings(spec: RolloutSpec, *, severity: Severity) -> tuple[Finding, ...]:
    """The finding about such a Service.

    Args:
        severity: a note where another Service is seen that selects the pods of both revisions, which clients may use.
    """
    service = service_without_weight(spec)
    if service is None:
        return ()
    return (
        Finding(
            Rule.WEIGHT_WITHOUT_EFFECT, severity, "spec.strategy.canary.stableService", what_happens(service), HELPS
        ),
    )


def what_happens(service: ServiceRef) -> str:
    """What the weights do to clients of the Service."""
    return (
        f"without trafficRouting a weight is a ratio of pods, and Service {service} selects the stable revision alone until the "
        "end: its clients get nothing of the canary, and at setWeight: 90 one of ten pods takes all of their requests"
    )


HELPS = (
    "let clients use a Service that selects the pods of both revisions, or name the router that splits their requests in "
    "trafficRouting (trafficRouting: {} where somebody else splits them)"
)
