"""What no write of ours may break, whatever the world looks like: for property tests, the simulator and a production self-check.

Each rule looks at one write, as it was decided: the world that was seen, with the earlier writes of the same pass in it. What the
environment breaks (a node dies, a pod crashes) is no violation; making it worse is. Numbers are those of the project's catalogue
of invariants: S1-S4, S8, S9, S11-S13, S24, L3. `broken_by` checks a whole Decision, every prefix of it included.

The share of traffic ("weight") of a canary by the ratio of pods is its share of the pods. With `trafficRouting: {}` it is what
status records. A Service gives all of its traffic to the revision that its selector names, and to every revision that its
EndpointSlices still show. `previewService` carries no users' traffic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import assert_never

from rollouts.core.drain.numbers import drain_numbers
from rollouts.core.lifecycle.commands import pending_abort, with_noted_abort
from rollouts.core.model.drain import DrainMode, OnTimeout
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    AskDrained,
    AskFeatures,
    AskLive,
    AskPods,
    AskRoute,
    AskService,
    CreateReplicaSet,
    Decision,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
    PatchPod,
    PatchReplicaSet,
    PointService,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
    SetTraffic,
)
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Pod, ServiceSeen, Snapshot
from rollouts.core.model.status import WAS_STABLE, Cutover, Phase, RolloutStatus, Verb
from rollouts.core.model.steps import Pause, PauseUntilPromoted
from rollouts.core.model.traffic import RouteAbsent, RouteSeen
from rollouts.core.routing.ping_pong import in_their_roles
from rollouts.core.safety.anticipation import Violation, anticipated, available, held, lasting, limits, resized
from rollouts.core.safety.routing_invariants import broken_by_routing, promoted_when_handed_back
from rollouts.core.scale.replicas import routed_stable_replicas, target_pair


def broken_by(seen: Snapshot, decision: Decision) -> list[Violation]:
    """Every rule that `decision`, or a part of it that a crash leaves, breaks. Empty for a good one."""
    seen = in_their_roles(seen)
    violations = [
        *steps_go_forward(seen, decision),
        *pauses_last(seen, decision.status),
        *promoted_when_handed_back(seen, decision.status),
        *says_what_it_waits_for(seen, decision),
        *adopts_before_all_else(seen, decision),
        *a_spent_true_goes_first(seen, decision),
    ]
    before = seen
    for intent in decision.intents:
        violations += [
            *traffic_goes_to_ready_pods(before, intent, decision.status),
            *capacity_leaves_after_traffic(before, intent),
            *pods_stay_until_drained(before, intent, decision.status),
            *enough_pods_stay(before, intent),
            *stable_stays_whole(before, intent, decision.status),
            *a_pause_holds_the_pods(before, intent, decision.status),
            *one_replica_set_per_revision(before, intent),
            *only_ours_and_as_seen(before, intent),
            *broken_by_routing(before, intent),
        ]
        before = anticipated(before, intent)
    return violations


def a_spent_true_goes_first(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S13: no status shows something new to act on while a `true` stands: the same annotation again would change nothing.

    It is taken off before, in the same pass, and stays only when status has no record of it yet.
    """
    before, after = seen.status, decision.status
    same = (before.current_revision, before.strategy_hash, before.attempt, before.step_index, before.gate_passed) == (
        *(after.current_revision, after.strategy_hash, after.attempt, after.step_index, after.gate_passed),
    ) and (before.abort is None) == (after.abort is None)
    standing = {verb for verb, value in seen.rollout.annotations.items() if value == "true" and verb != Verb.PAUSE}
    removed = {each.verb for each in decision.intents if isinstance(each, RemoveAnnotation)}
    if same or (standing <= removed and not (removed and decision.status_first)):
        return []
    return [Violation("S13", f"status shows something new beside {sorted(standing - removed)}")]


