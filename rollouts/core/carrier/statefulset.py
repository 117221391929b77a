"""Carries an update out in place: what the policy wants of ReplicaSets becomes the partition of a StatefulSet, and pods that go.

The policy decides as for ReplicaSets of its own (`as_own`): one for each revision, with the pods whose ordinals have that
revision or will have it. `carried` says the same to the StatefulSet's controller. It replaces pods from the top ordinal down to
the partition, one after the other, each when those above it are available; below the partition a pod that goes comes back with
the revision that was current before. Source: k8s.io/kubernetes pkg/controller/statefulset, stateful_set_control.go.

It takes no new pod back when the partition is raised. So what goes back (an abort, a rollback, a lower weight, a newer template)
is deleted here, pod by pod, once its controller has seen the partition. With OrderedReady the lowest pod that is not available
comes first: nothing above it is made again before it is ready.

Each pass makes one move, and waits until the StatefulSet's controller has seen it. The pods that the user's own `maxUnavailable`
promises (all but one where it says nothing) stay available at each move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct

from rollouts.core.carrier.deployment import rests_paused
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import earliest
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod, StepStatefulSet
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    AskPods,
    CreateReplicaSet,
    Decision,
    DeleteReplicaSet,
    Intent,
    PatchReplicaSet,
)
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.snapshot import Pod, ReplicaSet, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.workload import NO_POD, PartitionFields, PartitionHeld, StatefulSetSeen, WorkloadSeen
from rollouts.core.scale.canary_sizes import Sizes

_HOLDS = PartitionFields(partition=NO_POD)
"""The fields with which nothing follows the template."""


def as_own(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: with a ReplicaSet for each revision."""
    workload = seen.workload
    if not isinstance(workload, WorkloadSeen) or workload.stateful_set is None:
        return seen
    found = workload.stateful_set
    sets = _by_pods(seen, workload, found) if found.needs_pods else _by_status(seen, workload, found)
    there = {each.revision for each in sets}
    named = {found.update_revision, seen.rollout.spec.revision, seen.status.stable_revision} - there - {""}
    empty = [_set(workload, revision, spec_replicas=0) for revision in sorted(named)]
    return replace(seen, replica_sets=(*seen.replica_sets, *sets, *empty))


def _by_status(seen: Snapshot, workload: WorkloadSeen, found: StatefulSetSeen) -> list[ReplicaSet]:
    """All pods have one revision, as the status says."""
    revision = found.only_revision
    size, ready = seen.rollout.spec.replicas, min(found.ready, found.pods)
    available = min(workload.available, ready)
    made = _set(workload, revision, spec_replicas=size, replicas=found.pods, ready=ready, available=available)
    return [made] if revision else []


def _by_pods(seen: Snapshot, workload: WorkloadSeen, found: StatefulSetSeen) -> list[ReplicaSet]:
    places = _places(seen, found)
    pods = seen.pods.pods if seen.pods is not None else ()
    sets = []
    for revision in sorted({place.revision for place in places} | {pod.revision for pod in pods} - {""}):
        of_it = [place for place in places if place.revision == revision]
        made = _set(
            workload,
            revision,
            spec_replicas=len(of_it),
            replicas=sum(pod.revision == revision for pod in pods),
            ready=sum(place.is_ready for place in of_it),
            available=sum(place.is_available for place in of_it),
        )
        sets.append(made)
    return sets


def _set(
    workload: WorkloadSeen,
    revision: str,
    *,
    spec_replicas: int,
    replicas: int = 0,
    ready: int = 0,
    available: int = 0,
) -> ReplicaSet:
    return ReplicaSet(
        name=revision,
        uid=f"{workload.uid}/{revision}",
        resource_version=workload.resource_version,
        revision=revision,
        number=0,
        created_at_s=0.0,
        spec_replicas=spec_replicas,
        replicas=replicas,
        ready=ready,
        available=available,
        observed=workload.observed,
        min_ready_s=workload.stateful_set.min_ready_s if workload.stateful_set is not None else 0,
        inside=True,
    )


