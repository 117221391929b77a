"""Carries an update out in place: what the policy wants of ReplicaSets becomes fields of the Deployment that controls them.

The policy decides as for ReplicaSets of its own (`as_own`). `carried` says the same to the Deployment's controller, which obeys
exactly: with an inflated `minReadySeconds` no new pod ever counts as available to it, so `maxUnavailable` = R − old keeps that
many old pods, and `maxSurge` = new + old − R allows that many new ones. Source: k8s.io/kubernetes pkg/controller/deployment,
rolling.go and sync.go.

It cannot grow old pods again. So what goes back (an abort, a rollback, a lower weight, a newer template) leaves the Deployment:
the Rollout becomes the controller of that ReplicaSet, and the paused Deployment grows the only one that it has left by itself.
Forward again, the ReplicaSet returns, and no pod starts twice.

Each pass makes one move, and waits until the Deployment's controller has carried it out. `beside.py` has what routers and
previews need.
"""

from __future__ import annotations

from rollouts.core.carrier.beside import available_again, handed_over, moves_beside
from rollouts.core.carrier.selectors import as_selecting, narrowed, widened
from rollouts.core.carrier.update_in_place import (
    HELD_MIN_READY_S,
    Update,
    back,
    begins,
    held,
    parted,
    ready_since_s,
    stepped,
    surge,
    taken_out,
    unavailable,
    unlisted,
    update_of,
)
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import earliest
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import CreateInDeployment, StepDeployment
from rollouts.core.model.intents import (
    AskPods,
    Decision,
    Intent,
    Notice,
    PatchReplicaSet,
    SwitchService,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.workload import WorkloadSeen, to_write
from rollouts.core.model.workload_ref import Hold
from rollouts.core.scale.canary_sizes import Sizes
from rollouts.core.scale.restarts import PODS_AGAIN_S


def as_own(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: pods count as available as the user's own `minReadySeconds` says."""
    sets = []
    for each in seen.replica_sets:
        if each.min_ready_s == HELD_MIN_READY_S:
            available = min(each.ready, _available(seen, each))
            sets.append(replace(each, available=available, min_ready_s=seen.rollout.spec.min_ready_s))
        elif each.inside and not each.observed:  # its count is by the fields of the step, which were given back
            available = max(each.available, min(each.ready, _available(seen, each)))
            counted = available == each.ready == each.replicas == each.spec_replicas
            sets.append(replace(each, available=available, observed=counted))
        else:
            sets.append(each)
    return as_selecting(replace(seen, replica_sets=tuple(sets)))


def _available(seen: Snapshot, replica_set: ReplicaSet) -> int:
    """Pods that have been ready for `minReadySeconds`; only the list of pods says since when they are."""
    wanted_s = seen.rollout.spec.min_ready_s
    if wanted_s == 0:
        return replica_set.ready
    since_s = ready_since_s(seen, replica_set)
    return sum(seen.now_s - at_s >= wanted_s for at_s in since_s)


def _with_pods_listed(seen: Snapshot, decision: Decision) -> Decision:
    """With a question about pods that have become ready since they were listed, and a look when the next one is available."""
    wanted_s, now_s = seen.rollout.spec.min_ready_s, seen.now_s
    held = [each for each in seen.replica_sets if each.min_ready_s == HELD_MIN_READY_S] if wanted_s else []
    list_at_s = None
    if unlisted(seen):
        list_at_s = now_s if seen.pods is None else seen.pods.at_s + PODS_AGAIN_S
    asks = list_at_s is not None and list_at_s <= now_s and AskPods() not in decision.intents
    due_s = [at_s + wanted_s for each in held for at_s in ready_since_s(seen, each)]
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
    if ctx.aborted or ctx.stepped_back is not None or new is None or stable is None:
        return sizes
    kept = sizes.wanted_stable - 1
    if not new.inside or new.spec_replicas != sizes.wanted_new + 1 or not 1 <= kept == stable.spec_replicas:
        return sizes
    more = new.spec_replicas
    return replace(sizes, new=more, wanted_new=more, stable=max(kept, sizes.stable - 1), wanted_stable=kept)


def carried(seen: Snapshot, decision: Decision) -> Decision:
    """The decision with the Deployment's fields in place of sizes."""
    workload, (ours, others) = to_write(seen.workload, seen.rollout.name), parted(decision.intents)
    if workload is None or workload.deployment is None:
        return replace(decision, intents=others)
    update = update_of(seen, decision, workload, workload.deployment, ours)
    moves = _moves(update)
    shrinks = [each for each in moves if _may_shrink(seen, each)]
    switched = {each.name for each in others if isinstance(each, SwitchService)}
    first = [
        each
        for each in moves
        if each not in shrinks and not (isinstance(each, SwitchService) and each.name in switched)
    ]
    told = (*decision.notices, *_told(update, moves))
    moved = _with_pods_listed(seen, replace(decision, intents=(*first, *others, *shrinks), notices=told))
    asks = AskPods(seen.rollout.spec.selector_text, workload.uid)
    return replace(moved, intents=tuple([asks if isinstance(each, AskPods) else each for each in moved.intents]))


def _may_shrink(seen: Snapshot, intent: Intent) -> bool:
    """Whether pods may go by it: then the Services and routes of the same pass come before."""
    match intent:
        case StepDeployment(paused=paused):
            return not paused
        case PatchReplicaSet(uid=uid, replicas=int(size)):
            return any(each.uid == uid and each.spec_replicas > size for each in seen.replica_sets)
        case _:
            return False


def _moves(update: Update) -> tuple[Intent, ...]:
    """The next move. The status that it follows from was published before."""
    if not update.durable:
        return ()
    if update.over and update.forward:
        return _at_rest(update)
    if update.overwritten and not update.deployment.paused:
        return update.step(paused=True)  # at once: its controller may go on to the end
    if switches := narrowed(update):
        pause = update.step(paused=True) if update.deployment.held is not None else held(update)
        return (*(() if update.deployment.paused else pause), *switches)
    return _moves_inside(update) if update.strategy.by_ratio else moves_beside(update)


def _moves_inside(update: Update) -> tuple[Intent, ...]:
    """The next move of an update by the ratio of pods that is not over."""
    old = [each for each in update.older if each.inside and each.spec_replicas > 0]
    if update.deployment.held is None:
        return held(update) if old or begins(update) else ()
    if not update.workload.observed:
        return ()
    if out := [*old, *_going_back(update)]:
        return taken_out(update, out)
    return _forward(update) if update.forward else back(update)


def _told(update: Update, moves: tuple[Intent, ...]) -> tuple[Notice, ...]:
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


def _at_rest(update: Update) -> tuple[Intent, ...]:
    """After the promotion the Deployment gets its user's fields back, and the ReplicaSets that had left it."""
    found, new, others = update.deployment, update.new, update.others_inside
    if new is None:
        return ()
    if _changes_hands(update, new):
        return narrowed(update) or handed_over(update)
    if not new.inside:
        return update.move(new, into=True)
    if found.held is not None and new.spec_replicas > 0 and found.updated == 0:
        # Its controller has not seen yet that it has the ReplicaSet of its template, and would make one.
        return update.outside()
    fields = found.held.own if found.held is not None else found.fields
    paused = rests_paused(update.seen, update.workload)
    if others:
        paused = False  # of an update that is reverted: only its own controller takes these away
    after = _returned(update)
    if found.held is None and not found.note_is_copied and (paused is None or found.paused is paused):
        return after or widened(update)
    return (*after, stepped(update.workload, paused=paused is not False, fields=fields, held=None))


def _changes_hands(update: Update, new: ReplicaSet) -> bool:
    """Whether pods of the new ReplicaSet are not the Deployment's yet, or old ones that drain are so still."""
    if not new.inside and new.spec_replicas > 0:
        return True
    drained = [each for each in update.others_inside if not new.inside or update.wanted(each) > 0]
    return update.drains and bool(drained)


def _returned(update: Update) -> tuple[Intent, ...]:
    """The way of older ReplicaSets back into the Deployment: they shrink as the policy says, and return without pods."""
    emptied = [each for each in update.older if not each.inside and each.spec_replicas == each.replicas == 0]
    moves = [move for each in emptied for move in update.move(each, into=True)]
    return (*moves, *available_again(update, update.older), *update.outside())


def rests_paused(seen: Snapshot, workload: WorkloadSeen) -> bool | None:
    """Whether the Deployment is paused between updates, as no policy would pause it in time; None while that is not known."""
    ref = seen.rollout.spec.workload_ref
    if ref is None or ref.hold is Hold.AT_REST:
        return True
    return None if workload.hold_works is None else not workload.hold_works


def _forward(update: Update) -> tuple[Intent, ...]:
    """The ReplicaSet of the current revision comes into the paused Deployment, and then grows there, step by step.

    No other one shrinks while the Deployment's controller has not carried out the fields in force: it may still take pods that
    the policy counts on.
    """
    new, found, replicas = update.new, update.deployment, update.replicas
    if new is None:
        made = (CreateInDeployment(revision=update.seen.rollout.spec.revision),) if update.creates else ()
        return (*update.outside(), *made) if found.paused else update.step(paused=True)
    if not new.inside:
        return (*update.outside(), *_comes_in(update, new)) if found.paused else update.step(paused=True)
    if not update.settled:
        return ()
    kept = update.wanted(update.stable)
    wanted = max(update.wanted(new), replicas - kept)
    if wanted == 0 or replicas == 0:
        return update.outside()
    fields = replace(
        found.fields,
        max_surge=surge(wanted + kept - replicas, replicas=replicas),
        max_unavailable=unavailable(replicas - kept, replicas=replicas),
    )
    return (*update.outside(), *update.step(fields, paused=False))


def _comes_in(update: Update, new: ReplicaSet) -> tuple[Intent, ...]:
    """A ReplicaSet that left the Deployment returns, once it is not larger than wanted and none of its pods counts as available.

    With available pods its controller would take it for complete, and scale the stable one to 0 at once.
    """
    found, stable = update.deployment, update.stable
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


def _going_back(update: Update) -> tuple[ReplicaSet, ...]:
    """The ReplicaSet of the update, if the policy wants what the Deployment's controller cannot make of it.

    That is more stable pods, or fewer new ones.
    """
    new, stable = update.new, update.stable
    if new is None or update.over or not (new.inside and new.spec_replicas > 0):
        return ()
    if not update.forward:
        return (new,)
    grows = stable is not None and update.wanted(stable) > stable.spec_replicas
    return (new,) if update.settled and (grows or update.wanted(new) < new.spec_replicas) else ()
