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
from rollouts.core.carrier.ordinals import Ordinal, as_own, places_of
from rollouts.core.carrier.update_in_place import is_published, parted
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import earliest
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import DeletePod, StepStatefulSet
from rollouts.core.model.intents import (
    AskPods,
    Decision,
    Intent,
    PatchReplicaSet,
)
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.snapshot import Pod, ReplicaSet, Snapshot
from rollouts.core.model.workload import (
    NO_POD,
    PartitionFields,
    PartitionHeld,
    StatefulSetSeen,
    WorkloadSeen,
    to_write,
)
from rollouts.core.scale.canary_sizes import Sizes

_HOLDS = PartitionFields(partition=NO_POD)
"""The fields with which nothing follows the template."""


def reachable(ctx: PassContext, sizes: Sizes) -> Sizes:
    """The nearest sizes that can be held.

    Pods of the new revision that a scale-up has made stay. Until the steps are over one old pod stays, if there are two: when the
    last one is ready, the StatefulSet's controller forgets the old revision, and nothing could go back to it.
    """
    workload, new, stable = ctx.seen.workload, ctx.new, ctx.stable
    found = workload.stateful_set if isinstance(workload, WorkloadSeen) else None
    if found is None or new is None or stable is None:
        return sizes
    back, made = ctx.aborted or ctx.stepped_back is not None, new.spec_replicas
    if found.current_revision != stable.revision:
        return _held(sizes, new=made) if back else _without_stable(ctx, sizes, stable)
    if back:
        return sizes
    surplus = _surplus(found, made, replicas=ctx.spec.replicas)
    kept = min(made, sizes.wanted_new + surplus)
    if kept > sizes.wanted_new:
        sizes = _held(sizes, new=kept)
    most = max(1, ctx.spec.replicas - 1)
    if ctx.status.step_index < ctx.spec.strategy.step_count and made <= most < sizes.wanted_new:
        return replace(sizes, new=min(sizes.new, most), wanted_new=most, stable=max(sizes.stable, 1), wanted_stable=1)
    return sizes


def _surplus(found: StatefulSetSeen, made: int, *, replicas: int) -> int:
    """How many pods of the new revision may be there beyond the step; all of them before the note knows of a scaling."""
    if found.held is None:
        return 0
    return made if found.held.replicas != replicas else found.held.surplus


def _without_stable(ctx: PassContext, sizes: Sizes, stable: ReplicaSet) -> Sizes:
    """The sizes with pods of older revisions in place of stable ones, which its controller cannot make any more, or new ones."""
    pods, older = ctx.spec.replicas - sizes.wanted_new - stable.spec_replicas, []
    for each, size in zip(ctx.older, sizes.older, strict=True):
        older.append(min(each.spec_replicas, max(size, pods)))
        pods -= older[-1]
    made, wanted_new = stable.spec_replicas, sizes.wanted_new + max(pods, 0)
    return replace(
        sizes,
        older=tuple(older),
        new=max(sizes.new, wanted_new),
        wanted_new=wanted_new,
        stable=min(sizes.stable, made),
        wanted_stable=min(sizes.wanted_stable, made),
    )


def _held(sizes: Sizes, *, new: int) -> Sizes:
    """The sizes with so many pods of the new revision, now and when the step is done."""
    pods = max(sizes.new + sizes.stable, sizes.wanted_new + sizes.wanted_stable, new)
    return replace(sizes, new=new, wanted_new=new, stable=pods - new, wanted_stable=pods - new)