class _Place(Struct, frozen=True, kw_only=True):
    """One ordinal.

    Args:
        index: counted from the first ordinal.
        pod: None while there is none.
        revision: what it has, or will have: its pod is ending, or about to be replaced.
        is_ready: its pod has that revision, stays, and is ready.
        available_at_s: when that pod counts as available; None while it is not ready.
    """

    index: int
    pod: Pod | None
    revision: str
    is_ready: bool
    available_at_s: float | None
    now_s: float

    @property
    def is_available(self) -> bool:
        """Whether its pod stays, and has been ready for `minReadySeconds`."""
        return self.available_at_s is not None and self.available_at_s <= self.now_s


def _places(seen: Snapshot, found: StatefulSetSeen) -> tuple[_Place, ...]:
    """The ordinals that the StatefulSet has now, lowest first."""
    pods = {_ordinal(pod) - found.start: pod for pod in (seen.pods.pods if seen.pods is not None else ())}
    kept = 0 if found.fields.on_delete else found.fields.partition or 0
    places = []
    for index in range(seen.rollout.spec.replicas):
        pod = pods.get(index)
        stays = pod is not None and not pod.deleting
        if stays and pod is not None and (index < kept or found.fields.on_delete):
            revision = pod.revision
        else:
            revision = found.current_revision if index < kept else found.update_revision
        since_s = pod.ready_since_s if pod is not None and stays and pod.revision == revision and pod.ready else None
        available_at_s = None if since_s is None else since_s + found.min_ready_s
        places.append(
            _Place(
                index=index,
                pod=pod if stays else None,
                revision=revision,
                is_ready=since_s is not None,
                available_at_s=available_at_s,
                now_s=seen.now_s,
            )
        )
    return tuple(places)


def _ordinal(pod: Pod) -> int:
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdecimal() and len(number) < len(str(NO_POD)) else -1


def reachable(ctx: PassContext, sizes: Sizes) -> Sizes:
    """The nearest sizes that can be held.

    Pods of the new revision that a scale-up has made stay. Until the steps are over one old pod stays, if there are two: when the
    last one is ready, the StatefulSet's controller forgets the old revision, and nothing could go back to it.
    """
    workload, new, stable = ctx.seen.workload, ctx.new, ctx.stable
    found = workload.stateful_set if isinstance(workload, WorkloadSeen) else None
    if found is None or new is None or stable is None:
        return sizes
    back = ctx.aborted or ctx.stepped_back is not None
    if found.current_revision != stable.revision:
        return _held(sizes, new=new.spec_replicas) if back else _without_stable(ctx, sizes, stable)
    if back:
        return sizes
    replicas, made = ctx.spec.replicas, new.spec_replicas
    if found.held is not None and made > sizes.wanted_new:
        surplus = made if found.held.replicas != replicas else found.held.surplus
        kept = min(made, sizes.wanted_new + surplus)
        sizes = _held(sizes, new=kept) if kept > sizes.wanted_new else sizes
    steps_left = ctx.status.step_index < ctx.spec.strategy.step_count
    if steps_left and replicas > 1 and sizes.wanted_new >= replicas and made < replicas:
        most = replicas - 1
        new_size, stable_size = min(sizes.new, most), max(sizes.stable, 1)
        return replace(sizes, new=new_size, wanted_new=most, stable=stable_size, wanted_stable=1)
    return sizes


def _without_stable(ctx: PassContext, sizes: Sizes, stable: ReplicaSet) -> Sizes:
    """The sizes with pods of older revisions in place of stable ones, which its controller cannot make any more."""
    pods, older = ctx.spec.replicas - sizes.wanted_new - stable.spec_replicas, []
    for each, size in zip(ctx.older, sizes.older, strict=True):
        older.append(min(each.spec_replicas, max(size, pods)))
        pods -= older[-1]
    made = stable.spec_replicas
    return replace(
        sizes, older=tuple(older), stable=min(sizes.stable, made), wanted_stable=min(sizes.wanted_stable, made)
    )


