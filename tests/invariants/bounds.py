"""How many pods may exist at most: S29 of the project's invariants. The arithmetic is this module's own."""

from __future__ import annotations

from rollouts.core.model.intents import CreateReplicaSet, Intent, PatchReplicaSet
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, RolloutSpec
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import SetCanaryReplicas
from tests.invariants.effects import left_by
from tests.invariants.violation import Violation


def no_more_pods_than_asked_for(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S29: no write makes pods beyond what `replicas`, the surge, a `setCanaryScale` or `previewReplicaCount` ask for.

    At 0 replicas none at all. A canary by the ratio of pods has its bound for all revisions together; else each live revision has
    its own. A restart may add as many as the surge. An old revision never grows; one without a ReplicaSet is not old. A stable
    revision without pods in a Deployment gets its first one before the others leave.
    """
    revision = _grown(before, intent)
    if revision is None:
        return []
    spec = before.rollout.spec
    later = left_by(before, intent)
    size = sum(each.spec_replicas for each in later.replica_sets if each.revision == revision)
    if spec.replicas == 0:
        return [Violation("S29", f"{revision} gets {size} pods, and replicas is 0")]
    live = status.current_revision, status.stable_revision, spec.revision
    if revision not in live and any(each.revision == revision for each in before.replica_sets):
        return [Violation("S29", f"{revision} gets {size} pods, and is an old revision")]
    added = sum(each.restart_surge for each in later.replica_sets if each.revision == revision)
    if added > max_surge(spec):
        return [Violation("S29", f"a restart adds {added} pods to {revision}, {max_surge(spec)} at most are asked for")]
    ordinary = size - added
    if ordinary <= sum(
        each.spec_replicas - each.restart_surge for each in before.replica_sets if each.revision == revision
    ):
        return []  # only a restart adds pods, maybe while the others wait to leave
    if ordinary > (most := most_of_one(spec)):
        return [Violation("S29", f"{revision} gets {ordinary} pods, {most} at most are asked for")]
    if size == 1 and revision == status.stable_revision and any(each.inside for each in before.replica_sets):
        return []
    total = sum(each.spec_replicas - each.restart_surge for each in later.replica_sets if not each.deleting)
    if by_ratio(spec) and not _gives_back(before, status) and total > (most := spec.replicas + max_surge(spec)):
        return [Violation("S29", f"{revision} gets {size} pods, which makes {total}, {most} at most are asked for")]
    return []


def most_pods(spec: RolloutSpec) -> int:
    """The most pods of the current and the stable revision together, once nothing of earlier specs is left, without a restart."""
    if spec.replicas == 0:
        return 0
    return spec.replicas + max_surge(spec) if by_ratio(spec) else spec.replicas + most_of_one(spec)


def most_of_one(spec: RolloutSpec) -> int:
    """The most pods that one revision may have, without a restart."""
    asked = [spec.replicas]
    if isinstance(spec.strategy, BlueGreen):
        asked.append(spec.strategy.preview_replica_count or 0)
    elif spec.strategy.traffic_routing is not None:
        asked += [each.replicas for each in spec.strategy.steps if isinstance(each, SetCanaryReplicas)]
    return max(asked)


def max_surge(spec: RolloutSpec) -> int:
    """Pods above `replicas`; blue-green has a quarter for restarts, rounded up, as docs/concepts.md says."""
    if not isinstance(spec.strategy, Canary):
        return -(-spec.replicas // 4)
    surge = spec.strategy.max_surge
    return -(-spec.replicas * surge.value // 100) if isinstance(surge, Percent) else surge


def by_ratio(spec: RolloutSpec) -> bool:
    """Whether the ratio of pods is the share of traffic."""
    return isinstance(spec.strategy, Canary) and spec.strategy.traffic_routing is None


def _grown(before: Snapshot, intent: Intent) -> str | None:
    if isinstance(intent, CreateReplicaSet):
        return intent.revision if intent.replicas else None
    if isinstance(intent, PatchReplicaSet) and intent.replicas is not None:
        had = {each.uid: each.spec_replicas for each in before.replica_sets}
        return intent.revision if intent.replicas > had.get(intent.uid, 0) else None
    return None


def _gives_back(before: Snapshot, status: RolloutStatus) -> bool:
    """Whether routes of an earlier spec are released: the stable revision is made whole first, and nothing shrinks meanwhile."""
    return bool(status.given_back or before.status.given_back or status.traffic or before.status.traffic)
