"""What happens to the model world of `model.py`: passes of ours, the environment's doings, and people's; and how it settles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from rollouts.core.context.waits import earliest
from rollouts.core.decide import decide
from rollouts.core.lifecycle.progress import STALLED_AFTER_S, needs_a_person
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    CreateReplicaSet,
    Decision,
    Intent,
    MakeRoute,
    MarkWorkload,
    PatchReplicaSet,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
    SetTraffic,
    SwitchService,
)
from rollouts.core.model.rollout import Strategy, named_services
from rollouts.core.model.snapshot import Pod, ReplicaSet, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.traffic import ALL_TO_STABLE, Acceptance, Answer, RouteName, Split
from tests.core.api_server import applied
from tests.core.config_worlds import copies_moved, with_meaning
from tests.core.measured_runs import pods_of_experiments_gone, runs_ended, runs_measured
from tests.core.model import (
    World,
    deleted,
    made_by_users,
    orphaned,
    route,
    service,
    snapshot,
    strategy_hash,
    world,
    wrote,
)
from tests.core.refusal import RefusedError
from tests.core.sources import answered
from tests.core.stateful_sets import ended, workload_synced
from tests.invariants.every import broken_by


def running(strategy: Strategy, *, replicas: int = 4, **changes: Any) -> World:
    """A Rollout whose revision `a` is rolled out and healthy."""
    there = settled(world(strategy, replicas=replicas, **changes))
    return replace(there, writes=(), notices=())


def reconciled(there: World, *, seen: Snapshot | None = None, writes: int | None = None) -> World:
    """The world after one pass.

    Args:
        seen: an older view that the pass acts on; None for what is there now.
        writes: the pass crashes after so many of its calls; None for all.

    Raises: AssertionError when the decision breaks an invariant. A refused write ends the pass, as it does in the controller.
    """
    view = snapshot(there) if seen is None else seen
    stale = seen is not None
    return _carried_out(there, _decided(there, view, stale=stale), view, stale=stale, writes=writes)


def _decided(there: World, view: Snapshot, *, stale: bool = False) -> Decision:
    """What a pass decides on a view. Raises: AssertionError when that breaks an invariant."""
    decision = decide(view)
    broken = broken_by(view, decision)
    if not stale and (pods := as_pods_are(there, view)) is not view:
        broken += broken_by(pods, decision)
    assert broken == [], (broken, view, decision)
    patched = [each.uid for each in decision.intents if isinstance(each, PatchReplicaSet)]
    assert len(patched) == len(set(patched)), f"two patches of one ReplicaSet in a pass: {decision.intents}"
    return decision


def _carried_out(
    there: World, decision: Decision, view: Snapshot, *, stale: bool = False, writes: int | None = None
) -> World:
    """The world after the calls of a decision, or after the first `writes` of them."""
    for after in islice(after_each_call(there, decision, view, stale=stale), writes):
        there = after
    return there


def calls_of(decision: Decision) -> list[Intent | RolloutStatus]:
    """The calls of a pass, in their order."""
    calls: list[Intent | RolloutStatus] = [*decision.intents]
    calls.insert(0 if decision.status_first else len(calls), decision.status)
    return calls


def after_each_call(there: World, decision: Decision, view: Snapshot, *, stale: bool = False) -> Iterator[World]:
    """The world after each call of a decision; it ends with a call that is refused.

    Raises: RefusedError when a call is refused and the view was not `stale`.
    """
    version = view.rollout.resource_version
    for call in calls_of(decision):
        of_rollout = isinstance(call, RolloutStatus | RemoveAnnotation)
        if of_rollout and version != there.rollout.resource_version:  # it has moved: neither is written
            return
        try:
            after = with_status_written(there, decision) if isinstance(call, RolloutStatus) else applied(there, call)
            there = with_meaning(there, after, view) if isinstance(call, RolloutStatus) else after
        except RefusedError:
            if not stale and not _from_what_is_not_shown(there, call):
                raise
            yield _without_answer(there, call)
            return
        yield there
        if of_rollout:  # only a write of the Rollout tells its version
            version = there.rollout.resource_version


def _from_what_is_not_shown(there: World, call: Intent | RolloutStatus) -> bool:
    """Whether the call is about a Service or a route that was asked about some time ago, or an orphan that is being deleted."""
    match call:
        case CreateReplicaSet(revision=revision):
            return any(
                each.deleting and each.name in there.orphaned
                for each in there.replica_sets
                if each.revision == revision
            )
        case SwitchService(name=name) | ReleaseService(name=name):
            return name in there.answers
        case MarkWorkload():
            return there.sight.answer is not None
        case SetTraffic(route=route_name) | MakeRoute(route=route_name) | ReleaseRoute(route=route_name):
            return route_name in there.route_answers
        case _:
            return False


def _without_answer(there: World, call: Intent | RolloutStatus) -> World:
    """The world in which that Service or route is asked about again."""
    match call:
        case SwitchService(name=name) | ReleaseService(name=name):
            return replace(there, answers={key: each for key, each in there.answers.items() if key != name})
        case MarkWorkload():
            return replace(there, sight=replace(there.sight, answer=None))
        case SetTraffic(route=route_name) | MakeRoute(route=route_name) | ReleaseRoute(route=route_name):
            answers = {key: each for key, each in there.route_answers.items() if key != route_name}
            return replace(there, route_answers=answers)
        case _:
            return there


def with_status_written(there: World, decision: Decision) -> World:
    """The status patch of a pass; left out when nothing differs, or when it can wait and the controller is patient."""
    if decision.status == there.status:
        return there
    urgent = _urgent(there.status, decision.status)
    if there.patient and not urgent:
        return replace(there, held=(there.status, decision.status))
    there = wrote(there, "Status" if urgent else "Held")
    return replace(
        there,
        status=decision.status,
        held=None,
        rollout=replace(there.rollout, resource_version=str(there.version)),
        notices=(*there.notices, *decision.notices),
    )


def replica_sets_caught_up(there: World) -> World:
    """The ReplicaSet controller makes and deletes pods (unready ones first), hears of them, and reports what it counts."""
    once = replica_sets_synced(pods_heard(there))
    return once if once is there else replica_sets_synced(pods_heard(once))


def pods_heard(there: World) -> World:
    """The ReplicaSet controller's watch of pods has brought everything."""
    if there.heard is there.pods and not there.expecting:
        return there
    return replace(there, heard=there.pods, expecting=frozenset())


