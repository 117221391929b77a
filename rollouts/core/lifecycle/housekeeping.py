"""Work beside the steps: deletes old ReplicaSets beyond the limit, sets ephemeral metadata, finds out why pods are not ready."""

from __future__ import annotations

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.commands import rollback_target
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskPods, DeleteReplicaSet, Intent, PatchPod, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import PodMetadata
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet
from rollouts.core.model.status import stable_before
from rollouts.core.scale.restarts import PODS_FRESH_S
from rollouts.core.scale.sizing import role_metadata

TROUBLE_AFTER_S = 30.0  # how long pods may be late before the controller lists them


def surplus(ctx: PassContext) -> tuple[DeleteReplicaSet, ...]:
    """ReplicaSets without pods beyond `revisionHistoryLimit`, oldest first; never one that is in use or a rollback's target.

    The revision that was stable before is kept first: it is where people go back to. Revisions that were aborted since do not
    push it out. Only with a limit of 0 it goes like any other.
    """
    limit = ctx.spec.revision_history_limit
    if len(ctx.older) <= limit:
        return ()
    in_use = {
        ctx.status.current_revision,
        ctx.status.stable_revision,
        ctx.spec.revision,
        rollback_target(ctx.seen.rollout, ctx.status),
        *ctx.shown_revisions,
        *(each.revision for each in ctx.status.scale_downs),
    }
    empty = [
        each
        for each in ctx.older
        if each.revision not in in_use and each.observed and each.spec_replicas == each.replicas == 0
    ]
    count = max(0, len(empty) - limit)
    before = stable_before(ctx.status.history, ctx.status.stable_revision)
    if before is not None and limit > 0:
        empty.sort(key=lambda each: each.revision == before.revision)
    return tuple(
        DeleteReplicaSet(name=each.name, uid=each.uid, resource_version=each.resource_version) for each in empty[:count]
    )


def metadata_intents(ctx: PassContext) -> tuple[Intent, ...]:
    """Writes a role's metadata into the ReplicaSet's template, then into its pods, then records that the pods have it."""
    intents: list[Intent] = []
    for replica_set in (ctx.new, ctx.stable):
        if replica_set is None or replica_set.deleting:
            continue
        wanted = role_metadata(ctx, replica_set.revision)
        if replica_set.pod_metadata != wanted:
            intents.append(_template_metadata(replica_set, wanted))
        elif not replica_set.pods_carry_metadata:
            intents += _pods_metadata(ctx, replica_set)
    return tuple(intents)


def coalesced(intents: tuple[Intent, ...]) -> tuple[Intent, ...]:
    """Merges the intents so that each ReplicaSet gets at most one patch: a second one in a pass would carry a stale version.

    A role's metadata and a note of configuration join the patch before them. The mark that all pods have the metadata must follow
    the pods: it waits for another pass.
    """
    merged: dict[str, PatchReplicaSet] = {}
    for intent in intents:
        if not isinstance(intent, PatchReplicaSet):
            continue
        first = merged.setdefault(intent.uid, intent)
        if first is not intent and intent.config is not None:
            merged[intent.uid] = replace(first, config=intent.config)
        elif first is not intent and intent.pod_metadata is not None:
            merged[intent.uid] = replace(
                first,
                resource_version=intent.resource_version,
                pod_metadata=intent.pod_metadata,
                replaced_metadata=intent.replaced_metadata,
                pods_carry_metadata=intent.pods_carry_metadata,
            )
    placed: list[Intent] = []
    for intent in intents:
        patch = merged.pop(intent.uid, None) if isinstance(intent, PatchReplicaSet) else intent
        placed += [] if patch is None else [patch]
    return tuple(placed)


def _template_metadata(replica_set: ReplicaSet, wanted: PodMetadata) -> PatchReplicaSet:
    return PatchReplicaSet(
        name=replica_set.name,
        uid=replica_set.uid,
        revision=replica_set.revision,
        resource_version=replica_set.resource_version,
        pod_metadata=wanted,
        replaced_metadata=replica_set.pod_metadata,
        pods_carry_metadata=replica_set.replicas == 0,
    )


def _pods_metadata(ctx: PassContext, replica_set: ReplicaSet) -> list[Intent]:
    pods = ctx.seen.pods
    if pods is None or ctx.now_s - pods.at_s > PODS_FRESH_S:
        return [AskPods()]
    wanted = replica_set.pod_metadata
    patches: list[Intent] = [
        PatchPod(name=pod.name, uid=pod.uid, metadata=wanted, removed=_outdated(ctx, wanted))
        for pod in pods.pods
        if pod.revision == replica_set.revision
        and not pod.deleting
        and not _carries(pod, wanted, _outdated(ctx, wanted))
    ]
    done = PatchReplicaSet(
        name=replica_set.name, uid=replica_set.uid, revision=replica_set.revision, pods_carry_metadata=True
    )
    return [*patches, done]


