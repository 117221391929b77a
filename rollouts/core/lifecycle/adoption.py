"""ReplicaSets that nobody controls: which of them the Rollout adopts, and which it leaves alone and reports.

`kubectl delete --cascade=orphan` leaves such ReplicaSets, and their pods go on serving. Without adoption, a Rollout that is
applied again would create all its pods a second time. Deployments adopt the same way
(pkg/controller/controller_ref_manager.go).
"""

from __future__ import annotations

from rollouts.core.model.intents import AdoptReplicaSet
from rollouts.core.model.snapshot import Snapshot


def adoptions(seen: Snapshot) -> tuple[AdoptReplicaSet, ...]:
    """The ReplicaSets to adopt. Nothing else is decided before: a view without them shows fewer pods and revisions than exist."""
    return tuple(
        AdoptReplicaSet(
            name=orphan.name, uid=orphan.uid, resource_version=orphan.resource_version, has_owners=orphan.has_owners
        )
        for orphan in seen.orphans
        if not orphan.problem
    )


def not_adopted(seen: Snapshot) -> str:
    """Message about ReplicaSets under the Rollout's name that are not adopted: why, and what to do; "" when there are none."""
    if not seen.orphans:
        return ""
    return ". ".join(
        f"ReplicaSet {orphan.name} has the label rollouts.dev/name of this Rollout and no controller, but {orphan.problem}: "
        "the Rollout does not adopt it; delete it, or remove the label"
        for orphan in seen.orphans
        if orphan.problem
    )
