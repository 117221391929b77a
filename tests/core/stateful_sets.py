"""A StatefulSet in the model world of `model.py`, and what its own controller does with it.

Facts of k8s.io/kubernetes pkg/controller/statefulset (stateful_set_control.go, stateful_set_utils.go), restated: its pods have
ordinals from 0 on. The pods of the model end in an event of their own: until then they hold their ordinal.
"""

from __future__ import annotations

from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod, StepStatefulSet
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Pod
from rollouts.core.model.workload import HoldSeen, PartitionFields, StatefulSetSeen, WorkloadSeen
from rollouts.core.model.workload_ref import Hold, NamedWorkload, WorkloadKind, WorkloadMode
from tests.core.deployments import deployment_synced
from tests.core.model import World, pod_version, world, wrote
from tests.core.refusal import RefusedError

MOST = 2_147_483_647
USERS = PartitionFields(partition=0)
"""The `updateStrategy` that the user's manifest gives."""


def stateful(
    strategy: Canary,
    *,
    replicas: int = 5,
    hold: Hold = Hold.POLICY,
    fields: PartitionFields = USERS,
    ordered: bool = True,
    min_ready_s: int = 0,
    max_unavailable: int | None = None,
    **changes: Any,
) -> World:
    """A StatefulSet `cart` whose template `a` is rolled out, and a Rollout that was just created for it."""
    ref = NamedWorkload(kind=WorkloadKind.STATEFUL_SET, name="cart", mode=WorkloadMode.IN_PLACE, hold=hold)
    strategy = replace(strategy, max_surge=0, max_unavailable=1 if max_unavailable is None else max_unavailable)
    there = world(strategy, replicas=replicas, workload_ref=ref, min_ready_s=min_ready_s, **changes)
    found = StatefulSetSeen(
        fields=fields,
        max_unavailable=max_unavailable,
        min_ready_s=min_ready_s,
        ordered=ordered,
        current_revision="a",
        update_revision="a",
        holds=True,
    )
    workload = WorkloadSeen(
        kind=WorkloadKind.STATEFUL_SET,
        name="cart",
        uid="uid-stateful-set",
        resource_version="1",
        managed_by="cart",
        watched=True,
        template_hash="a",
        replicas=replicas,
        in_place=found,
        hold=HoldSeen(at_s=0.0, works=hold is Hold.POLICY),
    )
    pods = tuple(_pod(there, ordinal, "a", number=-ordinal - 1, ready_since_s=0.0) for ordinal in range(replicas))
    there = replace(there, workload=workload, pods=pods, ready_since=dict.fromkeys([pod.uid for pod in pods], 0.0))
    return stateful_set_synced(there)


def new_template(there: World, revision: str, *, policy: bool = True) -> World:
    """Somebody applies another template; where the policy works it sets the partition in the same write, and notes the other."""
    spec, workload = there.rollout.spec, there.workload
    if workload is None or workload.stateful_set is None or spec.revision == revision:
        return there
    spec = replace(spec, revision=revision, template_hash=revision)
    there = replace(there, version=there.version + 1, rollout=replace(there.rollout, spec=spec))
    found = workload.stateful_set
    if policy and not found.fields.on_delete and found.fields.partition != MOST:
        noted = found.replaced if found.held is not None else found.fields
        found = replace(found, fields=PartitionFields(partition=MOST), replaced=noted)
    return _written(there, found, template_hash=revision)


def rescaled(there: World, replicas: int) -> World:
    """Somebody, or an autoscaler, changes `spec.replicas` of the StatefulSet."""
    workload = there.workload
    if workload is None or workload.stateful_set is None or there.rollout.spec.replicas == replicas:
        return there
    spec = replace(there.rollout.spec, replicas=replicas)
    there = replace(there, version=there.version + 1, rollout=replace(there.rollout, spec=spec))
    return _written(there, workload.stateful_set, replicas=replicas)


def _written(there: World, found: StatefulSetSeen, **changes: Any) -> World:
    assert there.workload is not None
    changed = {"in_place": found, "observed": False, "resource_version": str(there.version), **changes}
    return replace(there, workload=replace(there.workload, **changed))


def with_stateful_set(there: World, intent: StepStatefulSet | DeletePod) -> World:
    """One write of ours. Raises: RefusedError, when what it writes has changed since."""
    workload = there.workload
    if workload is None or workload.stateful_set is None:
        raise RefusedError("no StatefulSet")
    there = wrote(there, type(intent).__name__)
    match intent:
        case DeletePod(uid=uid, resource_version=seen):
            found = next((pod for pod in there.pods if pod.uid == uid), None)
            if found is None or pod_version(found) != seen:
                raise RefusedError(f"pod {intent.name} has changed")
            return replace(
                there, pods=tuple(replace(pod, deleting=True) if pod is found else pod for pod in there.pods)
            )
        case StepStatefulSet(resource_version=seen, fields=fields, held=held):
            if workload.resource_version != seen:
                raise RefusedError("the StatefulSet has changed")
            assert not (fields.on_delete and fields.partition is not None), (
                "the API server refuses a partition with OnDelete"
            )
            return _written(there, replace(workload.stateful_set, fields=fields, held=held, replaced=None))