def replica_sets_synced(there: World) -> World:
    """One look of the ReplicaSet controller at each set: it acts on the pods it has heard of, and reports how many they *were*.

    So a pod that it deletes is still counted, with the generation that asked for it, until the deletion is heard of and the set
    looked at again; and a set that was told another size meanwhile is counted by the same old pods. Source: k8s.io/kubernetes
    pkg/controller/replicaset/replica_set.go, `syncReplicaSet` (manageReplicas under `SatisfiedExpectations`, then
    calculateStatus of the pods that were listed before).
    """
    heard: dict[str, list[Pod]] = {each.name: [] for each in there.replica_sets}
    for pod in there.heard:
        if (owner := _owner(pod)) in heard:
            heard[owner].append(pod)
    for each in there.replica_sets:
        there = _counted(_managed(there, each, heard[each.name]), each, heard[each.name])
    owned = tuple([pod for pod in there.pods if pod.claims or _owner(pod) in heard])
    return there if len(owned) == len(there.pods) else replace(there, pods=owned)


def _owner(pod: Pod) -> str:
    """Name of a pod's ReplicaSet."""
    return pod.name.rsplit("-", 1)[0]


def _managed(there: World, replica_set: ReplicaSet, heard: list[Pod]) -> World:
    """The controller deletes the pods of one set that are too many, unready ones first, or makes those that are missing."""
    if replica_set.name in there.expecting or replica_set.deleting:
        return there
    if len(heard) == replica_set.spec_replicas:
        return there
    best_first = sorted(heard, key=lambda pod: (not pod.ready, pod.created_at_s, pod.name))
    gone = {pod.uid for pod in best_first[replica_set.spec_replicas :]}
    missing = 0 if replica_set.failure else max(0, replica_set.spec_replicas - len(heard))
    made = [_new_pod(there, replica_set, number=there.version + number) for number in range(1, missing + 1)]
    return replace(
        there,
        pods=(*(pod for pod in there.pods if pod.uid not in gone), *made),
        version=there.version + missing,
        expecting=there.expecting | ({replica_set.name} if gone or missing else set()),
    )