def says_what_it_waits_for(seen: Snapshot, decision: Decision) -> list[Violation]:
    """L3: a pass after which no other follows by itself says what is waited for; the progress deadline goes by it too."""
    status = decision.status
    goes_on = bool(decision.intents) or status != seen.status
    if goes_on or status.phase is Phase.HEALTHY or status.waiting_for is not None:
        return []
    return [Violation("L3", f"{status.phase} at step {status.step_index}, and nothing says why")]


def adopts_before_all_else(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S12: while pods of ours are controlled by nobody, nothing else is decided: the view lacks what serves."""
    if not any(not each.problem for each in seen.orphans) or seen.rollout.deleting:
        return []
    others = [each for each in decision.intents if not isinstance(each, AdoptReplicaSet)]
    if not others and decision.intents and decision.status == seen.status:
        return []
    return [Violation("S12", f"there are ReplicaSets to adopt, and {others or decision.status} comes first")]


def nothing_more_to_do(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S11: a world that has settled is left alone: no intents, and the status that is there.

    To be called only when nothing moves by itself any more and no moment that the Rollout waits for has come.
    """
    if decision.intents:
        return [Violation("S11", f"a settled world is changed: {decision.intents}")]
    if decision.status != seen.status:
        return [Violation("S11", f"a settled status changes: {seen.status} becomes {decision.status}")]
    return []


def traffic_goes_to_ready_pods(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S1: a Service is pointed only at a revision that can carry what the Service brings.

    At least one pod is available (unless there are to be none). For the Service of all users (`activeService`, `stableService`),
    when it is taken from a revision: as many as `replicas` and `maxUnavailable` ask for, or no fewer than where it points now.
    `previewService` may be pointed at a revision without pods: looking is what it is for.
    """
    if not isinstance(intent, PointService) or intent.name == _preview_service(before):
        return []
    pods = available(before, intent.revision)
    replicas = before.rollout.spec.replicas
    needed = min(1, replicas)
    service = before.services.get(intent.name)
    users = intent.name == _users_service(before)
    if users and isinstance(service, ServiceSeen) and service.revision:
        _, unavailable = limits(before)
        needed = max(needed, min(replicas - unavailable, available(before, service.revision)))
    if pods >= needed:
        return []
    message = f"Service {intent.name} goes to {intent.revision}, {pods} of {needed} needed pods available"
    return [Violation("S1", f"{message} (current is {status.current_revision})")]


def capacity_leaves_after_traffic(before: Snapshot, intent: Intent) -> list[Violation]:
    """S2: what a Service of the users selects, or still shows in its EndpointSlices, keeps the pods to serve it.

    Blue-green: the active side keeps `replicas`. Canary: a revision behind `stableService` or `canaryService` keeps an available
    pod, unless `replicas` + `maxSurge` is 1, where the old pod must go before the new one may come. What is deleted has no pods.
    Sources: argo-rollouts issues 2050 and 2235.
    """
    replica_set, size = resized(before, intent)
    if isinstance(intent, DeleteReplicaSet):
        target = next((each for each in before.replica_sets if each.uid == intent.uid), None)
        if target is not None and (target.spec_replicas or target.replicas):
            return [Violation("S2", f"ReplicaSet {target.name} is deleted with pods")]
        return []
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
    for service in before.services.values():
        users = service.name in names and isinstance(service, ServiceSeen) and replica_set.revision in _shown(service)
        if users and size < min(needed, lasting(replica_set)):
            message = f"{replica_set.revision} shrinks to {size}, Service {service.name} still brings traffic"
            return [Violation("S2", message)]
    return []


def pods_stay_until_drained(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S24: a revision that a Service left keeps its pods until they are drained, or until `timeoutSeconds` ran out on record.

    All of them; of a canary by the ratio of pods the stable revision all, another one a pod that is available, and none where
    `replicas` + `maxSurge` is 1. What was waited is counted from the recorded moment, with the numbers of today's spec.
    """
    replica_set, size = resized(before, intent)
    drain = before.rollout.spec.drain
    if replica_set is None or size >= replica_set.spec_replicas or drain.mode is DrainMode.OFF:
        return []
    strategy, replicas = before.rollout.spec.strategy, before.rollout.spec.replicas
    least = replica_set.spec_replicas
    if isinstance(strategy, Canary) and strategy.traffic_routing is None:
        surge, _ = limits(before)
        if replicas == 0 or replicas + surge <= 1 or not lasting(replica_set):
            return []
        least = least if replica_set.revision == status.stable_revision else 1
    needed_s = drain_numbers(drain, before.proxy).drain_s
    if drain.on_timeout is OnTimeout.CONTINUE:
        needed_s = min(needed_s, drain.timeout_s)
    for each in before.status.cutovers:
        if each.from_revision != replica_set.revision or each.confirmed_at_s is None:
            continue
        over = each.until_s is not None and before.now_s >= each.until_s  # with the spec of that time
        if (
            size < least
            and not over
            and before.now_s < each.confirmed_at_s + needed_s
            and _still_left(before, each, status)
        ):
            return [Violation("S24", f"{replica_set.revision} shrinks to {size} before it is drained: {each}")]
    return []


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
    after = anticipated(before, intent)
    lowest = spec.replicas - unavailable
    had, has = _serving(before), _serving(after)
    if isinstance(intent, EvictPod):  # decided on the list of pods, which is newer than what the ReplicaSets report
        revision = next((each.revision for each in _listed(before) if each.uid == intent.uid), "")
        left = sum(each.ready and each.revision == revision and not each.deleting for each in _listed(after))
        surge, _ = limits(before)
        behind = any(isinstance(each, ServiceSeen) and each.revision == revision for each in before.services.values())
        was_ready = any(each.uid == intent.uid and each.ready for each in _listed(before))
        if behind and surge and was_ready and not left:
            return [Violation("S3", f"the last pod of {revision} behind its Service is evicted: {intent}")]
        had, has = _serving(_counted_anew(before)), _serving(_counted_anew(after))
    if has >= had or has >= lowest or spec.replicas == 0:
        return []
    return [Violation("S3", f"{had} available pods become {has}, at least {lowest} are to stay: {intent}")]


def stable_stays_whole(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """S4: until the new revision is promoted the stable one keeps the pods for all that it may have to serve.

    Blue-green and `trafficRouting`: `replicas`. `dynamicStableScale`: its share of the traffic as status recorded it before this
    pass. Canary by the ratio of pods: the pods that the ratio gives it, as far as they are available (the others make room).
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
            needed = min(needed, lasting(replica_set))
        else:
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
    blue-green, where each side has its own number) what is above `replicas`.
    """
    replica_set, size = resized(before, intent)
    if replica_set is None or not held(before) or size >= replica_set.spec_replicas:
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


def steps_go_forward(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S8: (revision number, step) only grows, one step at a time, except by what is recorded with it.

    A new attempt, an abort, other steps, or a lost status may start over. Promotion follows only when every step was durably
    done, and a promotion, an abort and a retry are written alone: no write of the same pass touches pods or Services, but that
    an abort may let the stable revision grow, which is safe on either side of the record, and that one whose command is on record
    may do anything.
    """
    before, after = seen.status, decision.status
    violations = []
    if after.revision_number < before.revision_number:
        violations.append(Violation("S8", f"revision number {before.revision_number} → {after.revision_number}"))
    same = (before.current_revision, before.strategy_hash, before.attempt, before.abort) == (
        after.current_revision,
        after.strategy_hash,
        after.attempt,
        after.abort,
    )
    if same and before.current_revision:
        jump = after.step_index - before.step_index
        full = any(each.lets_pass(None, before) for each in after.commands)
        if jump < 0 or (jump > 1 and not full):
            violations.append(Violation("S8", f"step {before.step_index} → {after.step_index}"))
    was_stable = any(each.revision == after.stable_revision and each.outcome in WAS_STABLE for each in before.history)
    recovered = not before.stable_revision and was_stable  # what could not be read, taken from the history
    promoted = after.stable_revision != before.stable_revision and bool(before.current_revision) and not recovered
    if promoted and (
        after.stable_revision != before.current_revision or after.current_revision != after.stable_revision
    ):
        violations.append(Violation("S8", f"stable became {after.stable_revision}, not what was rolled out"))
    if promoted and before.stable_revision and not _all_passed(seen):
        violations.append(Violation("S8", f"{after.stable_revision} became stable before its steps were done"))
    retried = after.attempt != before.attempt and after.current_revision == before.current_revision
    aborted = after.abort is not None and before.abort is None
    acts = [each for each in decision.intents if not isinstance(each, RemoveAnnotation)]
    if aborted and pending_abort(with_noted_abort(seen).status) is not None:
        acts = []  # the record of the command is that of the decision
    elif aborted:
        acts = [each for each in acts if not _grows(seen, each, revision=after.stable_revision)]
    if (promoted or retried or aborted) and acts:
        violations.append(Violation("S8", "a one-way decision is not written alone"))
    return violations


def _grows(seen: Snapshot, intent: Intent, *, revision: str) -> bool:
    """Whether the intent gives `revision` more pods."""
    replica_set, size = resized(seen, intent)
    return replica_set is not None and replica_set.revision == revision and size > replica_set.spec_replicas


def pauses_last(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S9, time: a timed pause lasts as long as was asked for, from its durable start, unless the step was promoted.

    While somebody holds the Rollout neither its step nor the weight grows. Blue-green: its gate opens after
    `autoPromotionSeconds`, or for who names it. A wall clock that jumps ahead shortens a pause; nothing here can tell.
    """
    before, strategy = seen.status, seen.rollout.spec.strategy
    if after.current_revision != before.current_revision or after.strategy_hash != before.strategy_hash:
        grows = after.current_revision != after.stable_revision and (after.weight_percent or 0) > 0
        if held(seen) and grows and isinstance(strategy, Canary) and _exists(seen, after.stable_revision):
            return [Violation("S9", "the weight of a new revision grows during a pause")]
        return []
    stable = before.stable_revision and before.stable_revision != before.current_revision
    if not stable or not _exists(seen, before.stable_revision):
        return []
    if held(seen) and isinstance(strategy, Canary) and (after.weight_percent or 0) > (before.weight_percent or 0):
        return [Violation("S9", f"weight {before.weight_percent} → {after.weight_percent} during a pause")]
    if held(seen) and after.step_index > before.step_index:
        return [Violation("S9", f"step {before.step_index} → {after.step_index} during a pause")]
    elapsed_s = seen.now_s - (before.step_started_at_s or seen.now_s)
    promoted = {each.step for each in after.commands if each.lets_pass(each.step, before)}
    free = promoted & {None, before.step_index}
    if isinstance(strategy, Canary) and before.step_index < after.step_index and not free:
        match strategy.steps[before.step_index]:
            case Pause(duration_s) if elapsed_s < duration_s:
                return [Violation("S9", f"a pause of {duration_s} s lasted {elapsed_s} s")]
            case PauseUntilPromoted():
                return [Violation("S9", f"step {before.step_index} was passed though nobody promoted it")]
            case _:
                return []
    if isinstance(strategy, BlueGreen) and after.gate_passed and not before.gate_passed and not free:
        started_s = seen.now_s if before.gate_started_at_s is None else before.gate_started_at_s
        if not strategy.auto_promotion_enabled or seen.now_s - started_s < strategy.auto_promotion_s:
            return [Violation("S9", "the gate opened too early")]
    return []


def one_replica_set_per_revision(before: Snapshot, intent: Intent) -> list[Violation]:
    """S12: a ReplicaSet is made only where its revision has none; its name follows from the revision, so the API agrees."""
    if isinstance(intent, CreateReplicaSet) and any(each.revision == intent.revision for each in before.replica_sets):
        return [Violation("S12", f"a second ReplicaSet of revision {intent.revision}")]
    return []


def only_ours_and_as_seen(before: Snapshot, intent: Intent) -> list[Violation]:
    """S13: writes go to what we own or steer, by uid; what takes something away is bound to the version that was seen."""
    match intent:
        case PatchReplicaSet():
            found = next((each for each in before.replica_sets if each.uid == intent.uid), None)
            shrinks = found is not None and intent.replicas is not None and intent.replicas < found.spec_replicas
            good = found is not None and (not shrinks or intent.resource_version == found.resource_version)
        case AdoptReplicaSet():
            orphan = next((each for each in before.orphans if each.uid == intent.uid), None)
            good = orphan is not None and not orphan.problem
            good = good and orphan is not None and orphan.resource_version == intent.resource_version
        case DeleteReplicaSet():
            found = next((each for each in before.replica_sets if each.uid == intent.uid), None)
            good = found is not None and intent.resource_version == found.resource_version
        case PointService() | ReleaseService():
            service = before.services.get(intent.name)
            good = isinstance(service, ServiceSeen) and (service.uid, service.resource_version) == (
                intent.uid,
                intent.resource_version,
            )
            ours = before.rollout.name
            owners = {"", ours} if isinstance(intent, PointService) else {ours}
            good = good and isinstance(service, ServiceSeen) and service.managed_by in owners
        case SetTraffic() | ReleaseRoute():
            route = before.routes.get(intent.route)
            owners = {"", before.rollout.name} if isinstance(intent, SetTraffic) else {before.rollout.name}
            good = isinstance(route, RouteSeen) and route.managed_by in owners
            good = good and isinstance(route, RouteSeen) and route.uid == intent.uid
            good = good and isinstance(route, RouteSeen) and route.resource_version == intent.resource_version
            here = intent.route.namespace == before.rollout.namespace
            good = good and (here or intent.route in before.status.elsewhere)
        case MakeRoute():
            absent = before.routes.get(intent.route)
            good = isinstance(absent, RouteAbsent) and absent.ours
        case PatchPod() | EvictPod():
            good = before.pods is not None and any(each.uid == intent.uid for each in before.pods.pods)
        case (
            CreateReplicaSet()
            | RemoveAnnotation()
            | AskService()
            | AskPods()
            | AskRoute()
            | AskFeatures()
            | AskLive()
            | AskDrained()
        ):
            good = True
        case _:
            assert_never(intent)
    return [] if good else [Violation("S13", f"not ours, or not as seen: {intent}")]


def _users_service(before: Snapshot) -> ServiceRef | None:
    strategy = before.rollout.spec.strategy
    return strategy.active_service if isinstance(strategy, BlueGreen) else strategy.stable_service


def _preview_service(before: Snapshot) -> str | None:
    strategy = before.rollout.spec.strategy
    return strategy.preview_service if isinstance(strategy, BlueGreen) else None


def _shown(service: ServiceSeen) -> set[str]:
    return {service.revision, *(revision for revision, count in service.ready_by_revision.items() if count)} - {""}


def _exists(before: Snapshot, revision: str) -> bool:
    return any(each.revision == revision and not each.deleting for each in before.replica_sets)


def _serving(before: Snapshot) -> int:
    if not isinstance(before.rollout.spec.strategy, BlueGreen):
        return sum(lasting(each) for each in before.replica_sets if not each.deleting)
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


def _all_passed(seen: Snapshot) -> bool:
    strategy = seen.rollout.spec.strategy
    return seen.status.gate_passed if isinstance(strategy, BlueGreen) else seen.status.step_index >= len(strategy.steps)
