"""A pure model of what a Rollout lives in: the API server's objects, pods, the ReplicaSet controller, EndpointSlices and a clock.

A `World` is a value. `snapshot` shows it to `decide`, `applied` carries one intent out, refusing what an API server would
refuse, and the rest of this file is what the environment and people may do to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from rollouts.core.decide import decide
from rollouts.core.intents import (
    AskPods,
    AskService,
    CreateReplicaSet,
    Decision,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    Notice,
    PatchPod,
    PatchReplicaSet,
    PointService,
    ReleaseService,
    RemoveAnnotation,
)
from rollouts.core.invariants import Violation, broken_by
from rollouts.core.plan import earliest
from rollouts.core.rollout import BlueGreen, Canary, PodMetadata, Rollout, RolloutSpec, Strategy
from rollouts.core.services import named_services
from rollouts.core.snapshot import (
    EvictionRefused,
    Pod,
    PodsSeen,
    ReplicaSet,
    Service,
    ServiceAbsent,
    ServiceSeen,
    ServiceUnasked,
    Snapshot,
)
from rollouts.core.status import RolloutStatus

T0 = 1_790_000_000.0  # some moment in 2026
ANSWER_S = 10.0  # how long the answer to a question about a Service is good for


class RefusedError(Exception):
    """The API server refuses a write: conflict, gone, or exists already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything there is.

    Args:
        version: counts writes of anybody; gives uids and resourceVersions.
        pods: truth; ReplicaSets' statuses and Services' slices lag behind it until their controllers act.
        services: as the API server has them; ours show their slices.
        answers: Services that were asked about, when, and what the answer was.
        bad: revisions whose pods never become ready.
        patient: status writes that can wait are held back, as the controller does for some seconds.
        budget: evictions are refused unless more than so many pods are ready; None for no budget.
        writes: calls of ours that wrote, by name.
    """

    now_s: float
    rollout: Rollout
    version: int = 1
    status: RolloutStatus = RolloutStatus()
    replica_sets: tuple[ReplicaSet, ...] = ()
    pods: tuple[Pod, ...] = ()
    ready_since: Mapping[str, float] = field(default_factory=dict)
    services: Mapping[str, ServiceSeen] = field(default_factory=dict)
    answers: Mapping[str, tuple[float, ServiceSeen | None]] = field(default_factory=dict)
    pods_seen: PodsSeen | None = None
    refused: EvictionRefused | None = None
    bad: frozenset[str] = frozenset()
    patient: bool = False
    budget: int | None = None
    writes: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


def service(name: str, **changes: Any) -> ServiceSeen:
    """A Service as its user made it: not steered by anybody yet."""
    given: dict[str, Any] = {
        "name": name, "uid": f"uid-{name}", "resource_version": "1", "revision": "", "managed_by": "", "watched": False,
    }  # fmt: skip
    return ServiceSeen(**{**given, **changes})


def spec(strategy: Strategy, *, revision: str = "a", replicas: int = 4, **changes: Any) -> RolloutSpec:
    """A spec whose revision is named, not hashed."""
    return RolloutSpec(
        replicas=replicas,
        selector_json=b'{"matchLabels":{"app":"cart"}}',
        selector_text="app=cart",
        template_json=b"{}",
        revision=revision,
        strategy=strategy,
        strategy_hash=_strategy_hash(strategy),
        **changes,
    )


def world(strategy: Strategy, *, replicas: int = 4, revision: str = "a", **changes: Any) -> World:
    """A Rollout that was just created, with the Services that its strategy names and nothing else."""
    rollout = Rollout(
        namespace="shop", name="cart", uid="uid-cart", resource_version="1", generation=1, created_at_s=T0,
        spec=spec(strategy, replicas=replicas, revision=revision, **changes),
    )  # fmt: skip
    services = {name: service(name) for name in named_services(strategy)}
    return World(now_s=T0, rollout=rollout, services=services)


def running(strategy: Strategy, *, replicas: int = 4, **changes: Any) -> World:
    """A Rollout whose revision `a` is rolled out and healthy."""
    there = settled(world(strategy, replicas=replicas, **changes))
    return replace(there, writes=(), notices=())


# What a pass sees and does


def snapshot(there: World) -> Snapshot:
    """The world as the controller sees it now."""
    names = {
        *named_services(there.rollout.spec.strategy),
        *(each.name for each in there.services.values() if each.managed_by == there.rollout.name and each.watched),
    }
    return Snapshot(
        now_s=there.now_s,
        rollout=there.rollout,
        status=there.status,
        replica_sets=there.replica_sets,
        services={name: _seen_service(there, name) for name in sorted(names)},
        pods=there.pods_seen,
        eviction_refused=there.refused,
    )


def reconciled(there: World, *, seen: Snapshot | None = None, writes: int | None = None) -> World:
    """The world after one pass.

    Args:
        seen: an older view that the pass acts on; None for what is there now.
        writes: the pass crashes after so many of its calls; None for all.

    Raises: AssertionError when the decision breaks an invariant. A refused write ends the pass, as it does in the controller.
    """
    view = snapshot(there) if seen is None else seen
    decision = decide(view)
    broken = broken_by(view, decision)
    assert broken == [], (broken, view, decision)
    assert sum(isinstance(each, PatchReplicaSet) for each in decision.intents) == len(
        {each.uid for each in decision.intents if isinstance(each, PatchReplicaSet)}
    ), f"two patches of one ReplicaSet in a pass: {decision.intents}"
    version = view.rollout.resource_version
    calls: list[Intent | RolloutStatus] = [*decision.intents]
    calls.insert(0 if decision.status_first else len(calls), decision.status)
    for call in calls[:writes]:
        if isinstance(call, RolloutStatus):
            if version != there.rollout.resource_version:  # the Rollout has moved: its status is not written
                return there
            there = with_status_written(there, decision)
        else:
            if isinstance(call, RemoveAnnotation) and version != there.rollout.resource_version:
                return there
            try:
                there = applied(there, call)
            except RefusedError:
                if isinstance(call, PointService | ReleaseService) and call.name in there.answers:  # an old answer
                    return replace(
                        there, answers={key: each for key, each in there.answers.items() if key != call.name}
                    )
                if seen is None:
                    raise
                return there
        version = there.rollout.resource_version
    return there


def with_status_written(there: World, decision: Decision) -> World:
    """The status patch of a pass; left out when nothing differs, or when it can wait and the controller is patient."""
    if decision.status == there.status:
        return there
    urgent = _urgent(there.status, decision.status)
    if there.patient and not urgent:
        return there
    there = _wrote(there, "Status" if urgent else "Held")
    return replace(
        there,
        status=decision.status,
        rollout=replace(there.rollout, resource_version=str(there.version)),
        notices=(*there.notices, *decision.notices),
    )


def applied(there: World, intent: Intent) -> World:  # noqa: C901, PLR0912 - one case for each member of a closed union
    """The world after one call. Raises: RefusedError, as the API server would refuse it."""
    match intent:
        case CreateReplicaSet():
            return _created(there, intent)
        case PatchReplicaSet():
            return _patched(there, intent)
        case DeleteReplicaSet(name=name, uid=uid, resource_version=version):
            found = _replica_set(there, name, uid, version)
            there = _wrote(there, "DeleteReplicaSet")
            return deleted(there, found.revision)
        case PointService(name=name, revision=revision):
            there = _with_service(
                _wrote(there, "PointService"), intent, revision=revision, managed_by="cart", watched=True
            )
            return replace(there, answers={key: each for key, each in there.answers.items() if key != name})
        case ReleaseService():
            return _with_service(_wrote(there, "ReleaseService"), intent, revision="", managed_by="", watched=False)
        case PatchPod(uid=uid, metadata=metadata, removed=removed):
            there = _wrote(there, "PatchPod")
            pods = tuple(_relabelled(pod, metadata, removed) if pod.uid == uid else pod for pod in there.pods)
            return replace(there, pods=pods, pods_seen=None)
        case EvictPod(name=name, uid=uid):
            return _evicted(there, name, uid)
        case RemoveAnnotation(verb=verb, value=value):
            if there.rollout.annotations.get(verb) != value:
                raise RefusedError(f"annotation {verb} is not {value}")
            return annotated(_wrote(there, "RemoveAnnotation"), verb, None)
        case AskService(name=name):
            answer = there.services.get(name)
            if answer is not None:
                answer = replace(answer, ready_by_revision={})
            return replace(there, answers={**there.answers, name: (there.now_s, answer)})
        case AskPods():
            return replace(there, pods_seen=PodsSeen(there.now_s, there.pods))
        case never:
            assert_never(never)


def broken_now(there: World) -> list[Violation]:
    """What the decision that would be made now breaks."""
    view = snapshot(there)
    return broken_by(view, decide(view))


# What the environment does


def replica_sets_caught_up(there: World) -> World:
    """The ReplicaSet controller makes and deletes pods (unready ones first), and reports what it counts."""
    pods: list[Pod] = []
    names = {each.name for each in there.replica_sets}
    by_set: dict[str, list[Pod]] = {name: [] for name in names}
    for pod in there.pods:
        owner = pod.name.rsplit("-", 1)[0]
        if owner in names:
            by_set[owner].append(pod)
    sets = []
    version = there.version
    for each in there.replica_sets:
        mine = sorted(by_set[each.name], key=lambda pod: (not pod.ready, pod.created_at_s, pod.name))[
            : each.spec_replicas
        ]
        while len(mine) < each.spec_replicas and not each.failure:
            version += 1
            mine.append(
                Pod(name=f"{each.name}-{version}", uid=f"pod-{version}", revision=each.revision, created_at_s=there.now_s,
                    ready=False, labels=each.pod_metadata.labels, annotations=each.pod_metadata.annotations)
            )  # fmt: skip
        pods += mine
        ready = [pod for pod in mine if pod.ready]
        available = [pod for pod in ready if there.now_s - there.ready_since[pod.uid] >= each.min_ready_s]
        told = replace(each, replicas=len(mine), ready=len(ready), available=len(available), observed=True)
        if told != each:
            version += 1
            told = replace(told, resource_version=str(version))
        sets.append(told)
    return replace(there, pods=tuple(pods), replica_sets=tuple(sets), version=version)


def pods_ready(there: World, *, limit: int = 1000) -> World:
    """The oldest `limit` pods that can become ready do."""
    since = dict(there.ready_since)
    pods = []
    for pod in there.pods:
        if not pod.ready and pod.revision not in there.bad and limit > 0:
            limit -= 1
            since[pod.uid] = there.now_s
            pods.append(replace(pod, ready=True, problem=""))
        else:
            pods.append(pod)
    return replace(there, pods=tuple(pods), ready_since=since)


def pods_unready(there: World, revision: str, *, limit: int = 1000) -> World:
    """Pods of a revision fail their probes."""
    pods = []
    for pod in there.pods:
        if pod.ready and pod.revision == revision and limit > 0:
            limit -= 1
            pods.append(replace(pod, ready=False, problem="CrashLoopBackOff: back-off 10s"))
        else:
            pods.append(pod)
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
            services[each.name] = replace(each, ready_by_revision=ready)
    return replace(there, services=services)


def later(there: World, seconds: float) -> World:
    """Time passes."""
    return replace(there, now_s=there.now_s + seconds)


def deleted(there: World, revision: str) -> World:
    """Somebody deletes a revision's ReplicaSet; its pods go with it."""
    sets = tuple(each for each in there.replica_sets if each.revision != revision)
    return replace(there, replica_sets=sets, pods=tuple(pod for pod in there.pods if pod.revision != revision))


