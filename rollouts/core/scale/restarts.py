"""Restarts: pods older than a time are replaced by eviction, with as many pods available at every moment as an update keeps.

Where no pod may be missing (`maxUnavailable` 0, or the only pod behind a Service) the ReplicaSet first gets extra pods, as many
as `maxSurge` allows. Old pods are evicted when the extra ones are available and the Services show them; the extra pods go at the
end. The write that adds them also notes their number on the ReplicaSet, so no crash loses it. The strategies never see them:
`without_restart_surge` subtracts them from what a strategy sees, and `resized` adds them to what it asks for.

An evicted pod stays in the counts of its ReplicaSet for a moment. So status records evictions before the first one, and from
then on a pass believes only pods that the list of pods shows too (`without_evicted`), until the counts agree with the list. That
also holds for what follows a restart: it may be withdrawn, and an update may begin or be aborted, right after an eviction.
"""

from __future__ import annotations

import math
from collections import Counter

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest, pods_text
from rollouts.core.model.changes import record_evictions, record_restart
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskPods, EvictPod, Notice, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import Pod, ReplicaSet, Snapshot, is_in_place
from rollouts.core.model.status import RolloutStatus, Verb

PODS_FRESH_S = 10.0  # an older list of pods is read again; after a change of ours the list is dropped at once
PODS_AGAIN_S = 1.0  # the earliest, when ReplicaSets count pods as ready that were not ready in the list
COUNTED_WITHIN_S = 60.0
"""So long after an eviction a ReplicaSet may still count the pod: a watch of pods is behind by seconds, not by minutes.

After that a difference has another cause: a pod whose labels somebody has changed is counted, and not in our list.
"""
_RECORDED_AGAIN_S = COUNTED_WITHIN_S / 2
EVICTION_RETRY_S = 10.0  # a pod that becomes ready, which frees a disruption budget, wakes the key anyway


def without_restart_surge(seen: Snapshot) -> Snapshot:
    """The snapshot without the pods that a restart has added to the sizes of ReplicaSets."""
    if not any(replica_set.restart_surge for replica_set in seen.replica_sets):
        return seen
    sets = [replace(each, spec_replicas=max(0, each.spec_replicas - each.restart_surge)) for each in seen.replica_sets]
    return replace(seen, replica_sets=tuple(sets))


def needs_pods(ctx: PassContext) -> bool:
    """Whether no rule may believe what ReplicaSets count, for want of a list of pods."""
    return ctx.seen.pods is None and _may_be_counted(ctx.status, ctx.now_s)


def _may_be_counted(status: RolloutStatus, now_s: float) -> bool:
    """Whether ReplicaSets may still count evicted pods. Source: k8s.io/kubernetes pkg/controller/replicaset/replica_set.go.

    A sync there counts the pods that its watch has shown as active.
    """
    since_s = status.evicting_since_s
    return since_s is not None and now_s - since_s <= COUNTED_WITHIN_S


def without_evicted(seen: Snapshot, status: RolloutStatus) -> Snapshot:
    """The snapshot without pods that ReplicaSets count as available and the list of pods does not show as ready.

    Only soon after evictions: at other times the list may be older than the counts.
    """
    if seen.pods is None or not _may_be_counted(status, seen.now_s):
        return seen
    ready = _listed(seen.pods.pods)
    active = Counter(pod.revision for pod in seen.pods.pods if not pod.deleting)
    sets = []
    for replica_set in seen.replica_sets:
        revision, available = replica_set.revision, replica_set.available
        over = max(0, available - ready[revision])
        # Its controller has counted the last eviction when it is content with its size and counts as many pods as the list
        # shows: the list shows one less from an eviction on, until there is a new pod.
        agrees = over == 0 and _is_content(replica_set) and replica_set.replicas == active[revision]
        counted = replica_set.deleting or agrees
        sets.append(replace(replica_set, available=available - over, overcounted=over, counted=counted))
    return replace(seen, replica_sets=tuple(sets))


def _is_content(replica_set: ReplicaSet) -> bool:
    """Whether its controller has nothing to do for it, or cannot."""
    size = replica_set.spec_replicas + replica_set.restart_surge
    return replica_set.observed and (replica_set.replicas == size or bool(replica_set.failure))


