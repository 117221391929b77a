"""Carries an update out in place: what the policy wants of ReplicaSets becomes fields of the Deployment that controls them.

The policy decides as for ReplicaSets of its own (`as_own`). `carried` says the same to the Deployment's controller, which obeys
exactly: with an inflated `minReadySeconds` no new pod ever counts as available to it, so `maxUnavailable` = R − old keeps that
many old pods, and `maxSurge` = new + old − R allows that many new ones. Source: k8s.io/kubernetes pkg/controller/deployment,
rolling.go and sync.go.

It cannot grow old pods again. So what goes back (an abort, a rollback, a lower weight, a newer template) leaves the Deployment:
the Rollout becomes the controller of that ReplicaSet, and the paused Deployment grows the only one that it has left by itself.
Forward again, the ReplicaSet returns, and no pod starts twice.

Each pass makes one move, and waits until the Deployment's controller has carried it out.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import earliest
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    AskPods,
    CreateInDeployment,
    CreateReplicaSet,
    Decision,
    DeleteReplicaSet,
    Intent,
    MoveReplicaSet,
    Notice,
    PatchReplicaSet,
    StepDeployment,
)
from rollouts.core.model.limits import resolved_surge, resolved_unavailable
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import IntOrPercent, Percent
from rollouts.core.model.snapshot import ReplicaSet, Snapshot, is_in_place
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.workload import DeploymentSeen, Held, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import Hold
from rollouts.core.scale.canary_sizes import Sizes
from rollouts.core.scale.restarts import PODS_AGAIN_S

HELD_MIN_READY_S = 2_147_483_646
HELD_DEADLINE_S = 2_147_483_647
"""`minReadySeconds` and `progressDeadlineSeconds` during an update; the API wants the second to be larger."""

_AFTER_AN_ABORT = UpdateFields(max_surge=1, max_unavailable=0)
"""The fields while an update is aborted: whoever resumes the Deployment by hand gets one new pod, and loses no old one."""


def as_own(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: pods count as available as the user's own `minReadySeconds` says.

    While that is not known, ready pods of a ReplicaSet that has left the Deployment count, or they would go first. In the
    Deployment they do not: a step ends by them.
    """
    if not is_in_place(seen):
        return seen
    sets = []
    for each in seen.replica_sets:
        if each.min_ready_s == HELD_MIN_READY_S:
            known = _available(seen, each)
            unknown = 0 if each.inside else each.ready - len(_ready_since_s(seen, each))
            available = min(each.ready, known + max(0, unknown))
            sets.append(replace(each, available=available, min_ready_s=seen.rollout.spec.min_ready_s))
        else:
            sets.append(each)
    return replace(seen, replica_sets=tuple(sets))


def _available(seen: Snapshot, replica_set: ReplicaSet) -> int:
    """Pods that have been ready for `minReadySeconds`; only the list of pods says since when they are."""
    wanted_s = seen.rollout.spec.min_ready_s
    if wanted_s == 0:
        return replica_set.ready
    since_s = _ready_since_s(seen, replica_set)
    return sum(seen.now_s - at_s >= wanted_s for at_s in since_s)


def _ready_since_s(seen: Snapshot, replica_set: ReplicaSet) -> list[float]:
    pods = () if seen.pods is None else seen.pods.pods
    return [
        pod.ready_since_s
        for pod in pods
        if pod.ready_since_s is not None and pod.ready and not pod.deleting and pod.revision == replica_set.revision
    ]


def _with_pods_listed(seen: Snapshot, decision: Decision) -> Decision:
    """With a question about pods that have become ready since they were listed, and a look when the next one is available."""
    wanted_s, now_s = seen.rollout.spec.min_ready_s, seen.now_s
    held = [each for each in seen.replica_sets if each.min_ready_s == HELD_MIN_READY_S] if wanted_s else []
    list_at_s = None
    if any(len(_ready_since_s(seen, each)) < each.ready for each in held):
        list_at_s = now_s if seen.pods is None else seen.pods.at_s + PODS_AGAIN_S
    asks = list_at_s is not None and list_at_s <= now_s and AskPods() not in decision.intents
    due_s = [at_s + wanted_s for each in held for at_s in _ready_since_s(seen, each)]
    return replace(
        decision,
        intents=(*decision.intents, *((AskPods(),) if asks else ())),
        requeue_at_s=earliest([decision.requeue_at_s, list_at_s, *due_s], after_s=now_s),
    )


