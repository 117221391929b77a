"""Which ReplicaSets and pods belong to a Rollout: those of its namespace whose owner reference matches it in every part.

Whoever may write an object may write its owner references. A reference from another namespace does not count, as for the garbage
collector; nor does one with a wrong kind or name. Source:
https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.cluster.store import Table
from rollouts.cluster.structs import Metadata, PodObject, ReplicaSetObject
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.objects import REPLICA_SET, ROLLOUT, Key, Kind


def replica_sets_of(table: Table[ReplicaSetObject], key: Key, uid: str) -> tuple[ReplicaSetObject, ...]:
    """The ReplicaSets that the Rollout of that key and uid controls."""
    return tuple(owned for owned in table.owned_by(key.namespace, uid) if is_controlled_by(owned.metadata, key, uid))


def is_controlled_by(metadata: Metadata, key: Key, uid: str, kind: Kind = ROLLOUT) -> bool:
    """Whether the owner reference of an object in the namespace of `key` matches the Rollout of that key and uid in all parts.

    Args:
        kind: of the owner, where that is no Rollout.
    """
    owners = metadata.owner_references or ()
    return any(is_rollout(owner, kind) and (owner.name, owner.uid) == (key.name, uid) for owner in owners)


def pods_of(pods: Iterable[PodObject], owners: Iterable[ReplicaSetObject]) -> tuple[PodObject, ...]:
    """The pods that one of `owners` controls."""
    uids = {(owner.metadata.namespace, owner.metadata.name): owner.metadata.uid for owner in owners}
    return tuple(
        pod
        for pod in pods
        if any(
            owner.controller
            and (owner.kind, owner.api_version) == (REPLICA_SET.kind, REPLICA_SET.api_version)
            and uids.get((pod.metadata.namespace, owner.name)) == owner.uid
            for owner in pod.metadata.owner_references or ()
        )
    )
