"""How many pods each ReplicaSet of a Deployment gets.

Source: k8s.io/kubernetes pkg/controller/deployment/{sync.go,rolling.go} and util/deployment_util.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from rollouts.objects import Manifest
from rollouts.sim.actors.deployments.replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    annotated_number,
    by_age,
    counted,
    replicas,
)
from rollouts.sim.storage.deployment_rules import ROLLING_UPDATE
from rollouts.sim.storage.history import Stored


class RolloutLimits(Struct, frozen=True):
    """The limits of an update, in pods; of a Deployment that recreates its pods `max_surge` and `max_unavailable` are 0."""

    replicas: int
    max_surge: int = 0
    max_unavailable: int = 0
    is_rolling: bool = False

    @property
    def most(self) -> int:
        """As many pods may exist."""
        return self.replicas + self.max_surge


def limits_of(spec: Manifest) -> RolloutLimits:
    """The limits that a Deployment's spec sets; percentages of surge round up, the others down. Both 0 means one unavailable."""
    wanted: int = spec["replicas"]
    if spec["strategy"]["type"] != ROLLING_UPDATE:
        return RolloutLimits(wanted)
    given = spec["strategy"]["rollingUpdate"]
    surge, unavailable = given["maxSurge"], given["maxUnavailable"]
    max_surge = surge if isinstance(surge, int) else math.ceil(wanted * int(surge[:-1]) / 100)
    lacking = unavailable if isinstance(unavailable, int) else wanted * int(unavailable[:-1]) // 100
    if max_surge == 0 == lacking:
        lacking = 1
    return RolloutLimits(wanted, max_surge, min(lacking, wanted), is_rolling=True)


def grown(limits: RolloutLimits, new: int, old: int) -> int:
    """The size of the new ReplicaSet: as large as the limits allow beside `old` pods; it shrinks only if it is too large."""
    if not limits.is_rolling or new > limits.replicas:
        return limits.replicas
    return min(limits.replicas, new + max(0, limits.most - new - old))


def shrunk(limits: RolloutLimits, new: Stored, old: Sequence[Stored]) -> dict[str, int]:
    """The sizes of the old ReplicaSets that lose pods, by name: first those that are not available, of the oldest first."""
    least = limits.replicas - limits.max_unavailable
    oldest_first = sorted(old, key=by_age)
    sizes = {each.metadata["name"]: replicas(each) for each in oldest_first}
    new_unavailable = replicas(new) - counted(new, "availableReplicas")
    spare = sum(sizes.values()) + replicas(new) - least - new_unavailable
    if spare <= 0:
        return {}
    before = dict(sizes)
    for each in oldest_first:
        unhealthy = replicas(each) - counted(each, "availableReplicas")
        if unhealthy < 0 < spare:  # it still counts pods that it is losing: the real controller gives up with an error
            return {name: size for name, size in sizes.items() if size != before[name]}
        gone = min(spare, max(0, unhealthy))
        sizes[each.metadata["name"]] -= gone
        spare -= gone
    surplus = sum(counted(each, "availableReplicas") for each in (*old, new)) - least
    for name, size in sizes.items():
        gone = max(0, min(size, surplus))
        sizes[name] -= gone
        surplus -= gone
    return {name: size for name, size in sizes.items() if size != before[name]}


def proportional(limits: RolloutLimits, active: Sequence[Stored], *, counted_pods: int) -> dict[str, int]:
    """The sizes of the active ReplicaSets, by name, after the Deployment was scaled: in proportion to what they had.

    Together they have exactly as many pods as may exist; what rounding leaves goes to the largest. `counted_pods` stands for the
    size before, where a ReplicaSet does not say it.
    """
    missing = (limits.most if limits.replicas else 0) - sum(map(replicas, active))
    # Of two that are equally large the newer one grows first, and the older one shrinks first.
    largest_first = sorted(sorted(active, key=by_age, reverse=missing > 0), key=replicas, reverse=True)
    sizes, added = {}, 0
    for each in largest_first:
        part, left = _share(limits, each, counted_pods), missing - added
        if left:
            part = min(part, left) if missing > 0 else max(part, left)
        sizes[each.metadata["name"]] = replicas(each) + (part if left else 0)
        added += part if left else 0
    first = largest_first[0].metadata["name"]
    sizes[first] = max(0, sizes[first] + missing - added)
    return sizes


def _share(limits: RolloutLimits, replica_set: Stored, counted_pods: int) -> int:
    size = replicas(replica_set)
    if limits.replicas == 0:
        return -size
    before = annotated_number(replica_set, MAX_REPLICAS) or counted_pods
    return math.floor(size * limits.most / before + 0.5) - size if before else 0


def is_scaled(limits: RolloutLimits, active: Sequence[Stored]) -> bool:
    """Whether the Deployment was scaled since its active ReplicaSets got their sizes."""
    return any(annotated_number(each, DESIRED_REPLICAS) not in (None, limits.replicas) for each in active)


def is_saturated(limits: RolloutLimits, new: Stored | None) -> bool:
    """Whether the new ReplicaSet has all pods of the Deployment, and all of them are available."""
    if new is None:
        return False
    sizes = annotated_number(new, DESIRED_REPLICAS), replicas(new), counted(new, "availableReplicas")
    return set(sizes) == {limits.replicas}
