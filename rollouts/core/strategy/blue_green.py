"""Blue-green: the preview grows beside the active revision, passes its gate, takes the active Service, and is promoted.

The old side keeps every pod until the active Service's slices show the new one alone, and then for `scaleDownDelaySeconds`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.core.drain.cutover import with_cutover
from rollouts.core.lifecycle.update import promoted
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, Notice
from rollouts.core.model.plan import Plan, View, Wait, earliest, pods_wait
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


def plan_blue_green(view: View, strategy: BlueGreen) -> Plan:
    """One pass of a blue-green update. Any prefix of its intents is safe: grow, then point Services, then shrink."""
    status = _with_gate(view, strategy)
    view = view.with_status(status)
    switching = _switching(view, strategy)
    services = _services(view, strategy, switching=switching)
    status = replace(
        status,
        active_revision=services.active.selects or status.active_revision,
        preview_revision=(services.preview.selects if services.preview else "") or status.preview_revision,
        weight_percent=None,
    )
    switched = {
        "service": strategy.active_service,
        "leaving": view.status.active_revision,
        "to": services.active.selects,
    }
    status = with_cutover(view.with_status(status), **switched)
    view = view.with_status(status)
    wait = _wait(view, strategy, services)
    plan = Plan(
        status=status,
        intents=_intents(view, strategy, services),
        wait=wait,
        wake_at_s=earliest(
            [_gate_end_s(view, strategy), next_scale_down_s(view), *(each.wake_at_s for each in services.all)]
        ),
        notices=tuple(notice for each in services.all for notice in each.notices),
    )
    new_serves = services.active.confirmed and services.active.selects == status.current_revision
    unpromoted = status.current_revision != status.stable_revision and view.durable and view.seen.status.gate_passed
    if wait is None and unpromoted and new_serves and not view.aborted and not view.paused:
        return _promotion(view.with_status(status), strategy)
    return plan


def gate_index(status: RolloutStatus) -> int | None:
    """`GATE` while the preview stands at it; None otherwise."""
    waits = status.gate_started_at_s is not None and not status.gate_passed and status.abort is None
    return GATE if waits else None


def _fast(view: View) -> bool:
    """Nothing serves yet, or the revision was active before: there is nothing to preview."""
    return view.stable is None or view.promoted_full or view.status.gate_passed


def _with_gate(view: View, strategy: BlueGreen) -> RolloutStatus:
    """The memory of the gate: when the preview came to stand at it, and whether it passed."""
    status = view.status
    if view.aborted or status.gate_passed or view.paused:
        return status
    if _fast(view):
        return replace(status, gate_passed=True)
    if not _available(view.new, _wanted_new(view, strategy)):
        return status
    started_s = status.gate_started_at_s if status.gate_started_at_s is not None else view.now_s
    end_s = _gate_end_s(view.with_status(replace(status, gate_started_at_s=started_s)), strategy)
    passed = view.promoted_past(GATE) or (end_s is not None and view.now_s >= end_s)
    return replace(status, gate_started_at_s=started_s, gate_passed=passed)


def _gate_end_s(view: View, strategy: BlueGreen) -> float | None:
    """When the gate opens by itself; None when only a person opens it, or it is not reached, or passed."""
    status = view.status
    if status.gate_started_at_s is None or status.gate_passed or view.aborted or not strategy.auto_promotion_enabled:
        return None
    return status.gate_started_at_s + strategy.auto_promotion_s


def _wanted_new(view: View, strategy: BlueGreen) -> int:
    """Pods of the new revision: the preview's number until its gate is passed, then all."""
    replicas = view.spec.replicas
    if view.aborted:
        return _wanted_aborted(view, strategy)
    if _fast(view) or strategy.preview_replica_count is None or _still_active(view, strategy):
        return replicas
    return strategy.preview_replica_count


def _still_active(view: View, strategy: BlueGreen) -> bool:
    """The active Service selects or shows the new revision though its gate is closed: it was tried again in mid-switch."""
    seen = view.seen.services.get(strategy.active_service)
    if view.new is None or not isinstance(seen, ServiceSeen):
        return False
    return seen.revision == view.new.revision or seen.ready_by_revision.get(view.new.revision, 0) > 0


