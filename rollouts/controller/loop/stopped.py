"""The status of a Rollout that cannot continue until a person changes something outside its spec. Pure."""

from __future__ import annotations

from rollouts.core.context.waits import NOT_SEEN, REFUSED
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition, Phase, RolloutStatus, WaitingFor
from rollouts.errors import ApiExists, ApiForbidden, ObjectUnreadable, TerminalError, Unroutable, WatchFailed

MESSAGE_MAX = 1_024  # characters; an admission webhook may say anything
DENIERS = ("admission webhook", "ValidatingAdmissionPolicy")


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


def with_help(error: TerminalError) -> str:
    """The error's message; behind the API server's own words what helps, where they tell who refuses."""
    message = str(error)
    if not message.startswith(("POST /", "PATCH /", "DELETE /")):
        return message  # words of ours, which say it
    _, cannot, what = message.partition(" cannot ")
    verb, of, rest = what.partition(' resource "')
    plural, _, group = rest.partition('"')
    if cannot and of and verb.isalpha():
        group = group.partition(' in API group "')[2].partition('"')[0]
        return f"{message}; grant the controller {verb} of {plural}{'.' * bool(group)}{group}"
    if "exceeded quota" in message:
        return f"{message}; raise the ResourceQuota, or delete what counts in it"
    if any(" denied" in message.partition(each)[2] for each in DENIERS):
        return f"{message}; change what it names, or ask who runs that policy for an exemption"
    return message


def still_true(before: RolloutStatus, decision: Decision) -> RolloutStatus:
    """What of a decision holds though one of its writes was refused: the counts of pods with their clock, and the wait.

    Everything else would claim what did not happen.

    Args:
        before: the status on record, with the revision taken up and the commands put on record.
    """
    decided = decision.status
    if decided.current_revision != before.current_revision:
        return before
    return replace(
        before,
        replicas=decided.replicas,
        updated_replicas=decided.updated_replicas,
        updated_ready_replicas=decided.updated_ready_replicas,
        updated_available_replicas=decided.updated_available_replicas,
        ready_replicas=decided.ready_replicas,
        available_replicas=decided.available_replicas,
        progressed_at_s=before.progressed_at_s if before.progressed_at_s is None else decided.progressed_at_s,
        waiting_for=decided.waiting_for,
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
