"""Work beside the steps: adopts ReplicaSets, deletes old ones beyond the limit, sets ephemeral metadata, finds out why pods are
not ready."""

from __future__ import annotations

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.commands import rollback_target
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptReplicaSet,
    AskPods,
    DeleteReplicaSet,
    Intent,
    PatchPod,
    PatchReplicaSet,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import PodMetadata
from rollouts.core.model.snapshot import PodsSeen, ReplicaSet, Snapshot
from rollouts.core.model.status import stable_before
from rollouts.core.scale.restarts import PODS_FRESH_S
from rollouts.core.scale.sizing import role_metadata

TROUBLE_AFTER_S = 30.0  # how long pods may be late before the controller lists them


def adoptions(seen: Snapshot) -> tuple[AdoptReplicaSet, ...]:
    """The ReplicaSets that nobody controls and the Rollout adopts; the others are left alone and reported.

    Nothing else is decided before: a view without them shows fewer pods and revisions than exist. `kubectl delete
    --cascade=orphan` leaves such ReplicaSets, and their pods go on serving. Without adoption, a Rollout that is applied
    again would create all its pods a second time. Deployments adopt the same way (pkg/controller/controller_ref_manager.go).
    """
    return tuple(
        AdoptReplicaSet(
            name=orphan.name, uid=orphan.uid, resource_version=orphan.resource_version, has_owners=orphan.has_owners
        )
        for orphan in seen.orphans
        if not orphan.problem
    )


def not_adopted(seen: Snapshot) -> str:
    """Message about ReplicaSets under the Rollout's name that are not adopted: why, and what to do; "" when there are none."""
    told = []
    for orphan in seen.orphans:
        what = f"ReplicaSet {orphan.name} has the label rollouts.dev/name of this Rollout and no controller"
        helps = "the Rollout does not adopt it; delete it, or remove the label"
        told += [f"{what}, but {orphan.problem}: {helps}"] if orphan.problem else []
    return ". ".join(told)


def surplus(ctx: PassContext) -> tuple[DeleteReplicaSet, ...]:
    """ReplicaSets without pods beyond `revisionHistoryLimit`, oldest first; never one that is in use or a rollback's target.

    The revision that was stable before is kept first: it is where people go back to. Revisions that were aborted since do not
    push it out. Only with a limit of 0 it goes like any other.
    """
    limit = ctx.spec.revision_history_limit
    in_use = {
        ctx.status.current_revision,
        ctx.status.stable_revision,
        ctx.spec.revision,
        rollback_target(ctx.seen.rollout, ctx.status),
        *ctx.shown_revisions,
        *(scale_down.revision for scale_down in ctx.status.scale_downs),
    }
    empty = [
        old
        for old in ctx.older
        if old.revision not in in_use and old.observed and old.spec_replicas == old.replicas == 0
    ]
    count = max(0, len(empty) - limit)
    before = stable_before(ctx.status.history, ctx.status.stable_revision)
    if before is not None and limit > 0:
        empty.sort(key=lambda old: old.revision == before.revision)
    return tuple(
        DeleteReplicaSet(name=old.name, uid=old.uid, resource_version=old.resource_version) for old in empty[:count]
    )


def metadata_intents(ctx: PassContext) -> tuple[Intent, ...]:
    """Writes a role's metadata into the ReplicaSet's template, then into its pods, then records that the pods have it."""
    intents: list[Intent] = []
    for replica_set in (ctx.new, ctx.stable):
        if replica_set is None or replica_set.deleting:
            continue
        wanted = role_metadata(ctx, replica_set.revision)
        if replica_set.pod_metadata != wanted:
            intents.append(
                PatchReplicaSet(
                    name=replica_set.name,
                    uid=replica_set.uid,
                    revision=replica_set.revision,
                    resource_version=replica_set.resource_version,
                    pod_metadata=wanted,
                    replaced_metadata=replica_set.pod_metadata,
                    pods_carry_metadata=replica_set.replicas == 0,
                )
            )
        elif not replica_set.pods_carry_metadata:
            intents += _pods_metadata(ctx, replica_set)
    return tuple(intents)


