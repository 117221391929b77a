"""What stops a Rollout from going on, and which waits the progress deadline does not judge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rollouts.core.model.reasons import Reason

PAUSES = frozenset(
    {
        Reason.TIMED_PAUSE,
        Reason.PROMOTION_NEEDED,
        Reason.PAUSED_BY_USER,
        Reason.AUTO_PROMOTION,
        Reason.DRAIN_TIMED_OUT,
    }
)
"""Waits that the user asked for: the progress deadline does not run."""

NOT_SEEN = {Reason.OBJECT_UNREADABLE, Reason.WATCH_FAILED}
"""Waits for the controller's own sight: they say nothing of the revision."""

NOT_HELD_UP = PAUSES | {Reason.SCALE_DOWN_DELAY, Reason.RETRY_NEEDED, Reason.ROLLED_BACK, Reason.DRAINING} | NOT_SEEN
"""Waits that no progress deadline ends."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What stops the Rollout from going on now.

    Args:
        deadline_s: when it is over; None where the progress deadline holds, or nothing does.
        spec_is_wrong: only another spec can end it, or another object than the one that the spec names.
        problem: what is wrong with the pods that it waits for, as the message says too; "" when that is not known.
    """

    reason: Reason
    message: str
    deadline_s: float | None = None
    spec_is_wrong: bool = False
    problem: str = ""


def pods_text(count: int) -> str:
    """So many pods, for people."""
    return "1 pod" if count == 1 else f"{count} pods"


def pods_wait(revision: str, *, wanted: int, available: int) -> Wait:
    """A wait for pods, with how many are there already."""
    are = "is" if available == 1 else "are"
    message = f"waiting for {pods_text(wanted)} of revision {revision} to be available; {available} {are}"
    return Wait(Reason.PODS_NOT_AVAILABLE, message)


def earliest(times: Iterable[float | None], *, after_s: float = -math.inf) -> float | None:
    """The first of several moments after `after_s`; None when there is none."""
    first: float | None = None
    for each in times:
        if each is not None and each > after_s and (first is None or each < first):
            first = each
    return first
