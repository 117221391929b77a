"""ReplicaSets that nobody controls: which the Rollout takes back, and which it leaves alone and tells of.

Left by `kubectl delete --cascade=orphan`, they are what serves: without them a Rollout that is applied again would make its pods
a second time. Deployments adopt the same way (pkg/controller/controller_ref_manager.go).
"""

from __future__ import annotations

from rollouts.core.model.intents import AdoptReplicaSet
from rollouts.core.model.snapshot import Snapshot


def adoptions(seen: Snapshot) -> tuple[AdoptReplicaSet, ...]:
    """What is adopted before anything else is decided: a view without it shows fewer pods and revisions than there are."""
    if not seen.orphans:
        return ()
    return tuple(
        AdoptReplicaSet(
            name=each.name, uid=each.uid, resource_version=each.resource_version, has_owners=each.has_owners
        )
        for each in seen.orphans
        if not each.problem
    )


def not_adopted(seen: Snapshot) -> str:
    """Which ReplicaSets under the Rollout's name are left alone, why, and what to do; "" for none."""
    if not seen.orphans:
        return ""
    return ". ".join(
        f"ReplicaSet {each.name} has the label rollouts.dev/name of this Rollout and no controller, but {each.problem}: "
        "it is left alone; delete it, or take the label off"
        for each in seen.orphans
        if each.problem
    )
