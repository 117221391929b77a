"""The verdict on an object that an administrator declares for the whole cluster, and how its status says it."""

from __future__ import annotations

from msgspec import Struct

from rollouts.api.times import format_time
from rollouts.core.model.reasons import Reason
from rollouts.errors import SpecInvalid
from rollouts.objects import Manifest

MESSAGE_MAX = 8_000  # characters: a status must not contain whole objects
REFUSED_AGAIN_S = 300.0  # what makes the API server refuse something changes without an event that we see
UNAVAILABLE_AGAIN_S = 15.0


class Judged(Struct, frozen=True):
    """The verdict on a declaration.

    Args:
        ready: whether it may be used.
        reason: one of `core/model/reasons.py`, or one that an earlier version wrote.
        again_in_s: when to try again; None to wait for a change.
    """

    ready: bool
    reason: str
    message: str
    again_in_s: float | None = None


def invalid(exc: SpecInvalid) -> Judged:
    """The verdict on a declaration that is wrong in itself."""
    return Judged(False, Reason.INVALID_SPEC, "; ".join(map(str, exc.problems))[:MESSAGE_MAX])


def status_of(judged: Judged, *, generation: int, before: Manifest, now_s: float) -> Manifest:
    """`.status` for a verdict, with conditions in kstatus form; equal to `before` when nothing differs."""
    old = before.get("conditions") or ()
    old_by_type = {condition.get("type"): condition for condition in old if isinstance(condition, dict)}
    conditions = []
    for kind, holds in (("Ready", judged.ready), ("Stalled", not judged.ready)):
        was = old_by_type.get(kind, {})
        word = "True" if holds else "False"
        since = was.get("lastTransitionTime") if was.get("status") == word else None
        conditions.append(
            {
                "type": kind,
                "status": word,
                "reason": str(judged.reason),
                "message": judged.message,
                "lastTransitionTime": since or format_time(float(int(now_s))),
                "observedGeneration": generation,
            }
        )
    return {"observedGeneration": generation, "conditions": conditions}


def judged_before(status: Manifest, *, generation: int) -> Judged | None:
    """The verdict of an earlier or another controller on that generation, if it was Ready; else None."""
    ready = _ready(status, generation)
    if ready.get("status") != "True":
        return None
    return Judged(True, str(ready.get("reason", "")), str(ready.get("message", "")))


def is_judged(status: Manifest, *, generation: int) -> bool:
    """Whether the status has a verdict on that generation."""
    return _ready(status, generation).get("status") in ("True", "False")


def _ready(status: Manifest, generation: int) -> Manifest:
    """The Ready condition for that generation; empty when there is none."""
    wanted = ("Ready", generation)
    for condition in status.get("conditions") or ():
        if isinstance(condition, dict) and (condition.get("type"), condition.get("observedGeneration")) == wanted:
            return condition
    return {}
