"""`status.autoscaling`: what the gate `spec.autoscaling` was last told, for people. No rule decides by it.

The figures change with each look, every 15 s, and a status that changed with them would be written as often. So they are recorded
when they say something else than before, when another part of status is written anyway, and seldom otherwise.
"""

from __future__ import annotations

import math

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.autoscaling import (
    AutoscalerRecord,
    AutoscalingGate,
    AutoscalingRecord,
    AutoscalingSeen,
    UseRecord,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.status import RolloutStatus
from rollouts.core.scale.settling import headroom_percent, is_settled, lacking_word

CHANGE_PERCENT = 5
"""Percentage points of a request. An autoscaler does not scale for a difference of 10 % of its target."""

RENEWED_AFTER_S = 600.0
"""So that the age of the figures tells whether anybody still looks."""


def with_autoscaling(ctx: PassContext, status: RolloutStatus) -> RolloutStatus:
    """The status with what the gate was last told about this update; without it when no update goes through the gate."""
    gate, began_s, seen = ctx.spec.autoscaling, status.started_at_s, ctx.seen.autoscaling
    kept = status.autoscaling
    ended = status.stable_revision in ("", status.current_revision) or ctx.aborted
    if gate is None or ended or began_s is None:
        return status if kept is None else replace(status, autoscaling=None)
    if kept is not None and (kept.at_s < began_s or kept.container != _container(gate)):
        kept = None
    record = kept
    if seen is not None and seen.at_s >= began_s and (kept is None or seen.at_s > kept.at_s):
        now = _record(ctx, gate, seen, kept)
        if kept is None or status != ctx.recorded or _says_more(kept, now):
            record = now
    return status if record == status.autoscaling else replace(status, autoscaling=record)


def _record(
    ctx: PassContext, gate: AutoscalingGate, seen: AutoscalingSeen, before: AutoscalingRecord | None
) -> AutoscalingRecord:
    autoscalers, use = [], []
    settled = {known.name: known.settled_since_s for known in before.autoscalers} if before is not None else {}
    for autoscaler in seen.autoscalers or ():
        name, most, desired = autoscaler.name, autoscaler.max_replicas, autoscaler.desired
        if lacking_word(autoscaler):
            desired = None
        headroom = headroom_percent(pods=max(autoscaler.desired or 0, ctx.spec.replicas), most=most)
        since_s = None
        if is_settled(autoscaler, now_s=seen.at_s, replicas=ctx.spec.replicas):
            known_s = settled.get(name)
            since_s = seen.at_s if known_s is None else known_s
        autoscalers.append(
            AutoscalerRecord(
                name=name,
                owner=autoscaler.owner,
                desired=desired,
                max_replicas=most,
                headroom_percent=headroom if desired is not None else None,
                settled_since_s=since_s,
            )
        )
    for revision, container in sorted((seen.use or {}).items()):
        percent = container.utilization_percent
        use.append(
            UseRecord(
                revision=revision,
                utilization_percent=math.ceil(percent) if percent is not None and 0 <= percent < math.inf else None,
                measured=container.measured,
                pods=container.pods,
                oldest_at_s=container.oldest_at_s,
            )
        )
    return AutoscalingRecord(
        at_s=seen.at_s,
        autoscalers=tuple(autoscalers),
        container=_container(gate),
        resource=gate.container.resource.value if gate.container is not None else "",
        use=tuple(use),
    )


def _says_more(kept: AutoscalingRecord, now: AutoscalingRecord) -> bool:
    """Whether people would read something else in the new figures, or the old ones have become too old."""
    if now.at_s - kept.at_s >= RENEWED_AFTER_S or now.autoscalers != kept.autoscalers or len(now.use) != len(kept.use):
        return True
    for old, new in zip(kept.use, now.use, strict=True):
        was, percent = old.utilization_percent, new.utilization_percent
        if (old.revision, old.measured, old.pods) != (new.revision, new.measured, new.pods):
            return True
        if (was is None) is not (percent is None):
            return True
        if was is not None and percent is not None and abs(percent - was) >= CHANGE_PERCENT:
            return True
    return False


def _container(gate: AutoscalingGate) -> str:
    return gate.container.container if gate.container is not None else ""
