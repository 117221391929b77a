"""A Deployment in the model world of `model.py`, and what its own controller does with it.

Facts of k8s.io/kubernetes pkg/controller/deployment (sync.go, rolling.go) and util/deployment_util.go, restated: what a sync does
to the sizes of the ReplicaSets that the Deployment controls. Pods are the ReplicaSet controller's, in `worlds.py`.
"""

from __future__ import annotations

from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import IntOrPercent, Percent, RolloutSpec, Strategy
from rollouts.core.model.snapshot import ReplicaSet
from rollouts.core.model.workload import DeploymentSeen, HoldSeen, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import Hold, NamedWorkload, WorkloadKind, WorkloadMode
from tests.core.model import World, world

USERS = UpdateFields(max_surge=Percent(25), max_unavailable=Percent(25), min_ready_s=None, progress_deadline_s=600)
"""The fields that a user's manifest gives, which names none of them."""


def users(spec: RolloutSpec) -> UpdateFields:
    """The fields that the user's manifest gives, when a pass sees this spec, which has its limits and `minReadySeconds`."""
    strategy, min_ready_s = spec.strategy, spec.min_ready_s or None
    return replace(
        USERS, max_surge=strategy.max_surge, max_unavailable=strategy.max_unavailable, min_ready_s=min_ready_s
    )


def deployed(
    strategy: Strategy, *, replicas: int = 4, hold: Hold = Hold.POLICY, min_ready_s: int = 0, **changes: Any
) -> World:
    """A Deployment `cart` whose template `a` its own controller has rolled out, and a Rollout that was just created for it."""
    ref = NamedWorkload(kind=WorkloadKind.DEPLOYMENT, name="cart", mode=WorkloadMode.IN_PLACE, hold=hold)
    there = world(strategy, replicas=replicas, workload_ref=ref, min_ready_s=min_ready_s, **changes)
    workload = WorkloadSeen(
        kind=WorkloadKind.DEPLOYMENT,
        name="cart",
        uid="uid-deployment",
        resource_version="1",
        managed_by="cart",
        watched=True,
        template_hash="a",
        replicas=replicas,
        in_place=DeploymentSeen(paused=False, by_recreate=False, fields=users(there.rollout.spec), holds=True),
        hold=HoldSeen(at_s=0.0, works=hold is Hold.POLICY),
    )
    return replace(there, workload=workload)


def template_changed(there: World, revision: str, *, policy: bool = True) -> World:
    """Somebody applies another template; where the policy works it pauses the Deployment in the same write."""
    spec, workload = there.rollout.spec, there.workload
    if workload is None or workload.deployment is None or spec.revision == revision:
        return there
    spec = replace(spec, revision=revision, template_hash=revision)
    there = replace(there, version=there.version + 1, rollout=replace(there.rollout, spec=spec))
    return _written(there, paused=workload.deployment.paused or policy, template_hash=revision)


def scaled(there: World, replicas: int) -> World:
    """Somebody, or an autoscaler, changes `spec.replicas` of the Deployment."""
    if there.workload is None or there.rollout.spec.replicas == replicas:
        return there
    spec = replace(there.rollout.spec, replicas=replicas)
    there = replace(there, version=there.version + 1, rollout=replace(there.rollout, spec=spec))
    return _written(there, replicas=replicas)


def fields_applied(there: World) -> World:
    """Somebody applies a manifest that names the fields of an update, and no policy keeps those of a step."""
    workload = there.workload
    if workload is None or workload.deployment is None:
        return there
    fields = users(there.rollout.spec)
    if workload.deployment.fields == fields:
        return there
    there = replace(there, version=there.version + 1)
    return _written(there, in_place=replace(workload.deployment, fields=fields))


def _written(there: World, *, paused: bool | None = None, **changes: Any) -> World:
    workload = there.workload
    assert workload is not None and workload.deployment is not None
    deployment = workload.deployment if paused is None else replace(workload.deployment, paused=paused)
    changed = {"in_place": deployment, "observed": False, "resource_version": str(there.version), **changes}
    return replace(there, workload=replace(workload, **changed))


