"""Copies that are not what their names say, or are gone: no ReplicaSet gets its first pods with one, and conditions tell it."""

from __future__ import annotations

from rollouts.core.config.replaced import forged_uses, unchecked, used_copies, younger_copies
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.lost_copies import gone_for
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskConfig, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import ReplicaSet


def without_unusable_copies(ctx: PassContext, step: Contribution) -> Contribution:
    """The step, up to where a ReplicaSet without pods would get some that read a forged copy, a gone one, or one not looked at.

    One that has pods goes on: to take its pods away would lose requests, and what they read is told.
    """
    empty = {replica_set.uid: replica_set for replica_set in ctx.seen.replica_sets if replica_set.spec_replicas == 0}
    for index, intent in enumerate(step.intents):
        if not isinstance(intent, PatchReplicaSet) or not intent.replicas or intent.uid not in empty:
            continue
        if (held := _held(ctx, empty[intent.uid])) is not None:
            return replace(step, intents=(*step.intents[:index], *held.intents), wait=held.wait)
    return step


def _held(ctx: PassContext, replica_set: ReplicaSet) -> Contribution | None:
    """What to wait for before the ReplicaSet gets pods; None when each copy that it names is what its name says.

    Pods with an optional reference to one that is gone would begin, and serve, without their configuration.
    """
    revision = replica_set.revision
    if gone := gone_for(ctx, replica_set):
        if not ctx.aborted and revision != ctx.status.current_revision and replica_set is ctx.stable:
            delete = f"kubectl delete replicaset {replica_set.name} -n {ctx.seen.rollout.namespace}"
            gone += f", or go on without it: {delete}"
        return Contribution(wait=Wait(Reason.CONFIG_COPY_MISSING, gone))
    used = used_copies(replica_set.config or (), ctx.seen.copies)
    if forged := [f"{copy.problem}; revision {revision} names it" for copy in used if copy.forged]:
        return Contribution(wait=Wait(Reason.CONFIG_COPY_NOT_USABLE, "; ".join(forged)))
    if not (unread := unchecked(used)):
        return None
    message = f"reading {' and '.join(map(str, unread))} before pods of revision {revision} do"
    message = ": ".join([message, *(copy.unread_because for copy in used if copy.unread_because)])
    return Contribution(intents=tuple(map(AskConfig, unread)), wait=Wait(Reason.CONFIG_NOT_READ, message))


def copy_checks(ctx: PassContext) -> tuple[AskConfig, ...]:
    """Reads copies that are younger than a ReplicaSet that names them, so that one that was replaced is told."""
    return tuple([AskConfig(ref) for ref in unchecked(younger_copies(ctx.seen.replica_sets, ctx.seen.copies))])


def forged_copies(ctx: PassContext) -> str:
    """Which copies are not what their names say, who reads them, and what helps; "" for none."""
    told: dict[str, str] = {}
    for replica_set, copy in forged_uses(ctx.seen.replica_sets, ctx.seen.copies):
        reads = "pods that start read it" if replica_set.spec_replicas else "it gets no pods until then"
        told.setdefault(copy.name, f"{copy.problem}; revision {replica_set.revision} names it, and {reads}")
    return "; ".join(told[name] for name in sorted(told))