def kept_surge(ctx: PassContext, replica_set: ReplicaSet) -> int:
    """How many of the pods that a restart has added a ReplicaSet keeps: all during the restart, then none.

    An old revision keeps them as it keeps its others: while a Service brings it requests.
    """
    if replica_set.revision not in (ctx.status.current_revision, ctx.status.stable_revision):
        return replica_set.restart_surge if replica_set.revision in ctx.shown_revisions else 0
    return min(replica_set.restart_surge, ctx.limits[0]) if restart_due_s(ctx) is not None else 0


def restart_due_s(ctx: PassContext) -> float | None:
    """Pods older than this time must be replaced; None when that is done, when nobody asked for it, and in place.

    A Deployment restarts its pods by its template, and the command is refused.
    """
    if ctx.seen.workload is not None and is_in_place(ctx.seen):
        return None
    asked = [ctx.spec.restart_at_s, ctx.seen.rollout.restart_asked_at_s]
    if ctx.status.commands:
        asked += [each.at_s for each in ctx.status.commands if each.verb is Verb.RESTART and each.value == "true"]
    due_s = max([at_s for at_s in asked if at_s is not None and at_s <= ctx.now_s], default=None)
    done_s = ctx.status.restarted_at_s
    return due_s if due_s is not None and (done_s is None or due_s > done_s) else None


def plan_restart(ctx: PassContext) -> Contribution:
    """Evicts pods of the live revisions that are older than the restart time, as many at once as may be missing."""
    due_s = restart_due_s(ctx)
    if due_s is None:
        asked_at_s = (ctx.spec.restart_at_s, ctx.seen.rollout.restart_asked_at_s)
        return Contribution(wake_at_s=earliest(asked_at_s, after_s=ctx.now_s))
    pods = ctx.seen.pods
    if ctx.recorded.evicting_since_s is None:  # the record comes before the first eviction
        asked = (AskPods(),) if pods is None else ()
        return Contribution(changes=(record_evictions(ctx.now_s),), intents=asked, wait=_wait(ctx, "pods"))
    if pods is None or ctx.now_s - pods.at_s >= PODS_FRESH_S:
        return Contribution(intents=(AskPods(),), wait=_wait(ctx, "pods"))
    # The oldest first. The API gives creation times in whole seconds, rounded down: a pod of the very second asked for may be a
    # replacement already.
    due_second_s, live = math.floor(due_s), {replica_set.revision for replica_set in _live(ctx)}
    old = [pod for pod in pods.pods if pod.created_at_s < due_second_s and not pod.deleting and pod.revision in live]
    old.sort(key=lambda pod: pod.created_at_s)
    if not old:
        if not _all_counted(ctx):
            return Contribution(wait=_wait(ctx, "pods"))
        notice = Notice(Reason.ROLLOUT_RESTARTED, "all pods older than the restart time have been replaced")
        return Contribution(changes=(record_restart(due_s, ctx.now_s),), notices=(notice,))
    refused = ctx.seen.eviction_refused
    if refused is not None and ctx.now_s - refused.at_s < EVICTION_RETRY_S:
        refusal = Wait(Reason.DISRUPTION_BUDGET, f"eviction of pod {refused.pod} was refused: {refused.message}")
        return Contribution(wait=refusal, wake_at_s=refused.at_s + EVICTION_RETRY_S)
    return _replaced(ctx, old, pods.pods)


def settle_evictions(ctx: PassContext) -> Contribution:
    """Lists pods again where the counts and the list differ, and ends the record of evictions when they agree after a restart."""
    pods = ctx.seen.pods
    if pods is None or _all_counted(ctx):
        over = restart_due_s(ctx) is None
        return Contribution(changes=(record_evictions(None),)) if over else Contribution()
    if not any(each.overcounted or (not each.counted and _is_content(each)) for each in ctx.seen.replica_sets):
        return Contribution()  # a ReplicaSet that is not content changes, and that brings the next pass
    again_s = pods.at_s + PODS_AGAIN_S
    return Contribution(intents=(AskPods(),)) if ctx.now_s >= again_s else Contribution(wake_at_s=again_s)


def _all_counted(ctx: PassContext) -> bool:
    return all(replica_set.counted for replica_set in ctx.seen.replica_sets)