# What people do


def edited(there: World, **changes: Any) -> World:
    """The spec with some fields changed: a new generation."""
    if "strategy" in changes:
        changes["strategy_hash"] = _strategy_hash(changes["strategy"])
        services = {name: service(name) for name in named_services(changes["strategy"])}
        there = replace(there, services={**services, **there.services})
    rollout = there.rollout
    version = there.version + 1
    rollout = replace(
        rollout,
        spec=replace(rollout.spec, **changes),
        generation=rollout.generation + 1,
        resource_version=str(version),
    )
    return replace(there, rollout=rollout, version=version)


def annotated(there: World, verb: str, value: str | None) -> World:
    """An annotation set, or with None taken off."""
    annotations = {key: each for key, each in there.rollout.annotations.items() if key != verb}
    if value is not None:
        annotations[verb] = value
    version = there.version + 1
    rollout = replace(there.rollout, annotations=annotations, resource_version=str(version))
    if verb == "restart":
        rollout = replace(rollout, restart_asked_at_s=_number(value))
    return replace(there, rollout=rollout, version=version)


def status_wiped(there: World) -> World:
    """Somebody restores the Rollout from a backup without its status."""
    version = there.version + 1
    rollout = replace(there.rollout, resource_version=str(version))
    return replace(there, status=RolloutStatus(), rollout=rollout, version=version)