def _outdated(ctx: PassContext, wanted: PodMetadata) -> PodMetadata:
    """Metadata of the strategy's other role, which a pod of this role must not keep."""
    strategy = ctx.spec.strategy
    roles = (strategy.serving_metadata, strategy.candidate_metadata)
    labels = {key: value for role in roles for key, value in role.labels.items() if key not in wanted.labels}
    annotations = {
        key: value for role in roles for key, value in role.annotations.items() if key not in wanted.annotations
    }
    return PodMetadata(labels, annotations)


def _carries(pod: Pod, wanted: PodMetadata, outdated: PodMetadata) -> bool:
    return (
        wanted.labels.items() <= pod.labels.items()
        and wanted.annotations.items() <= pod.annotations.items()
        and not outdated.labels.keys() & pod.labels.keys()
        and not outdated.annotations.keys() & pod.annotations.keys()
    )


def paused_by_user(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """The wait of an update that a person paused: the progress deadline does not run, whatever else is missing."""
    if wait is None or not ctx.paused or ctx.aborted or ctx.stable is None:
        return wait
    return Wait(Reason.PAUSED_BY_USER, f"{ctx.paused_because}; then: {wait.message}")


def _some_are_late(ctx: PassContext) -> bool:
    """Whether pods are not ready that were not just created.

    A busy ReplicaSet controller may take a minute to create pods; a list for each Rollout would burden the API server as well.
    """
    only_just_made = ctx.new is not None and ctx.new.replicas > ctx.status.updated_replicas
    return not only_just_made and any(each.replicas > each.ready for each in ctx.seen.replica_sets)


def explained(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """A wait for pods with what is wrong with them, once it has lasted; any other wait as it is."""
    if wait is None or wait.reason is not Reason.PODS_NOT_AVAILABLE or _waited_since_s(ctx) is None:
        return wait
    listed = _listed_since(ctx)
    return _with_problem(wait, _recorded_problem(ctx) if listed is None else _problems(listed))


def pods_question(ctx: PassContext, wait: Wait | None) -> Contribution:
    """Asks about pods that are waited for when nothing moved for 30 s, then each time that has doubled."""
    if wait is None or wait.reason is not Reason.PODS_NOT_AVAILABLE:
        return Contribution()
    since_s, listed = _waited_since_s(ctx), _listed_since(ctx)
    if since_s is None:
        return Contribution(wake_at_s=ctx.now_s + TROUBLE_AFTER_S)
    next_s = since_s + TROUBLE_AFTER_S if listed is None else since_s + 2 * (listed.at_s - since_s)
    asks = ctx.now_s >= next_s and _some_are_late(ctx)
    wake_at_s = next_s if listed is not None else max(next_s, ctx.now_s)
    return Contribution(intents=(AskPods(),) if asks else (), wake_at_s=wake_at_s)


def _waited_since_s(ctx: PassContext) -> float | None:
    """Since when pods are waited for and nothing has moved; None when that wait is not on record yet."""
    recorded = ctx.status.waiting_for
    if recorded is None or recorded.reason is not Reason.PODS_NOT_AVAILABLE:
        return None
    return max(recorded.since_s, ctx.status.progressed_at_s or 0.0)


def _listed_since(ctx: PassContext) -> PodsSeen | None:
    """The list of pods, if it is younger than what was last seen to move."""
    since_s, pods = _waited_since_s(ctx), ctx.seen.pods
    return pods if since_s is not None and pods is not None and pods.at_s > since_s else None


def _problems(listed: PodsSeen) -> str:
    """What is wrong with three of the pods at most; "" for nothing."""
    broken = [each for each in listed.pods if each.problem and not each.ready and not each.deleting]
    return "; ".join(sorted({f"pod {each.name}: {each.problem}" for each in broken})[:3])


def _recorded_problem(ctx: PassContext) -> str:
    """The pods' problem that status records for this step of this update; "" when it is about another one."""
    recorded = ctx.recorded
    same = ctx.durable and recorded.step_index == ctx.status.step_index
    return recorded.waiting_for.problem if same and recorded.waiting_for is not None else ""


def _with_problem(wait: Wait, problem: str) -> Wait:
    return replace(wait, message=f"{wait.message}; {problem}", problem=problem) if problem else wait