def reachable(ctx: PassContext, sizes: Sizes) -> Sizes:
    """The nearest sizes that can be held: one new pod too many stays, where a change of `replicas` has left it.

    The Deployment's controller keeps the ratio then, and rounds by itself: one new pod more is one old pod less. Taking it away
    would cost the whole way back, for each change of an autoscaler.
    """
    new, stable = ctx.new, ctx.stable
    if not is_in_place(ctx.seen) or ctx.aborted or ctx.stepped_back is not None or new is None or stable is None:
        return sizes
    kept = sizes.wanted_stable - 1
    if not new.inside or new.spec_replicas != sizes.wanted_new + 1 or not 1 <= kept == stable.spec_replicas:
        return sizes
    more = new.spec_replicas
    return replace(sizes, new=more, wanted_new=more, stable=max(kept, sizes.stable - 1), wanted_stable=kept)


def carried(seen: Snapshot, decision: Decision) -> Decision:
    """The decision with the Deployment's fields in place of sizes; the same for a Rollout with ReplicaSets of its own."""
    if not is_in_place(seen):
        return decision
    ours, others = list[Intent](), list[Intent]()
    for intent in decision.intents:
        of_sets = isinstance(intent, CreateReplicaSet | AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet)
        (ours if of_sets else others).append(intent)
    workload = seen.workload
    if (
        not isinstance(workload, WorkloadSeen)
        or workload.deleting
        or workload.strays != ()
        or workload.deployment is None
    ):
        return replace(decision, intents=tuple(others))
    update = _update(seen, decision, workload, workload.deployment, ours)
    moves = _moves(update)
    told = (*decision.notices, *_told(update, moves))
    moved = _with_pods_listed(seen, replace(decision, intents=(*moves, *others), notices=told))
    asks = AskPods(seen.rollout.spec.selector_text, workload.uid)
    return replace(moved, intents=tuple([asks if isinstance(each, AskPods) else each for each in moved.intents]))


class _Update(Struct, frozen=True, kw_only=True):
    """What the policy wants, and where the ReplicaSets are.

    Args:
        new: ReplicaSet of the current revision; None while it is not made.
        stable: the one that was promoted last; None when it is `new` or missing.
        older: all others.
        forward: the Deployment's template is the current revision, and it is not aborted.
        over: the current revision is stable.
        durable: the published status says the same about revisions and aborts, and a first revision has been rolled out.
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
    def overwritten(self) -> bool:
        """Whether somebody else has written the fields of a step since our last write."""
        held = self.deployment.held
        return held is not None and held.written not in (None, self.deployment.fields)

    @property
    def serving(self) -> ReplicaSet | None:
        """The ReplicaSet that the Deployment keeps, whatever becomes of the update."""
        return self.new if self.over else self.stable

    def wanted(self, replica_set: ReplicaSet | None) -> int:
        """The size that the policy wants."""
        if replica_set is None:
            return 0
        patch = self.patches.get(replica_set.uid)
        return replica_set.spec_replicas if patch is None or patch.replicas is None else patch.replicas

    def outside(self) -> tuple[PatchReplicaSet, ...]:
        """The sizes of ReplicaSets that are not the Deployment's: what shrinks, and what its controller cannot reach.

        None while its controller has not carried out the fields in force: they may still take pods that the policy counts on.
        """
        if not _is_settled(self):
            return ()
        sets = {each.uid: each for each in self.seen.replica_sets if not each.inside}
        return tuple(
            [
                PatchReplicaSet(
                    name=patch.name,
                    uid=uid,
                    revision=patch.revision,
                    resource_version=sets[uid].resource_version,
                    replicas=patch.replicas,
                )
                for uid, patch in self.patches.items()
                if uid in sets and patch.replicas is not None and patch.replicas < sets[uid].spec_replicas
            ]
        )

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
        return (_step(workload, paused=paused, fields=fields, held=note),)

    def move(self, replica_set: ReplicaSet, *, into: bool) -> tuple[MoveReplicaSet]:
        """The write that gives a ReplicaSet another controller."""
        name, uid, version = replica_set.name, replica_set.uid, replica_set.resource_version
        return (MoveReplicaSet(name=name, uid=uid, resource_version=version, revision=replica_set.revision, into=into),)


def _update(
    seen: Snapshot,
    decision: Decision,
    workload: WorkloadSeen,
    deployment: DeploymentSeen,
    intents: Iterable[Intent],
) -> _Update:
    status = decision.status
    sets = {each.revision: each for each in seen.replica_sets if not each.deleting}
    new, stable = sets.get(status.current_revision), sets.get(status.stable_revision)
    aborted = status.abort is not None and status.abort.revision == status.current_revision
    over = status.stable_revision == status.current_revision
    return _Update(
        seen=seen,
        workload=workload,
        deployment=deployment,
        new=new,
        stable=None if over else stable,
        older=tuple([each for each in sets.values() if each is not new and each is not stable]),
        forward=status.current_revision == seen.rollout.spec.revision and not aborted,
        over=over,
        durable=bool(seen.status.stable_revision) and _roles(seen.status) == _roles(status),
        creates=any(isinstance(intent, CreateReplicaSet) for intent in intents),
        patches={intent.uid: intent for intent in intents if isinstance(intent, PatchReplicaSet)},
    )


def _roles(status: RolloutStatus) -> tuple[object, ...]:
    return status.current_revision, status.stable_revision, status.abort


def _moves(update: _Update) -> tuple[Intent, ...]:
    """The next move. The status that it follows from was published before."""
    if not update.durable:
        return ()
    if update.over and update.forward:
        return _at_rest(update)
    old = [each for each in update.older if each.inside and each.spec_replicas > 0]
    if update.deployment.held is None:
        return _held(update) if old or _begins(update) else ()
    if update.overwritten and not update.deployment.paused:
        return update.step(paused=True)  # at once: its controller may go on to the end
    if not update.workload.observed:
        return ()
    if out := [*old, *_going_back(update)]:
        return _taken_out(update, out)
    return _forward(update) if update.forward else _back(update)


def _told(update: _Update, moves: tuple[Intent, ...]) -> tuple[Notice, ...]:
    """That fields of a step were somebody else's, with the next write of fields."""
    found, held = update.deployment.fields, update.deployment.held
    written = None if held is None else held.written
    writes = any(isinstance(move, StepDeployment) and move.held is not None for move in moves)
    if written is None or not (update.overwritten and writes):
        return ()
    differs = {
        "maxSurge": found.max_surge != written.max_surge,
        "maxUnavailable": found.max_unavailable != written.max_unavailable,
        "minReadySeconds": found.min_ready_s != written.min_ready_s,
        "progressDeadlineSeconds": found.progress_deadline_s != written.progress_deadline_s,
    }
    names = ", ".join([name for name in differs if differs[name]])
    message = (
        f"somebody else has written {names} of {update.seen.rollout.spec.workload_ref} in a step; they are written again: let "
        "the tool that applies its manifest ignore them, or install the policies that keep them (the chart's `admission.holds`)"
    )
    return (Notice(Reason.FIELDS_OVERWRITTEN, message, warning=True),)


