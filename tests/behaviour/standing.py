"""Which pods stand at this moment, and which of those that do not went so lately that no pass can know it yet."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable

from rollouts.objects import POD, REPLICA_SET
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey

UNSEEN_S = 0.01
"""From the end of a pod to the first pass that can know it: here the ReplicaSet's controller counts it after 3 ms."""


class StandingPods:
    """Pods that have been ready and are not on their way out, by the uid of their ReplicaSet.

    One that fails is no doing of a controller's, so it stands.

    Args:
        by_us: whether what happens at this moment is a controller's own request.
    """

    def __init__(self, cluster: SimulatedCluster, *, by_us: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._by_us = by_us
        self._active: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._standing: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._lost: deque[tuple[float, str]] = deque(maxlen=64)
        cluster.api.history.listen(POD, self._follow)

    def of(self, uid: str) -> int:
        """How many there are now."""
        return len(self._standing[uid])

    def lost_unseen(self, uid: str) -> int:
        """How many somebody else took away so lately that no pass can know it: neither an eviction of ours nor a shrink."""
        since_s = asyncio.get_running_loop().time() - UNSEEN_S
        return sum(at_s >= since_s and lost == uid for at_s, lost in self._lost)

    def _follow(self, change: CommittedWrite) -> None:
        uid, key = pod_facts.controller_uid(change.new) or "", change.new.key
        active, standing = self._active[uid], self._standing[uid]
        if change.event != DELETED and pod_facts.is_active(change.new):
            active.add(key)
            if pod_facts.is_ready(change.new):
                standing.add(key)
            return
        if key in standing and not self._by_us() and len(active) <= self._size(change, uid):
            self._lost.append((asyncio.get_running_loop().time(), uid))
        active.discard(key)
        standing.discard(key)

    def _size(self, change: CommittedWrite, uid: str) -> int:
        """Pods that the ReplicaSet is to have: with no more of them, its controller deletes none."""
        owners = self._cluster.list(REPLICA_SET, change.new.key[0])
        return next((int(each["spec"]["replicas"]) for each in owners if each["metadata"]["uid"] == uid), 0)
