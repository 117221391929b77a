"""What actors read off a Pod."""

from __future__ import annotations

from datetime import datetime

from rollouts.objects import Manifest
from rollouts.sim.storage.history import Stored


def is_terminating(pod: Stored) -> bool:
    """Its deletion has begun."""
    return "deletionTimestamp" in pod.metadata


def is_active(pod: Stored) -> bool:
    """It counts as a replica: neither ended nor being deleted."""
    return not is_terminating(pod) and phase(pod) not in ("Succeeded", "Failed")


def phase(pod: Stored) -> str:
    """`status.phase`."""
    return str((pod.manifest.get("status") or {}).get("phase", "Pending"))


def address(pod: Stored) -> str:
    """`status.podIP`, empty when it has none."""
    return str((pod.manifest.get("status") or {}).get("podIP", ""))


def condition(pod: Stored, name: str) -> Manifest:
    """A condition, empty when it is not there."""
    for found in (pod.manifest.get("status") or {}).get("conditions") or ():
        if found["type"] == name:
            return dict(found)
    return {}


def is_ready(pod: Stored) -> bool:
    """Its condition Ready is True."""
    return bool(condition(pod, "Ready").get("status") == "True")


def ready_since_s(pod: Stored) -> float:
    """When it became Ready, seconds since 1970; only of ready pods."""
    return seconds(condition(pod, "Ready")["lastTransitionTime"])


def seconds(text: str) -> float:
    """An API time as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def controller_uid(pod: Stored) -> str | None:
    """The uid of the owner that controls it."""
    for owner in pod.metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None
