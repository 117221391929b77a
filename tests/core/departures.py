"""S24 by the world itself: pods stay until the requests that their Service brought to them are over.

Counted from the moment in which EndpointSlices show a revision no more, with arithmetic of its own: what status has recorded, and
what the code under test takes for the lag of proxies, is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.drain import DrainMode, DrainSpec, OnTimeout
from rollouts.core.model.rollout import Canary, Percent
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import ReplicaSet
from tests.core.model import World
from tests.invariants.drains import carries_requests

PROXY_LAG_S = 3.0
"""Of the world's proxies: kube-proxy with iptables, a sync every second, and 2 s for a node that is busy."""

_Place: TypeAlias = tuple[ServiceRef, str]


class _Left(Struct, frozen=True):
    """When slices stopped showing a revision, and the shortest wait that any spec has asked for since."""

    at_s: float
    wait_s: float


class Departures(Struct, frozen=True):
    """The revisions that Services do not bring requests to any more, by Service and revision."""

    left: Mapping[_Place, _Left] = {}

    def after(self, before: World, now: World) -> Departures:
        """What has left once the world has moved."""
        wait_s = _wait_s(now.rollout.spec.drain)
        left = {
            place: _Left(each.at_s, min(each.wait_s, wait_s))
            for place, each in self.left.items()
            if not _brings(now, *place) and now.rollout.uid == before.rollout.uid
        }
        for name, service in before.services.items():
            if name not in now.services or now.services[name].uid != service.uid:  # somebody has deleted it
                continue
            for revision, count in service.ready_by_revision.items():
                if (
                    count
                    and carries_requests(before.rollout.spec.strategy, before.status, name, revision)
                    and not _brings(now, name, revision)
                ):
                    left[name, revision] = _Left(now.now_s, wait_s)
        return Departures(left)

    def broken_by(self, before: World, now: World) -> list[str]:
        """What a pass took away too early."""
        sizes = {each.uid: each.spec_replicas for each in now.replica_sets}
        return [
            f"S24: {each.revision} shrinks to {sizes.get(each.uid, 0)} pods {now.now_s - left.at_s:g} s after the slices of"
            f" {name} stopped showing it, not {left.wait_s:g} s"
            for each in before.replica_sets
            for (name, revision), left in self.left.items()
            if revision == each.revision and sizes.get(each.uid, 0) < _least(before, each)
            and now.now_s < left.at_s + left.wait_s
        ]  # fmt: skip


def _wait_s(drain: DrainSpec) -> float:
    if drain.mode is DrainMode.OFF:
        return 0.0
    wait_s = PROXY_LAG_S + drain.max_request_s
    return min(wait_s, drain.timeout_s) if drain.on_timeout is OnTimeout.CONTINUE else wait_s


def _brings(there: World, name: ServiceRef, revision: str) -> bool:
    """Whether the Service selects the revision, or its slices still show it."""
    service = there.services.get(name)
    return service is not None and (service.revision == revision or service.ready_by_revision.get(revision, 0) > 0)


def _least(there: World, replica_set: ReplicaSet) -> int:
    """How many pods must stay meanwhile.

    All of them; of a canary by the ratio of pods, whose pods serve side by side, one that is ready, and none where only one pod
    may be at a time.
    """
    spec = there.rollout.spec
    if not isinstance(spec.strategy, Canary) or spec.strategy.traffic_routing is not None:
        return replica_set.spec_replicas
    ready = sum(pod.ready and pod.revision == replica_set.revision for pod in there.pods)
    surge = spec.strategy.max_surge
    more = -(-spec.replicas * surge.value // 100) if isinstance(surge, Percent) else surge
    return min(1, ready) if spec.replicas + more > 1 else 0
