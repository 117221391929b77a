"""Turns sizes into intents: which ReplicaSets grow or shrink, and how long an old revision keeps its pods."""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest, pods_text
from rollouts.core.drain.cutover import draining, draining_wait, next_drained_s
from rollouts.core.drain.pre_stop import injection
from rollouts.core.model.changes import StatusChange, record_scale_downs
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateReplicaSet, Intent, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import PodMetadata
from rollouts.core.model.snapshot import ReplicaSet
from rollouts.core.model.status import RolloutStatus, ScaleDown
from rollouts.core.routing.services import read_before_pods_leave
from rollouts.core.scale.restarts import kept_surge


def create_new(ctx: PassContext, *, replicas: int) -> CreateReplicaSet:
    """The ReplicaSet of the spec's template, with as many pods as the step allows at once."""
    affinity = ctx.spec.strategy.anti_affinity is not None
    return CreateReplicaSet(
        revision=ctx.status.current_revision,
        number=ctx.status.revision_number,
        replicas=replicas,
        pod_metadata=role_metadata(ctx, ctx.status.current_revision),
        anti_affinity_revision=ctx.stable.revision if affinity and ctx.stable else "",
        injection=injection(ctx.spec.drain, ctx.spec.ends, ctx.drain_numbers, native=ctx.seen.native_sleep),
        config=ctx.seen.config.uses if ctx.seen.config is not None else (),
    )


def resized(ctx: PassContext, replica_set: ReplicaSet, *, replicas: int) -> PatchReplicaSet | None:
    """The patch that brings a ReplicaSet to `replicas` and updates its other outdated fields; None when nothing changes.

    A patch that shrinks carries the version that was seen, and so does one that makes pods of a restart ordinary ones; growing is
    safe on any version, once the count is true (`_allowed`).
    A draining revision keeps all its pods, except in a canary by the ratio of pods: there the strategy says what stays.
    """
    before = replica_set.spec_replicas + replica_set.restart_surge
    after, surge = _allowed(ctx, replica_set, replicas=replicas)
    current = replica_set.revision == ctx.status.current_revision
    live = current or replica_set.revision == ctx.status.stable_revision
    size = after if after != before else None
    min_ready_s = ctx.spec.min_ready_s if live and replica_set.min_ready_s != ctx.spec.min_ready_s else None
    number = ctx.status.revision_number if current and ctx.status.revision_number != replica_set.number else None
    added = surge if surge != replica_set.restart_surge else None
    if replica_set.deleting or (size, added, min_ready_s, number) == (None, None, None, None):
        return None
    seen_only = (size is not None and size < before) or (size is None and added is not None)
    return PatchReplicaSet(
        name=replica_set.name,
        uid=replica_set.uid,
        revision=replica_set.revision,
        resource_version=replica_set.resource_version if seen_only else "",
        replicas=size,
        restart_surge=added,
        min_ready_s=min_ready_s,
        number=number,
    )


def _allowed(ctx: PassContext, replica_set: ReplicaSet, *, replicas: int) -> tuple[int, int]:
    """How many pods the ReplicaSet may have now, and how many of them a restart has added."""
    before = replica_set.spec_replicas + replica_set.restart_surge
    surge = kept_surge(ctx, replica_set) if replicas and replica_set.restart_surge else 0
    shrinks = replicas < replica_set.spec_replicas or surge < replica_set.restart_surge
    if shrinks and not replica_set.counted:  # its controller would delete one more for each evicted pod that it counts
        return before, replica_set.restart_surge
    if shrinks and draining(ctx, replica_set.revision):
        surge = replica_set.restart_surge
        replicas = max(replicas, replica_set.spec_replicas) if not ctx.by_ratio else replicas
    # Its controller deletes pods first and counts them later, with the new generation already observed. If it grew while it still
    # counts more pods than its size, it would report pods as available that are gone, and `staying_available` could not see it.
    # Nothing waits for a ReplicaSet whose controller can neither create nor delete pods. Source: k8s.io/kubernetes
    # pkg/controller/replicaset/replica_set.go, `syncReplicaSet`.
    if replicas + surge > before and not (replica_set.failure or replica_set.count_is_true):
        return before, replica_set.restart_surge
    return replicas + surge, surge


def in_safe_order(
    ctx: PassContext,
    patches: Iterable[PatchReplicaSet | None],
    *,
    create: tuple[Intent, ...],
    moves: tuple[Intent, ...],
) -> tuple[Intent, ...]:
    """Grow, create, move traffic, then shrink: any prefix leaves at least the pods that served before it.

    Nothing shrinks while it is not certain which pods the Services of the spec select; at 0 replicas all pods go anyway.
    """
    grows: list[Intent] = []
    shrinks: list[Intent] = []
    for patch in patches:
        if patch is not None:
            (shrinks if takes_away(ctx, patch) else grows).append(patch)
    if shrinks and ctx.spec.replicas and (questions := read_before_pods_leave(ctx)):
        shrinks = [question for question in questions if question not in moves]
    return (*grows, *create, *moves, *shrinks)


def takes_away(ctx: PassContext, intent: Intent) -> bool:
    """Whether the intent makes a ReplicaSet's size smaller than it is now."""
    if not isinstance(intent, PatchReplicaSet) or intent.replicas is None:
        return False
    sizes = {each.uid: each.spec_replicas + each.restart_surge for each in ctx.seen.replica_sets}
    return intent.replicas < sizes.get(intent.uid, 0)


