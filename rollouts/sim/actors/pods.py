"""Facts that actors read from a Pod, and from other objects with an owner."""

from __future__ import annotations

from datetime import datetime

from rollouts.objects import Kind, Manifest
from rollouts.sim.storage.history import Stored


def is_terminating(pod: Stored) -> bool:
    """Whether the pod's deletion has begun."""
    return "deletionTimestamp" in pod.metadata


def is_active(pod: Stored) -> bool:
    """Whether the pod counts as a replica: it has neither ended nor is it being deleted."""
    return not is_terminating(pod) and phase(pod) not in ("Succeeded", "Failed")


def phase(pod: Stored) -> str:
    """`status.phase`."""
    return str((pod.manifest.get("status") or {}).get("phase", "Pending"))


def address(pod: Stored) -> str:
    """`status.podIP`; "" when it is not set."""
    return str((pod.manifest.get("status") or {}).get("podIP", ""))


def condition(pod: Stored, name: str) -> Manifest:
    """The condition of this type; {} when it is not set."""
    conditions = (pod.manifest.get("status") or {}).get("conditions") or ()
    return next((dict(condition) for condition in conditions if condition["type"] == name), {})


def is_ready(pod: Stored) -> bool:
    """Whether the pod's condition Ready is True."""
    return bool(condition(pod, "Ready").get("status") == "True")


def ready_since_s(pod: Stored) -> float:
    """When the pod became Ready, in seconds since 1970. The pod must be ready."""
    return seconds(condition(pod, "Ready")["lastTransitionTime"])


def available_in_s(pod: Stored, min_ready_s: float, now_s: float) -> float:
    """Time until a pod has been ready for minReadySeconds, not above 0 when it has been. The pod must be ready."""
    return ready_since_s(pod) + min_ready_s - now_s if min_ready_s else 0.0


def is_available(pod: Stored, min_ready_s: float, now_s: float) -> bool:
    """Whether a pod has been ready for minReadySeconds."""
    return is_ready(pod) and available_in_s(pod, min_ready_s, now_s) <= 0


def seconds(text: str) -> float:
    """An API time as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def owner_reference(kind: Kind, owner: Stored) -> Manifest:
    """The entry of `ownerReferences` by which a controller marks what it makes for an object."""
    return {
        **kind.head,
        "name": owner.metadata["name"],
        "uid": owner.metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_uid(pod: Stored) -> str | None:
    """The uid of the pod's controller; None when it has none."""
    owners = pod.metadata.get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), None)
