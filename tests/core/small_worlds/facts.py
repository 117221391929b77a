"""What must be true of a world itself, which no decision is asked about: users have pods that answer.

Those about pods are void where pods fail or where `replicas` changes: then less is there for a while, by no doing of ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Snapshot
from tests.core.model import World
from tests.invariants.violation import Violation, limits

Fact: TypeAlias = Callable[[World, Snapshot], list[Violation]]


def enough_pods_are_ready(there: World, view: Snapshot) -> list[Violation]:
    """`replicas` - `maxUnavailable`: in all, or behind the active Service."""
    spec = there.rollout.spec
    _, unavailable = limits(view)
    revisions = {each.revision for each in there.pods}
    if isinstance(spec.strategy, BlueGreen):
        active = there.services[spec.strategy.active_service].revision
        revisions = {active} if active else revisions
    ready = sum(each.ready for each in there.pods if each.revision in revisions)
    if ready >= spec.replicas - unavailable:
        return []
    return [
        Violation("S3", f"{ready} ready pods of {sorted(revisions)}, {spec.replicas} - {unavailable} are to be there")
    ]


def each_share_meets_pods(there: World, view: Snapshot) -> list[Violation]:
    """What a data plane brings to a Service meets enough ready pods: of `replicas`, as many as its share, rounded up."""
    spec = there.rollout.spec
    strategy = spec.strategy
    if not isinstance(strategy, Canary) or not strategy.routers:
        return []
    _, unavailable = limits(view)
    violations = []
    for name, split in there.planes.items():
        for service, share in ((strategy.canary_service, split.share), (strategy.stable_service, 1 - split.share)):
            if not share or service is None:
                continue
            pods = _endpoints(there, service)
            needed = max(1, -(-spec.replicas * share // 1) - unavailable)
            if pods < needed:
                violations.append(
                    Violation("S1", f"{name} brings {share} to {service}, which has {pods} of {needed} pods")
                )
    return violations


def verdicts_are_of_this_update(there: World, view: Snapshot) -> list[Violation]:
    """What status has on record of an analysis is about the current revision. Whatever happens, so it is never void."""
    current = there.status.current_revision
    strange = [each.run for each in there.status.analyses if f"-{current}-" not in each.run]
    return [Violation("S7", f"{strange} are on record in the update to {current}")] if strange else []


def _endpoints(there: World, name: ServiceRef) -> int:
    """Ready pods that a Service leads to: those in its EndpointSlices, once these are watched, that are still there."""
    service = there.services[name]
    ready = Counter(each.revision for each in there.pods if each.ready)
    if not service.watched:
        return ready.total() if not service.revision else ready[service.revision]
    return sum(min(count, ready[revision]) for revision, count in service.ready_by_revision.items())