def _held(sizes: Sizes, *, new: int) -> Sizes:
    """The sizes with so many pods of the new revision, now and when the step is done."""
    pods = max(sizes.new + sizes.stable, sizes.wanted_new + sizes.wanted_stable, new)
    return replace(sizes, new=new, wanted_new=new, stable=pods - new, wanted_stable=pods - new)


def carried(seen: Snapshot, decision: Decision) -> Decision:
    """The decision with the StatefulSet's partition, and pods that go, in place of sizes."""
    ours, others = list[Intent](), list[Intent]()
    for intent in decision.intents:
        of_sets = isinstance(intent, CreateReplicaSet | AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet)
        (ours if of_sets else others).append(intent)
    workload = seen.workload
    found = workload.stateful_set if isinstance(workload, WorkloadSeen) else None
    if not isinstance(workload, WorkloadSeen) or found is None or workload.deleting or workload.strays != ():
        return replace(decision, intents=tuple(others))
    update = _update(as_own(seen), decision, workload, found, ours)
    asks = AskPods(seen.rollout.spec.selector_text, workload.uid)
    rest = [asks if isinstance(each, AskPods) else each for each in others]
    due_s = [place.available_at_s for place in update.places if found.needs_pods]
    return replace(
        decision,
        intents=(*_moves(update), *rest),
        requeue_at_s=earliest([decision.requeue_at_s, *due_s], after_s=seen.now_s),
    )


class _Update(Struct, frozen=True, kw_only=True, dict=True):
    """What the policy wants, and where the pods are.

    Args:
        new, stable: revisions; "" for `stable` when it is `new`.
        forward: the StatefulSet's template is the current revision, and it is not aborted.
        over: the current revision is stable.
        durable: the published status says the same about revisions and aborts, and a first revision has been rolled out.
        sizes: by revision, as they are; `wanted`: as the policy wants them.
    """

    seen: Snapshot
    workload: WorkloadSeen
    found: StatefulSetSeen
    new: str
    stable: str
    forward: bool
    over: bool
    durable: bool
    sizes: dict[str, int]
    wanted: dict[str, int]

    @property
    def replicas(self) -> int:
        return self.seen.rollout.spec.replicas

    @cached_property
    def places(self) -> tuple[_Place, ...]:
        """The ordinals; none while the status alone says where the pods are."""
        return _places(self.seen, self.found) if self.found.needs_pods else ()

    @property
    def serving(self) -> str:
        """The revision that the StatefulSet keeps, whatever becomes of the update."""
        return self.new if self.over else self.stable

    @cached_property
    def spare(self) -> int:
        """Available pods that may go now."""
        limit = 1 if self.found.max_unavailable is None else self.found.max_unavailable
        _, missing = surge_and_unavailable(max_surge=0, max_unavailable=limit, replicas=self.replicas)
        if not self.found.needs_pods:
            available = sum(each.available for each in self.seen.replica_sets)
        else:
            available = sum(place.is_available for place in self.places)
        return available - (self.replicas - missing)

    @cached_property
    def agrees(self) -> bool:
        """Whether the pods are as its status counts them: the watch of pods may be behind that of the StatefulSet."""
        found = self.found
        if not found.needs_pods or self.seen.pods is None:
            return not found.needs_pods
        there = Counter(pod.revision for pod in self.seen.pods.pods if not pod.deleting)
        of_current = found.current_revision == found.update_revision or there[found.current_revision] == found.current
        return of_current and there[found.update_revision] == found.updated

    @property
    def kept(self) -> int:
        """Pods below the partition."""
        return min(self.found.fields.partition or 0, self.replicas)

    def step(
        self, fields: PartitionFields, *, surplus: int = 0, own: PartitionFields | None = None
    ) -> tuple[StepStatefulSet, ...]:
        """One write of the StatefulSet with the next number of the note, or the first one.

        Args:
            own: the user's fields; None for those of the note, or those that it has now.
        """
        held = self.found.held
        own = own or (self.own if held is None else held.own)
        note = PartitionHeld(
            number=1 if held is None else held.number + 1,
            replicas=self.replicas,
            partition=fields.partition or 0,
            own=own,
            surplus=surplus,
        )
        return (_step(self.workload, fields, note),)

    @property
    def own(self) -> PartitionFields:
        """The user's fields, before the first note."""
        found = self.found
        return found.replaced if found.replaced is not None and found.fields.partition == NO_POD else found.fields

    @property
    def stops(self) -> bool:
        """Whether nothing follows the template by itself."""
        return self.found.fields.on_delete or self.found.fields.partition == NO_POD


