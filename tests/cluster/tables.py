"""A table of ReplicaSets, and a clock that a test sets."""

from __future__ import annotations

from rollouts.cluster.store import Store, Table
from rollouts.cluster.structs import Metadata, OwnerReference, ReplicaSetObject
from rollouts.objects import REPLICA_SET

NAME = "rollouts.dev/name"


class HandClock:
    def __init__(self) -> None:
        self.at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.at_s


def replica_set(
    version: int,
    *,
    name: str = "cart",
    uid: str = "u1",
    owner: str = "",
    label: str = "",
    namespace: str = "shop",
    going: bool = False,
) -> ReplicaSetObject:
    return ReplicaSetObject(
        metadata=Metadata(
            name=name,
            namespace=namespace,
            uid=uid,
            resource_version=str(version),
            deletion_timestamp="2026-01-01T00:00:00Z" if going else None,
            labels={NAME: label} if label else None,
            owner_references=(OwnerReference(uid=owner, controller=True),) if owner else None,
        )
    )


def empty(clock: HandClock | None = None, namespaces: tuple[str, ...] = ("",)) -> tuple[Store, Table[ReplicaSetObject]]:
    store = Store(clock=clock or HandClock())
    return store, store.add(
        REPLICA_SET, ReplicaSetObject, labels=(NAME,), by_owner=True, orphans_by=NAME, namespaces=namespaces
    )
