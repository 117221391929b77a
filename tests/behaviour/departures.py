"""S24 by the world itself: pods stay until the requests that their Service brought to them are over.

Counted from the moment at which the cluster's EndpointSlices stop showing a revision: what status has recorded is not asked.
"""

from __future__ import annotations

import asyncio

from rollouts.core.model.intents import Intent
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.objects import ENDPOINT_SLICE, ROLLOUT, SERVICE, Key
from rollouts.sim.actors.endpointslices import SERVICE_NAME
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import DELETED, CommittedWrite
from tests.behaviour.truth import Truth
from tests.invariants.drains import carries_requests, lag_s, wait_s
from tests.invariants.violation import Violation, in_their_roles, limits, resized, shown

EARLY_S = 0.01
"""Timers are not exact."""


class Departures:
    """The revisions that the users' Services do not bring requests to any more, and since when.

    Only those count to which the controller has pointed them: where somebody else sends users is his own doing. Who asks for
    other drains, deletes a Service or deletes the Rollout starts it all again.
    """

    def __init__(self, cluster: SimulatedCluster, truth: Truth, key: Key) -> None:
        self._truth = truth
        self._key = key
        self._shown: dict[str, set[str]] = {}
        self._pointed: set[tuple[str, str]] = set()
        self._left: dict[tuple[str, str], float] = {}
        cluster.api.history.listen(ENDPOINT_SLICE, self._follow)
        cluster.api.history.listen(SERVICE, self._follow)
        cluster.api.history.listen(ROLLOUT, self._follow_rollout)

    def broken_by(self, before: Snapshot, intent: Intent) -> list[Violation]:
        """What a write takes away too early."""
        replica_set, size = resized(before, intent)
        if replica_set is None or size >= _least(before, replica_set):
            return []
        drain, now_s = before.rollout.spec.drain, asyncio.get_running_loop().time()
        needed_s = wait_s(drain, before.proxy)
        if drain.probes:
            needed_s = min(needed_s, lag_s(before.proxy))
        return [
            Violation(
                "S24", f"{revision} shrinks to {size} {now_s - at_s:g} s after {service} left it, not {needed_s:g} s"
            )
            for (service, revision), at_s in self._left.items()
            if revision == replica_set.revision and now_s < at_s + needed_s - EARLY_S
        ]

    def _follow(self, change: CommittedWrite) -> None:
        namespace, name = change.new.key
        service = change.new.labels.get(SERVICE_NAME, "") if change.kind == ENDPOINT_SLICE else name
        if namespace != self._key.namespace:
            return
        if change.kind == SERVICE and change.event == DELETED:
            self._shown.pop(service, None)
            self._left = {place: at_s for place, at_s in self._left.items() if place[0] != service}
            self._pointed = {place for place in self._pointed if place[0] != service}
            return
        seen = self._truth.snapshot(self._key)
        if seen is None:
            return
        seen = in_their_roles(seen)
        found = seen.services.get(service)
        now = shown(found) if isinstance(found, ServiceSeen) else set()
        if isinstance(found, ServiceSeen) and found.managed_by == self._key.name:
            self._pointed.add((service, found.revision))
        for revision in now:
            self._left.pop((service, revision), None)
        for revision in self._shown.get(service, set()) - now:
            strategy = seen.rollout.spec.strategy
            if (service, revision) in self._pointed and carries_requests(strategy, seen.status, service, revision):
                self._left[service, revision] = asyncio.get_running_loop().time()
        self._shown[service] = now

    def _follow_rollout(self, change: CommittedWrite) -> None:
        drain = [each.manifest["spec"].get("drain") for each in (change.old, change.new) if each is not None]
        if change.new.key == (self._key.namespace, self._key.name) and (
            change.event == DELETED or drain[0] != drain[-1]
        ):
            self._left.clear()


def _least(before: Snapshot, replica_set: ReplicaSet) -> int:
    """How many pods must stay meanwhile: all; by the ratio of pods, where others serve beside them, one that is available."""
    spec = before.rollout.spec
    if not isinstance(spec.strategy, Canary) or spec.strategy.traffic_routing is not None:
        return replica_set.spec_replicas
    surge, _ = limits(before)
    return min(1, replica_set.available) if spec.replicas + surge > 1 else 0
