"""Who carries an update out: the Rollout's own ReplicaSets, or the workload that it updates in place."""

from __future__ import annotations

from rollouts.core.carrier import daemonset, deployment, ordinals, statefulset
from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.intents import Decision
from rollouts.core.model.snapshot import Snapshot, is_in_place
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.core.scale.canary_sizes import Sizes


def as_own(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: with a ReplicaSet for each revision, whoever has its pods."""
    match _kind(seen):
        case WorkloadKind.DEPLOYMENT:
            return deployment.as_own(seen)
        case WorkloadKind.STATEFUL_SET:
            return ordinals.as_own(seen)
        case WorkloadKind.DAEMON_SET:
            return daemonset.as_own(seen)
        case _:
            return seen


def reachable(ctx: PassContext, sizes: Sizes, *, held: bool) -> Sizes:
    """The nearest sizes that can be held.

    Args:
        held: the update may not begin yet.
    """
    match _kind(ctx.seen):
        case WorkloadKind.DEPLOYMENT:
            return deployment.reachable(ctx, sizes)
        case WorkloadKind.STATEFUL_SET:
            return statefulset.reachable(ctx, sizes)
        case WorkloadKind.DAEMON_SET:
            return daemonset.reachable(ctx, sizes, held=held)
        case _:
            return sizes


def carried(seen: Snapshot, decision: Decision) -> Decision:
    """The decision with what its workload does in place of sizes; the same for a Rollout with ReplicaSets of its own."""
    match _kind(seen):
        case WorkloadKind.DEPLOYMENT:
            return deployment.carried(seen, decision)
        case WorkloadKind.STATEFUL_SET:
            return statefulset.carried(seen, decision)
        case WorkloadKind.DAEMON_SET:
            return daemonset.carried(seen, decision)
        case _:
            return decision


def _kind(seen: Snapshot) -> WorkloadKind | None:
    """The kind of the workload that is updated in place; None for none."""
    ref = seen.rollout.spec.workload_ref
    return ref.kind if ref is not None and is_in_place(seen) else None
