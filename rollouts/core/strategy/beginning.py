"""What must be there before the first pod of an update: every Service, route and template that the spec names, at any step.

Whatever is missing would stop the update at its step: later, with a part of the traffic at the new revision. So the update does
not begin until all of it can be used. What holds it up is told at once, and ends by itself.

Nothing here holds up a way back or the only revision that can serve: a rollback, a revision that was stable before, a first
one; nor an update that has begun, at whose step the wait is told. ConfigMaps and Secrets of the template are looked at before an
update is taken up at all (core/config/target.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.analyses import Guard, guarded
from rollouts.core.model.analysis import DraftProblem, RunDraft, TemplatesUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, analyses
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import WAS_STABLE, RolloutStatus
from rollouts.core.routing.routes import ROUTES_NEED_A_PERSON, not_there_yet
from rollouts.core.routing.services import NEEDS_A_PERSON, not_usable
from rollouts.core.strategy.guards import BEFORE_UPDATE, guarding

SHOWN_MAX = 5
"""So many things that are missing are told at once; more are counted."""

RECHECK_S = 0.05
"""So soon the next pass goes on with the templates, where they are too large for one."""

_MISSING = NEEDS_A_PERSON | ROUTES_NEED_A_PERSON | {Reason.ANALYSIS_INVALID}


def prerequisites(ctx: PassContext) -> Contribution | None:
    """The wait of an update for what its spec names; None when all of it is there, and when the update does not wait for it.

    A revision whose ReplicaSet is refused waits, too, whatever it is.
    """
    if (refused := ctx.creation_refused) is not None:
        return Contribution(wait=Wait(refused.reason, refused.message), wake_at_s=refused.at_s + refused.again_s)
    status, new, stable = ctx.status, ctx.new, ctx.stable
    revision = status.current_revision
    way_back = revision == status.stable_revision or ctx.rolled_back
    if stable is None or ctx.aborted or way_back or status.gate_passed or ctx.promoted_full:
        return None  # or it has its steps skipped
    if not has_no_pods_yet(ctx.seen, status, revision):
        return None
    # A revision that was stable before has its ReplicaSet kept, which may be older than the stable one.
    promoted = any(entry.revision == revision and entry.outcome in WAS_STABLE for entry in status.history)
    if new is not None and (promoted or new.created_at_s < stable.created_at_s):
        return None
    waits = list(_waits(ctx))
    if not waits:
        return None
    shown = [wait for wait in waits if wait.reason in _MISSING] or waits[:1]
    messages = list(dict.fromkeys(wait.message for wait in shown))
    more = f"; and {len(messages) - SHOWN_MAX} more" if len(messages) > SHOWN_MAX else ""
    until = f"revision {revision} has no pods until all is there"
    message = f"{until}: {'; '.join(messages[:SHOWN_MAX])}{more}"
    wait = replace(shown[0], message=message, spec_is_wrong=any(wait.spec_is_wrong for wait in shown))
    partly = wait.reason is Reason.ANALYSIS_RUNNING and ctx.seen.drafts  # otherwise an event brings more
    return Contribution(wait=wait, wake_at_s=ctx.now_s + RECHECK_S if partly else None)


def closed_gate(ctx: PassContext) -> Guard | None:
    """The analysis before the update while it keeps the update from beginning; None once it is passed, and where none counts.

    Nothing waits for it once the stable ReplicaSet is gone, because nothing else can serve then. Pods of the revision open
    nothing: they are those of the attempt before, of a node that has joined, or somebody has made them.
    """
    if ctx.stable is None or BEFORE_UPDATE not in guarding(ctx):
        return None
    guard = guarded(ctx, BEFORE_UPDATE, begins=True)
    return guard if guard.wait is not None else None


def has_no_pods_yet(seen: Snapshot, status: RolloutStatus, revision: str) -> bool:
    """Whether the update to `revision` stands at its very beginning: no step is done, no gate reached, and no pod wanted."""
    if revision == status.current_revision and (status.step_index > 0 or status.gate_started_at_s is not None):
        return False
    return not any(
        replica_set.revision == revision and replica_set.spec_replicas > 0 for replica_set in seen.replica_sets
    )


def _waits(ctx: PassContext) -> Iterator[Wait]:
    """What is not there yet, or not looked at: Services, routes, templates of analyses."""
    for name in ctx.named_services:
        if (wait := not_usable(ctx, name)) is not None:
            yield replace(wait, message=f"{_path_of(ctx, name)}: {wait.message}")
    routes = ctx.seen.routes.values() if ctx.routed else ()
    for route in routes:
        if route.named and (wait := not_there_yet(ctx, route)) is not None:
            yield replace(wait, message=f"spec.strategy.canary.trafficRouting.{route.route.router}: {wait.message}")
    for gate in analyses(ctx.spec.strategy):
        match ctx.seen.drafts.get(gate):
            case DraftProblem(message=message, comes_later=comes_later):
                if not comes_later:
                    yield Wait(Reason.ANALYSIS_INVALID, message)
            case TemplatesUnread():  # of a ReplicaSet that the update makes first
                pass
            case RunDraft(latest=revision) if revision == ctx.status.current_revision:
                pass
            case _:
                yield Wait(Reason.ANALYSIS_RUNNING, "the templates of its analyses are looked at")


def _path_of(ctx: PassContext, name: ServiceRef) -> str:
    strategy = ctx.spec.strategy
    if isinstance(strategy, BlueGreen):
        field = "activeService" if name == strategy.active_service else "previewService"
        return f"spec.strategy.blueGreen.{field}"
    stable = name == strategy.stable_service
    if isinstance(name, SubsetName):
        field = "trafficRouting.istio.destinationRule"
    elif strategy.ping_pong:
        field = f"pingPong.{'ping' if stable is not ctx.status.pong_is_stable else 'pong'}Service"
    else:
        field = "stableService" if stable else "canaryService"
    return f"spec.strategy.canary.{field}"
