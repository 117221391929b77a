"""An update in place as its carriers see it: what the policy wants, where the ReplicaSets are, and the moves of each of them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import MoveReplicaSet, StepDeployment
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    CreateReplicaSet,
    Decision,
    DeleteReplicaSet,
    Intent,
    PatchReplicaSet,
    ReplicaSetIntent,
)
from rollouts.core.model.limits import resolved_surge, resolved_unavailable
from rollouts.core.model.rollout import IntOrPercent, Percent, Strategy, named_services
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.workload import DeploymentSeen, Held, UpdateFields, WorkloadSeen

HELD_MIN_READY_S = 2_147_483_646
HELD_DEADLINE_S = 2_147_483_647
"""`minReadySeconds` and `progressDeadlineSeconds` during an update; the API wants the second to be larger."""

ONE_NEW_POD = UpdateFields(
    max_surge=1, max_unavailable=0, min_ready_s=HELD_MIN_READY_S, progress_deadline_s=HELD_DEADLINE_S
)
"""The fields of a Deployment that stays paused: whoever resumes it by hand gets one new pod, and loses no old one."""


def parted(intents: Iterable[Intent]) -> tuple[tuple[ReplicaSetIntent, ...], tuple[Intent, ...]]:
    """The intents about ReplicaSets, in whose place a carrier puts its moves, and all others."""
    sets, others = list[ReplicaSetIntent](), list[Intent]()
    for intent in intents:
        match intent:
            case CreateReplicaSet() | AdoptReplicaSet() | PatchReplicaSet() | DeleteReplicaSet():
                sets.append(intent)
            case _:
                others.append(intent)
    return tuple(sets), tuple(others)


class Update(Struct, frozen=True, kw_only=True):
    """What the policy wants, and where the ReplicaSets are.

    Args:
        new: ReplicaSet of the current revision; None while it is not made.
        stable: the one that was promoted last; None when it is `new` or missing.
        older: all others.
        forward: the Deployment's template is the current revision, and it is not aborted.
        over: the current revision is stable.
        durable: the status that it follows from is published, and a first revision has been rolled out.
        creates: the policy makes the ReplicaSet of the current revision.
        patches: of sizes, by uid.
    """

    seen: Snapshot
    workload: WorkloadSeen
    deployment: DeploymentSeen
    new: ReplicaSet | None
    stable: ReplicaSet | None
    older: tuple[ReplicaSet, ...]
    forward: bool
    over: bool
    durable: bool
    creates: bool
    patches: dict[str, PatchReplicaSet]

    @property
    def replicas(self) -> int:
        return self.seen.rollout.spec.replicas

    @property
    def strategy(self) -> Strategy:
        return self.seen.rollout.spec.strategy

    @property
    def drains(self) -> bool:
        """Services or routers say which pods get requests, and pods that they leave drain: only the policy ends those."""
        return bool(named_services(self.strategy)) or not self.strategy.by_ratio

    @property
    def overwritten(self) -> bool:
        """Whether somebody else has written the fields of a step since our last write."""
        held = self.deployment.held
        return held is not None and held.written not in (None, self.deployment.fields)

    @property
    def serving(self) -> ReplicaSet | None:
        """The ReplicaSet that the Deployment keeps, whatever becomes of the update."""
        return self.new if self.over else self.stable

    @property
    def others_inside(self) -> tuple[ReplicaSet, ...]:
        """The ReplicaSets with pods that the Deployment controls besides the serving one."""
        found = [each for each in (self.new, self.stable, *self.older) if each is not None and each is not self.serving]
        return tuple([each for each in found if each.inside and each.spec_replicas > 0])

    @property
    def settled(self) -> bool:
        """Whether the Deployment's controller has carried out what its fields say.

        Its ReplicaSets may be seen a moment after its status, so their sizes are compared, too. After a change of `replicas` it
        has spread them in proportion, and only their sum is known; so has it when a ReplicaSet returns that such a change has
        missed. Fewer old pods than its fields say stay as they are: it never makes more, nor more new ones than `replicas`.
        """
        found, new, stable, replicas = self.deployment, self.new, self.stable, self.replicas
        if found.paused or new is None or stable is None or found.held is None:
            return True
        added = resolved_surge(found.fields.max_surge or 0, replicas=replicas)
        kept = replicas - resolved_unavailable(found.fields.max_unavailable or 0, replicas=replicas)
        grown = new.spec_replicas == min(replicas, replicas + added - stable.spec_replicas)
        return grown and (stable.spec_replicas <= kept or found.held.replicas != replicas)

    def wanted(self, replica_set: ReplicaSet | None) -> int:
        """The size that the policy wants."""
        if replica_set is None:
            return 0
        patch = self.patches.get(replica_set.uid)
        return replica_set.spec_replicas if patch is None or patch.replicas is None else patch.replicas

    def outside(self, *, grows: bool = False) -> tuple[PatchReplicaSet, ...]:
        """The sizes of ReplicaSets that are not the Deployment's, of those that shrink.

        None while its controller has not carried out the fields in force: they may still take pods that the policy counts on.
        Nor while it is not known since when a pod is ready: the policy counts it as unavailable, and would end it first.

        Args:
            grows: of all of them, because the Deployment's controller does not make their pods.
        """
        if not self.settled or unlisted(self.seen):
            return ()
        sets = [each for each in self.seen.replica_sets if not each.inside]
        changed = [resized(each, self.wanted(each)) for each in sets if self.wanted(each) < each.spec_replicas]
        if grows:
            larger = [resized(each, self.wanted(each)) for each in sets if self.wanted(each) > each.spec_replicas]
            changed = [*(replace(patch, resource_version="") for patch in larger), *changed]
        return tuple(changed)

    def step(
        self, fields: UpdateFields | None = None, *, paused: bool, held: Held | None = None
    ) -> tuple[StepDeployment, ...]:
        """One write to the Deployment; () if it says the same already. Nothing lets its controller go on by itself after it.

        Args:
            fields: None for those that it has.
            held: the note; None for the next number of the present one.
        """
        found, workload = self.deployment, self.workload
        fields = found.fields if fields is None else fields
        fields = replace(fields, min_ready_s=HELD_MIN_READY_S, progress_deadline_s=HELD_DEADLINE_S)
        if (found.paused, found.fields) == (paused, fields) and held is None:
            return ()
        note = held
        if note is None and found.held is not None:
            note = replace(found.held, number=found.held.number + 1, replicas=self.replicas)
        return (stepped(workload, paused=paused, fields=fields, held=note),)

    def move(self, replica_set: ReplicaSet, *, into: bool) -> tuple[MoveReplicaSet]:
        """The write that gives a ReplicaSet another controller."""
        name, uid, version = replica_set.name, replica_set.uid, replica_set.resource_version
        return (MoveReplicaSet(name=name, uid=uid, resource_version=version, revision=replica_set.revision, into=into),)


def update_of(
    seen: Snapshot,
    decision: Decision,
    workload: WorkloadSeen,
    deployment: DeploymentSeen,
    intents: Iterable[Intent],
) -> Update:
    """The update that a decision about a Deployment in place means; `intents` are those on ReplicaSets."""
    status = decision.status
    sets = {each.revision: each for each in seen.replica_sets if not each.deleting}
    new, stable = sets.get(status.current_revision), sets.get(status.stable_revision)
    aborted = status.abort is not None and status.abort.revision == status.current_revision
    over = status.stable_revision == status.current_revision
    return Update(
        seen=seen,
        workload=workload,
        deployment=deployment,
        new=new,
        stable=None if over else stable,
        older=tuple([each for each in sets.values() if each is not new and each is not stable]),
        forward=status.current_revision == seen.rollout.spec.revision and not aborted,
        over=over,
        durable=is_published(seen, status),
        creates=any(isinstance(intent, CreateReplicaSet) for intent in intents),
        patches={intent.uid: intent for intent in intents if isinstance(intent, PatchReplicaSet)},
    )


def is_published(seen: Snapshot, status: RolloutStatus) -> bool:
    """Whether a first revision has been rolled out, and the API has what only a decision can change.

    What follows from a decision is written after it, as a pass may crash.
    """
    return bool(seen.status.stable_revision) and _decided(seen.status) == _decided(status)


def _decided(status: RolloutStatus) -> tuple[object, ...]:
    return status.current_revision, status.stable_revision, status.abort, status.analyses, status.commands


def begins(update: Update) -> bool:
    """Whether the first pods of the update are wanted, or nothing keeps them from being made."""
    new = update.new
    grows = new is not None and not update.over and update.wanted(new) > new.spec_replicas
    return not update.deployment.paused or (update.forward and (update.creates or grows))


def held(update: Update, fields: UpdateFields | None = None) -> tuple[Intent, ...]:
    """Begins: one write pauses the Deployment, notes its user's fields and inflates what would let its controller go on."""
    note = Held(number=1, replicas=update.replicas, own=update.deployment.fields)
    return update.step(fields, paused=True, held=note)


