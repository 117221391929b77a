"""What no write of ours may break where routes split the traffic: S1, S2, S5, S6, S7, S9 of the project's invariants.

The canary Service gets between the least and the most of what is recorded, confirmed and said by the routes; the stable Service
the rest. Each brings its part to the revision that its selector names.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

from rollouts.core.model.intents import Intent, MakeRoute, ReleaseRoute, SetTraffic, SwitchService
from rollouts.core.model.rollout import Canary
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteName, RouteSeen, Split
from tests.invariants.reach import Reach, reach
from tests.invariants.violation import (
    Violation,
    abort_is_on_record,
    available,
    held,
    limits,
    resized,
    staying_available,
    staying_without_restart,
)

_Write: TypeAlias = SetTraffic | MakeRoute


def broken_by_routing(before: Snapshot, intent: Intent) -> list[Violation]:
    """Every rule about routes that one write breaks."""
    strategy = before.rollout.spec.strategy
    if before.rollout.spec.replicas == 0:
        return []
    now = reach(before)
    if isinstance(intent, ReleaseRoute):
        return _is_given_back_safely(before, intent)
    if not isinstance(strategy, Canary) or not strategy.routers:
        return _nothing_moves_meanwhile(before, intent, now)
    if isinstance(intent, SetTraffic | MakeRoute):
        return [
            *_goes_to_ready_pods(before, intent, strategy, now),
            *_an_abort_only_lowers(before, intent, now),
            *_a_pause_raises_nothing(before, intent, now),
            *_is_a_share(intent),
        ]
    return _capacity_stays(before, intent, strategy, now)


def promoted_when_handed_back(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S7, routes: a revision becomes stable when the stable Service brings it everything, as the same record says, not before.

    With `pingPong`: when the canary Service does, which the same record makes the stable one.
    """
    strategy, before = seen.rollout.spec.strategy, seen.status
    promoted = bool(before.stable_revision) and after.stable_revision != before.stable_revision
    if not promoted or not isinstance(strategy, Canary) or not strategy.routers or not seen.rollout.spec.replicas:
        return []
    exchanged = after.pong_is_stable != before.pong_is_stable
    name, share = (strategy.canary_service, 1) if exchanged else (strategy.stable_service, 0)
    service = seen.services.get(name or "")
    selected = service.revision if isinstance(service, ServiceSeen) else ""
    if selected == after.stable_revision and _all_say(seen, after, Split(Fraction(share))):
        return []
    return [Violation("S7", f"{after.stable_revision} became stable while Service {name} selects {selected}")]


def _all_say(seen: Snapshot, after: RolloutStatus, split: Split) -> bool:
    """Whether every route that the spec names says `split`, and the record tells that the canary was found to get nothing."""
    traffic = after.traffic
    if traffic is None or traffic.verified_by is None or traffic.observed_percent != 0:
        return False
    routes = [each for each in seen.routes.values() if isinstance(each, RouteSeen) and each.named]
    return all(each.split == split for each in routes)


def _goes_to_ready_pods(before: Snapshot, intent: _Write, strategy: Canary, now: Reach) -> list[Violation]:
    """S1: what a write brings to a Service is no more than the pods that it selects can take, and never to none.

    The canary's pods are as many as its step asks for, which the user may have pinned: one at least. The stable Service's: each
    available pod takes its part of `replicas`; `replicas` − `maxUnavailable` take all.
    """
    violations = []
    percent = intent.split.share * 100
    replicas = before.rollout.spec.replicas
    raises = percent > now.most_percent or (intent.split.reaches_canary and not now.reaches_canary)
    if raises and not _pods(before, strategy.canary_service):
        violations.append(Violation("S1", f"{intent.route} brings {percent} % to a canary without pods"))
    stable = _pods(before, strategy.stable_service)
    _, unavailable = limits(before)
    room = 100 if stable >= max(1, replicas - unavailable) else 100 * stable // replicas
    if percent < now.least_percent and 100 - percent > room:
        message = f"{intent.route} leaves {100 - percent} % to {stable} stable pods of {replicas}"
        violations.append(Violation("S1", message))
    return violations


def _capacity_stays(before: Snapshot, intent: Intent, strategy: Canary, now: Reach) -> list[Violation]:
    """S2: a revision keeps the pods for the most that a Service may be bringing it, as far as they are available.

    The pods that a restart has added do not count. The user may have pinned fewer pods than the share would need.
    """
    replica_set, size = resized(before, intent)
    if replica_set is None or size >= replica_set.spec_replicas:
        return []
    shares = ((strategy.canary_service, now.most_percent), (strategy.stable_service, 100 - now.least_percent))
    for name, percent in shares:
        service = before.services.get(name or "")
        if not isinstance(service, ServiceSeen) or service.revision != replica_set.revision:
            continue
        needed = min(_pods_for(before, percent), staying_without_restart(replica_set))
        if size < needed:
            message = f"{replica_set.revision} shrinks to {size}, Service {name} may bring it {percent} %"
            return [Violation("S2", message)]
    return []


