"""The status of a Rollout that cannot continue until a person changes something outside its spec. Pure."""

from __future__ import annotations

from rollouts.core.context.waits import NOT_SEEN, REFUSED
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition, Phase, RolloutStatus, WaitingFor
from rollouts.errors import ApiExists, ApiForbidden, ObjectUnreadable, TerminalError, Unroutable, WatchFailed

MESSAGE_MAX = 1_024  # characters; an admission webhook may say anything


def reason_of(error: TerminalError) -> Reason:
    """The reason for the error that stopped a pass."""
    match error:
        case ApiForbidden():
            return Reason.API_FORBIDDEN
        case ApiExists():
            return Reason.NAME_TAKEN
        case Unroutable():
            return Reason.ROUTE_NOT_USABLE
        case ObjectUnreadable():
            return Reason.OBJECT_UNREADABLE
        case WatchFailed():
            return Reason.WATCH_FAILED
        case _:
            return Reason.API_REFUSED


def still_true(before: RolloutStatus, decision: Decision | None) -> RolloutStatus:
    """What of a decision holds though one of its writes was refused: the counts of pods, with their clock.

    Everything else would claim what did not happen.
    """
    if decision is None:
        return before
    decided = decision.status
    return replace(
        before,
        replicas=decided.replicas,
        updated_replicas=decided.updated_replicas,
        updated_ready_replicas=decided.updated_ready_replicas,
        updated_available_replicas=decided.updated_available_replicas,
        ready_replicas=decided.ready_replicas,
        available_replicas=decided.available_replicas,
        progressed_at_s=before.progressed_at_s if before.progressed_at_s is None else decided.progressed_at_s,
    )


def stopped_status(
    status: RolloutStatus, *, reason: Reason, message: str, generation: int, now_s: float
) -> RolloutStatus:
    """A status with the error added, in kstatus' conditions.

    Args:
        status: what holds, `still_true`.
        generation: of the Rollout that the pass observed.
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
        waiting_for=_waiting_for(status.waiting_for, reason, message, now_s=now_s),
        observed_generation=generation,
        conditions=tuple(conditions.values()),
    )


def _waiting_for(before: WaitingFor | None, reason: Reason, message: str, *, now_s: float) -> WaitingFor:
    """What stops the Rollout. A wait for its pods or for people goes on, with its times: the progress deadline goes by them."""
    if before is None or before.reason in NOT_SEEN | REFUSED or reason in NOT_SEEN:
        since_s = before.since_s if before is not None and before.reason is reason else now_s
        return WaitingFor(reason, message, since_s, None)
    return replace(before, message=message)
