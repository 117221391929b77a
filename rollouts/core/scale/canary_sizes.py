"""How many pods each revision of a canary should have: by the ratio of pods, or by the traffic that routes may send to it.

This module only computes sizes: it waits for nothing, writes nothing and remembers nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollouts.core.context.effective_weight import EffectiveWeight
from rollouts.core.context.pass_context import PassContext
from rollouts.core.drain.cutover import draining
from rollouts.core.model.frozen import replace
from rollouts.core.model.limits import ceil_percent
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet
from rollouts.core.model.steps import MatchTrafficWeight, SetCanaryReplicas, SetCanaryScalePercent, WeightPercent
from rollouts.core.model.traffic import Split
from rollouts.core.routing.routes import exchanges_roles
from rollouts.core.routing.services import selected_revision
from rollouts.core.scale.replicas import Size, canary_pass, routed_canary_replicas, routed_stable_replicas, target_pair
from rollouts.core.scale.sizing import aborted_size, kept_size


class Sizes(Struct, frozen=True, kw_only=True):
    """How many pods each revision should have after this pass, and (`wanted_…`) when the step is done."""

    new: int
    stable: int
    older: tuple[int, ...]
    wanted_new: int
    wanted_stable: int


_Side: TypeAlias = tuple[ReplicaSet | None, int]
"""A revision's ReplicaSet, or None, and how many of its available pods are within its size."""


class Demand(Struct, frozen=True, kw_only=True):
    """The inputs of the sizes, besides the pass and the strategy.

    Args:
        canary_replicas: pods of the new revision that the step asks for beside the stable revision (`wanted_canary`).
        canary_traffic: what routes may send to the canary Service now, or after the writes of this pass.
        holding: a stable pod must stay, because the stable Service still needs it or the stable revision drains.
        lacking: every stable pod must stay, because a Service or a route of the spec is missing, unusable or not read.
    """

    weight_percent: WeightPercent
    canary_replicas: int
    canary_traffic: EffectiveWeight
    holding: bool
    lacking: bool


def canary_sizes(ctx: PassContext, strategy: Canary, demand: Demand) -> Sizes:
    """The sizes for this pass; no pod at 0 replicas, whatever a step, a hold or a delay keeps at other times."""
    if ctx.spec.replicas == 0:
        return no_pods(ctx)
    sizes = _ratio_sizes(ctx, strategy, demand) if ctx.by_ratio else _routed_sizes(ctx, strategy, demand)
    sides: list[_Side] = [(replica_set, replica_set.staying_available) for replica_set in ctx.older]
    sides += [(ctx.new, ctx.new_available), (ctx.stable, ctx.stable_available)]
    asked = floored = [*sizes.older, sizes.new, sizes.stable]
    if not ctx.by_ratio:  # `canary_pass` keeps the floor by itself
        # `replicas` − `maxUnavailable` pods stay available; pods of older revisions leave first. A revision that was superseded
        # at a large weight shrinks only as the stable one grows (argo-rollouts issue 3372).
        spare, floored = sum([pods for _, pods in sides]) - ctx.promised, []
        for (_, pods), size in zip(sides, asked, strict=True):
            floored.append(max(size, pods - max(spare, 0)))
            spare -= max(0, pods - floored[-1])
    kept = _while_shown(ctx, sides, floored)
    if kept != asked:
        *older, new, stable = kept
        sizes = replace(sizes, older=tuple(older), new=new, stable=stable)
    if not demand.holding or sizes.stable > 1 or not _keeps_stable_service(ctx):
        return sizes
    # A step to 100 leaves the last stable pod to the stable Service, which switches after the last step, or (`pingPong`) changes
    # its role with the promotion. The step does not wait for this pod to leave.
    wanted_new = min(sizes.wanted_new, most_canary_replicas(ctx)) if ctx.by_ratio else sizes.wanted_new
    return replace(sizes, wanted_new=wanted_new, wanted_stable=max(sizes.wanted_stable, sizes.stable))