def taken_out(update: Update, out: Iterable[ReplicaSet]) -> tuple[Intent, ...]:
    """Pauses the Deployment, then makes the Rollout the controller of what must leave it.

    The stable ReplicaSet has a pod before: else the Deployment's controller would grow the newest of the others.
    """
    if not update.deployment.paused:
        return update.step(paused=True)
    serving = update.serving
    if serving is None:
        return ()
    if serving.spec_replicas == 0 and update.replicas > 0:
        pods = sum(each.spec_replicas for each in update.seen.replica_sets if each.inside)
        room = replace(update.deployment.fields, max_surge=max(1, pods + 1 - update.replicas), max_unavailable=0)
        return update.step(room, paused=True) or (resized(serving, 1),)
    return (*update.outside(), *(move for each in out for move in update.move(each, into=False)))


def back(update: Update) -> tuple[Intent, ...]:
    """After an abort or a rollback: the stable ReplicaSet is alone in the paused Deployment; the others shrink as it grows."""
    serving = update.serving
    settled = serving is not None and serving.spec_replicas >= update.replicas
    fields = ONE_NEW_POD if settled else None
    return (*(update.outside() if update.deployment.paused else ()), *update.step(fields, paused=True))


def surge(pods: int, *, replicas: int) -> IntOrPercent:
    """`pods` as a share, where one says exactly that: then its controller keeps the ratio when `replicas` changes."""
    share = Percent(100 * pods // replicas) if replicas else Percent(101)
    return share if share.value <= 100 and resolved_surge(share, replicas=replicas) == pods else pods


def unavailable(pods: int, *, replicas: int) -> IntOrPercent:
    """As `surge`; a share of unavailable pods rounds down."""
    share = Percent(-(-100 * pods // replicas))
    return share if resolved_unavailable(share, replicas=replicas) == pods else pods


def resized(replica_set: ReplicaSet, replicas: int) -> PatchReplicaSet:
    """The write of another size, if the ReplicaSet has not changed since."""
    return PatchReplicaSet(
        name=replica_set.name,
        uid=replica_set.uid,
        revision=replica_set.revision,
        resource_version=replica_set.resource_version,
        replicas=replicas,
    )


def stepped(workload: WorkloadSeen, *, paused: bool, fields: UpdateFields, held: Held | None) -> StepDeployment:
    """The write of a Deployment's fields, with a note of them."""
    held = None if held is None else replace(held, written=fields)
    name, uid, version = workload.name, workload.uid, workload.resource_version
    return StepDeployment(name=name, uid=uid, resource_version=version, paused=paused, fields=fields, held=held)


def ready_since_s(seen: Snapshot, replica_set: ReplicaSet) -> list[float]:
    """Since when its ready pods are, of those that the latest list of pods shows; it may show fewer."""
    pods = () if seen.pods is None else seen.pods.pods
    return [
        pod.ready_since_s
        for pod in pods
        if pod.ready_since_s is not None and pod.ready and not pod.deleting and pod.revision == replica_set.revision
    ]


def unlisted(seen: Snapshot) -> list[ReplicaSet]:
    """ReplicaSets with ready pods that do not count as available in the API, and of which no list shows since when they are."""
    held = [each for each in seen.replica_sets if each.min_ready_s == HELD_MIN_READY_S]
    return [each for each in held if seen.rollout.spec.min_ready_s and len(ready_since_s(seen, each)) < each.ready]
