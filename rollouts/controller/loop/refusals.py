"""A write of a route, or of a new ReplicaSet, that is refused stops nothing else: it is a value for the next pass. Pure.

The pass that meets the refusal writes what comes before it and no status. The next one sees it in the Snapshot (`RouteRefused`,
`CreationRefused`), does not try the same write again for a while, and decides on everything else: counts, commands, an abort,
the sizes that are safe.
"""

from __future__ import annotations

from rollouts.controller.act.calls import Ask, Write
from rollouts.controller.act.performer import CreationWriteRefused, RouteWriteRefused
from rollouts.controller.act.render import render
from rollouts.controller.loop.stopped import MESSAGE_MAX, reason_of, with_help
from rollouts.controller.observe.observer import Seen
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateReplicaSet, Decision, Intent, MakeRoute, ReleaseRoute, SetTraffic
from rollouts.core.model.snapshot import CreationRefused
from rollouts.core.model.traffic import RouteName, RouteRefused, RouteSeen, RouteUnasked, Split
from rollouts.errors import ApiForbidden, Unroutable

REFUSED_AGAIN_S = 300.0  # quotas and admission policies change without an event that we see
FORBIDDEN_AGAIN_S = 60.0


class NotSaid(Exception):
    """A route cannot say what an intent asks for; the calls of the intents before it are good."""

    def __init__(self, calls: list[Write | Ask], intent: Intent, cause: Unroutable) -> None:
        super().__init__(str(cause))
        self.calls = calls
        self.intent = intent
        self.cause = cause


def rendered(seen: Seen, decision: Decision) -> list[Write | Ask]:
    """The calls for the intents in order. Raises: NotSaid, for the first that a route cannot express."""
    calls: list[Write | Ask] = []
    for intent in decision.intents:
        try:
            calls += render(seen.snapshot, intent, seen.routes)
        except Unroutable as exc:
            raise NotSaid(calls, intent, exc) from exc
    return calls


def refused_route(
    seen: Seen, decision: Decision, error: NotSaid | RouteWriteRefused, *, now_s: float
) -> tuple[RouteName, RouteRefused] | None:
    """What the next pass must know; None when it cannot decide without that write, or this one has tried it all the same."""
    cause = error.cause
    asked = (error.intent,) if isinstance(error, NotSaid) else decision.intents
    intents = [each for each in asked if isinstance(error, NotSaid) or _writes(each, error.route)]
    if not intents or not isinstance(intent := intents[0], SetTraffic | MakeRoute | ReleaseRoute):
        return None
    route = seen.snapshot.routes.get(intent.route)
    if route is None or isinstance(route, RouteUnasked):
        return None
    split: Split | None = None if isinstance(intent, ReleaseRoute) else intent.split
    told = str(cause) if isinstance(cause, Unroutable) else f"the write is refused: {with_help(cause)}"
    found = RouteRefused(
        at_s=now_s,
        split=split,
        resource_version=route.resource_version if isinstance(route, RouteSeen) else "",
        generation=seen.snapshot.rollout.generation,
        reason=reason_of(cause),
        message=f"{intent.route}: {told}"[:MESSAGE_MAX],
        again_s=FORBIDDEN_AGAIN_S if isinstance(cause, ApiForbidden) else REFUSED_AGAIN_S,
    )
    return None if _is_known(route.refused, found) else (intent.route, found)


def refused_creation(
    seen: Seen, decision: Decision, error: CreationWriteRefused, *, now_s: float
) -> CreationRefused | None:
    """What the next pass must know; None when no ReplicaSet was to be created, or this pass has tried it all the same."""
    created = next((each for each in decision.intents if isinstance(each, CreateReplicaSet)), None)
    if created is None:
        return None
    found = CreationRefused(
        revision=created.revision,
        at_s=now_s,
        generation=seen.snapshot.rollout.generation,
        reason=reason_of(error.cause),
        message=f"revision {created.revision} cannot be created: {with_help(error.cause)}"[:MESSAGE_MAX],
        again_s=FORBIDDEN_AGAIN_S if isinstance(error.cause, ApiForbidden) else REFUSED_AGAIN_S,
    )
    return None if _is_known(seen.snapshot.creation_refused, found) else found


def _is_known(before: RouteRefused | CreationRefused | None, found: RouteRefused | CreationRefused) -> bool:
    """Whether the pass knew of the refusal, and it was not time to try again."""
    return (
        before is not None and replace(before, at_s=found.at_s) == found and before.again_s > found.at_s - before.at_s
    )


def _writes(intent: Intent, route: RouteName) -> bool:
    return isinstance(intent, SetTraffic | MakeRoute | ReleaseRoute) and intent.route == route
