"""Whether an autoscaler has settled: it says something about the present load, and scales nothing.

The gate `spec.autoscaling`, the figure `settled` of analyses and `status.autoscaling` say the same by it.
Source: Kubernetes pkg/controller/podautoscaler/horizontal.go, and `limitedReplicas` there for the reasons.
"""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.context.waits import pods_text
from rollouts.core.model.autoscaling import AutoscalerSeen


class Unsettled(Struct, frozen=True):
    """Why an autoscaler has not settled.

    Args:
        until_s: when that is over by itself, in seconds since 1970; None when nobody knows.
    """

    why: str
    until_s: float | None = None


def lacking_word(seen: AutoscalerSeen) -> str:
    """Why what it wants says nothing about the present load, in words that follow its name; "" when it does."""
    active, able = seen.scaling_active, seen.able_to_scale
    if seen.current is None or seen.desired is None or not seen.observed:
        return "has not looked at this Rollout yet"
    if active.status is not True:
        return f"scales by nothing: {_said(active.reason, active.message)}"
    if able.status is False:
        return f"cannot scale: {_said(able.reason, able.message)}"
    return ""


def unsettled(seen: AutoscalerSeen, *, now_s: float, replicas: int | None = None) -> Unsettled | None:
    """Why an autoscaler that has a word scales something; None when it wants no other size, and its last change is not fresh.

    A change counts for the longer of the two stabilization windows, because for so long it may be taken back. A smaller size that
    it may want once its window is over (`ScaleDownStabilized`) does not: that would hold every step after a peak.

    When its maximum is set below the pods that there are, or its minimum above them, it scales at its next look. Status does not
    say whether that has come: an HPA has no generation in Kubernetes 1.36 (pull request 138228 brings one behind a feature gate).

    Args:
        replicas: `spec.replicas` of what it scales; None when that is not known.
    """
    if seen.desired != seen.current or (replicas is not None and seen.desired != replicas):
        pods = seen.current if replicas is None or seen.desired == replicas else replicas
        return Unsettled(f"{pods_text(pods or 0)}, it wants {seen.desired}")
    wanted = seen.desired or 0
    if wanted > seen.max_replicas:
        return Unsettled(f"{pods_text(wanted)}, its maximum is {seen.max_replicas}")
    if wanted < seen.min_replicas:
        return Unsettled(f"{pods_text(wanted)}, its minimum is {seen.min_replicas}")
    if seen.scaling_limited.status and seen.scaling_limited.reason in ("ScaleUpLimit", "ScaleDownLimit"):
        return Unsettled("it scales as fast as its behavior allows")
    if seen.able_to_scale.reason == "ScaleUpStabilized":
        return Unsettled(f"it will add pods when its window of {seen.stabilization_up_s} s is over")
    window_s = max(seen.stabilization_up_s, seen.stabilization_down_s)
    if seen.last_scale_at_s is None or now_s >= seen.last_scale_at_s + window_s:
        return None
    return Unsettled(f"it scaled less than {window_s} s ago, its stabilization window", seen.last_scale_at_s + window_s)


def is_settled(seen: AutoscalerSeen, *, now_s: float, replicas: int | None = None) -> bool:
    """Whether it has a word and scales nothing; the arguments are those of `unsettled`."""
    return not lacking_word(seen) and unsettled(seen, now_s=now_s, replicas=replicas) is None


def headroom_percent(*, pods: int, most: int) -> int:
    """How far `pods` are from the maximum, in whole per cent of the maximum, rounded down; 0 beyond it."""
    return max(0, 100 * (most - pods) // most) if most > 0 else 0


def _said(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message or "it does not say why"