# A quiet environment


def quiet(there: World) -> World:
    """One round of everything that happens by itself: pods follow ReplicaSets, become ready, and Services show them."""
    return slices_caught_up(replica_sets_caught_up(pods_ready(replica_sets_caught_up(there))))


def steps_of(there: World, *, limit: int = 300, until_s: float | None = None) -> Iterator[World]:
    """Passes and quiet rounds, one world after each, until nothing changes and no time is waited for that brings anything.

    Time passes only when nothing else happens, and then to the moment that the last decision named. Raises: AssertionError when
    that does not end.
    """
    idle = 0  # times in a row that only the clock moved
    for _ in range(limit):
        after = reconciled(there)
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
        wake_s = earliest([decide(snapshot(there)).requeue_at_s, _next_available_s(there)])
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


def one(there: World, revision: str) -> ReplicaSet:
    """The ReplicaSet of a revision."""
    return next(each for each in there.replica_sets if each.revision == revision)


def sizes(there: World) -> dict[str, int]:
    """How many pods each revision was told to have; those with none are left out."""
    return {each.revision: each.spec_replicas for each in there.replica_sets if each.spec_replicas}


def _late(there: World) -> bool:
    """What is waited for is broken for good (pods that never come, a Service that is missing), and only looked at again."""
    waiting = there.status.waiting_for
    return waiting is not None and waiting.deadline_s is not None and there.now_s > waiting.deadline_s