def workload_synced(there: World) -> World:
    """One sync of the controller of the workload that is updated in place."""
    if there.workload is None or there.workload.stateful_set is None:
        return deployment_synced(there)
    return stateful_set_synced(there)


def stateful_set_synced(there: World) -> World:
    """One sync: a missing pod is made, or one that is too many deleted, or one of another revision; then the pods are counted."""
    workload = there.workload
    if workload is None or workload.stateful_set is None:
        return there
    found = replace(workload.stateful_set, update_revision=workload.template_hash)
    pods = {int(pod.name.rpartition("-")[2]): pod for pod in there.pods}
    there, goes_on = _kept(there, workload.replicas, found, pods)
    goes_on = goes_on and not any(ordinal >= workload.replicas for ordinal in pods)
    there = (
        _shrunk(there, workload.replicas, found, pods)
        if not goes_on
        else _replaced(there, workload.replicas, found, pods)
    )
    return _counted(there, workload, found)


def ended(there: World) -> World:
    """The pods that are ending are gone."""
    return replace(there, pods=tuple(pod for pod in there.pods if not pod.deleting))


def _pod(there: World, ordinal: int, revision: str, *, number: int, ready_since_s: float | None = None) -> Pod:
    name = f"cart-{ordinal}"
    return Pod(
        name=name,
        uid=f"pod-{number}",
        revision=revision,
        created_at_s=there.now_s,
        ready=ready_since_s is not None,
        ready_since_s=ready_since_s,
        claims=(f"data-{name}",),
    )


def _is_available(there: World, found: StatefulSetSeen, pod: Pod | None) -> bool:
    if pod is None or pod.deleting or not pod.ready or pod.ready_since_s is None:
        return False
    return there.now_s - pod.ready_since_s >= found.min_ready_s


def _revision_for(found: StatefulSetSeen, ordinal: int) -> str:
    """The revision of a pod that is made now."""
    below = not found.fields.on_delete and ordinal < (found.fields.partition or 0)
    return found.current_revision if below else found.update_revision


def _kept(there: World, replicas: int, found: StatefulSetSeen, pods: dict[int, Pod]) -> tuple[World, bool]:
    """Makes missing pods, lowest first; with OrderedReady the rest of the sync waits for the first that is not available."""
    for ordinal in range(replicas):
        pod = pods.get(ordinal)
        if pod is None:
            number = there.version + 1
            made = _pod(there, ordinal, _revision_for(found, ordinal), number=number)
            there = replace(there, version=number, pods=(*there.pods, made))
        if found.ordered and not _is_available(there, found, pod):
            return there, False
    return there, True


def _deleted(there: World, pod: Pod) -> World:
    return replace(
        there, pods=tuple(replace(each, deleting=True) if each.uid == pod.uid else each for each in there.pods)
    )


def _shrunk(there: World, replicas: int, found: StatefulSetSeen, pods: dict[int, Pod]) -> World:
    """Deletes pods that are too many: with OrderedReady the highest, when all below are available; else all."""
    many = sorted((ordinal for ordinal in pods if ordinal >= replicas), reverse=True)
    waits = found.ordered and any(not _is_available(there, found, pods.get(ordinal)) for ordinal in range(replicas))
    for ordinal in [] if waits else many:
        if not pods[ordinal].deleting:
            there = _deleted(there, pods[ordinal])
        if found.ordered:
            break
    return there


def _replaced(there: World, replicas: int, found: StatefulSetSeen, pods: dict[int, Pod]) -> World:
    """Deletes the highest pod of another revision at or above the partition, if those above it are available."""
    if found.fields.on_delete:
        return there
    for ordinal in range(replicas - 1, min(found.fields.partition or 0, replicas) - 1, -1):
        pod = pods.get(ordinal)
        if pod is None:
            return there
        if pod.revision != found.update_revision and not pod.deleting:
            return _deleted(there, pod)
        if not _is_available(there, found, pod):
            return there
    return there


def _counted(there: World, workload: WorkloadSeen, found: StatefulSetSeen) -> World:
    """The status. When all pods are new and ready, the new revision is the current one, whatever the partition says."""
    staying = [pod for pod in there.pods if not pod.deleting]
    ready = sum(pod.ready for pod in there.pods)
    updated = sum(pod.revision == found.update_revision for pod in staying)
    current = found.current_revision
    if not found.fields.on_delete and len(there.pods) == ready == updated == workload.replicas:
        current = found.update_revision
    counted = replace(
        found,
        current_revision=current,
        pods=len(there.pods),
        ready=ready,
        current=sum(pod.revision == current for pod in staying),
        updated=updated,
    )
    available = sum(_is_available(there, found, pod) for pod in there.pods)
    told = replace(workload, in_place=counted, observed=True, available=available)
    if told == workload:
        return there
    number = there.version + 1
    return replace(there, version=number, workload=replace(told, resource_version=str(number)))
