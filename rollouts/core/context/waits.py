"""Waits: what stops a Rollout now, and which waits the progress deadline does not judge."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from rollouts.core.model.reasons import Reason

PAUSES = frozenset(
    {
        Reason.TIMED_PAUSE,
        Reason.PROMOTION_NEEDED,
        Reason.PAUSED_BY_USER,
        Reason.AUTO_PROMOTION,
        Reason.DRAIN_TIMED_OUT,
        Reason.ANALYSIS_INCONCLUSIVE,
        Reason.ANALYSIS_NEEDS_PODS,
    }
)
"""Waits that the user asked for: the progress deadline does not run meanwhile."""

NOT_SEEN = {Reason.OBJECT_UNREADABLE, Reason.WATCH_FAILED}
"""Waits because the controller cannot read or watch an object; they say nothing about the revision."""

REFUSED = {Reason.NAME_TAKEN, Reason.API_FORBIDDEN, Reason.API_REFUSED}
"""Waits because a write was refused. The progress deadline goes by the wait that the pass had decided on."""

CONFIG_HOLDS = {
    Reason.CONFIG_NOT_READ,
    Reason.CONFIG_SETTLING,
    Reason.CONFIG_NOT_FOUND,
    Reason.CONFIG_FORBIDDEN,
    Reason.CONFIG_COPY_NOT_USABLE,
    Reason.CONFIG_COPY_MISSING,
}
"""Waits for the content of a source: the running revision has its own, so they say nothing about it."""

WORKLOAD_HOLDS = {
    Reason.WORKLOAD_NOT_READ,
    Reason.WORKLOAD_NOT_FOUND,
    Reason.WORKLOAD_NOT_USABLE,
    Reason.WORKLOAD_OWNED_TWICE,
    Reason.WORKLOAD_FORBIDDEN,
}
"""Waits for the workload that `workloadRef` names: the running revision needs nothing of it, so they say nothing about it."""

AUTOSCALING_HOLDS = {
    Reason.AUTOSCALER_NOT_SETTLED,
    Reason.NO_HEADROOM,
    Reason.CONTAINER_OVER_LIMIT,
    Reason.AUTOSCALING_UNKNOWN,
}
"""Waits of `spec.autoscaling`: the pods are as the step wants them, and the load of the cluster decides how long it lasts."""

AT_AUTOSCALING_GATE = AUTOSCALING_HOLDS | {Reason.AUTOSCALER_NOT_FOUND}
"""All waits of that gate. They count as one wait: what one of them has waited for counts for the next."""

NOT_HELD_UP = (
    PAUSES
    | CONFIG_HOLDS
    | WORKLOAD_HOLDS
    | AUTOSCALING_HOLDS
    | {Reason.INVALID_SPEC}
    | {Reason.SCALE_DOWN_DELAY, Reason.RETRY_NEEDED, Reason.ROLLED_BACK, Reason.DRAINING, Reason.ANALYSIS_RUNNING}
    | NOT_SEEN
    | REFUSED
)
"""Waits that no progress deadline ends."""


class Wait(Struct, frozen=True):
    """What stops the Rollout now.

    Args:
        deadline_s: when the wait is over; None when the progress deadline or nothing limits it.
        spec_is_wrong: only a change of the spec, or of the object that the spec names, can end the wait.
        problem: what is wrong with the awaited pods, which the message says too.
    """

    reason: Reason
    message: str
    deadline_s: float | None = None
    spec_is_wrong: bool = False
    problem: str = ""


def pods_text(count: int) -> str:
    """A number of pods as text, for messages."""
    return "1 pod" if count == 1 else f"{count} pods"


def pods_wait(revision: str, *, wanted: int, available: int) -> Wait:
    """A wait for `wanted` available pods of a revision; the message also says how many are available now."""
    are = "is" if available == 1 else "are"
    message = f"waiting for {pods_text(wanted)} of revision {revision} to be available; {available} {are}"
    return Wait(Reason.PODS_NOT_AVAILABLE, message)


def earliest(times: Iterable[float | None], *, after_s: float = -math.inf) -> float | None:
    """The earliest of several times that is after `after_s`."""
    first: float | None = None
    for time_s in times:
        if time_s is not None and time_s > after_s and (first is None or time_s < first):
            first = time_s
    return first