def merged_patches(intents: tuple[Intent, ...]) -> tuple[Intent, ...]:
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


def _pods_metadata(ctx: PassContext, replica_set: ReplicaSet) -> list[Intent]:
    if ctx.seen.pods is None or ctx.now_s - ctx.seen.pods.at_s > PODS_FRESH_S:
        return [AskPods()]
    intents: list[Intent] = []
    wanted, strategy = replica_set.pod_metadata, ctx.spec.strategy
    # Metadata of the strategy's other role, which a pod of this role must not keep.
    labels = {**strategy.serving_metadata.labels, **strategy.candidate_metadata.labels}
    annotations = {**strategy.serving_metadata.annotations, **strategy.candidate_metadata.annotations}
    outdated = PodMetadata(
        {key: value for key, value in labels.items() if key not in wanted.labels},
        {key: value for key, value in annotations.items() if key not in wanted.annotations},
    )
    for pod in ctx.seen.pods.pods:
        if pod.revision != replica_set.revision or pod.deleting:
            continue
        carries = (
            wanted.labels.items() <= pod.labels.items()
            and wanted.annotations.items() <= pod.annotations.items()
            and not outdated.labels.keys() & pod.labels.keys()
            and not outdated.annotations.keys() & pod.annotations.keys()
        )
        if not carries:
            intents.append(PatchPod(name=pod.name, uid=pod.uid, metadata=wanted, removed=outdated))
    done = PatchReplicaSet(
        name=replica_set.name, uid=replica_set.uid, revision=replica_set.revision, pods_carry_metadata=True
    )
    return [*intents, done]


def paused_by_user(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """The wait of an update that a person paused: the progress deadline does not run, whatever else is missing."""
    if wait is None or not ctx.paused or ctx.aborted or ctx.stable is None:
        return wait
    return Wait(Reason.PAUSED_BY_USER, f"{ctx.paused_because}; then: {wait.message}")


def with_pod_problems(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """A wait for pods with what is wrong with three of them at most, once it has lasted; any other wait as it is."""
    if wait is None or wait.reason is not Reason.PODS_NOT_AVAILABLE or _waited_since_s(ctx) is None:
        return wait
    problem = ""
    same_step = ctx.durable and ctx.recorded.step_index == ctx.status.step_index
    if (listed := _listed_since(ctx)) is not None:
        broken = [pod for pod in listed.pods if pod.problem and not pod.ready and not pod.deleting]
        problem = "; ".join(sorted({f"pod {pod.name}: {pod.problem}" for pod in broken})[:3])
    elif same_step and ctx.recorded.waiting_for is not None:
        problem = ctx.recorded.waiting_for.problem
    return replace(wait, message=f"{wait.message}; {problem}", problem=problem) if problem else wait


def pods_question(ctx: PassContext, wait: Wait | None) -> Contribution:
    """Asks about pods that are waited for when nothing moved for 30 s, then each time that has doubled."""
    if wait is None or wait.reason is not Reason.PODS_NOT_AVAILABLE:
        return Contribution()
    since_s, listed = _waited_since_s(ctx), _listed_since(ctx)
    if since_s is None:
        return Contribution(wake_at_s=ctx.now_s + TROUBLE_AFTER_S)
    next_s = since_s + TROUBLE_AFTER_S if listed is None else since_s + 2 * (listed.at_s - since_s)
    # A busy ReplicaSet controller may take a minute to create pods; a list for each Rollout would burden the API server as well.
    only_just_made = ctx.new is not None and ctx.new.replicas > ctx.status.updated_replicas
    some_are_late = not only_just_made and any(
        replica_set.replicas > replica_set.ready for replica_set in ctx.seen.replica_sets
    )
    asks = ctx.now_s >= next_s and some_are_late
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
