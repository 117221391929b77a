"""Blue-green: the preview grows beside the active revision, passes its gate, takes the active Service, and is promoted.

The old side keeps every pod until the active Service's slices show the new one alone, and then for `scaleDownDelaySeconds`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.plan import Plan
from rollouts.core.context.waits import Wait, earliest, pods_wait
from rollouts.core.drain.cutover import with_cutover
from rollouts.core.lifecycle.update import promoted
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, Notice
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen
from rollouts.core.model.status import RolloutStatus
from rollouts.core.routing.services import NEEDS_A_PERSON, Pointing, lasting, no_worse, point
from rollouts.core.scale.sizing import (
    create_new,
    drained_s,
    in_safe_order,
    kept_size,
    moves_of,
    next_scale_down_s,
    resized,
    with_scale_down,
)

GATE = 0  # the one manual gate of a blue-green update, as `promote: <revision>@0` names it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Services:
    active: Pointing
    preview: Pointing | None

    @property
    def all(self) -> tuple[Pointing, ...]:
        return (self.preview, self.active) if self.preview else (self.active,)


def plan_blue_green(ctx: PassContext, strategy: BlueGreen) -> Plan:
    """One pass of a blue-green update. Any prefix of its intents is safe: grow, then point Services, then shrink."""
    status = _with_gate(ctx, strategy)
    ctx = ctx.after(status)
    switching = _switching(ctx, strategy)
    services = _services(ctx, strategy, switching=switching)
    status = replace(
        status,
        active_revision=services.active.selects or status.active_revision,
        preview_revision=(services.preview.selects if services.preview else "") or status.preview_revision,
        weight_percent=None,
    )
    switched = {
        "service": strategy.active_service,
        "leaving": ctx.status.active_revision,
        "to": services.active.selects,
    }
    status = with_cutover(ctx.after(status), **switched)
    ctx = ctx.after(status)
    wait = _wait(ctx, strategy, services)
    plan = Plan(
        status=status,
        intents=_intents(ctx, strategy, services),
        wait=wait,
        wake_at_s=earliest(
            [_gate_end_s(ctx, strategy), next_scale_down_s(ctx), *(each.wake_at_s for each in services.all)]
        ),
        notices=tuple(notice for each in services.all for notice in each.notices),
    )
    new_serves = services.active.confirmed and services.active.selects == status.current_revision
    unpromoted = status.current_revision != status.stable_revision and ctx.durable and ctx.recorded.gate_passed
    if wait is None and unpromoted and new_serves and not ctx.aborted and not ctx.paused:
        return _promotion(ctx.after(status), strategy)
    return plan


def gate_index(status: RolloutStatus) -> int | None:
    """`GATE` while the preview stands at it; None otherwise."""
    waits = status.gate_started_at_s is not None and not status.gate_passed and status.abort is None
    return GATE if waits else None


def _fast(ctx: PassContext) -> bool:
    """Nothing serves yet, or the revision was active before: there is nothing to preview."""
    return ctx.stable is None or ctx.promoted_full or ctx.status.gate_passed


def _with_gate(ctx: PassContext, strategy: BlueGreen) -> RolloutStatus:
    """The memory of the gate: when the preview came to stand at it, and whether it passed."""
    status = ctx.status
    if ctx.aborted or status.gate_passed or ctx.paused:
        return status
    if _fast(ctx):
        return replace(status, gate_passed=True)
    if not _available(ctx.new, _wanted_new(ctx, strategy)):
        return status
    started_s = status.gate_started_at_s if status.gate_started_at_s is not None else ctx.now_s
    end_s = _gate_end_s(ctx.after(replace(status, gate_started_at_s=started_s)), strategy)
    passed = ctx.promoted_past(GATE) or (end_s is not None and ctx.now_s >= end_s)
    return replace(status, gate_started_at_s=started_s, gate_passed=passed)


def _gate_end_s(ctx: PassContext, strategy: BlueGreen) -> float | None:
    """When the gate opens by itself; None when only a person opens it, or it is not reached, or passed."""
    status = ctx.status
    if status.gate_started_at_s is None or status.gate_passed or ctx.aborted or not strategy.auto_promotion_enabled:
        return None
    return status.gate_started_at_s + strategy.auto_promotion_s


def _wanted_new(ctx: PassContext, strategy: BlueGreen) -> int:
    """Pods of the new revision: the preview's number until its gate is passed, then all."""
    replicas = ctx.spec.replicas
    if ctx.aborted:
        return _wanted_aborted(ctx, strategy)
    if _fast(ctx) or strategy.preview_replica_count is None or _still_active(ctx, strategy):
        return replicas
    return strategy.preview_replica_count


