"""Which ReplicaSets and pods are a Rollout's: those of its namespace whose owner reference says all of what it is.

An owner reference is text that anybody may write who may write the object. One from another namespace counts for nothing, as for
the garbage collector; one that lies about the kind or the name is none of ours. Source:
https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.cluster.store import Table
from rollouts.cluster.structs import Metadata, PodObject, ReplicaSetObject
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.objects import REPLICA_SET, Key


def replica_sets_of(table: Table[ReplicaSetObject], key: Key, uid: str) -> tuple[ReplicaSetObject, ...]:
    """The ReplicaSets that the Rollout of that key and uid controls."""
    return tuple(each for each in table.owned_by(key.namespace, uid) if is_controlled_by(each.metadata, key, uid))


def is_controlled_by(metadata: Metadata, key: Key, uid: str) -> bool:
    """Whether an object in the namespace of `key` says in full that the Rollout of that key and uid controls it."""
    owners = metadata.owner_references or ()
    return any(is_rollout(each) and (each.name, each.uid) == (key.name, uid) for each in owners)


def pods_of(pods: Iterable[PodObject], owners: Iterable[ReplicaSetObject]) -> tuple[PodObject, ...]:
    """The pods that one of `owners` controls."""
    uids = {(each.metadata.namespace, each.metadata.name): each.metadata.uid for each in owners}
    return tuple(each for each in pods if _is_controlled(each, uids))


def _is_controlled(pod: PodObject, uids: dict[tuple[str, str], str]) -> bool:
    return any(
        owner.controller
        and (owner.kind, owner.api_version) == (REPLICA_SET.kind, REPLICA_SET.api_version)
        and uids.get((pod.metadata.namespace, owner.name)) == owner.uid
        for owner in pod.metadata.owner_references or ()
    )