def _update(
    seen: Snapshot, decision: Decision, workload: WorkloadSeen, found: StatefulSetSeen, intents: Iterable[Intent]
) -> _Update:
    status, sets = decision.status, {each.uid: each for each in seen.replica_sets if each.inside}
    aborted = status.abort is not None and status.abort.revision == status.current_revision
    over = status.stable_revision == status.current_revision
    sizes = {each.revision: each.spec_replicas for each in sets.values()}
    patches = {
        sets[each.uid].revision: each.replicas
        for each in intents
        if isinstance(each, PatchReplicaSet) and each.uid in sets and each.replicas is not None
    }
    return _Update(
        seen=seen,
        workload=workload,
        found=found,
        new=status.current_revision,
        stable="" if over else status.stable_revision,
        forward=status.current_revision == seen.rollout.spec.revision and not aborted,
        over=over,
        durable=bool(seen.status.stable_revision) and _roles(seen.status) == _roles(status),
        sizes=sizes,
        wanted={**sizes, **patches},
    )


def _roles(status: RolloutStatus) -> tuple[object, ...]:
    """What one decision alone may change: the next pass carries it out."""
    return status.current_revision, status.stable_revision, status.abort, status.analyses, status.commands


def _moves(update: _Update) -> tuple[Intent, ...]:
    """The next move. The status that it follows from was published before, and the last one was seen."""
    if not update.durable or not update.workload.observed:
        return ()
    found, held = update.found, update.found.held
    others = [revision for revision, size in update.sizes.items() if size and revision != update.serving]
    if update.over and update.forward and not others:
        return _at_rest(update)
    if held is None:
        return _begun(update)
    if found.fields.on_delete or (found.fields.partition or 0) < held.partition:
        return update.step(PartitionFields(partition=held.partition), surplus=held.surplus)  # somebody lowered it
    if update.forward and (moved := _scaled(update, held)):
        return moved
    leaving = [revision for revision in others if revision != update.new or not update.forward]
    fewer = update.sizes.get(update.new, 0) - update.wanted.get(update.new, 0)
    if update.forward and found.current_revision != update.serving:
        return _forward(update, held)  # a pod that goes would not come back as a stable one
    if leaving or not update.forward or fewer > 0:
        return _back(update, leaving, fewer=fewer)
    return _forward(update, held)


def _begun(update: _Update) -> tuple[Intent, ...]:
    """Begins when the first pod of the update is wanted, or nothing keeps pods from being new.

    One write notes the user's fields, and sets the partition that no pod is above.
    """
    if update.over and update.forward:  # its own controller takes away what is left
        return ()
    if update.found.fields.on_delete and update.found.current_revision != update.serving:
        return ()  # a pod that goes would come back with a revision of long ago
    wanted = update.forward and update.wanted != update.sizes
    leaving = not update.forward and any(size and each != update.serving for each, size in update.sizes.items())
    return update.step(_HOLDS) if wanted or leaving or not update.stops else ()


def _scaled(update: _Update, held: PartitionHeld) -> tuple[Intent, ...]:
    """After a change of `replicas` in a step the same number of pods stays new; what a scale-up has made above it is told."""
    before = max(0, held.replicas - held.partition)
    if held.replicas == update.replicas or update.found.fields.partition == NO_POD or before == 0:
        return ()
    partition = max(update.replicas - before, update.kept)
    surplus = sum(place.revision == update.new and place.index < partition for place in update.places)
    return update.step(PartitionFields(partition=partition), surplus=surplus)


