"""What no write may take away from pods that serve: S1-S4, S9 and S24 of the project's invariants."""

from __future__ import annotations

from collections import Counter

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.context.pass_context import context_of
from rollouts.core.model.after import after
from rollouts.core.model.drain import DrainMode, OnTimeout
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import DeleteReplicaSet, EvictPod, Intent, SwitchService
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Pod, ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import Cutover, RolloutStatus
from rollouts.core.scale.replicas import routed_stable_replicas, target_pair
from tests.invariants.violation import (
    Violation,
    available,
    held,
    limits,
    resized,
    staying_available,
    staying_without_restart,
)


def traffic_goes_to_ready_pods(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S1: a Service is pointed only at a revision that can carry what the Service brings.

    At least one pod is available (unless there are to be none). For the Service of all users (`activeService`, `stableService`),
    when it is taken from a revision: as many as `replicas` and `maxUnavailable` ask for, or no fewer than where it points now,
    without those that a restart has added there.
    `previewService` may be pointed at a revision without pods: looking is what it is for.
    """
    if not isinstance(intent, SwitchService) or intent.name == _preview_service(before):
        return []
    pods = available(before, intent.revision)
    replicas = before.rollout.spec.replicas
    needed = min(1, replicas)
    service = before.services.get(intent.name)
    users = intent.name == _users_service(before)
    if users and isinstance(service, ServiceSeen) and service.revision:
        _, unavailable = limits(before)
        there = [each for each in before.replica_sets if each.revision == service.revision]
        serving = sum(map(staying_without_restart, there))
        needed = max(needed, min(replicas - unavailable, serving))
    if pods >= needed:
        return []
    message = f"Service {intent.name} goes to {intent.revision}, {pods} of {needed} needed pods available"
    return [Violation("S1", f"{message} (current is {status.current_revision})")]


def no_pods_go_with_their_replica_set(before: Snapshot, intent: Intent) -> list[Violation]:
    """S2: what is deleted has no pods."""
    if not isinstance(intent, DeleteReplicaSet):
        return []
    target = next((each for each in before.replica_sets if each.uid == intent.uid), None)
    if target is not None and (target.spec_replicas or target.replicas):
        return [Violation("S2", f"ReplicaSet {target.name} is deleted with pods")]
    return []


def capacity_leaves_after_traffic(before: Snapshot, intent: Intent) -> list[Violation]:
    """S2: what a Service of the users selects, or still shows in its EndpointSlices, keeps the pods to serve it.

    Blue-green: the active side keeps `replicas`. Canary: a revision behind `stableService` or `canaryService` keeps an available
    pod, unless `replicas` + `maxSurge` is 1, where the old pod must go before the new one may come.
    Sources: argo-rollouts issues 2050 and 2235.
    """
    replica_set, size = resized(before, intent)
    replicas = before.rollout.spec.replicas
    if replica_set is None or size >= replica_set.spec_replicas or replicas == 0:
        return []
    strategy = before.rollout.spec.strategy
    names = {_users_service(before)}
    needed = replicas
    if isinstance(strategy, Canary):
        names.add(strategy.canary_service)
        surge, _ = limits(before)
        needed = 1 if strategy.traffic_routing is not None or replicas + surge > 1 else 0
    if size >= min(needed, staying_available(replica_set)):
        return []
    return [
        Violation("S2", f"{replica_set.revision} shrinks to {size}, Service {service.name} still brings traffic")
        for service in before.services.values()
        if service.name in names and isinstance(service, ServiceSeen) and replica_set.revision in _shown(service)
    ]


def pods_stay_until_drained(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S24: a revision that a Service left keeps its pods until they are drained, or until `timeoutSeconds` ran out on record.

    What was waited is counted from the recorded moment, with the numbers of today's spec.
    """
    replica_set, size = resized(before, intent)
    if replica_set is None or size >= _least_while_drained(before, replica_set, status):
        return []
    return [
        Violation("S24", f"{replica_set.revision} shrinks to {size} before it is drained: {each}")
        for each in before.status.cutovers
        if each.from_revision == replica_set.revision
        and not _is_waited_for(before, each)
        and _still_left(before, each, status)
    ]


def _least_while_drained(before: Snapshot, replica_set: ReplicaSet, status: RolloutStatus) -> int:
    """All pods; of a canary by the ratio of pods the stable revision all, another one a pod that is available.

    None at all without draining, and where `replicas` + `maxSurge` is 1.
    """
    strategy, replicas = before.rollout.spec.strategy, before.rollout.spec.replicas
    if before.rollout.spec.drain.mode is DrainMode.OFF:
        return 0
    if not isinstance(strategy, Canary) or strategy.traffic_routing is not None:
        return replica_set.spec_replicas
    surge, _ = limits(before)
    if replicas == 0 or replicas + surge <= 1 or not staying_available(replica_set):
        return 0
    return replica_set.spec_replicas if replica_set.revision == status.stable_revision else 1


def _is_waited_for(before: Snapshot, cutover: Cutover) -> bool:
    """Whether its drain is over; one that no EndpointSlices have confirmed has not begun."""
    if cutover.confirmed_at_s is None:
        return True
    if cutover.until_s is not None and before.now_s >= cutover.until_s:  # with the spec of that time
        return True
    drain = before.rollout.spec.drain
    needed_s = drain_numbers(drain, before.proxy).drain_s
    if drain.on_timeout is OnTimeout.CONTINUE:
        needed_s = min(needed_s, drain.timeout_s)
    return before.now_s >= cutover.confirmed_at_s + needed_s


def _still_left(before: Snapshot, cutover: Cutover, status: RolloutStatus) -> bool:
    """Whether the Services did not come back to the revision meanwhile."""
    service = before.services.get(cutover.service)
    came_back = isinstance(service, ServiceSeen) and service.revision == cutover.from_revision
    return not came_back and not any(each.to_revision == cutover.from_revision for each in status.cutovers)


def enough_pods_stay(before: Snapshot, intent: Intent) -> list[Violation]:
    """S3: no write takes available pods away below `replicas` − `maxUnavailable`; no eviction the last one behind a Service.

    Canary: pods of every revision count. Blue-green: those of the revision that the active Service selects (of the stable one
    where it selects none). ReplicaSets remove their unready pods first, so a shrink costs available pods only below that number.
    """
    spec = before.rollout.spec
    _, unavailable = limits(before)
    lowest = spec.replicas - unavailable
    afterwards = after(before, intent)
    had, has = _serving(before), _serving(afterwards)
    if isinstance(intent, EvictPod):  # decided on the list of pods, which is newer than what the ReplicaSets report
        if violations := _the_last_behind_a_service(before, intent):
            return violations
        had, has = _serving(_counted_anew(before)), _serving(_counted_anew(afterwards))
    if has >= had or has >= lowest or spec.replicas == 0:
        return []
    return [Violation("S3", f"{had} available pods become {has}, at least {lowest} are to stay: {intent}")]


def _the_last_behind_a_service(before: Snapshot, intent: EvictPod) -> list[Violation]:
    evicted = next((each for each in _listed(before) if each.uid == intent.uid), None)
    surge, _ = limits(before)
    if evicted is None or not evicted.ready or not surge:
        return []
    revision = evicted.revision
    stay = [each for each in _listed(after(before, intent)) if each.ready and each.revision == revision]
    services = [each for each in before.services.values() if isinstance(each, ServiceSeen)]
    if any(each.revision == revision for each in services) and all(each.deleting for each in stay):
        return [Violation("S3", f"the last pod of {revision} behind its Service is evicted: {intent}")]
    return []


def stable_stays_whole(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S4: until the new revision is promoted the stable one keeps the pods for all that it may have to serve.

    Blue-green and `trafficRouting`: `replicas`. `dynamicStableScale`: its share of the traffic as status recorded it before this
    pass, or as it is known to be live: a retry records 0 and leaves the routes as they are while somebody pauses the Rollout.
    Canary by the ratio of pods: the pods that the ratio gives it, as far as they are available (the others make room).
    """
    replica_set, size = resized(before, intent)
    if replica_set is None or size >= replica_set.spec_replicas or replica_set.deleting:
        return []
    if replica_set.revision != status.stable_revision or status.stable_revision == status.current_revision:
        return []
    spec = before.rollout.spec
    strategy = spec.strategy
    needed = spec.replicas
    if isinstance(strategy, Canary):
        weight = status.weight_percent or 0
        recorded = before.status.weight_percent or 0
        surge, _ = limits(before)
        if strategy.traffic_routing is None:
            needed = target_pair(replicas=spec.replicas, weight_percent=max(weight, recorded), surge=surge).stable
            needed = min(needed, staying_available(replica_set))
        else:
            if strategy.traffic_routing.routers:
                recorded = max(recorded, context_of(before, before.status).effective_weight.least_percent)
            needed = routed_stable_replicas(
                replicas=spec.replicas,
                weight_percent=weight,
                recorded_weight_percent=recorded,
                dynamic=strategy.traffic_routing.dynamic_stable_scale,
            )
    if size >= needed:
        return []
    return [Violation("S4", f"stable revision {replica_set.revision} shrinks to {size}, it is to keep {needed}")]


def a_pause_holds_the_pods(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S9, pods: while somebody holds the Rollout, the stable revision shrinks only because there are too many pods in all.

    An autoscaler that lowers `replicas` may take what is above `replicas` + `maxSurge`, with traffic routing (and for
    blue-green, where each side has its own number) what is above `replicas`. At 0 it takes all.
    """
    replica_set, size = resized(before, intent)
    if (
        replica_set is None
        or not held(before)
        or size >= replica_set.spec_replicas
        or before.rollout.spec.replicas == 0
    ):
        return []
    if replica_set.revision != status.stable_revision or status.stable_revision == status.current_revision:
        return []
    strategy, replicas = before.rollout.spec.strategy, before.rollout.spec.replicas
    if isinstance(strategy, Canary) and strategy.traffic_routing is None and not status.abort:
        surge, _ = limits(before)
        total = sum(each.spec_replicas for each in before.replica_sets)
        least = replica_set.spec_replicas - max(0, total - replicas - surge)
    else:
        least = min(replica_set.spec_replicas, replicas)
    if size >= least or status.abort:
        return []
    return [Violation("S9", f"stable revision {replica_set.revision} shrinks to {size} during a pause")]


def _users_service(before: Snapshot) -> ServiceRef | None:
    strategy = before.rollout.spec.strategy
    return strategy.active_service if isinstance(strategy, BlueGreen) else strategy.stable_service


def _preview_service(before: Snapshot) -> str | None:
    strategy = before.rollout.spec.strategy
    return strategy.preview_service if isinstance(strategy, BlueGreen) else None


def _shown(service: ServiceSeen) -> set[str]:
    return {service.revision, *(revision for revision, count in service.ready_by_revision.items() if count)} - {""}


def _serving(before: Snapshot) -> int:
    if not isinstance(before.rollout.spec.strategy, BlueGreen):
        return sum(staying_available(each) for each in before.replica_sets if not each.deleting)
    service = before.services.get(_users_service(before) or "")
    selected = service.revision if isinstance(service, ServiceSeen) else ""
    return available(before, selected or before.status.stable_revision)


def _listed(before: Snapshot) -> tuple[Pod, ...]:
    return before.pods.pods if before.pods is not None else ()


def _counted_anew(before: Snapshot) -> Snapshot:
    ready = Counter(each.revision for each in _listed(before) if each.ready and not each.deleting)
    return replace(
        before, replica_sets=tuple(replace(each, available=ready[each.revision]) for each in before.replica_sets)
    )