def _next_available_s(there: World) -> float | None:
    """When the ReplicaSet controller counts the next ready pod as available."""
    wait_s = {each.revision: each.min_ready_s for each in there.replica_sets}
    times = [there.ready_since[pod.uid] + wait_s.get(pod.revision, 0) for pod in there.pods if pod.ready]
    return earliest(each for each in times if each > there.now_s)


def _seen_service(there: World, name: str) -> Service:
    found = there.services.get(name)
    if found is not None and found.watched:
        return found
    asked_s, answer = there.answers.get(name, (None, None))
    if asked_s is None or there.now_s - asked_s > ANSWER_S:
        return ServiceUnasked(name)
    return ServiceAbsent(name, at_s=asked_s) if answer is None else answer


def _created(there: World, intent: CreateReplicaSet) -> World:
    name = f"cart-{intent.revision}"
    if any(each.name == name for each in there.replica_sets):
        raise RefusedError(f"{name} exists")
    there = _wrote(there, "CreateReplicaSet")
    made = ReplicaSet(
        name=name,
        uid=f"rs-{there.version}",
        resource_version=str(there.version),
        revision=intent.revision,
        number=intent.number,
        created_at_s=there.now_s,
        spec_replicas=intent.replicas,
        observed=False,
        min_ready_s=there.rollout.spec.min_ready_s,
        pod_metadata=intent.pod_metadata,
    )
    return replace(there, replica_sets=(*there.replica_sets, made))


def _patched(there: World, intent: PatchReplicaSet) -> World:
    found = _replica_set(there, intent.name, intent.uid, intent.resource_version)
    there = _wrote(there, "PatchReplicaSet")
    names = ("replicas", "min_ready_s", "number", "pod_metadata", "pods_carry_metadata")
    given = {name: getattr(intent, name) for name in names if getattr(intent, name) is not None}
    if "replicas" in given:
        given["spec_replicas"] = given.pop("replicas")
    after = replace(found, **given, resource_version=str(there.version), observed=False)
    return replace(there, replica_sets=tuple(after if each is found else each for each in there.replica_sets))


def _replica_set(there: World, name: str, uid: str, version: str) -> ReplicaSet:
    found = next((each for each in there.replica_sets if each.name == name), None)
    if found is None or found.uid != uid or version not in ("", found.resource_version):
        raise RefusedError(f"ReplicaSet {name} is not as it was seen")
    return found


def _with_service(there: World, intent: PointService | ReleaseService, **changes: Any) -> World:
    found = there.services.get(intent.name)
    if found is None or (found.uid, found.resource_version) != (intent.uid, intent.resource_version):
        raise RefusedError(f"Service {intent.name} is not as it was seen")
    after = replace(found, **changes, resource_version=str(there.version))
    return replace(there, services={**there.services, intent.name: after})


def _evicted(there: World, name: str, uid: str) -> World:
    if there.budget is not None and sum(pod.ready for pod in there.pods) <= there.budget:
        refusal = EvictionRefused(there.now_s, name, "would break the budget")
        return replace(_wrote(there, "EvictPod"), refused=refusal)
    pods = tuple(pod for pod in there.pods if pod.uid != uid)
    return replace(_wrote(there, "EvictPod"), pods=pods, pods_seen=None)


def _relabelled(pod: Pod, metadata: PodMetadata, removed: PodMetadata) -> Pod:
    labels = {key: value for key, value in pod.labels.items() if key not in removed.labels}
    annotations = {key: value for key, value in pod.annotations.items() if key not in removed.annotations}
    return replace(pod, labels={**labels, **metadata.labels}, annotations={**annotations, **metadata.annotations})


def _wrote(there: World, what: str) -> World:
    return replace(there, version=there.version + 1, writes=(*there.writes, what))


def _urgent(before: RolloutStatus, after: RolloutStatus) -> bool:
    """Whether more changed than pod counts and what the same phase waits for, which the controller may hold back a while."""

    def lasting(status: RolloutStatus) -> RolloutStatus:
        return replace(
            status,
            replicas=0,
            updated_replicas=0,
            ready_replicas=0,
            available_replicas=0,
            progressed_at_s=None,
            waiting_for=None,
            message="",
        )

    return lasting(before) != lasting(after)


def _strategy_hash(strategy: Strategy) -> str:
    match strategy:
        case Canary(steps=steps):
            return f"canary {steps}"
        case BlueGreen():
            return "blue-green"
        case never:
            assert_never(never)


def _number(value: str | None) -> float | None:
    try:
        return float(value) if value else None
    except ValueError:
        return None