def carried(seen: Snapshot, decision: Decision) -> Decision:
    """The decision with the StatefulSet's partition, and pods that go, in place of sizes."""
    workload, (ours, others) = to_write(seen.workload, seen.rollout.name), parted(decision.intents)
    if workload is None or workload.stateful_set is None:
        return replace(decision, intents=others)
    update = _update(as_own(seen), decision, workload, workload.stateful_set, ours)
    asks = AskPods(seen.rollout.spec.selector_text, workload.uid)
    rest = [asks if isinstance(each, AskPods) else each for each in others]
    due_s = [place.available_at_s for place in update.places]
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
        durable: the status that it follows from is published, and a first revision has been rolled out.
        sizes: by revision, as they are; `wanted`: as the policy wants them.
    """

    seen: Snapshot
    workload: WorkloadSeen
    found: StatefulSetSeen
    places: tuple[Ordinal, ...]
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

    @property
    def serving(self) -> str:
        """The revision that the StatefulSet keeps, whatever becomes of the update."""
        return self.new if self.over else self.stable

    @property
    def returns(self) -> bool:
        """Whether a pod below the partition that goes comes back with the revision that stays."""
        return self.found.current_revision == self.serving

    @property
    def others(self) -> list[str]:
        """Revisions with pods that do not stay, whatever becomes of the update."""
        return [revision for revision, size in self.sizes.items() if size and revision != self.serving]

    @property
    def leaving(self) -> list[str]:
        """Revisions of which no pod stays."""
        return [revision for revision in self.others if revision != self.new or not self.forward]

    @property
    def fewer(self) -> int:
        """So many pods of the new revision go."""
        return self.sizes.get(self.new, 0) - self.wanted.get(self.new, 0)

    @cached_property
    def spare(self) -> int:
        """Available pods that may go now: none while the pods are not as its status counts them.

        The watch of pods may be behind that of the StatefulSet.
        """
        found, limit = self.found, 1 if self.found.max_unavailable is None else self.found.max_unavailable
        if found.needs_pods:
            there = Counter(pod.revision for pod in (self.seen.pods.pods if self.seen.pods else ()) if not pod.deleting)
            counted = {found.current_revision: found.current} | {found.update_revision: found.updated}
            if any(there[revision] != pods for revision, pods in counted.items()):
                return 0
        _, missing = surge_and_unavailable(max_surge=0, max_unavailable=limit, replicas=self.replicas)
        return sum(place.is_available for place in self.places) - (self.replicas - missing)

    @property
    def kept(self) -> int:
        """Pods below the partition."""
        return min(self.found.fields.partition or 0, self.replicas)

    def new_below(self, partition: int) -> list[Ordinal]:
        """The places of the new revision below a partition."""
        return [place for place in self.places if place.revision == self.new and place.index < partition]

    def step(
        self, fields: PartitionFields, *, surplus: int = 0, own: PartitionFields | None = None
    ) -> tuple[StepStatefulSet, ...]:
        """One write of the StatefulSet with the next number of the note, or the first one.

        Args:
            own: the user's fields; None for those of the note, or those that it has now.
        """
        note = PartitionHeld(
            number=1 if self.found.held is None else self.found.held.number + 1,
            replicas=self.replicas,
            partition=fields.partition or 0,
            own=own or self.own,
            surplus=surplus,
        )
        return (_step(self.workload, fields, note),)

    @property
    def own(self) -> PartitionFields:
        """The user's fields."""
        found = self.found
        if found.held is not None:
            return found.held.own
        return found.replaced if found.replaced is not None and found.is_stopped else found.fields


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
        places=places_of(seen, workload, found),
        new=status.current_revision,
        stable="" if over else status.stable_revision,
        forward=status.current_revision == seen.rollout.spec.revision and not aborted,
        over=over,
        durable=is_published(seen, status),
        sizes=sizes,
        wanted={**sizes, **patches},
    )


def _moves(update: _Update) -> tuple[Intent, ...]:
    """The next move. The status that it follows from was published before, and the last one was seen."""
    if not update.durable or not update.workload.observed:
        return ()
    found, held = update.found, update.found.held
    if update.over and update.forward and not update.others:
        return _at_rest(update)
    if held is None:
        return _begun(update)
    if found.fields.on_delete or (found.fields.partition or 0) < held.partition:
        return update.step(PartitionFields(partition=held.partition), surplus=held.surplus)  # somebody lowered it
    if not update.forward:
        return _back(update)
    onward = not update.returns or (not update.leaving and update.fewer <= 0)
    return _scaled(update, held) or (_forward(update, held) if onward else _back(update))


def _begun(update: _Update) -> tuple[Intent, ...]:
    """Begins when the first pod of the update is wanted, or nothing keeps pods from being new.

    One write notes the user's fields, and sets the partition that no pod is above.
    """
    fields = update.found.fields
    if update.over and update.forward:  # its own controller takes away what is left
        return ()
    if fields.on_delete and not update.returns:
        return ()  # a pod that goes would come back with a revision of long ago
    moves = update.wanted != update.sizes if update.forward else bool(update.others)
    stops = fields.on_delete or fields.partition == NO_POD
    return update.step(_HOLDS) if moves or not stops else ()