def no_pods(ctx: PassContext) -> Sizes:
    """The sizes at 0 replicas. What drains, `resized` keeps until it is drained."""
    return Sizes(new=0, stable=0, older=(0,) * len(ctx.older), wanted_new=0, wanted_stable=0)


def _ratio_sizes(ctx: PassContext, strategy: Canary, demand: Demand) -> Sizes:
    replicas, weight_percent, (surge, _) = ctx.spec.replicas, demand.weight_percent, ctx.limits
    new_spec = ctx.new.spec_replicas if ctx.new else 0
    after = canary_pass(
        replicas=replicas,
        weight_percent=weight_percent,
        max_surge=strategy.max_surge,
        max_unavailable=strategy.max_unavailable,
        canary=_size(ctx.new),
        stable=_size(ctx.stable) if ctx.stable else None,
        older=[_size(replica_set) for replica_set in ctx.older],
    )
    if ctx.stable is None:
        return Sizes(new=after.canary, stable=after.stable, older=after.older, wanted_new=replicas, wanted_stable=0)
    new, least, stable_spec = after.canary, 0, ctx.stable.spec_replicas
    if ctx.paused or demand.lacking:  # the autoscaler may act, but no step goes further
        least = stable_spec - max(0, stable_spec + new_spec - replicas - surge)
    if demand.holding and replicas + surge > 1:
        least = max(least, stable_spec if draining(ctx, ctx.stable.revision) else min(1, stable_spec))
    stable = max(after.stable, least)
    if demand.holding:
        new = max(min(new, replicas + surge - stable), min(new, new_spec))
    pair = target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge)
    return Sizes(new=new, stable=stable, older=after.older, wanted_new=pair.canary, wanted_stable=pair.stable)


def _routed_sizes(ctx: PassContext, strategy: Canary, demand: Demand) -> Sizes:
    replicas, limit = ctx.spec.replicas, strategy.scale_down_delay_revision_limit
    older = tuple([kept_size(ctx, replica_set, limit=limit) for replica_set in ctx.older])
    if ctx.stable is None:
        return Sizes(new=replicas, stable=0, older=older, wanted_new=replicas, wanted_stable=0)
    wanted_new = demand.canary_replicas
    if ctx.aborted or (ctx.new is not None and ctx.new.spec_replicas > wanted_new):
        wanted_new = _kept_new(ctx, strategy, demand)
    stable = wanted_stable = _wanted_stable(ctx, strategy, ctx.stable, demand, beside=wanted_new)
    new_is_there = ctx.new is not None and ctx.new_available >= wanted_new
    blocked = ctx.paused or demand.lacking or not (ctx.aborted or new_is_there)
    if stable < ctx.stable.spec_replicas and blocked:
        stable = max(stable, min(ctx.stable.spec_replicas, replicas))
    if demand.holding and stable == 0:
        # The last pod stays, available or not. None is made for a Service that is about to leave.
        needed = strategy.stable_service is not None and _keeps_stable_service(ctx)
        stable = 1 if needed else min(1, ctx.stable.spec_replicas)
    new = max(wanted_new, _for_traffic(ctx, strategy, demand.canary_traffic))
    return Sizes(new=new, stable=stable, older=older, wanted_new=wanted_new, wanted_stable=wanted_stable)


def _kept_new(ctx: PassContext, strategy: Canary, demand: Demand) -> int:
    """New pods that stay of more than the step asks for: those that an abort leaves, or that the weight needs all the same."""
    if ctx.new is None:
        return 0
    if ctx.aborted:
        return aborted_size(ctx, ctx.new, delay_s=strategy.abort_scale_down_delay_s)
    needed = ceil_percent(ctx.spec.replicas, demand.weight_percent) if ctx.routed else 0
    return max(demand.canary_replicas, min(ctx.new.spec_replicas, needed))


def _keeps_stable_service(ctx: PassContext) -> bool:
    """Whether the stable Service stays with the stable revision: until the last step is done, and with `pingPong` after it."""
    return ctx.status.step_index < ctx.spec.strategy.step_count or exchanges_roles(ctx)


