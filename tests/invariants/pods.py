"""What no write may take away from pods that serve: S1-S4 and S9 of the project's invariants."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import DeleteReplicaSet, EvictPod, Intent, SwitchService
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Pod, ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import WeightPercent
from tests.invariants.effects import left_by
from tests.invariants.reach import reach
from tests.invariants.violation import (
    Violation,
    available,
    held,
    limits,
    resized,
    shown,
    staying_available,
    staying_without_restart,
)


def traffic_goes_to_ready_pods(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S1: a Service is pointed only at a revision that can carry what the Service brings.

    At least one pod is available (unless there are to be none). For the Service of all users (`activeService`, `stableService`),
    when it is taken from a revision: as many as `replicas` and `maxUnavailable` ask for, or no fewer than where it points now,
    without those that a restart has added there.
    Where a Deployment keeps its pods a Service may select all of them, while they are of one revision.
    `previewService` may be pointed at a revision without pods: looking is what it is for.
    """
    strategy = before.rollout.spec.strategy
    if not isinstance(intent, SwitchService):
        return []
    if isinstance(strategy, BlueGreen) and intent.name == strategy.preview_service:
        return []
    service = before.services.get(intent.name)
    with_pods = {each.revision for each in before.replica_sets if each.spec_replicas or each.replicas}
    selected = service.revision if isinstance(service, ServiceSeen) else ""
    if with_pods <= {intent.revision or selected} and "" in (selected, intent.revision):
        return []  # all pods and those of the only revision that has some are the same
    pods = available(before, intent.revision)
    replicas = before.rollout.spec.replicas
    needed = min(1, replicas)
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
        if service.name in names and isinstance(service, ServiceSeen) and replica_set.revision in shown(service)
    ]


def enough_pods_stay(before: Snapshot, intent: Intent) -> list[Violation]:
    """S3: no write takes available pods away below `replicas` − `maxUnavailable`; no eviction the last one behind a Service.

    Canary: pods of every revision count. Blue-green: those of the revision that the active Service selects (of the stable one
    where it selects none). ReplicaSets remove their unready pods first, so a shrink costs available pods only below that number.
    """
    spec = before.rollout.spec
    _, unavailable = limits(before)
    lowest = spec.replicas - unavailable
    afterwards = left_by(before, intent)
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
    stay = [each for each in _listed(left_by(before, intent)) if each.ready and each.revision == revision]
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
    needed = _needed_of_stable(before, replica_set, status)
    if size >= needed:
        return []
    return [Violation("S4", f"stable revision {replica_set.revision} shrinks to {size}, it is to keep {needed}")]


def _needed_of_stable(before: Snapshot, replica_set: ReplicaSet, status: RolloutStatus) -> int:
    spec, strategy = before.rollout.spec, before.rollout.spec.strategy
    wanted, recorded = status.weight_percent or 0, before.status.weight_percent or 0
    if not isinstance(strategy, Canary):
        return spec.replicas
    if strategy.traffic_routing is None:
        surge, _ = limits(before)
        return min(_fewest_by_ratio(spec.replicas, max(wanted, recorded), surge), staying_available(replica_set))
    if not strategy.traffic_routing.dynamic_stable_scale:
        return spec.replicas
    if strategy.traffic_routing.routers:
        recorded = max(recorded, reach(before).least_percent)
    return math.ceil(spec.replicas * (100 - min(wanted, recorded)) / Fraction(100))


def _fewest_by_ratio(replicas: int, percent: WeightPercent, surge: int) -> int:
    """Pods of the stable revision where the share of canary pods is as near to its weight as that many pods, or one more, can be.

    No side is empty while both are to get requests, unless there is only one pod.
    """
    totals = [replicas, replicas + 1] if surge and replicas else [replicas]
    alone = percent in (0, 100) or (replicas == 1 and not surge)
    fewest = 0 if alone else 1
    pairs = [(total, stable) for total in totals for stable in range(fewest, total - fewest + 1) if total]
    off = {(total, stable): abs(100 - percent - Fraction(100 * stable, total)) for total, stable in pairs}
    return min((stable for (_, stable), each in off.items() if each == min(off.values())), default=0)


def a_pause_holds_the_pods(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S9, pods: while somebody holds the Rollout, the stable revision shrinks only because there are too many pods in all.

    An autoscaler that lowers `replicas` may take what is above `replicas` + `maxSurge`, with traffic routing (and for
    blue-green, where each side has its own number) what is above `replicas`. At 0 it takes all.
    """
    replica_set, size = resized(before, intent)
    if not held(before) or before.rollout.spec.replicas == 0:
        return []
    if replica_set is None or size >= replica_set.spec_replicas:
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
    counted = (replace(each, available=ready[each.revision]) for each in before.replica_sets)
    return replace(before, replica_sets=tuple(counted))
