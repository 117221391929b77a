"""How long pods stay for requests in flight: S24 of the project's invariants, with the times of docs/drain.md."""

from __future__ import annotations

from rollouts.core.model.drain import DrainMode, DrainSpec, OnTimeout, ProxyFacts, ProxyMode
from rollouts.core.model.intents import Intent
from rollouts.core.model.rollout import Canary, Strategy
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import Cutover, RolloutStatus
from tests.invariants.violation import Violation, limits, resized, staying_available

EARLY_S = 0.001
"""Status tells times in microseconds."""


def pods_stay_until_drained(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S24: a revision that a Service left keeps its pods until they are drained, or until `timeoutSeconds` ran out on record.

    What was waited is counted from the recorded moment; `a_drain_is_recorded_as_it_is` holds what is recorded.
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


def a_drain_is_recorded_as_it_is(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S24: the clock starts when the Service and its slices have left the revision, and runs for as long as its requests may.

    An end that probes found comes no sooner than that of the proxies' lag.
    """
    known = {(each.service, each.from_revision, each.confirmed_at_s): each.until_s for each in seen.status.cutovers}
    found = []
    for each in after.cutovers:
        if each.confirmed_at_s is None or each.until_s is None:
            continue
        place = (each.service, each.from_revision, each.confirmed_at_s)
        if place not in known and _may_bring(seen, each):
            found.append(Violation("S24", f"{each.service} still leads to {each.from_revision}, and its drain begins"))
        drain = seen.rollout.spec.drain
        needed_s = lag_s(seen.proxy) if each.drained and drain.probes else wait_s(drain, seen.proxy)
        if each.until_s != known.get(place) and each.until_s < each.confirmed_at_s + needed_s - EARLY_S:
            waits_s = each.until_s - each.confirmed_at_s
            found.append(Violation("S24", f"the drain of {each.from_revision} takes {waits_s:g} s, not {needed_s:g} s"))
    return found


def wait_s(spec: DrainSpec, facts: ProxyFacts) -> float:
    """From the slices' change until the last request is over, or is given up."""
    if spec.mode is DrainMode.OFF:
        return 0.0
    streams = (each.max_s or 0.0 for each in spec.probes)
    needed_s = lag_s(facts) + max([spec.max_request_s, *streams])
    return min(needed_s, spec.timeout_s) if spec.on_timeout is OnTimeout.CONTINUE else needed_s


def lag_s(facts: ProxyFacts) -> float:
    """From the slices' change until no proxy sends a new request to the pods that left them."""
    kube_proxy = facts.mode in (ProxyMode.IPTABLES, ProxyMode.NFTABLES, ProxyMode.IPVS)
    assumed_s = 3.0 if kube_proxy else 5.0
    if facts.min_sync_period_s is not None:
        assumed_s = facts.min_sync_period_s + 2.0
    sync_s = max(assumed_s, facts.learnt_lag_s or 0.0)
    maybe_ipvs = facts.mode in (ProxyMode.IPVS, ProxyMode.UNKNOWN)
    if maybe_ipvs and (facts.oldest_kernel is None or facts.oldest_kernel < (5, 9)):
        sync_s += 120.0  # a client's port that is used again goes to its old pod
    return max(sync_s, facts.gateway_lag_s or 0.0)


def carries_requests(strategy: Strategy, status: RolloutStatus, service: ServiceRef, revision: str) -> bool:
    """Whether the Service's users may have requests in flight at the revision that nothing but a wait covers.

    Not a preview's Service, nor the canary's while it leads to the stable revision, as between updates. By the ratio of pods
    `preStop` covers what is left of the canary's (docs/drain.md).
    """
    if not isinstance(strategy, Canary):
        return service == strategy.active_service
    of_canary = strategy.traffic_routing is not None and revision != status.stable_revision
    return service == strategy.stable_service or (of_canary and service == strategy.canary_service)


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
    """Whether its drain is over, by the spec of now or of when it was recorded; one that is not confirmed has not begun."""
    if cutover.confirmed_at_s is None:
        return True
    if cutover.until_s is not None and before.now_s >= cutover.until_s:
        return True
    return before.now_s >= cutover.confirmed_at_s + wait_s(before.rollout.spec.drain, before.proxy)


def _may_bring(seen: Snapshot, cutover: Cutover) -> bool:
    """Whether the Service selects the revision, or its slices show it still; one that is not ours may do anything."""
    service, revision = seen.services.get(cutover.service), cutover.from_revision
    if not isinstance(service, ServiceSeen) or service.managed_by != seen.rollout.name:
        return True
    return service.revision == revision or service.ready_by_revision.get(revision, 0) > 0


def _still_left(before: Snapshot, cutover: Cutover, status: RolloutStatus) -> bool:
    """Whether the Services did not come back to the revision meanwhile."""
    service = before.services.get(cutover.service)
    came_back = isinstance(service, ServiceSeen) and service.revision == cutover.from_revision
    return not came_back and not any(each.to_revision == cutover.from_revision for each in status.cutovers)