def _wanted_aborted(view: View, strategy: BlueGreen) -> int:
    if view.new is None or view.stable is None:
        return view.spec.replicas
    stable_is_whole = lasting(view.stable) >= view.spec.replicas
    if strategy.abort_scale_down_delay_s == 0 or not stable_is_whole:
        return view.new.spec_replicas
    return kept_size(view, view.new, limit=None)


def _switching(view: View, strategy: BlueGreen) -> bool:
    """The active Service goes to the new revision."""
    if view.new is None or view.aborted:
        return False
    if view.stable is None:
        return True
    seen = view.seen.services.get(strategy.active_service)
    switched = isinstance(seen, ServiceSeen) and seen.revision == view.new.revision
    ready = _available(view.new, view.spec.replicas) and not view.paused
    return view.status.gate_passed and (switched or ready)


def _services(view: View, strategy: BlueGreen, *, switching: bool) -> _Services:
    replicas = view.spec.replicas
    serving = view.new if switching else view.stable
    at_least = max(min(1, replicas), no_worse(view, strategy.active_service, serving, enough=view.promised))
    if switching and view.stable is not None:
        at_least = replicas
    active = point(view, strategy.active_service, serving, at_least=at_least)
    if strategy.preview_service is None:
        return _Services(active=active, preview=None)
    previewed = view.stable if view.aborted and view.stable else view.new
    preview = point(view, strategy.preview_service, previewed, at_least=0)
    return _Services(active=active, preview=preview)


def _intents(view: View, strategy: BlueGreen, services: _Services) -> tuple[Intent, ...]:
    limit = strategy.scale_down_delay_revision_limit
    patches = []
    create: tuple[Intent, ...] = ()
    if view.stable is not None:
        patches.append(resized(view, view.stable, replicas=view.spec.replicas))
    if view.new is not None:
        patches.append(resized(view, view.new, replicas=_wanted_new(view, strategy)))
    elif not view.aborted:
        create = (create_new(view, replicas=_wanted_new(view, strategy)),)
    patches += [resized(view, each, replicas=kept_size(view, each, limit=limit)) for each in view.older]
    return in_safe_order(view, patches, create=create, moves=moves_of(services.all))


def _wait(view: View, strategy: BlueGreen, services: _Services) -> Wait | None:
    revision, wanted = view.status.current_revision, _wanted_new(view, strategy)
    if view.new is not None and view.new.failure:
        return Wait(Reason.REPLICA_FAILURE, view.new.failure)
    held = services.active.wait or (services.preview.wait if services.preview else None)
    if held is not None and held.reason in NEEDS_A_PERSON:
        return held
    if view.aborted:
        return services.active.wait
    if not _available(view.new, wanted):
        return pods_wait(revision, wanted=wanted, available=lasting(view.new) if view.new else 0)
    if not view.status.gate_passed:
        return _gate_wait(view, strategy)
    return held


def _gate_wait(view: View, strategy: BlueGreen) -> Wait:
    revision = view.status.current_revision
    if strategy.auto_promotion_enabled:
        message = f"revision {revision} takes over {strategy.auto_promotion_s:g} s after its preview became available"
        return Wait(Reason.AUTO_PROMOTION, message, _gate_end_s(view, strategy))
    message = f"waiting for promotion of revision {revision}, which is previewed: {view.command('promote')}"
    return Wait(Reason.PROMOTION_NEEDED, message)


def _promotion(view: View, strategy: BlueGreen) -> Plan:
    """The new revision becomes the stable one; the old keeps its pods for the delay. Written alone."""
    old = view.status.stable_revision
    status = promoted(view.seen, view.status)
    if view.stable is not None:
        at_s = drained_s(view, old, no_sooner_than_s=view.now_s + strategy.scale_down_delay_s)
        status = with_scale_down(status, revision=old, at_s=at_s)
    notice = Notice(
        Reason.ROLLOUT_COMPLETED, f"revision {status.revision_number} ({status.current_revision}) is stable"
    )
    return Plan(status=status, notices=(notice,))


def _available(replica_set: ReplicaSet | None, wanted: int) -> bool:
    return replica_set is not None and not replica_set.deleting and lasting(replica_set) >= wanted