def _counted(there: World, replica_set: ReplicaSet, heard: list[Pod]) -> World:
    """The controller reports the pods of one set that it has heard of."""
    ready = [pod for pod in heard if pod.ready]
    available = [pod for pod in ready if there.now_s - there.ready_since[pod.uid] >= replica_set.min_ready_s]
    counts = (len(heard), len(ready), len(available))
    if counts == (replica_set.replicas, replica_set.ready, replica_set.available) and replica_set.observed:
        return there
    version = there.version + 1
    told = replace(
        replica_set,
        replicas=len(heard),
        ready=len(ready),
        available=len(available),
        observed=True,
        resource_version=str(version),
    )
    sets = tuple(told if each is replica_set else each for each in there.replica_sets)
    return replace(there, replica_sets=sets, version=version)


def as_pods_are(there: World, seen: Snapshot) -> Snapshot:
    """The view with no more available pods of a set than there are: none that are deleted and still counted.

    A pod that failed is counted until the ReplicaSet controller has heard of it: no pass can know of it sooner.
    """
    was_ready = {pod.uid for pod in there.heard if pod.ready}
    serving = Counter(_owner(pod) for pod in there.pods if pod.ready or pod.uid in was_ready)
    if all(each.available <= serving[each.name] for each in seen.replica_sets):
        return seen
    sets = tuple(replace(each, available=min(each.available, serving[each.name])) for each in seen.replica_sets)
    return replace(seen, replica_sets=sets)


def _new_pod(there: World, owner: ReplicaSet, *, number: int) -> Pod:
    return Pod(
        name=f"{owner.name}-{number}",
        uid=f"pod-{number}",
        revision=owner.revision,
        created_at_s=there.now_s,
        ready=False,
        labels=owner.pod_metadata.labels,
        annotations=owner.pod_metadata.annotations,
    )


def pods_ready(there: World, *, limit: int = 1000) -> World:
    """The oldest `limit` pods that can become ready do."""
    found = [pod.uid for pod in there.pods if not pod.ready and pod.revision not in there.bad][:limit]
    since = {**there.ready_since, **dict.fromkeys(found, there.now_s)}
    at_s = there.now_s
    pods = (replace(pod, ready=True, problem="", ready_since_s=at_s) if pod.uid in found else pod for pod in there.pods)
    return replace(there, pods=tuple(pods), ready_since=since)


def pods_unready(there: World, revision: str, *, limit: int = 1000) -> World:
    """Pods of a revision fail their probes."""
    found = [pod.uid for pod in there.pods if pod.ready and pod.revision == revision][:limit]
    trouble = "CrashLoopBackOff: back-off 10s"
    pods = (replace(pod, ready=False, problem=trouble) if pod.uid in found else pod for pod in there.pods)
    return replace(there, pods=tuple(pods))


def slices_caught_up(there: World, name: str | None = None) -> World:
    """The EndpointSlices of one Service, or of all, show the ready pods that its selector finds."""
    services = dict(there.services)
    for each in there.services.values():
        if name in (None, each.name) and each.has_selector:
            ready: dict[str, int] = {}
            for pod in there.pods:
                if pod.ready and each.revision in ("", pod.revision):
                    ready[pod.revision] = ready.get(pod.revision, 0) + 1
            services[each.name] = replace(each, ready_by_revision=ready, slices_seen=each.watched)
    return replace(there, services=services)


