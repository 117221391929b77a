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
from rollouts.core.model.in_place_intents import CreateInDeployment
from rollouts.core.model.intents import Intent, PatchReplicaSet
from rollouts.core.model.snapshot import ReplicaSet


def moves_beside(update: Update) -> tuple[Intent, ...]:
    """The next move of an update that is not over."""
    serving, new = update.serving, update.new
    is_exchanged = serving is None or (serving.inside and not update.others_inside)
    if update.deployment.held is None and (begins(update) or not is_exchanged):
        return held(update, ONE_NEW_POD)
    if not is_exchanged:
        return handed_over(update)
    sizes = update.outside(grows=True)
    if update.deployment.held is None or not update.workload.observed:
        return sizes
    if not update.deployment.paused or update.deployment.fields != ONE_NEW_POD:
        return update.step(ONE_NEW_POD, paused=True)
    counts = available_again(update, (new, serving))
    if update.forward and new is None and update.creates:
        return (*counts, CreateInDeployment(revision=update.seen.rollout.spec.revision, beside=True), *sizes)
    if update.forward and new is not None and new.inside and update.wanted(new) > 0 and new is not serving:
        return update.move(new, into=False)
    return (*counts, *sizes)


def handed_over(update: Update) -> tuple[Intent, ...]:
    """The next write by which the serving ReplicaSet becomes the only one with pods that the Deployment has."""
    serving, found = update.serving, update.deployment
    if serving is None:
        return ()
    if found.held is None:
        return held(update, ONE_NEW_POD)
    if not found.paused:
        return update.step(paused=True)
    # Its controller numbers revisions by those that it has: the old one leaves after the new one has its number.
    is_counted = not (update.over and update.forward) or found.updated > 0 or serving.spec_replicas == 0
    if not update.workload.observed or (serving.inside and not is_counted):
        return update.outside(grows=True)
    return taken_out(update, update.others_inside) if serving.inside else _taken_in(update, serving)


def _taken_in(update: Update, serving: ReplicaSet) -> tuple[Intent, ...]:
    """Brings the serving ReplicaSet into the paused Deployment, once no pod counts as available and there is room for all."""
    others = update.others_inside
    if update.wanted(serving) != serving.spec_replicas or (serving.spec_replicas == 0 and others):
        return update.outside(grows=True)
    sets = [each for each in (serving, *others) if each.spec_replicas > 0]
    if counted := [each for each in sets if each.min_ready_s != HELD_MIN_READY_S]:
        return tuple([_available_after(each, HELD_MIN_READY_S) for each in counted])
    if any(each.available > 0 or not each.observed for each in sets):
        return update.outside(grows=True)
    room = replace(ONE_NEW_POD, max_surge=surge(max(1, serving.spec_replicas), replicas=update.replicas))
    return (update.step(room, paused=True) if sets else ()) or update.move(serving, into=True)


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
