"""What becomes of the size that metrics ask for: stabilization, policies, minimum and maximum. Pure.

Source: k8s.io/kubernetes pkg/controller/podautoscaler/horizontal.go, `normalizeDesiredReplicas` and
`normalizeDesiredReplicasWithBehaviors`.
"""

from __future__ import annotations

import math

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.sim.actors.autoscaling.spec import AutoscalerFlags, AutoscalerSpec, Behavior, ScalingRules

_LEAST_LIMIT, _LIMIT_FACTOR = 4, 2
"""Without a behavior a target grows to so many pods at once, or to so many times its size."""


class TimedCount(Struct, frozen=True):
    """A recommended size, or by how many pods the size was changed, and when, in seconds since 1970."""

    count: int
    at_s: float


class AutoscalerMemory(Struct, frozen=True):
    """What the controller remembers of one autoscaler, until it restarts: sizes that metrics asked for, and scalings in pods."""

    recommendations: tuple[TimedCount, ...] = ()
    added: tuple[TimedCount, ...] = ()
    removed: tuple[TimedCount, ...] = ()

    def growth_since(self, cutoff_s: float) -> int:
        """By how many pods the scalings since then have changed the size."""
        added = sum(change.count for change in self.added if change.at_s > cutoff_s)
        return added - sum(change.count for change in self.removed if change.at_s > cutoff_s)


class ConditionReason(Struct, frozen=True):
    """Reason and message of a condition."""

    word: str
    message: str


class Limited(Struct, frozen=True):
    """A size that may be set.

    Args:
        stabilized: why it is not what metrics ask for now; None when it is.
        limited_by: what bounds it, or WITHIN.
    """

    replicas: int
    stabilized: ConditionReason | None
    limited_by: ConditionReason
    memory: AutoscalerMemory


WITHIN = ConditionReason("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FEW = ConditionReason("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_MANY = ConditionReason("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FAST_UP = ConditionReason(
    "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
)
_TOO_FAST_DOWN = ConditionReason(
    "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"
)
_LOWER_BEFORE = ConditionReason(
    "ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"
)
_HIGHER_BEFORE = ConditionReason(
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)


def limited(
    spec: AutoscalerSpec, flags: AutoscalerFlags, memory: AutoscalerMemory, *, current: int, wanted: int, now_s: float
) -> Limited:
    """The size that may be set when metrics ask for `wanted`."""
    if spec.behavior is None:
        return _without_behavior(spec, flags, memory, current=current, wanted=wanted, now_s=now_s)
    up, down = spec.behavior.up, spec.behavior.down
    up_cutoff_s = now_s - (up.window_s or 0)
    down_cutoff_s = now_s - (int(flags.downscale_stabilization_s) if down.window_s is None else down.window_s)
    # The size nearest to the current one of those that were recommended within the windows.
    lowest = min((wanted, *(size.count for size in memory.recommendations if size.at_s > up_cutoff_s)))
    highest = max((wanted, *(size.count for size in memory.recommendations if size.at_s > down_cutoff_s)))
    stable = min(max(current, lowest), highest)
    recommended = TimedCount(wanted, now_s)
    memory = replace(
        memory, recommendations=_recorded(memory.recommendations, recommended, min(up_cutoff_s, down_cutoff_s))
    )
    bounded, reason = _bounded(spec, spec.behavior, memory, current=current, wanted=stable, now_s=now_s)
    why = None
    if stable != wanted:
        why = _LOWER_BEFORE if wanted >= current else _HIGHER_BEFORE
    return Limited(bounded, why, reason, memory)


def with_change(
    spec: AutoscalerSpec, memory: AutoscalerMemory, *, current: int, replicas: int, now_s: float
) -> AutoscalerMemory:
    """The memory after the size was set."""
    if spec.behavior is None:
        return memory
    change = TimedCount(abs(replicas - current), now_s)
    if replicas > current:
        return replace(memory, added=_recorded(memory.added, change, now_s - spec.behavior.up.longest_period_s))
    return replace(memory, removed=_recorded(memory.removed, change, now_s - spec.behavior.down.longest_period_s))


def _without_behavior(
    spec: AutoscalerSpec, flags: AutoscalerFlags, memory: AutoscalerMemory, *, current: int, wanted: int, now_s: float
) -> Limited:
    cutoff_s = now_s - flags.downscale_stabilization_s
    stable = max((wanted, *(size.count for size in memory.recommendations if size.at_s >= cutoff_s)))
    memory = replace(memory, recommendations=_recorded(memory.recommendations, TimedCount(wanted, now_s), cutoff_s))
    at_once = max(_LIMIT_FACTOR * current, _LEAST_LIMIT)
    most, reason = (at_once, _TOO_FAST_UP) if spec.max_replicas > at_once else (spec.max_replicas, _TOO_MANY)
    bounded = stable
    if stable < spec.min_replicas:
        bounded, reason = spec.min_replicas, _TOO_FEW
    elif stable > most:
        bounded = most
    else:
        reason = WITHIN
    return Limited(bounded, _HIGHER_BEFORE if stable != wanted else None, reason, memory)


def _bounded(
    spec: AutoscalerSpec, behavior: Behavior, memory: AutoscalerMemory, *, current: int, wanted: int, now_s: float
) -> tuple[int, ConditionReason]:
    if wanted > current:
        limit = max(_limit(behavior.up, memory, current=current, now_s=now_s, grows=True), current)
        most, reason = (limit, _TOO_FAST_UP) if spec.max_replicas > limit else (spec.max_replicas, _TOO_MANY)
        if wanted > most:
            return most, reason
    elif wanted < current:
        limit = min(_limit(behavior.down, memory, current=current, now_s=now_s, grows=False), current)
        least, reason = (limit, _TOO_FAST_DOWN) if spec.min_replicas < limit else (spec.min_replicas, _TOO_FEW)
        if wanted < least:
            return least, reason
    return wanted, WITHIN


def _limit(rules: ScalingRules, memory: AutoscalerMemory, *, current: int, now_s: float, grows: bool) -> int:
    """The size that the policies allow now, each from the size at the beginning of its period."""
    if rules.select == "Disabled":
        return current
    sizes = []
    for policy in rules.policies:
        start = current - memory.growth_since(now_s - policy.period_s)
        value = policy.value if grows else -policy.value
        if policy.is_percent:
            size = start * (1 + value / 100)
            sizes.append(math.ceil(size) if grows else int(size))  # rounded down, a small percentage would add no pod
        else:
            sizes.append(start + value)
    return max(sizes) if grows == (rules.select != "Min") else min(sizes)


def _recorded(kept: tuple[TimedCount, ...], new: TimedCount, cutoff_s: float) -> tuple[TimedCount, ...]:
    """With one more, which takes the place of the last one from before the cut-off."""
    old = [number for number, count in enumerate(kept) if count.at_s < cutoff_s]
    if not old:
        return (*kept, new)
    return (*kept[: old[-1]], new, *kept[old[-1] + 1 :])