def _wanted_stable(ctx: PassContext, strategy: Canary, stable: ReplicaSet, demand: Demand, *, beside: int) -> int:
    """Stable pods that the step asks for: enough for the requests that still reach them and for those that may return.

    Those that are promised stay, too, where `setCanaryScale` asks for few new pods (`beside`).
    """
    routing = strategy.traffic_routing
    assert routing is not None  # noqa: S101 - the caller has checked this; the type checker needs it
    left_percent = ctx.status.weight_percent or 0  # the share that is known to have left the stable revision
    if not routing.routers:
        superseded = False
    else:
        selected = selected_revision(ctx, strategy.canary_service)
        left_percent = 0 if selected == stable.revision else demand.canary_traffic.least_percent
        # Requests to a superseded revision return to the stable revision first (argo-rollouts issue 3372).
        another = selected not in ("", stable.revision, ctx.status.current_revision)
        superseded = (another and demand.canary_traffic.reaches_canary) or ctx.none_available
    share = routed_stable_replicas(
        replicas=ctx.spec.replicas,
        weight_percent=0 if superseded else demand.weight_percent,
        recorded_weight_percent=left_percent,
        dynamic=routing.dynamic_stable_scale,
    )
    return max(share, ctx.promised - beside)


def _for_traffic(ctx: PassContext, strategy: Canary, canary_traffic: EffectiveWeight) -> int:
    """How many existing pods of the new revision are needed for the requests that routes may still send to it."""
    if not ctx.routed or ctx.new is None:
        return 0
    by_stable = selected_revision(ctx, strategy.stable_service) == ctx.status.current_revision
    most_percent = max(canary_traffic.most_percent, 100 - canary_traffic.least_percent if by_stable else 0)
    return min(ctx.new.spec_replicas, ceil_percent(ctx.spec.replicas, most_percent))


def _while_shown(ctx: PassContext, sides: list[_Side], sizes: list[int]) -> list[int]:
    """`sizes`, raised so that a revision that a Service still shows, or that drains, keeps one pod, if two pods may exist."""
    surge, _ = ctx.limits
    if ctx.by_ratio and ctx.spec.replicas + surge <= 1:
        return sizes
    after = []
    for (each, pods), size in zip(sides, sizes, strict=True):
        serves = each is not None and (each.revision in ctx.shown_revisions or draining(ctx, each.revision))
        after.append(max(size, min(1, pods)) if serves else size)
    return after


def most_canary_replicas(ctx: PassContext) -> int:
    """The most pods that the new revision can have while the last stable pod still serves."""
    replicas = ctx.spec.replicas
    if not ctx.by_ratio:
        return replicas
    surge, _ = ctx.limits
    return max(min(replicas, replicas + surge - 1), min(1, replicas))


def wanted_canary(ctx: PassContext, strategy: Canary, weight_percent: WeightPercent, split: Split) -> int:
    """Pods of the new revision that the step asks for beside the stable revision.

    Args:
        split: what the step asks of the routes; any request of theirs needs at least one pod.
    """
    replicas = ctx.spec.replicas
    if replicas == 0:
        return 0
    if strategy.traffic_routing is not None:
        index, min_pods = ctx.status.step_index, strategy.traffic_routing.min_pods_per_replica_set
        # The latest `setCanaryScale` so far, unless that is `matchTrafficWeight`; none after the last step.
        pinned: SetCanaryReplicas | SetCanaryScalePercent | None = None
        for step in strategy.steps[: index + 1] if index < len(strategy.steps) else ():
            if isinstance(step, SetCanaryReplicas | SetCanaryScalePercent):
                pinned = step
            elif isinstance(step, MatchTrafficWeight):
                pinned = None
        wanted = routed_canary_replicas(
            replicas=replicas, weight_percent=weight_percent, min_pods=min_pods, pinned=pinned
        )
        return wanted or int(bool(strategy.routers) and split.reaches_canary)
    surge, _ = ctx.limits
    return target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge).canary


def _size(replica_set: ReplicaSet | None) -> Size:
    return Size(replica_set.spec_replicas, replica_set.staying_available) if replica_set else Size(0, 0)
