"""The status of a Rollout that cannot go on until a person changes something outside of its spec. Pure."""

from __future__ import annotations

from dataclasses import replace

from rollouts.core.reasons import Reason
from rollouts.core.status import Condition, Phase, RolloutStatus
from rollouts.errors import ApiExists, ApiForbidden, TerminalError, Unroutable

MESSAGE_MAX = 1_024  # characters; an admission webhook may say anything


def reason_of(error: TerminalError) -> Reason:
    """The word for what stopped a pass."""
    match error:
        case ApiForbidden():
            return Reason.API_FORBIDDEN
        case ApiExists():
            return Reason.NAME_TAKEN
        case Unroutable():
            return Reason.ROUTE_NOT_USABLE
        case _:
            return Reason.API_REFUSED


def stopped_status(
    status: RolloutStatus, *, reason: Reason, message: str, generation: int, now_s: float
) -> RolloutStatus:
    """The last status with the trouble in it, in kstatus' terms; nothing that the failed pass wanted to claim.

    Args:
        status: as the API server has it.
        generation: of the Rollout that was decided on.
    """
    message = message[:MESSAGE_MAX]
    conditions = {condition.type: condition for condition in status.conditions}
    for kind, true in (("Ready", False), ("Reconciling", False), ("Stalled", True)):
        before = conditions.get(kind)
        conditions[kind] = Condition(
            type=kind,
            status=true,
            reason=reason,
            message=message,
            since_s=before.since_s if before is not None and before.status is true else now_s,
            observed_generation=generation,
        )
    return replace(
        status,
        phase=Phase.DEGRADED,
        message=message,
        observed_generation=generation,
        conditions=tuple(conditions.values()),
    )
