"""A rule that a decision breaks; and what several rules ask of a Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.core.model.intents import (
    Intent,
    PatchReplicaSet,
)
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.status import WAS_STABLE, RolloutStatus, Verb


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a decision breaks, and how."""

    rule: str
    message: str


def resized(before: Snapshot, intent: Intent) -> tuple[ReplicaSet | None, int]:
    """The ReplicaSet whose size `intent` sets, and that size; (None, 0) when it sets none."""
    if isinstance(intent, PatchReplicaSet) and intent.replicas is not None:
        return next((each for each in before.replica_sets if each.uid == intent.uid), None), intent.replicas
    return None, 0


def limits(before: Snapshot) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods; blue-green has a surge of its own, 1 stands for it."""
    spec = before.rollout.spec
    surge = spec.strategy.max_surge if isinstance(spec.strategy, Canary) else 1
    return surge_and_unavailable(max_surge=surge, max_unavailable=spec.strategy.max_unavailable, replicas=spec.replicas)


def available(before: Snapshot, revision: str) -> int:
    """Available pods of a revision that stay."""
    return sum(staying_available(each) for each in before.replica_sets if each.revision == revision)


def staying_available(replica_set: ReplicaSet) -> int:
    """Available pods of a ReplicaSet that stay: all pods of one that is being deleted are on their way out.

    Told here once more, and not taken from the policy: an oracle that shares a mistake does not find it.
    """
    return 0 if replica_set.deleting else min(replica_set.spec_replicas, replica_set.available)


def staying_without_restart(replica_set: ReplicaSet) -> int:
    """Available pods of a ReplicaSet that stay when a restart is over, which takes the pods away that it has added."""
    return min(staying_available(replica_set), replica_set.spec_replicas - replica_set.restart_surge)


def held(before: Snapshot) -> bool:
    """Somebody pauses the Rollout."""
    return before.rollout.spec.paused or before.rollout.annotations.get(Verb.PAUSE) == "true"


def promoted(before: RolloutStatus, after: RolloutStatus) -> bool:
    """Whether the record makes another revision the stable one."""
    was_stable = any(each.revision == after.stable_revision and each.outcome in WAS_STABLE for each in before.history)
    recovered = not before.stable_revision and was_stable  # what could not be read, taken from the history
    return after.stable_revision != before.stable_revision and bool(before.current_revision) and not recovered


def grows(seen: Snapshot, intent: Intent, *, revision: str) -> bool:
    """Whether the intent gives `revision` more pods."""
    replica_set, size = resized(seen, intent)
    return replica_set is not None and replica_set.revision == revision and size > replica_set.spec_replicas