def _at_rest(update: _Update) -> tuple[Intent, ...]:
    """After the promotion the Deployment gets its user's fields back, and the ReplicaSets that had left it."""
    found, new = update.deployment, update.new
    if new is None:
        return ()
    emptied = [each for each in update.older if not each.inside and each.spec_replicas == each.replicas == 0]
    back = [move for each in ([] if new.inside else [new]) + emptied for move in update.move(each, into=True)]
    if not new.inside:
        return tuple(back[:1])
    fields = found.held.own if found.held is not None else found.fields
    paused = rests_paused(update.seen, update.workload)
    if any(each.inside and each.spec_replicas > 0 for each in update.older):
        paused = False  # of an update that is reverted: only its own controller takes these away
    if found.held is None and (paused is None or found.paused is paused):
        return (*back, *update.outside())
    return (*back, *update.outside(), _step(update.workload, paused=paused is not False, fields=fields, held=None))


def rests_paused(seen: Snapshot, workload: WorkloadSeen) -> bool | None:
    """Whether the Deployment is paused between updates, as no policy would pause it in time; None while that is not known."""
    ref = seen.rollout.spec.workload_ref
    if ref is None or ref.hold is Hold.AT_REST:
        return True
    return None if workload.hold_works is None else not workload.hold_works


def _begins(update: _Update) -> bool:
    """Whether the first pods of the update are wanted, or nothing keeps them from being made."""
    new = update.new
    grows = new is not None and not update.over and update.wanted(new) > new.spec_replicas
    return not update.deployment.paused or (update.forward and (update.creates or grows))


def _held(update: _Update) -> tuple[Intent, ...]:
    """Begins: one write pauses the Deployment, notes its user's fields and inflates what would let its controller go on."""
    own = update.deployment.fields
    return update.step(paused=True, held=Held(number=1, replicas=update.replicas, own=own))


def _taken_out(update: _Update, out: list[ReplicaSet]) -> tuple[Intent, ...]:
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
        first = PatchReplicaSet(
            name=serving.name,
            uid=serving.uid,
            revision=serving.revision,
            resource_version=serving.resource_version,
            replicas=1,
        )
        return update.step(room, paused=True) or (first,)
    return (*update.outside(), *(move for each in out for move in update.move(each, into=False)))


def _back(update: _Update) -> tuple[Intent, ...]:
    """After an abort or a rollback: the stable ReplicaSet is alone in the paused Deployment; the others shrink as it grows."""
    serving = update.serving
    settled = serving is not None and serving.spec_replicas >= update.replicas
    fields = _AFTER_AN_ABORT if settled else None
    return (*update.outside(), *update.step(fields, paused=True))