def _is_given_back_safely(before: Snapshot, intent: ReleaseRoute) -> list[Violation]:
    """S1, S2: what is given back brings everything to the stable revision, and its proxies are not read, nor asked, any more.

    So its pods are there before, and what the canary may still get is on record before: a crash would forget it.
    """
    stable = before.status.stable_revision
    if not _may_reach_canary(before, intent.route) or not _has_pods_to_wait_for(before, stable):
        return []
    violations = []
    _, unavailable = limits(before)
    needed = max(1, before.rollout.spec.replicas - unavailable)
    if available(before, stable) < needed:
        message = f"{intent.route} is given back to {available(before, stable)} of {needed} pods of {stable}"
        violations.append(Violation("S1", message))
    if all(each.route != intent.route.place for each in before.status.given_back):
        violations.append(Violation("S2", f"{intent.route} is given back, and what it brings is not on record"))
    return violations


def _has_pods_to_wait_for(before: Snapshot, revision: str) -> bool:
    return any(each.revision == revision and each.replicas and not each.deleting for each in before.replica_sets)


def _may_reach_canary(before: Snapshot, name: RouteName) -> bool:
    """By what it says, and by what the routes are known to have said; nothing known is anything."""
    route, traffic = before.routes.get(name), before.status.traffic
    split = route.split if isinstance(route, RouteSeen) else None
    if split is None and traffic is None:
        return True
    said = (traffic.desired_percent, traffic.observed_percent, traffic.desired_routes) if traffic is not None else ()
    return any(said) or (split is not None and split.reaches_canary)


def _nothing_moves_meanwhile(before: Snapshot, intent: Intent, now: Reach) -> list[Violation]:
    """S2 without routers: while a route that is given back may bring requests, the pods and Services that take them stay."""
    left = any(isinstance(each, RouteSeen) and not each.named for each in before.routes.values())
    waited_for = left and _has_pods_to_wait_for(before, before.status.stable_revision)
    if not now.reaches_canary or not (waited_for or before.status.given_back):
        return []
    if isinstance(intent, SwitchService):
        service = before.services.get(intent.name)
        serving = {each.revision for each in before.replica_sets if each.available}
        if isinstance(service, ServiceSeen) and service.revision not in serving:  # nothing can be lost of nothing
            return []
        message = f"Service {intent.name} changes while {before.status.given_back} may bring it requests"
        return [Violation("S2", message)]
    return _selected_pods_stay(before, intent, now)


def _selected_pods_stay(before: Snapshot, intent: Intent, now: Reach) -> list[Violation]:
    replica_set, size = resized(before, intent)
    if replica_set is None or size >= replica_set.spec_replicas:
        return []
    percent: WeightPercent = 100 if replica_set.revision == before.status.stable_revision else now.most_percent
    services = [each for each in before.services.values() if isinstance(each, ServiceSeen)]
    brought = any(each.revision == replica_set.revision for each in services)
    if not brought or size >= min(_pods_for(before, percent), staying_available(replica_set)):
        return []
    message = f"{replica_set.revision} shrinks to {size}, {before.status.given_back} may bring it {percent} %"
    return [Violation("S2", message)]


def _an_abort_only_lowers(before: Snapshot, intent: _Write, now: Reach) -> list[Violation]:
    """S5: after a durable abort no write raises the canary's share, or leaves it a header or mirror route."""
    if not abort_is_on_record(before):
        return []
    if intent.split.matches or intent.split.mirrors or intent.split.share * 100 > now.most_percent:
        return [Violation("S5", f"an aborted canary gets {intent.split}")]
    return []


def _a_pause_raises_nothing(before: Snapshot, intent: _Write, now: Reach) -> list[Violation]:
    """S9: while somebody holds the Rollout no write raises the share of a canary."""
    if held(before) and intent.split.share * 100 > now.most_percent:
        return [Violation("S9", f"{intent.route} gets {intent.split} during a pause")]
    return []


def _is_a_share(intent: _Write) -> list[Violation]:
    """S6: shares are from 0 to 1, and no managed route is there twice."""
    names = [*(each.name for each in intent.split.matches), *(each.name for each in intent.split.mirrors)]
    if 0 <= intent.split.share <= 1 and len(names) == len(set(names)):
        return []
    return [Violation("S6", f"{intent.split} is no split")]


def _pods_for(before: Snapshot, percent: WeightPercent) -> int:
    return math.ceil(before.rollout.spec.replicas * percent / Fraction(100))


def _pods(before: Snapshot, service_name: ServiceRef | None) -> int:
    """Available pods of the revision that a Service selects; of all revisions where it names none."""
    service = before.services.get(service_name or "")
    if not isinstance(service, ServiceSeen):
        return 0
    if not service.revision:
        return sum(map(staying_available, before.replica_sets))
    return available(before, service.revision)