def _back(update: _Update, leaving: list[str], *, fewer: int) -> tuple[Intent, ...]:
    """Raises the partition, then deletes pods, which come back with the revision that stays.

    Pods that are not ready cost nothing; of the others one goes at a time, the highest first.

    Args:
        leaving: the revisions of which no pod stays.
        fewer: so many pods of the new revision go.
    """
    if update.found.current_revision != update.serving:
        return ()  # a pod that goes would come back as it is
    stays = update.wanted.get(update.new, 0) if update.forward and not update.over else 0
    partition = NO_POD if stays == 0 else update.replicas - stays
    now = update.found.fields.partition or 0
    if now < partition:
        return update.step(PartitionFields(partition=partition))
    below = [place for place in update.places if place.index < now and place.pod is not None]
    surplus = [place for place in below if place.revision == update.new and place.revision not in leaving]
    taken = surplus[-fewer:] if fewer > 0 else []
    goes = [place for place in below if place.revision in leaving or place in taken]
    broken = [place for place in goes if not place.is_ready]
    if broken:
        chosen = broken[0] if update.found.ordered else broken[-1]
    elif goes and update.spare > 0 and update.agrees:
        chosen = goes[-1]
    else:
        return ()
    assert chosen.pod is not None  # noqa: S101 - only places with a pod are looked at
    pod = chosen.pod
    return (DeletePod(name=pod.name, uid=pod.uid, resource_version=pod.resource_version),)


def _forward(update: _Update, held: PartitionHeld) -> tuple[Intent, ...]:
    """Lowers the partition as far as the policy wants and pods can be spared: those that go are the highest, ready or not."""
    partition, spare = update.kept, update.spare if update.agrees else 0
    wanted = sum(size for revision, size in update.wanted.items() if revision != update.new) if not update.over else 0
    places = {place.index: place for place in update.places}
    old = update.kept - sum(place.revision == update.new and place.index < update.kept for place in update.places)
    while old > wanted:
        place = places.get(partition - 1)
        is_old = place is None or place.revision != update.new
        costs = is_old and (place is None or place.is_ready)
        if costs and spare <= 0:
            break
        spare, old, partition = spare - costs, old - is_old, partition - 1
    if partition == update.kept:
        return ()
    surplus = sum(place.revision == update.new and place.index < partition for place in update.places)
    return update.step(PartitionFields(partition=partition), surplus=min(held.surplus, surplus))


def _at_rest(update: _Update) -> tuple[Intent, ...]:
    """All pods have the revision that is stable: the user gets the fields back once the controller takes it for current.

    With OnDelete it never does: so for that moment the type is RollingUpdate.
    """
    found, held = update.found, update.found.held
    own = update.own if held is None else held.own
    settled = found.current_revision == found.update_revision
    complete = found.only_revision == found.update_revision and found.pods == found.ready == update.replicas
    if not settled:
        begins = held is None and own.on_delete and complete
        return update.step(_HOLDS) if begins else ()
    rests = False if own.on_delete else rests_paused(update.seen, update.workload)
    if rests or (rests is None and held is not None):  # what holds it is asked once it rests
        if held is not None and found.fields == _HOLDS:
            return ()
        theirs = None if held is None or (found.fields.partition or 0) == held.partition else found.fields
        return update.step(_HOLDS, own=theirs)
    if rests is None or (held is None and found.fields == own):
        return ()
    return (_step(update.workload, own, None),)


def _step(workload: WorkloadSeen, fields: PartitionFields, held: PartitionHeld | None) -> StepStatefulSet:
    name, uid, version = workload.name, workload.uid, workload.resource_version
    return StepStatefulSet(name=name, uid=uid, resource_version=version, fields=fields, held=held)
