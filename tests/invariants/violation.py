"""A rule that a decision breaks; and what several rules ask of a Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, PatchReplicaSet
from rollouts.core.model.rollout import Canary, IntOrPercent, Percent
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import WAS_STABLE, RolloutStatus, Verb


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    message: str


def resized(before: Snapshot, intent: Intent) -> tuple[ReplicaSet | None, int]:
    """The ReplicaSet whose size `intent` sets, and that size; (None, 0) when it sets none."""
    if isinstance(intent, PatchReplicaSet) and intent.replicas is not None:
        return next((each for each in before.replica_sets if each.uid == intent.uid), None), intent.replicas
    return None, 0


def limits(before: Snapshot) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods; blue-green has a surge of its own, 1 stands for it.

    Where both are 0 one pod may be missing, or none could ever be replaced.
    """
    replicas, strategy = before.rollout.spec.replicas, before.rollout.spec.strategy
    surge = -_rounded_down(strategy.max_surge, -replicas) if isinstance(strategy, Canary) else 1
    unavailable = min(replicas, _rounded_down(strategy.max_unavailable, replicas))
    return surge, unavailable or (min(1, replicas) if not surge else 0)


def _rounded_down(limit: IntOrPercent, replicas: int) -> int:
    return replicas * limit.value // 100 if isinstance(limit, Percent) else limit


def in_their_roles(seen: Snapshot) -> Snapshot:
    """The same, with the Services that take turns (`pingPong`) in the roles that status gives them."""
    spec, strategy = seen.rollout.spec, seen.rollout.spec.strategy
    if not isinstance(strategy, Canary) or not strategy.ping_pong or not seen.status.pong_is_stable:
        return seen
    ping, pong = strategy.stable_service, strategy.canary_service
    turned = replace(strategy, stable_service=pong, canary_service=ping)
    return replace(seen, rollout=replace(seen.rollout, spec=replace(spec, strategy=turned)))


def as_users_count(seen: Snapshot) -> Snapshot:
    """The same, with pods available by the user's own `minReadySeconds`, where an update in place has raised it."""
    wanted_s, pods = seen.rollout.spec.min_ready_s, () if seen.pods is None else seen.pods.pods
    sets = []
    for each in seen.replica_sets:
        if each.min_ready_s == 2_147_483_646:
            own = [pod for pod in pods if pod.revision == each.revision and pod.ready and not pod.deleting]
            old = [pod for pod in own if pod.ready_since_s is not None and seen.now_s - pod.ready_since_s >= wanted_s]
            each = replace(each, available=min(each.ready, len(old)) if wanted_s else each.ready)  # noqa: PLW2901
        sets.append(each)
    return replace(seen, replica_sets=tuple(sets))


def available(before: Snapshot, revision: str) -> int:
    """Available pods of a revision that stay."""
    return sum(staying_available(each) for each in before.replica_sets if each.revision == revision)


def staying_available(replica_set: ReplicaSet) -> int:
    """Available pods of a ReplicaSet that stay: all pods of one that is being deleted are on their way out."""
    return 0 if replica_set.deleting else min(replica_set.spec_replicas, replica_set.available)


def staying_without_restart(replica_set: ReplicaSet) -> int:
    """Available pods of a ReplicaSet that stay when a restart is over, which takes the pods away that it has added."""
    return min(staying_available(replica_set), replica_set.spec_replicas - replica_set.restart_surge)


def held(before: Snapshot) -> bool:
    """Somebody pauses the Rollout."""
    return before.rollout.spec.paused or before.rollout.annotations.get(Verb.PAUSE) == "true"


def abort_is_on_record(seen: Snapshot) -> bool:
    """Whether a crash now would not lose that the update is aborted: told, or an accepted command, or a note of one."""
    status = seen.status
    if status.abort is not None:
        return status.abort.revision == status.current_revision
    if status.current_revision == status.stable_revision:
        return False
    aborts = (each for each in status.commands if each.verb is Verb.ABORT and each.holds and each.value == "true")
    update = (status.current_revision, status.attempt, status.started_at_s)
    notes = (each.abort_note for each in seen.replica_sets if each.revision == status.stable_revision)
    return any(each.revision == status.current_revision for each in aborts) or any(
        (each.revision, each.attempt, each.started_at_s) == update for each in notes if each is not None
    )


def exists(seen: Snapshot, revision: str) -> bool:
    return any(each.revision == revision and not each.deleting for each in seen.replica_sets)


def shown(service: ServiceSeen) -> set[str]:
    """The revisions that a Service selects, or still shows in its EndpointSlices."""
    return {service.revision, *(revision for revision, count in service.ready_by_revision.items() if count)} - {""}


def promoted(before: RolloutStatus, after: RolloutStatus) -> bool:
    """Whether the record makes another revision the stable one."""
    was_stable = any(each.revision == after.stable_revision and each.outcome in WAS_STABLE for each in before.history)
    recovered = not before.stable_revision and was_stable  # what could not be read, taken from the history
    return after.stable_revision != before.stable_revision and bool(before.current_revision) and not recovered


def grows(seen: Snapshot, intent: Intent, *, revision: str) -> bool:
    """Whether the intent gives `revision` more pods."""
    replica_set, size = resized(seen, intent)
    return replica_set is not None and replica_set.revision == revision and size > replica_set.spec_replicas