def deployment_synced(there: World) -> World:
    """One sync of the Deployment's controller."""
    workload = there.workload
    if workload is None or workload.deployment is None or workload.deleting:
        return there
    there = _with_new_set(there, workload, paused=workload.deployment.paused)
    sets = [each for each in there.replica_sets if each.inside and not each.deleting]
    new = next((each for each in sets if each.revision == workload.template_hash), None)
    old = [each for each in sets if each is not new]
    fields = workload.deployment.fields
    if workload.deployment.paused or new is None or _is_scaling(there, workload, sets):
        there = _scaled(there, workload, fields, new, old)
    else:
        there = _rolled(there, workload, fields, new, old)
    counted = new.replicas if new is not None else 0
    if workload.observed and workload.deployment.updated == counted:
        return there
    number, seen = there.version + 1, replace(workload.deployment, updated=counted)
    now = replace(workload, in_place=seen, observed=True, resource_version=str(number))
    return replace(there, version=number, workload=now)


def _is_scaling(there: World, workload: WorkloadSeen, sets: list[ReplicaSet]) -> bool:
    """Whether the Deployment's replicas have changed since its controller noted them on its ReplicaSets."""
    noted = [there.spread.get(each.name) for each in sets if each.spec_replicas]
    return any(note is not None and note[0] != workload.replicas for note in noted)


def made_inside(
    workload: WorkloadSeen, revision: str, *, number: int, at_s: float, min_ready_s: int = 0, inside: bool = True
) -> ReplicaSet:
    """A ReplicaSet that was made inside the Deployment, or beside it, without pods; `number` is the version of the world."""
    return ReplicaSet(
        name=f"{workload.name}-{revision}",
        uid=f"rs-{number}",
        resource_version=str(number),
        revision=revision,
        number=0,
        created_at_s=at_s,
        spec_replicas=0,
        observed=False,
        min_ready_s=min_ready_s,
        terminating=0,
        inside=inside,
    )


def _with_new_set(there: World, workload: WorkloadSeen, *, paused: bool) -> World:
    """With the ReplicaSet of the template, unless the Deployment is paused; it takes over `minReadySeconds`, paused or not."""
    deployment, revision = workload.deployment, workload.template_hash
    assert deployment is not None
    sets = [each for each in there.replica_sets if each.inside and not each.deleting]
    new = next((each for each in sets if each.revision == revision), None)
    wanted_s = deployment.fields.min_ready_s or 0
    if new is not None and new.min_ready_s != wanted_s:
        return _resized(there, new, size=new.spec_replicas, min_ready_s=wanted_s)
    if new is not None or paused:
        return there
    number = there.version + 1
    made = made_inside(workload, revision, number=number, at_s=there.now_s, min_ready_s=wanted_s)
    return replace(there, version=number, replica_sets=(*there.replica_sets, made))


def _age(each: ReplicaSet) -> tuple[float, int]:
    """Grows with the time of creation; of two in one second the later one has the later uid."""
    return each.created_at_s, int(each.uid.rpartition("-")[2])


def _scaled(
    there: World, workload: WorkloadSeen, fields: UpdateFields, new: ReplicaSet | None, old: list[ReplicaSet]
) -> World:
    """`scale`: the only active set gets all replicas; old ones go when the new one is saturated; else in proportion."""
    replicas, sets = workload.replicas, [*old, *([new] if new is not None else [])]
    active = [each for each in sets if each.spec_replicas > 0]
    if len(active) <= 1:
        latest = active or [each for each in (new, max(old, key=_age, default=None)) if each is not None]
        return _resized(there, latest[0], size=replicas) if latest else there
    if new is not None and new.spec_replicas == replicas == new.available:  # saturated
        sizes = [(each, 0) for each in old if each.spec_replicas]
    else:
        surge, _ = limits(fields, replicas)
        sizes = _in_proportion(there, active, replicas=replicas, allowed=replicas + surge if replicas > 0 else 0)
    for each, size in sizes:
        there = _resized(there, each, size=size)
    return there