def gateways_caught_up(there: World, name: RouteName | None = None) -> World:
    """The gateways of one route, or of all, take it and do what it says."""
    routes, planes = dict(there.routes), dict(there.planes)
    for each in there.routes.values():
        if name in (None, each.route):
            routes[each.route] = replace(each, accepted=Acceptance(Answer.YES))
            planes[each.route] = each.split or ALL_TO_STABLE
    return replace(there, routes=routes, planes={key: each for key, each in planes.items() if key in routes})


def with_route(there: World, name: RouteName | None, *, split: Split | None) -> World:
    """Somebody else writes another split into a route, or with None something that cannot be read."""
    if name is None:
        return there
    version = there.version + 1
    problem = "" if split is not None else "no rule names both Services"
    after = replace(there.routes[name], split=split, problem=problem, resource_version=str(version))
    return replace(there, version=version, routes={**there.routes, name: after})


def without_route(there: World, name: RouteName | None) -> World:
    """Somebody deletes a route; its traffic is gone, and no fault of ours."""
    routes = {key: each for key, each in there.routes.items() if key != name}
    return replace(there, routes=routes, planes={key: each for key, each in there.planes.items() if key != name})


def route_put_back(there: World, number: int) -> World:
    """Somebody makes the routes of the spec anew, as they were at first."""
    version = there.version + 1
    fresh = {name: route(name, uid=f"uid-{version}-{number}") for name in made_by_users(there.rollout.spec.strategy)}
    planes = dict.fromkeys(fresh, ALL_TO_STABLE)
    return replace(there, version=version, routes={**there.routes, **fresh}, planes={**there.planes, **planes})


def deleting(there: World, revision: str) -> World:
    """Somebody deletes a revision's ReplicaSet in the foreground: it stays until the garbage collector has deleted its pods."""
    version = there.version + 1
    sets = (
        replace(each, deleting=True, resource_version=str(version)) if each.revision == revision else each
        for each in there.replica_sets
    )
    return replace(there, replica_sets=tuple(sets), version=version)


def garbage_collected(there: World) -> World:
    """Every ReplicaSet that is being deleted goes, and its pods with it."""
    for each in there.replica_sets:
        there = deleted(there, each.revision) if each.deleting else there
    return there


def later(there: World, seconds: float) -> World:
    """Time passes."""
    return replace(there, now_s=there.now_s + seconds)


def edited(there: World, **changes: Any) -> World:
    """The spec with some fields changed: a new generation. A revision is that of a template."""
    if "revision" in changes:
        changes["template_hash"] = changes["revision"]
    if "strategy" in changes:
        changes["strategy_hash"] = strategy_hash(changes["strategy"])
        services = {name: service(name) for name in named_services(changes["strategy"])}
        routes = {name: route(name) for name in made_by_users(changes["strategy"])}
        there = replace(there, services={**services, **there.services}, routes={**routes, **there.routes})
    rollout = there.rollout
    version = there.version + 1
    rollout = replace(
        rollout, spec=replace(rollout.spec, **changes), generation=rollout.generation + 1, resource_version=str(version)
    )
    return replace(there, rollout=rollout, version=version)


def status_wiped(there: World) -> World:
    """Somebody restores the Rollout from a backup without its status."""
    version = there.version + 1
    rollout = replace(there.rollout, resource_version=str(version))
    return replace(there, status=RolloutStatus(), rollout=rollout, version=version)


def applied_again(there: World) -> World:
    """`kubectl delete --cascade=orphan`, then `kubectl apply`: a Rollout of the same spec; nobody controls its ReplicaSets."""
    for each in there.replica_sets:
        there = orphaned(there, each.name)
    there = copies_moved(status_wiped(there), owned=False)
    rollout = replace(there.rollout, uid=f"uid-{there.version}", generation=1, annotations={}, restart_asked_at_s=None)
    return replace(there, rollout=rollout, held=None)


def quiet(there: World) -> World:
    """One round of everything that happens by itself: pods follow ReplicaSets, become ready, Services and gateways follow."""
    there = garbage_collected(there)
    there = replace(there, configs=answered(there.configs)) if there.configs.coming else there
    there = there if there.unmeasured else pods_of_experiments_gone(runs_ended(runs_measured(there)))
    there = there if there.workload is None else workload_synced(ended(there))
    return gateways_caught_up(slices_caught_up(replica_sets_caught_up(pods_ready(replica_sets_caught_up(there)))))


