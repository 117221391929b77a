"""The world as the API server has it, in the words of the core: nothing late, nothing filtered."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from rollouts.api.status import status_from_wire
from rollouts.cluster.store import Store
from rollouts.cluster.structs import EndpointSliceObject, ReplicaSetObject, RolloutObject, ServiceObject, decode
from rollouts.controller.inbox import Inbox
from rollouts.controller.observe import Observer, Seen
from rollouts.controller.proxies import ClusterFacts
from rollouts.controller.steered import SteeredServices
from rollouts.controller.triggers import SERVICE_NAME
from rollouts.core.drain import ProxyFacts, ProxyMode
from rollouts.core.intents import (
    CreateReplicaSet,
    DeleteReplicaSet,
    Intent,
    PatchReplicaSet,
    PointService,
    ReleaseService,
    RemoveAnnotation,
)
from rollouts.core.rollout import PodMetadata, Rollout
from rollouts.core.snapshot import Snapshot
from rollouts.core.status import RolloutStatus, Verb
from rollouts.manifests.ownership import REVISION, REVISION_NUMBER
from rollouts.objects import ENDPOINT_SLICE, REPLICA_SET, ROLLOUT, SERVICE, Key, Kind
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.history import DELETED, Change, Stored

STRUCTS: tuple[tuple[Kind, Any], ...] = (
    (ROLLOUT, RolloutObject),
    (REPLICA_SET, ReplicaSetObject),
    (SERVICE, ServiceObject),
    (ENDPOINT_SLICE, EndpointSliceObject),
)


class StatusWrite:
    """A write of the Rollout's status, which is no intent."""


FACTS = ClusterFacts(proxy=ProxyFacts(mode=ProxyMode.IPTABLES, known_by="the simulated cluster", min_sync_period_s=1.0))

Meaning: TypeAlias = Intent | StatusWrite


class Truth:
    """Follows the history of a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._store = Store(clock=cluster.clock)
        for kind, struct in STRUCTS:
            labels = (SERVICE_NAME,) if kind == ENDPOINT_SLICE else ()
            self._store.add(kind, struct, by_owner=kind == REPLICA_SET, labels=labels)
        self._steered = SteeredServices()
        self._observer = Observer(
            store=self._store,
            inbox=Inbox(clock=cluster.clock),
            steered=self._steered,
            clock=cluster.clock,
            facts=lambda: FACTS,
        )
        self.deleted_at_s = -float("inf")
        """Loop time of the last deletion of a Rollout."""
        self._earlier: deque[tuple[float, Rollout]] = deque(maxlen=8)
        for kind, _ in STRUCTS:
            cluster.api.history.listen(kind, self._follow)

    def snapshot(self, key: Key) -> Snapshot | None:
        """What a controller that sees everything at once would see; None when there is no Rollout that can be carried out."""
        observed = self._observer.observe(key)
        return observed.snapshot if isinstance(observed, Seen) else None

    def snapshots(self, key: Key, *, grace_s: float) -> list[Snapshot]:
        """The same, now and with each spec that somebody has replaced in the last `grace_s` seconds.

        A pass that was under way then cannot have known better: no write can be bound to two objects.
        """
        now = self.snapshot(key)
        if now is None:
            return []
        since_s = asyncio.get_running_loop().time() - grace_s
        return [now, *(replace(now, rollout=each) for at_s, each in self._earlier if at_s >= since_s)]

    def status(self, key: Key) -> RolloutStatus:
        """The Rollout's status, also of one whose spec cannot be read."""
        manifest = self._cluster.get(ROLLOUT, key.namespace, key.name) or {}
        return status_from_wire(manifest.get("status") or {})

    def meaning(self, request: Request) -> Meaning | None:
        """The intent that a write carries out, told from its bytes; None for one that no pass of ours makes."""
        target = self._cluster.api.target(request.path)
        if target is None:
            return None
        kind, name, body = target.resource.kind, target.name or "", msgspec.json.decode(request.body or b"null")
        match kind.plural, request.method, target.part:
            case "rollouts", "PATCH", "status":
                return StatusWrite()
            case "rollouts", "PATCH", "":
                (removed,) = (each for each in body if each["op"] == "remove")
                return RemoveAnnotation(verb=Verb(removed["path"].rpartition("~1")[2]), value="")
            case "replicasets", "POST", "":
                return _creation(body)
            case "replicasets", "PATCH", "":
                return self._resizing(target.home, name, body)
            case "replicasets", "DELETE", "":
                seen = body.get("preconditions") or {}
                return DeleteReplicaSet(name=name, uid=seen["uid"], resource_version=seen["resourceVersion"])
            case "services", "PATCH", "":
                return _pointing(name, body)
            case _:
                return None

    def _resizing(self, namespace: str, name: str, body: Any) -> PatchReplicaSet:
        stored = self._cluster.api.history.get(REPLICA_SET, namespace, name)
        return PatchReplicaSet(
            name=name,
            uid=body["metadata"]["uid"],
            revision=stored.labels.get(REVISION, "") if stored else "",
            resource_version=body["metadata"].get("resourceVersion", ""),
            replicas=(body.get("spec") or {}).get("replicas"),
        )

    def _follow(self, change: Change) -> None:
        if change.kind == ROLLOUT and change.old is not None:
            self._remember(change.old, change.new)
        table = self._store.table(change.kind)
        seen = decode(change.kind, change.new.raw())
        difference = table.remove("", seen) if change.event == DELETED else table.put("", seen)
        if change.kind == ROLLOUT and change.event == DELETED:
            self.deleted_at_s = asyncio.get_running_loop().time()
        if change.kind == SERVICE and difference is not None:
            self._steered.learn(difference.before, difference.after)

    def _remember(self, old: Stored, new: Stored) -> None:
        before = self.snapshot(Key(*old.key)) if old.metadata["generation"] != new.metadata["generation"] else None
        if before is not None:
            self._earlier.append((asyncio.get_running_loop().time(), before.rollout))


def _creation(body: Any) -> CreateReplicaSet:
    metadata = body["metadata"]
    return CreateReplicaSet(
        revision=metadata["labels"][REVISION],
        number=int(metadata["annotations"][REVISION_NUMBER]),
        replicas=body["spec"]["replicas"],
        pod_metadata=PodMetadata(),
    )


def _pointing(name: str, body: Any) -> PointService | ReleaseService:
    uid, version = body["metadata"]["uid"], body["metadata"]["resourceVersion"]
    revision = body["spec"]["selector"][REVISION]
    if revision is None:
        return ReleaseService(name=name, uid=uid, resource_version=version)
    return PointService(name=name, uid=uid, resource_version=version, revision=revision)