def _still_active(ctx: PassContext, strategy: BlueGreen) -> bool:
    """The active Service selects or shows the new revision though its gate is closed: it was tried again in mid-switch."""
    seen = ctx.seen.services.get(strategy.active_service)
    if ctx.new is None or not isinstance(seen, ServiceSeen):
        return False
    return seen.revision == ctx.new.revision or seen.ready_by_revision.get(ctx.new.revision, 0) > 0


def _wanted_aborted(ctx: PassContext, strategy: BlueGreen) -> int:
    if ctx.new is None or ctx.stable is None:
        return ctx.spec.replicas
    stable_is_whole = lasting(ctx.stable) >= ctx.spec.replicas
    if strategy.abort_scale_down_delay_s == 0 or not stable_is_whole:
        return ctx.new.spec_replicas
    return kept_size(ctx, ctx.new, limit=None)


def _switching(ctx: PassContext, strategy: BlueGreen) -> bool:
    """The active Service goes to the new revision."""
    if ctx.new is None or ctx.aborted:
        return False
    if ctx.stable is None:
        return True
    seen = ctx.seen.services.get(strategy.active_service)
    switched = isinstance(seen, ServiceSeen) and seen.revision == ctx.new.revision
    ready = _available(ctx.new, ctx.spec.replicas) and not ctx.paused
    return ctx.status.gate_passed and (switched or ready)


def _services(ctx: PassContext, strategy: BlueGreen, *, switching: bool) -> _Services:
    replicas = ctx.spec.replicas
    serving = ctx.new if switching else ctx.stable
    at_least = max(min(1, replicas), no_worse(ctx, strategy.active_service, serving, enough=ctx.promised))
    if switching and ctx.stable is not None:
        at_least = replicas
    active = point(ctx, strategy.active_service, serving, at_least=at_least)
    if strategy.preview_service is None:
        return _Services(active=active, preview=None)
    previewed = ctx.stable if ctx.aborted and ctx.stable else ctx.new
    preview = point(ctx, strategy.preview_service, previewed, at_least=0)
    return _Services(active=active, preview=preview)


def _intents(ctx: PassContext, strategy: BlueGreen, services: _Services) -> tuple[Intent, ...]:
    limit = strategy.scale_down_delay_revision_limit
    patches = []
    create: tuple[Intent, ...] = ()
    if ctx.stable is not None:
        patches.append(resized(ctx, ctx.stable, replicas=ctx.spec.replicas))
    if ctx.new is not None:
        patches.append(resized(ctx, ctx.new, replicas=_wanted_new(ctx, strategy)))
    elif not ctx.aborted:
        create = (create_new(ctx, replicas=_wanted_new(ctx, strategy)),)
    patches += [resized(ctx, each, replicas=kept_size(ctx, each, limit=limit)) for each in ctx.older]
    return in_safe_order(ctx, patches, create=create, moves=moves_of(services.all))


def _wait(ctx: PassContext, strategy: BlueGreen, services: _Services) -> Wait | None:
    revision, wanted = ctx.status.current_revision, _wanted_new(ctx, strategy)
    if ctx.new is not None and ctx.new.failure:
        return Wait(Reason.REPLICA_FAILURE, ctx.new.failure)
    held = services.active.wait or (services.preview.wait if services.preview else None)
    if held is not None and held.reason in NEEDS_A_PERSON:
        return held
    if ctx.aborted:
        return services.active.wait
    if not _available(ctx.new, wanted):
        return pods_wait(revision, wanted=wanted, available=lasting(ctx.new) if ctx.new else 0)
    if not ctx.status.gate_passed:
        return _gate_wait(ctx, strategy)
    return held


def _gate_wait(ctx: PassContext, strategy: BlueGreen) -> Wait:
    revision = ctx.status.current_revision
    if strategy.auto_promotion_enabled:
        message = f"revision {revision} takes over {strategy.auto_promotion_s:g} s after its preview became available"
        return Wait(Reason.AUTO_PROMOTION, message, _gate_end_s(ctx, strategy))
    message = f"waiting for promotion of revision {revision}, which is previewed: {ctx.command('promote')}"
    return Wait(Reason.PROMOTION_NEEDED, message)


def _promotion(ctx: PassContext, strategy: BlueGreen) -> Plan:
    """The new revision becomes the stable one; the old keeps its pods for the delay. Written alone."""
    old = ctx.status.stable_revision
    status = promoted(ctx.seen, ctx.status)
    if ctx.stable is not None:
        at_s = drained_s(ctx, old, no_sooner_than_s=ctx.now_s + strategy.scale_down_delay_s)
        status = with_scale_down(status, revision=old, at_s=at_s)
    notice = Notice(
        Reason.ROLLOUT_COMPLETED, f"revision {status.revision_number} ({status.current_revision}) is stable"
    )
    return Plan(status=status, notices=(notice,))


def _available(replica_set: ReplicaSet | None, wanted: int) -> bool:
    return replica_set is not None and not replica_set.deleting and lasting(replica_set) >= wanted
