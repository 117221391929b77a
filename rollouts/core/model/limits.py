"""The limits of a spec in pods: `maxSurge`, `maxUnavailable`, and percentages of pods."""

from __future__ import annotations

from rollouts.core.model.rollout import IntOrPercent, Percent
from rollouts.core.model.steps import WeightPercent


def resolved_surge(limit: IntOrPercent, *, replicas: int) -> int:
    """Pods that may exist above `replicas`; a percentage rounds up, as a Deployment's maxSurge does."""
    return ceil_percent(replicas, limit.value) if isinstance(limit, Percent) else limit


def resolved_unavailable(limit: IntOrPercent, *, replicas: int) -> int:
    """Pods of `replicas` that may be missing, at most all of them; a percentage rounds down, as a Deployment's does."""
    pods = replicas * limit.value // 100 if isinstance(limit, Percent) else limit
    return min(pods, replicas)


def surge_and_unavailable(*, max_surge: IntOrPercent, max_unavailable: IntOrPercent, replicas: int) -> tuple[int, int]:
    """Both limits in pods: (surge, unavailable).

    If both were 0, no pod could ever be replaced, so one may be unavailable then, as with a Deployment; with 0 replicas none.
    """
    surge = resolved_surge(max_surge, replicas=replicas)
    unavailable = resolved_unavailable(max_unavailable, replicas=replicas)
    if surge == 0 and unavailable == 0:
        return 0, min(1, replicas)
    return surge, unavailable


def ceil_percent(pods: int, percent: WeightPercent) -> int:
    """`percent` of `pods`, rounded up."""
    return -(-pods * percent // 100)