def _scaled(update: _Update, held: PartitionHeld) -> tuple[Intent, ...]:
    """After a change of `replicas` in a step the same number of pods stays new; what a scale-up has made above it is told."""
    before = max(0, held.replicas - held.partition)
    if held.replicas == update.replicas or update.found.fields.partition == NO_POD or before == 0:
        return ()
    partition = max(update.replicas - before, update.kept)
    return update.step(PartitionFields(partition=partition), surplus=len(update.new_below(partition)))


def _back(update: _Update) -> tuple[Intent, ...]:
    """Raises the partition, then deletes pods, which come back with the revision that stays."""
    if not update.returns:
        return ()  # a pod that goes would come back as it is
    stays = update.wanted.get(update.new, 0) if update.forward and not update.over else 0
    partition, now = NO_POD if stays == 0 else update.replicas - stays, update.found.fields.partition or 0
    if now < partition:
        return update.step(PartitionFields(partition=partition))
    goes = [place for place in update.places if place.index < now and place.revision in update.leaving]
    if update.forward and update.fewer > 0:
        goes += update.new_below(now)[-update.fewer :]
    return _deleted(update, [place.pod for place in goes if place.pod is not None])


def _deleted(update: _Update, pods: list[Pod]) -> tuple[Intent, ...]:
    """The deletion of one of these pods, lowest first.

    One that is not ready costs nothing: with OrderedReady the lowest of them. Else the highest goes, if it can be spared.
    """
    broken = [pod for pod in pods if not pod.ready]
    if broken:
        pod = broken[0] if update.found.ordered else broken[-1]
    elif pods and update.spare > 0:
        pod = pods[-1]
    else:
        return ()
    return (DeletePod(name=pod.name, uid=pod.uid, resource_version=pod.resource_version),)


def _forward(update: _Update, held: PartitionHeld) -> tuple[Intent, ...]:
    """Lowers the partition as far as the policy wants and pods can be spared: those that go are the highest, ready or not."""
    partition, spare = update.kept, update.spare
    old = partition - len(update.new_below(partition))
    wanted = sum(size for revision, size in update.wanted.items() if revision != update.new) if not update.over else 0
    while old > wanted:
        place = update.places[partition - 1]
        is_old = place.revision != update.new
        costs = is_old and place.is_ready
        if costs and spare <= 0:
            break
        spare, old, partition = spare - costs, old - is_old, partition - 1
    if partition == update.kept:
        return ()
    surplus = min(held.surplus, len(update.new_below(partition)))
    return update.step(PartitionFields(partition=partition), surplus=surplus)


def _at_rest(update: _Update) -> tuple[Intent, ...]:
    """All pods have the revision that is stable: the user gets the fields back once the controller takes it for current."""
    found, held, own = update.found, update.found.held, update.own
    if found.current_revision != found.update_revision:
        # With OnDelete it never does: so for that moment the type is RollingUpdate.
        complete = found.only_revision == found.update_revision and found.pods == found.ready == update.replicas
        return update.step(_HOLDS) if held is None and own.on_delete and complete else ()
    rests = False if own.on_delete else rests_paused(update.seen, update.workload)
    if rests or (rests is None and held is not None):  # what holds it is asked once it rests
        return _held_at_rest(update)
    if rests is None or (held is None and found.fields == own):
        return ()
    if held is None and found.fields.partition == NO_POD:  # what a policy has stopped stays so without a note
        return update.step(_HOLDS)
    return (_step(update.workload, own, None),)


def _held_at_rest(update: _Update) -> tuple[Intent, ...]:
    """Between updates the partition stands where no policy sets it in time; a manifest that names another one is noted."""
    found, held = update.found, update.found.held
    if held is None or found.fields == _HOLDS:
        return update.step(_HOLDS) if held is None or held.partition != NO_POD else ()
    is_ours = not found.fields.on_delete and (found.fields.partition or 0) == held.partition
    return update.step(_HOLDS, own=None if is_ours else found.fields)


def _step(workload: WorkloadSeen, fields: PartitionFields, held: PartitionHeld | None) -> StepStatefulSet:
    name, uid, version = workload.name, workload.uid, workload.resource_version
    return StepStatefulSet(name=name, uid=uid, resource_version=version, fields=fields, held=held)
