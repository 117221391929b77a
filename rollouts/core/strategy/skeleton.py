"""The course of an update, the same for every strategy: gate, Services, routes, sizes, waits, and its completion.

A strategy answers the questions of `StrategyRules`; this module asks them in the only safe order. Each answer depends only on the
record and on earlier answers. Sizes are those of ReplicaSets, whoever controls them; `core/carrier/` carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from msgspec import Struct

from rollouts.core.carrier.carriers import reachable
from rollouts.core.context.contribution import Contribution, joined
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest
from rollouts.core.drain.cutover import begin_cutovers
from rollouts.core.lifecycle.analyses import Guard, deadline_s
from rollouts.core.model.changes import StatusChange
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, PatchReplicaSet
from rollouts.core.model.status import Cutover
from rollouts.core.routing.routes import Routing
from rollouts.core.routing.services import ServiceSwitch
from rollouts.core.scale.canary_sizes import Sizes
from rollouts.core.scale.sizing import create_new, in_safe_order, next_scale_down_s, resized
from rollouts.core.strategy.guards import guarding


class Moves(Struct, frozen=True, kw_only=True):
    """What a pass does to traffic and pods.

    Args:
        services: the switch of each Service that the strategy names; in a canary that of the stable revision is first.
    """

    services: tuple[ServiceSwitch, ...]
    routing: Routing
    sizes: Sizes
    reached: bool
    guards: tuple[Guard, ...] = ()


class StrategyRules(Protocol):
    """The questions that each strategy answers. Pure; `plan_update` asks each at most once in a pass."""

    @property
    def held(self) -> Contribution | None:
        """What an update waits for that does not begin yet (`beginning.py`): no pod is made, no step or other analysis begins."""

    def alone(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """Changes that must be recorded alone: nothing else is decided in this pass; () for none."""

    def opening(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """The changes that come first: whether the update has reached its gate, and passed it."""

    def services(self, ctx: PassContext) -> tuple[ServiceSwitch, ...]:
        """Which revision each Service should select, and whether it does."""

    def departures(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> Iterable[Cutover]:
        """The Services that leave a revision, whose pods must drain."""

    def observed(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[StatusChange, ...]:
        """Records which revisions the Services were seen to select."""

    def trusted(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> tuple[ServiceSwitch, ...]:
        """The switches, now that departures are known: those that cannot be relied on yet lose `confirmed` or their write."""

    def routing(self, ctx: PassContext, services: tuple[ServiceSwitch, ...]) -> Routing:
        """The split that the routes should have, and how far it is live."""

    def sizes(self, ctx: PassContext, services: tuple[ServiceSwitch, ...], routing: Routing) -> Sizes:
        """How many pods each revision should have after this pass."""

    def reached(self, ctx: PassContext, sizes: Sizes) -> bool:
        """Whether the sizes that the step asks for are reached."""

    def guards(self, ctx: PassContext, moves: Moves) -> tuple[Guard, ...]:
        """The analyses that count now, and the beginning of those that may begin; asked only if the spec has analyses."""

    def wait(self, ctx: PassContext, moves: Moves) -> Wait | None:
        """The first thing that keeps the step, or the promotion, from being complete."""

    def weight(self, ctx: PassContext) -> tuple[StatusChange, ...]:
        """Records the canary's share in status when it has changed."""

    def wake_at_s(self, ctx: PassContext) -> float | None:
        """When a pause or a gate ends by time alone."""

    def complete(self, ctx: PassContext, moves: Moves, plan: Contribution) -> Contribution:
        """The plan, or instead of it what completes the step or the update; not asked while aborted or paused."""


def plan_update(ctx: PassContext, rules: StrategyRules) -> Contribution:
    """Plans one pass of an update. Any prefix of its intents is safe: grow, then change routes and Services, then shrink."""
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
    if ctx.seen.workload is not None:
        sizes = reachable(routed, sizes, held=rules.held is not None)
    moves = Moves(services=trusted, routing=routing, sizes=sizes, reached=rules.reached(routed, sizes))
    if rules.held is None and (routed.status.analyses or guarding(routed)):
        moves = replace(moves, guards=rules.guards(routed, moves))
    runs = rules.held or (joined(moves.guards) if moves.guards else Contribution())
    patches: list[PatchReplicaSet | None] = []
    create: tuple[Intent, ...] = ()
    if routed.stable is not None:
        patches.append(resized(routed, routed.stable, replicas=sizes.stable))
    if routed.new is not None:
        patches.append(resized(routed, routed.new, replicas=sizes.new))
    elif rules.held is None and not routed.aborted:
        create = (create_new(routed, replicas=sizes.new),)
    for replica_set, size in zip(routed.older, sizes.older, strict=True):
        patches.append(resized(routed, replica_set, replicas=size))
    switching = joined(trusted, after_s=ctx.now_s)
    intents = in_safe_order(routed, patches, create=create, moves=(*routing.intents, *switching.intents))
    wakes = [rules.wake_at_s(routed), next_scale_down_s(routed), routing.wake_at_s, switching.wake_at_s]
    wakes.append(runs.wake_at_s)
    wakes += map(partial(deadline_s, routed), routed.status.analyses)
    plan = Contribution(
        changes=(*opening, *switches, *routing.changes, *rules.weight(routed), *runs.changes),
        intents=(*intents, *runs.intents),
        wait=rules.wait(routed, moves) if rules.held is None else rules.held.wait,
        wake_at_s=earliest(wakes, after_s=ctx.now_s),
        notices=(*switching.notices, *routing.notices),
    )
    stays = routed.aborted or routed.paused or rules.held is not None
    return plan if stays else rules.complete(routed, moves, plan)