def kept_size(ctx: PassContext, replica_set: ReplicaSet, *, limit: int | None) -> int:
    """How many pods an old revision keeps: all of them or none.

    All while a Service selects or shows it, while it drains, while its delay runs, and while it is a fallback for a revision
    that has failed.

    Args:
        limit: how many revisions may wait for their delay at most, the newest ones; None for any number.
    """
    if replica_set.revision in ctx.shown_revisions or draining(ctx, replica_set.revision):
        return replica_set.spec_replicas
    waiting = [scale_down for scale_down in ctx.status.scale_downs if scale_down.at_s > ctx.now_s]
    newest_first = sorted(waiting, key=lambda scale_down: scale_down.at_s, reverse=True)[:limit]
    delayed = any(scale_down.revision == replica_set.revision for scale_down in newest_first)
    return replica_set.spec_replicas if delayed or replica_set in fallbacks(ctx) else 0


def aborted_size(ctx: PassContext, new: ReplicaSet, *, delay_s: float) -> int:
    """Pods that an aborted revision keeps: all until stable is complete, then all for its delay; a delay of 0 never ends."""
    stays = delay_s == 0 or ctx.stable_available < ctx.spec.replicas
    return new.spec_replicas if stays else kept_size(ctx, new, limit=None)


def fallbacks(ctx: PassContext) -> tuple[ReplicaSet, ...]:
    """Old revisions with available pods that wait for their scale-down, while the serving revision has too few available pods.

    Their delay alone does not remove them, because they could serve at once.
    """
    serving = ctx.stable or (ctx.new if ctx.status.stable_revision == ctx.status.current_revision else None)
    if not ctx.status.scale_downs or serving is None or serving.staying_available >= ctx.promised:
        return ()
    served = {scale_down.revision for scale_down in ctx.status.scale_downs}
    return tuple([each for each in ctx.older if each.revision in served and each.staying_available > 0])


def with_fallback(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """Adds to the wait for a failed revision which revision could serve instead, and the command for it."""
    if wait is None or not (kept := fallbacks(ctx)):
        return wait
    pods = f"revision {kept[-1].revision} keeps its {pods_text(kept[-1].staying_available)} meanwhile"
    back = f"to go back to it at once: {ctx.command('rollback')} --to {kept[-1].revision}"
    return replace(wait, message=f"{wait.message}; {pods}; {back}")


def keep_pods_until(status: RolloutStatus, *, revision: str, at_s: float) -> tuple[StatusChange, ...]:
    """Lets `revision` keep its pods until `at_s`; an existing deadline of the revision stays."""
    if not revision or any(scale_down.revision == revision for scale_down in status.scale_downs):
        return ()
    return (record_scale_downs((*status.scale_downs, ScaleDown(revision, at_s))),)


def keep_pods_of_stable(ctx: PassContext, *, delay_s: float) -> tuple[StatusChange, ...]:
    """Lets the revision that was stable keep its pods after a promotion: its delay and its drain run at the same time.

    A drain that probes may end early sets no deadline; it keeps the pods by itself.

    Args:
        ctx: the pass before the promotion, with the cutover from the revision.
    """
    revision, at_s = ctx.status.stable_revision, ctx.now_s + delay_s
    cutover = draining(ctx, revision) if not ctx.spec.drain.probes else None
    if cutover is not None:
        at_s = max(at_s, cutover.until_s or 0.0)
    return keep_pods_until(ctx.status, revision=revision, at_s=at_s)


def settle_scale_downs(ctx: PassContext) -> tuple[StatusChange, ...]:
    """Forgets the deadlines of revisions that have no pods any more or are in use again."""
    if not ctx.status.scale_downs:
        return ()
    in_use = {ctx.status.stable_revision} | (set() if ctx.aborted else {ctx.status.current_revision})
    kept = tuple(each for each in ctx.status.scale_downs if each.revision in ctx.revisions_with_pods - in_use)
    return () if kept == ctx.status.scale_downs else (record_scale_downs(kept),)


def next_scale_down_s(ctx: PassContext) -> float | None:
    """The next deadline of an old revision."""
    if not ctx.status.scale_downs:
        return next_drained_s(ctx)
    delays = [scale_down.at_s for scale_down in ctx.status.scale_downs if scale_down.at_s > ctx.now_s]
    return earliest([*delays, next_drained_s(ctx)])


def keeping_wait(ctx: PassContext) -> Wait | None:
    """Why an old revision still has its pods although the update is over: its drain or its delay, whichever takes longer."""
    drains = draining_wait(ctx)
    delays = [scale_down for scale_down in ctx.status.scale_downs if scale_down.at_s > ctx.now_s]
    next_one = min(delays, key=lambda scale_down: scale_down.at_s, default=None)
    if next_one is None or (drains is not None and (drains.deadline_s or 0.0) >= next_one.at_s):
        return drains
    pods = sum(each.spec_replicas for each in ctx.seen.replica_sets if each.revision == next_one.revision)
    message = f"revision {next_one.revision} keeps its {pods_text(pods)} until its scale-down delay is over"
    return Wait(Reason.SCALE_DOWN_DELAY, message, next_one.at_s)


def role_metadata(ctx: PassContext, revision: str) -> PodMetadata:
    """Ephemeral metadata of the role that `revision` has now."""
    status, strategy = ctx.status, ctx.spec.strategy
    if revision == status.stable_revision or not status.stable_revision:
        return strategy.serving_metadata
    return strategy.candidate_metadata if revision == status.current_revision else PodMetadata()
