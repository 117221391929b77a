"""What becomes of a refusal: a value for the next pass, or the status of a Rollout that a person must help. Pure.

A write of a route, or of a new ReplicaSet, that is refused stops nothing else. The pass that meets the refusal writes what comes
before it and no status. The next one sees it in the Snapshot (`RouteRefused`, `CreationRefused`), does not try the same write
again for a while, and decides on everything else: counts, commands, an abort, the sizes that are safe.

What a pass may meet: `RouteWriteRefused` and `CreationWriteRefused` become such values. `RouteCannotExpress` is about an intent
that the route's codec has no words for; the pass writes what comes before it. Any other `TerminalError` becomes the status of the
Rollout (`stopped_status`), and the pass is tried again after `DELAYS`, or when an event comes.
"""

from __future__ import annotations

from rollouts.controller.act.calls import RolloutCall
from rollouts.controller.act.performer import CreationWriteRefused, RouteWriteRefused
from rollouts.controller.act.render import render
from rollouts.controller.configs.reads import is_denied
from rollouts.controller.observe.observer import Seen
from rollouts.core.context.waits import NOT_SEEN, REFUSED
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateReplicaSet, Decision, Intent, MakeRoute, ReleaseRoute, SetTraffic
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import CreationRefused
from rollouts.core.model.status import Condition, Phase, RolloutStatus, WaitingFor
from rollouts.core.model.traffic import RouteName, RouteRefused, RouteSeen, RouteUnasked, Split
from rollouts.errors import (
    ApiExists,
    ApiForbidden,
    Delays,
    ObjectUnreadable,
    TerminalError,
    Unroutable,
    WatchFailed,
    remedy,
)

DELAYS = Delays()
MESSAGE_MAX = 1_024  # characters; an admission webhook may say anything


class RouteCannotExpress(Exception):
    """A route cannot say what an intent asks for; the calls of the intents before it are good."""

    def __init__(self, calls: list[RolloutCall], intent: Intent, cause: Unroutable) -> None:
        super().__init__(str(cause))
        self.calls = calls
        self.intent = intent
        self.cause = cause


def render_intents(seen: Seen, decision: Decision) -> list[RolloutCall]:
    """The calls for the intents in order. Raises: RouteCannotExpress, for the first that a route cannot express."""
    calls: list[RolloutCall] = []
    for intent in decision.intents:
        try:
            calls += render(seen.snapshot, intent, seen.routes)
        except Unroutable as exc:
            raise RouteCannotExpress(calls, intent, exc) from exc
    return calls


def refused_route(
    seen: Seen, decision: Decision, error: RouteCannotExpress | RouteWriteRefused, *, now_s: float
) -> tuple[RouteName, RouteRefused] | None:
    """What the next pass must know; None when it cannot decide without that write, or this one has tried it all the same."""
    cause = error.cause
    if isinstance(error, RouteCannotExpress):
        intent: Intent | None = error.intent
    else:
        writes = (write for write in decision.intents if isinstance(write, SetTraffic | MakeRoute | ReleaseRoute))
        intent = next((write for write in writes if write.route == error.route), None)
    if not isinstance(intent, SetTraffic | MakeRoute | ReleaseRoute):
        return None
    route = seen.snapshot.routes.get(intent.route)
    if route is None or isinstance(route, RouteUnasked):
        return None
    split: Split | None = None if isinstance(intent, ReleaseRoute) else intent.split
    why = str(cause) if isinstance(cause, Unroutable) else f"the write is refused: {with_help(cause)}"
    refused = RouteRefused(
        at_s=now_s,
        split=split,
        resource_version=route.resource_version if isinstance(route, RouteSeen) else "",
        generation=seen.snapshot.rollout.generation,
        reason=reason_of(cause),
        message=f"{intent.route}: {why}"[:MESSAGE_MAX],
        again_s=remedy(cause, DELAYS).in_s,
    )
    return None if _is_known(route.refused, refused) else (intent.route, refused)


def refused_creation(
    seen: Seen, decision: Decision, error: CreationWriteRefused, *, now_s: float
) -> CreationRefused | None:
    """What the next pass must know; None when no ReplicaSet was to be created, or this pass has tried it all the same."""
    created = next((intent for intent in decision.intents if isinstance(intent, CreateReplicaSet)), None)
    if created is None:
        return None
    refused = CreationRefused(
        revision=created.revision,
        at_s=now_s,
        generation=seen.snapshot.rollout.generation,
        reason=reason_of(error.cause),
        message=f"revision {created.revision} cannot be created: {with_help(error.cause)}"[:MESSAGE_MAX],
        again_s=remedy(error.cause, DELAYS).in_s,
    )
    return None if _is_known(seen.snapshot.creation_refused, refused) else refused


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
    if is_denied(message):
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
    # A wait for its pods or for people goes on, with its times: the progress deadline goes by them.
    waits = status.waiting_for
    if waits is None or waits.reason in NOT_SEEN | REFUSED or reason in NOT_SEEN:
        since_s = waits.since_s if waits is not None and waits.reason is reason else now_s
        waits = WaitingFor(reason, message, since_s, None)
    return replace(
        status,
        phase=Phase.DEGRADED,
        message=message,
        waiting_for=replace(waits, message=message),
        observed_generation=generation,
        conditions=tuple(conditions.values()),
    )


def _is_known(before: RouteRefused | CreationRefused | None, refused: RouteRefused | CreationRefused) -> bool:
    """Whether the pass knew of the refusal, and it was not time to try again."""
    return (
        before is not None
        and replace(before, at_s=refused.at_s) == refused
        and before.again_s > refused.at_s - before.at_s
    )