def steps_of(there: World, *, limit: int = 300, until_s: float | None = None) -> Iterator[World]:
    """Passes and quiet rounds, one world after each, until nothing changes and no time is waited for that brings anything.

    Time passes only when nothing else happens, and then to the moment that the last decision named. Raises: AssertionError when
    that does not end.
    """
    idle = 0  # times in a row that only the clock moved
    for _ in range(limit):
        view = snapshot(there)
        decision = _decided(there, view)
        after = _carried_out(there, decision, view)
        if after != there:
            idle = idle if set(after.writes[len(there.writes) :]) <= {"Held"} else 0
            there = after
            yield there
            continue
        after = quiet(there)
        if after != there:
            idle, there = 0, after
            yield there
            continue
        wake_s = earliest([decision.requeue_at_s, _next_available_s(there)])
        if until_s is not None and (wake_s is None or wake_s > until_s):
            yield replace(there, now_s=max(there.now_s, until_s))
            return
        if wake_s is None or (idle > 12 and _late(there)):
            return
        idle += 1
        there = replace(there, now_s=max(wake_s, there.now_s + 0.001))
        yield there
    raise AssertionError(f"no end after {limit} rounds: {there.status}, {decide(snapshot(there)).intents}")


def settled(there: World, *, seconds: float | None = None) -> World:
    """The world when nothing more happens by itself, or `seconds` from now if that comes first."""
    until_s = None if seconds is None else there.now_s + seconds
    for each in steps_of(there, until_s=until_s):
        there = each
    return there


def looks_again_in_s(there: World) -> float:
    """Seconds until a pass comes by itself, without an event; endless when none does."""
    requeue_at_s = decide(snapshot(there)).requeue_at_s
    return math.inf if requeue_at_s is None else requeue_at_s - there.now_s


def one(there: World, revision: str) -> ReplicaSet:
    """The ReplicaSet of a revision."""
    return next(each for each in there.replica_sets if each.revision == revision)


def sizes(there: World) -> dict[str, int]:
    """How many pods each revision was told to have; those with none are left out."""
    return {each.revision: each.spec_replicas for each in there.replica_sets if each.spec_replicas}


def _late(there: World) -> bool:
    """What is waited for is broken for good (pods that never come, a Service that is missing), and only looked at again."""
    waiting = there.status.waiting_for
    if waiting is not None and needs_a_person(waiting.reason):
        return there.now_s > waiting.since_s + STALLED_AFTER_S
    if any(each.type == "ConfigCopyMissing" for each in there.status.conditions):
        return waiting is None or waiting.deadline_s is None
    return waiting is not None and waiting.deadline_s is not None and there.now_s > waiting.deadline_s


def _next_available_s(there: World) -> float | None:
    """When the ReplicaSet controller counts the next ready pod as available."""
    wait_s = {each.revision: each.min_ready_s for each in there.replica_sets}
    never = {each.revision for each in there.replica_sets if each.min_ready_s > 31_536_000}
    times = [
        there.ready_since[pod.uid] + wait_s.get(pod.revision, there.rollout.spec.min_ready_s if pod.claims else 0)
        for pod in there.pods
        if pod.ready and pod.revision not in never
    ]
    return earliest(each for each in times if each > there.now_s)


def _urgent(before: RolloutStatus, after: RolloutStatus) -> bool:
    """Whether more changed than pod counts and what the same phase waits for, which the controller may hold back a while."""

    def staying_available(status: RolloutStatus) -> RolloutStatus:
        return replace(
            status,
            replicas=0,
            updated_replicas=0,
            updated_ready_replicas=0,
            updated_available_replicas=0,
            ready_replicas=0,
            available_replicas=0,
            hpa_replicas=0,
            autoscaling=None,
            progressed_at_s=None,
            waiting_for=None,
            message="",
        )

    return staying_available(before) != staying_available(after)