def _replaced(ctx: PassContext, old: list[Pod], pods: tuple[Pod, ...]) -> Contribution:
    """Evicts unready pods at once and others as far as enough stay available; adds extra pods where none may leave yet."""
    broken = [pod for pod in old if not pod.ready]
    evicted = broken or _may_leave(ctx, old, pods)
    count, added = Counter(pod.revision for pod in old), []
    for replica_set in () if evicted else _live(ctx):
        name, uid, revision = replica_set.name, replica_set.uid, replica_set.revision
        surge = min(ctx.limits[0], count[revision])  # it may have them already
        more = surge > replica_set.restart_surge and replica_set.count_is_true
        if more and _may_be_missing(ctx, replica_set) == 0:
            size = replica_set.spec_replicas + surge
            added.append(PatchReplicaSet(name=name, uid=uid, revision=revision, replicas=size, restart_surge=surge))
    wait = _wait(ctx, pods_text(len(old)), added=sum(patch.restart_surge or 0 for patch in added))
    if evicted and ctx.now_s - (ctx.recorded.evicting_since_s or 0.0) > _RECORDED_AGAIN_S:
        # Alone: a crash right after an eviction must not leave it without a record that holds.
        return Contribution(changes=(record_evictions(ctx.now_s),), wait=wait)
    evictions = (EvictPod(name=pod.name, uid=pod.uid) for pod in evicted)
    return Contribution(intents=(*added, *evictions), wait=wait, wake_at_s=ctx.now_s + EVICTION_RETRY_S)


def _wait(ctx: PassContext, pods: str, *, added: int = 0) -> Wait:
    more = added + sum(replica_set.restart_surge for replica_set in ctx.seen.replica_sets)
    first = f", after adding {pods_text(more)}" if more else ""
    message = f"replacing {pods} older than the restart time{first}"
    failure = next((each.failure for each in ctx.seen.replica_sets if each.restart_surge and each.failure), "")
    return Wait(Reason.REPLICA_FAILURE, f"{message}: {failure}") if failure else Wait(Reason.RESTARTING, message)


def _may_leave(ctx: PassContext, old: list[Pod], pods: tuple[Pod, ...]) -> list[Pod]:
    """Ready pods that may be evicted now, the oldest first. The list of pods counts too, as a ReplicaSet's status lags."""
    listed, live = _listed(pods), _live(ctx)
    serving = {}
    for replica_set in live:
        # Available pods that the list of pods, and every Service that selects the revision, show too.
        revision, size = replica_set.revision, replica_set.spec_replicas + replica_set.restart_surge
        shown = [
            service.ready_by_revision.get(revision, 0)
            for service in ctx.services_seen.values()
            if service.watched and service.revision == revision
        ]
        serving[revision] = min(size, replica_set.available, listed[revision], *shown)
    spare = {each.revision: serving[each.revision] - each.spec_replicas + _may_be_missing(ctx, each) for each in live}
    wanted = max(ctx.spec.replicas, sum(replica_set.spec_replicas for replica_set in live))
    rest = sum(serving.values()) - (wanted - (ctx.spec.replicas - ctx.promised))
    leaving = []
    for pod in old:
        if rest > 0 and spare[pod.revision] > 0:
            rest -= 1
            spare[pod.revision] -= 1
            leaving.append(pod)
    return leaving


def _listed(pods: tuple[Pod, ...]) -> Counter[str]:
    """Ready pods of each revision that are not being deleted."""
    return Counter(pod.revision for pod in pods if pod.ready and not pod.deleting)


def _may_be_missing(ctx: PassContext, replica_set: ReplicaSet) -> int:
    """How many pods of a revision may be missing: `maxUnavailable`, but not the last pod behind a Service of its own.

    Without a surge that pod may be missing too: there is no other way to replace it, as in an update.
    """
    missing = ctx.spec.replicas - ctx.promised
    if ctx.limits[0] == 0 or replica_set.revision not in ctx.shown_revisions:
        return missing
    return min(missing, max(0, replica_set.spec_replicas - 1))


def _live(ctx: PassContext) -> list[ReplicaSet]:
    return [each for each in (ctx.new, ctx.stable) if each is not None and not each.deleting and each.spec_replicas]
