"""What becomes of the size that metrics ask for: stabilization, policies, minimum and maximum. Pure.

Source: k8s.io/kubernetes pkg/controller/podautoscaler/horizontal.go, `normalizeDesiredReplicas` and
`normalizeDesiredReplicasWithBehaviors`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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


class ConditionReason(NamedTuple):
    """Reason and message of a condition."""

    word: str
    message: str


class AutoscalerLook(Struct, frozen=True):
    """What the controller knows when it looks at an autoscaler, besides the pods.

    Args:
        current: size that the target asks for now.
        now_s: seconds since 1970.
    """

    spec: AutoscalerSpec
    flags: AutoscalerFlags
    current: int
    memory: AutoscalerMemory
    now_s: float


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


def limited(look: AutoscalerLook, wanted: int) -> Limited:
    """The size that may be set when metrics ask for `wanted`."""
    behavior, memory, now_s = look.spec.behavior, look.memory, look.now_s
    if behavior is None:
        return _without_behavior(look, wanted)
    up_s, down_s = (rules.stabilization_window_seconds for rules in (behavior.scale_up, behavior.scale_down))
    up_cutoff_s = now_s - (up_s or 0)
    down_cutoff_s = now_s - (int(look.flags.downscale_stabilization_s) if down_s is None else down_s)
    # The size nearest to the current one of those that were recommended within the windows.
    lowest = min((wanted, *(size.count for size in memory.recommendations if size.at_s > up_cutoff_s)))
    highest = max((wanted, *(size.count for size in memory.recommendations if size.at_s > down_cutoff_s)))
    stable = min(max(look.current, lowest), highest)
    bounded, reason = _bounded(look, behavior, stable)
    why = None
    if stable != wanted:
        why = _LOWER_BEFORE if wanted >= look.current else _HIGHER_BEFORE
    kept = _recorded(memory.recommendations, TimedCount(wanted, now_s), min(up_cutoff_s, down_cutoff_s))
    return Limited(bounded, why, reason, replace(memory, recommendations=kept))


def with_change(look: AutoscalerLook, memory: AutoscalerMemory, replicas: int) -> AutoscalerMemory:
    """The memory after the size was set."""
    behavior = look.spec.behavior
    if behavior is None:
        return memory
    change = TimedCount(abs(replicas - look.current), look.now_s)
    if replicas > look.current:
        return replace(memory, added=_recorded(memory.added, change, look.now_s - behavior.scale_up.longest_period_s))
    cutoff_s = look.now_s - behavior.scale_down.longest_period_s
    return replace(memory, removed=_recorded(memory.removed, change, cutoff_s))


def _without_behavior(look: AutoscalerLook, wanted: int) -> Limited:
    spec, memory = look.spec, look.memory
    cutoff_s = look.now_s - look.flags.downscale_stabilization_s
    stable = max((wanted, *(size.count for size in memory.recommendations if size.at_s >= cutoff_s)))
    at_once = max(_LIMIT_FACTOR * look.current, _LEAST_LIMIT)
    most, reason = (at_once, _TOO_FAST_UP) if spec.max_replicas > at_once else (spec.max_replicas, _TOO_MANY)
    bounded = stable
    if stable < spec.min_replicas:
        bounded, reason = spec.min_replicas, _TOO_FEW
    elif stable > most:
        bounded = most
    else:
        reason = WITHIN
    kept = _recorded(memory.recommendations, TimedCount(wanted, look.now_s), cutoff_s)
    why = _HIGHER_BEFORE if stable != wanted else None
    return Limited(bounded, why, reason, replace(memory, recommendations=kept))


def _bounded(look: AutoscalerLook, behavior: Behavior, wanted: int) -> tuple[int, ConditionReason]:
    spec, current = look.spec, look.current
    if wanted > current:
        limit = max(_limit(behavior.scale_up, look, grows=True), current)
        most, reason = (limit, _TOO_FAST_UP) if spec.max_replicas > limit else (spec.max_replicas, _TOO_MANY)
        if wanted > most:
            return most, reason
    elif wanted < current:
        limit = min(_limit(behavior.scale_down, look, grows=False), current)
        least, reason = (limit, _TOO_FAST_DOWN) if spec.min_replicas < limit else (spec.min_replicas, _TOO_FEW)
        if wanted < least:
            return least, reason
    return wanted, WITHIN


def _limit(rules: ScalingRules, look: AutoscalerLook, *, grows: bool) -> int:
    """The size that the policies allow now, each from the size at the beginning of its period."""
    if rules.select_policy == "Disabled":
        return look.current
    sizes = []
    for policy in rules.policies:
        start = look.current - look.memory.growth_since(look.now_s - policy.period_seconds)
        value = policy.value if grows else -policy.value
        if policy.type == "Percent":
            size = start * (1 + value / 100)
            sizes.append(math.ceil(size) if grows else int(size))  # rounded down, a small percentage would add no pod
        else:
            sizes.append(start + value)
    return max(sizes) if grows == (rules.select_policy != "Min") else min(sizes)


def _recorded(kept: tuple[TimedCount, ...], new: TimedCount, cutoff_s: float) -> tuple[TimedCount, ...]:
    """With one more, which takes the place of the last one from before the cut-off."""
    old = [number for number, count in enumerate(kept) if count.at_s < cutoff_s]
    if not old:
        return (*kept, new)
    return (*kept[: old[-1]], new, *kept[old[-1] + 1 :])
