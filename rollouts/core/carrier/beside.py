"""Carries an update out beside the Deployment, where Services and routers say who gets requests, or a preview has all its pods.

The new pods are in a ReplicaSet of the Rollout's own. It has the Deployment's template and labels, and the paused Deployment
keeps all its stable pods and follows its autoscaler. After the promotion that ReplicaSet takes the place of the Deployment's own:
no pod starts twice, and the old pods drain as those of a Rollout do.

The Deployment's controller would end the old pods once it sees the new ones complete, and the new ones after an undo. So no pod
of either counts as available while both are the Deployment's, and its limits allow both. Each pass makes one write, and each is
safe by itself: nothing is resized before the Deployment gets its user's fields back, when it has the new ReplicaSet alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.carrier.update_in_place import (
    HELD_MIN_READY_S,
    ONE_NEW_POD,
    Update,
    begins,
    held,
    surge,
    taken_out,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import (
    CreateInDeployment,
)
from rollouts.core.model.intents import (
    Intent,
    PatchReplicaSet,
)
from rollouts.core.model.snapshot import ReplicaSet


def moves_beside(update: Update) -> tuple[Intent, ...]:
    """The next move of an update that is not over."""
    serving, new = update.serving, update.new
    is_exchanged = serving is None or (serving.inside and not update.others_inside)
    if update.deployment.held is None:
        return held(update, ONE_NEW_POD) if begins(update) or not is_exchanged else update.outside(grows=True)
    if not is_exchanged:
        return handed_over(update)
    if not update.workload.observed:
        return update.outside(grows=True)
    if not update.deployment.paused or update.deployment.fields != ONE_NEW_POD:
        return update.step(ONE_NEW_POD, paused=True)
    if not update.forward:
        return (*available_again(update, (new, serving)), *update.outside(grows=True))
    if new is None:
        made = (CreateInDeployment(revision=update.seen.rollout.spec.revision, beside=True),) if update.creates else ()
        return (*available_again(update, (new, serving)), *made, *update.outside(grows=True))
    if new.inside and update.wanted(new) > 0 and new is not serving:
        return update.move(new, into=False)
    return (*available_again(update, (new, serving)), *update.outside(grows=True))


def handed_over(update: Update) -> tuple[Intent, ...]:
    """The next write by which the serving ReplicaSet becomes the only one with pods that the Deployment has."""
    serving, others, found = update.serving, update.others_inside, update.deployment
    if serving is None:
        return ()
    if found.held is None:
        return held(update, ONE_NEW_POD)
    if not found.paused:
        return update.step(paused=True)
    if not update.workload.observed:
        return update.outside(grows=True)
    if serving.inside:
        # Its controller numbers revisions by those that it has: the old one leaves after the new one has its number.
        is_counted = not (update.over and update.forward) or found.updated > 0 or serving.spec_replicas == 0
        return taken_out(update, others) if is_counted else update.outside(grows=True)
    if update.wanted(serving) != serving.spec_replicas or (serving.spec_replicas == 0 and others):
        return update.outside(grows=True)
    sets = [each for each in (serving, *others) if each.spec_replicas > 0]
    if counted := [each for each in sets if each.min_ready_s != HELD_MIN_READY_S]:
        return tuple([_available_after(each, HELD_MIN_READY_S) for each in counted])
    if any(each.available > 0 or not each.observed for each in sets):
        return update.outside(grows=True)
    if not sets:
        return update.move(serving, into=True)
    room = replace(ONE_NEW_POD, max_surge=surge(max(1, serving.spec_replicas), replicas=update.replicas))
    return update.step(room, paused=True) or update.move(serving, into=True)


def available_again(update: Update, sets: Iterable[ReplicaSet | None]) -> tuple[PatchReplicaSet, ...]:
    """Pods that were handed over count as available again, where the Deployment's controller does not see to it.

    It does for the ReplicaSet of its template.
    """
    template, own_s = update.seen.rollout.spec.revision, update.seen.rollout.spec.min_ready_s
    return tuple(
        [
            _available_after(each, own_s)
            for each in sets
            if each is not None
            and each.min_ready_s == HELD_MIN_READY_S
            and each.spec_replicas > 0
            and update.wanted(each) == each.spec_replicas
            and not (each.inside and each.revision == template)
        ]
    )


def _available_after(replica_set: ReplicaSet, seconds: int) -> PatchReplicaSet:
    name, uid, revision = replica_set.name, replica_set.uid, replica_set.revision
    return PatchReplicaSet(name=name, uid=uid, revision=revision, min_ready_s=seconds)