def _forward(update: _Update) -> tuple[Intent, ...]:
    """The ReplicaSet of the current revision comes into the paused Deployment, and then grows there, step by step."""
    new, found, replicas = update.new, update.deployment, update.replicas
    if new is None:
        made = (CreateInDeployment(revision=update.seen.rollout.spec.revision),) if update.creates else ()
        return (*update.outside(), *(made if found.paused else update.step(paused=True)))
    if not new.inside:
        return (*update.outside(), *_comes_in(update, new))
    if not _is_settled(update):
        return ()
    kept = update.wanted(update.stable)
    wanted = max(update.wanted(new), replicas - kept)
    if wanted == 0 or replicas == 0:
        return update.outside()
    fields = replace(
        found.fields,
        max_surge=_surge(wanted + kept - replicas, replicas=replicas),
        max_unavailable=_unavailable(replicas - kept, replicas=replicas),
    )
    return (*update.outside(), *update.step(fields, paused=False))


def _comes_in(update: _Update, new: ReplicaSet) -> tuple[Intent, ...]:
    """A ReplicaSet that left the Deployment returns, once it is not larger than wanted and none of its pods counts as available.

    With available pods its controller would take it for complete, and scale the stable one to 0 at once.
    """
    found, stable = update.deployment, update.stable
    if not found.paused:
        return update.step(paused=True)
    if update.wanted(new) < new.spec_replicas or stable is None or stable.spec_replicas != update.replicas:
        return ()
    if update.wanted(new) == new.spec_replicas and update.wanted(stable) >= stable.spec_replicas:
        return ()  # nothing to do in there
    if new.spec_replicas > 0 and new.min_ready_s != HELD_MIN_READY_S:
        name, uid, revision = new.name, new.uid, new.revision
        return (PatchReplicaSet(name=name, uid=uid, revision=revision, min_ready_s=HELD_MIN_READY_S),)
    if new.available > 0 or not new.observed:
        return ()
    room = replace(found.fields, max_surge=new.spec_replicas, max_unavailable=0)
    if new.spec_replicas == 0:
        return update.move(new, into=True)
    return update.step(room, paused=True) or update.move(new, into=True)


def _going_back(update: _Update) -> tuple[ReplicaSet, ...]:
    """The ReplicaSet of the update, if the policy wants what the Deployment's controller cannot make of it.

    That is more stable pods, or fewer new ones.
    """
    new, stable = update.new, update.stable
    if new is None or update.over or not (new.inside and new.spec_replicas > 0):
        return ()
    if not update.forward:
        return (new,)
    grows = stable is not None and update.wanted(stable) > stable.spec_replicas
    return (new,) if _is_settled(update) and (grows or update.wanted(new) < new.spec_replicas) else ()


def _is_settled(update: _Update) -> bool:
    """Whether the Deployment's controller has carried out what its fields say.

    Its ReplicaSets may be seen a moment after its status, so their sizes are compared as well. After a change of `replicas` it
    has spread them in proportion, and only their sum is known; so has it when a ReplicaSet returns that such a change has missed.
    Fewer old pods than its fields say stay as they are: it never makes more.
    """
    found, new, stable, replicas = update.deployment, update.new, update.stable, update.replicas
    if found.paused or new is None or stable is None or found.held is None:
        return True
    surge = resolved_surge(found.fields.max_surge or 0, replicas=replicas)
    kept = replicas - resolved_unavailable(found.fields.max_unavailable or 0, replicas=replicas)
    both = new.spec_replicas + stable.spec_replicas
    return both == replicas + surge and (stable.spec_replicas <= kept or found.held.replicas != replicas)


def _surge(pods: int, *, replicas: int) -> IntOrPercent:
    """`pods` as a share, where one says exactly that: then its controller keeps the ratio when `replicas` changes."""
    share = Percent(100 * pods // replicas)
    return share if resolved_surge(share, replicas=replicas) == pods and share.value <= 100 else pods


def _unavailable(pods: int, *, replicas: int) -> IntOrPercent:
    """As `_surge`; a share of unavailable pods rounds down."""
    share = Percent(-(-100 * pods // replicas))
    return share if resolved_unavailable(share, replicas=replicas) == pods else pods


def _step(workload: WorkloadSeen, *, paused: bool, fields: UpdateFields, held: Held | None) -> StepDeployment:
    """With a note of what it writes."""
    held = None if held is None else replace(held, written=fields)
    name, uid, version = workload.name, workload.uid, workload.resource_version
    return StepDeployment(name=name, uid=uid, resource_version=version, paused=paused, fields=fields, held=held)
