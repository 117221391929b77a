"""The course of an update, once for every strategy: gate, Services, routes, sizes, waits, and what completes it.

A strategy answers the questions of `StrategyRules`; this module asks them in the one order that is safe. Each answer is made from
what is on record and from the answers before it. A strategy for workloads that are updated in place would answer `sizes` with the
sizes that there are, and `complete` with its partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest
from rollouts.core.drain.cutover import Departure, begin_cutovers
from rollouts.core.model.changes import StatusChange
from rollouts.core.model.intents import Intent, Notice, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.routing.routes import Routing
from rollouts.core.routing.services import ServiceSwitch
from rollouts.core.scale.canary_sizes import Sizes
from rollouts.core.scale.sizing import create_new, in_safe_order, moves_of, next_scale_down_s, resized


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What a pass does to traffic and pods.

    Args:
        services: what each Service that the strategy names needs, that of the stable revision first in a canary.
        routing: what the routes need; empty without routers.
        reached: the sizes that the step asks for are there.
    """

    services: tuple[ServiceSwitch, ...]
    routing: Routing
    sizes: Sizes
    reached: bool


class StrategyRules(Protocol):
    """What one strategy answers. Pure; each question is asked once a pass, in this order."""

    def alone(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """Changes after which nothing else may be decided in this pass; () for none."""

    def opening(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """What is recorded first: where the update stands at its gate."""

    def services(self, ctx: PassContext) -> tuple[ServiceSwitch, ...]:
        """Which revision each Service is to select, and whether it does."""

    def departures(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> Iterable[Departure]:
        """Services that leave a revision, whose pods are to drain."""

    def observed(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[StatusChange, ...]:
        """What the Services were seen to select, for status."""

    def trusted(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[ServiceSwitch, ...]:
        """The Services as far as they can be relied on, now that the departures are known."""

    def routing(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> Routing:
        """What the routes are to say."""

    def sizes(self, ctx: PassContext, services: tuple[ServiceSwitch, ...], routing: Routing) -> Sizes:
        """How many pods each revision is to have after this pass."""

    def reached(self, ctx: PassContext, sizes: Sizes) -> bool:
        """Whether the sizes that the step asks for are there."""

    def wait(self, ctx: PassContext, moves: Moves) -> Wait | None:
        """The first thing that keeps the step, or the promotion, from being complete."""

    def weight(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """The canary's share for status, where it is another one."""

    def wake_at_s(self, ctx: PassContext) -> float | None:
        """When time alone passes a pause or a gate."""

    def complete(self, ctx: PassContext, moves: Moves, plan: Contribution) -> Contribution:
        """The plan, or what completes the step or the update in its place."""


def plan_update(ctx: PassContext, rules: StrategyRules) -> Contribution:
    """One pass of an update. Any prefix of its intents is safe: grow, then route and point Services, then shrink."""
    if alone := rules.alone(ctx):
        return Contribution(changes=alone)
    opening = rules.opening(ctx)
    opened = ctx.recording(opening)
    services = rules.services(opened)
    switches = (*begin_cutovers(opened, rules.departures(opened, services)), *rules.observed(opened, services))
    switched = opened.recording(switches)
    trusted = rules.trusted(switched, services)
    routing = rules.routing(switched, trusted)
    routed = switched.recording(routing.changes)
    sizes = rules.sizes(routed, trusted, routing)
    moves = Moves(services=trusted, routing=routing, sizes=sizes, reached=rules.reached(routed, sizes))
    wakes = [rules.wake_at_s(routed), next_scale_down_s(routed), routing.wake_at_s]
    notices: list[Notice] = []
    for each in trusted:
        wakes.append(each.wake_at_s)
        notices += each.notices
    plan = Contribution(
        changes=(*opening, *switches, *routing.changes, *rules.weight(routed)),
        intents=_intents(routed, moves),
        wait=rules.wait(routed, moves),
        wake_at_s=earliest(wakes),
        notices=(*notices, *routing.notices),
    )
    return plan if routed.aborted or routed.paused else rules.complete(routed, moves, plan)


def promoted(ctx: PassContext, changes: tuple[StatusChange, ...]) -> Contribution:
    """The promotion; recorded alone, before anything follows from it.

    Args:
        changes: all that this pass records.
    """
    status = ctx.status
    message = f"revision {status.revision_number} ({status.current_revision}) is stable"
    return Contribution(changes=changes, notices=(Notice(Reason.ROLLOUT_COMPLETED, message),))


def _intents(ctx: PassContext, moves: Moves) -> tuple[Intent, ...]:
    sizes = moves.sizes
    patches: list[PatchReplicaSet | None] = []
    create: tuple[Intent, ...] = ()
    if ctx.stable is not None:
        patches.append(resized(ctx, ctx.stable, replicas=sizes.stable))
    if ctx.new is not None:
        patches.append(resized(ctx, ctx.new, replicas=sizes.new))
    elif not ctx.aborted:
        create = (create_new(ctx, replicas=sizes.new),)
    for each, size in zip(ctx.older, sizes.older, strict=True):
        patches.append(resized(ctx, each, replicas=size))
    return in_safe_order(ctx, patches, create=create, moves=(*moves.routing.intents, *moves_of(moves.services)))