def _in_proportion(
    there: World, active: list[ReplicaSet], *, replicas: int, allowed: int
) -> list[tuple[ReplicaSet, int]]:
    """The active sets with sizes whose sum is `allowed`: each in proportion, and what rounding leaves to the largest."""
    pods = sum(each.spec_replicas for each in active)
    add, added, sizes = allowed - pods, 0, dict[str, int]()
    active.sort(key=_age, reverse=add > 0)
    active.sort(key=lambda each: -each.spec_replicas)
    for each in active:
        _, most = there.spread.get(each.name, (replicas, pods))
        share = _rounded(each.spec_replicas * allowed, most) - each.spec_replicas if replicas else -each.spec_replicas
        part = min(share, add - added) if add > 0 else max(share, add - added)
        sizes[each.name] = each.spec_replicas + (part if add else 0)
        added += part if add else 0
    sizes[active[0].name] = max(0, sizes[active[0].name] + add - added)
    return [(each, sizes[each.name]) for each in active]


def _rolled(
    there: World, workload: WorkloadSeen, fields: UpdateFields, new: ReplicaSet, old: list[ReplicaSet]
) -> World:
    """`rolloutRolling`: the new set grows as far as the surge allows, or else old ones shrink as far as pods are available."""
    replicas, (surge, unavailable) = workload.replicas, limits(fields, workload.replicas)
    pods = new.spec_replicas + sum(each.spec_replicas for each in old)
    size = new.spec_replicas
    if size > replicas:
        size = replicas
    elif size < replicas:
        size += max(0, min(replicas + surge - pods, replicas - size))
    if size != new.spec_replicas:
        return _resized(there, new, size=size)
    least = replicas - unavailable
    most = pods - least - (new.spec_replicas - new.available)
    if most <= 0:
        return there
    sizes = {each.name: each.spec_replicas for each in old}
    cleaned = 0
    for each in sorted(old, key=lambda each: each.created_at_s):
        if 0 < each.spec_replicas < each.available and cleaned < most:
            return there  # its count is old: the sync ends with an error ("got invalid request to scale down"), and begins again
        gone = min(most - cleaned, max(0, each.spec_replicas - each.available))
        sizes[each.name] -= gone
        cleaned += gone
    available = new.available + sum(each.available for each in old)
    spare = max(0, available - least)
    for each in sorted(old, key=lambda each: each.created_at_s):
        gone = min(sizes[each.name], spare)
        sizes[each.name] -= gone
        spare -= gone
    for each in old:
        there = _resized(there, each, size=sizes[each.name])
    return there


def limits(fields: UpdateFields, replicas: int) -> tuple[int, int]:
    """`maxSurge`, rounded up, and `maxUnavailable`, rounded down, in pods; if both are 0, one pod may be unavailable."""

    def pods(limit: IntOrPercent | None, *, up: bool) -> int:
        if not isinstance(limit, Percent):
            return 0 if limit is None else limit
        share = limit.value * replicas
        return -(-share // 100) if up else share // 100

    surge, unavailable = pods(fields.max_surge, up=True), min(pods(fields.max_unavailable, up=False), replicas)
    return (0, min(1, replicas)) if surge == unavailable == 0 else (surge, unavailable)


def _resized(there: World, each: ReplicaSet, *, size: int, min_ready_s: int | None = None) -> World:
    """The set with that size, and the note of the Deployment's replicas that its controller writes with it."""
    assert there.workload is not None and there.workload.deployment is not None
    surge, _ = limits(there.workload.deployment.fields, there.workload.replicas)
    spread = {**there.spread, each.name: (there.workload.replicas, there.workload.replicas + surge)}
    there = replace(there, spread=spread)
    ready_s = each.min_ready_s if min_ready_s is None else min_ready_s
    if (size, ready_s) == (each.spec_replicas, each.min_ready_s):
        return there
    there = replace(there, version=there.version + 1)
    now = replace(each, spec_replicas=size, min_ready_s=ready_s, observed=False, resource_version=str(there.version))
    return replace(there, replica_sets=tuple(now if other.uid == each.uid else other for other in there.replica_sets))


def _rounded(numerator: int, denominator: int) -> int:
    """The nearest whole number, halves away from 0."""
    return (2 * numerator + denominator) // (2 * denominator) if denominator else 0
