"""What people are told of an update of a DaemonSet: which nodes it does not take back, and how they get the stable pods again."""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.nodes import DaemonSetSeen
from rollouts.core.model.workload import WorkloadSeen
from rollouts.core.model.workload_ref import OnAbort
from rollouts.core.scale.replicas import target_pair


def daemon_set_of(ctx: PassContext) -> DaemonSetSeen | None:
    """The DaemonSet that the Rollout updates in place; None for another kind, and while it is not seen."""
    workload = ctx.seen.workload
    return workload.daemon_set if isinstance(workload, WorkloadSeen) else None


def after_abort(ctx: PassContext, daemon_set: DaemonSetSeen) -> str:
    """What an abort does with the nodes: only a template makes pods, so the stable one has to come back first."""
    ref, status = ctx.spec.workload_ref, ctx.status
    number = next((each.number for each in daemon_set.revisions if each.revision == status.stable_revision), None)
    if ref is None or number is None:
        return f"no template of revision {status.stable_revision} is left: apply one"
    if ref.on_abort is OnAbort.REVERT_TEMPLATE:
        return f"{ref} gets the template of revision {status.stable_revision} again"
    name, namespace = f"daemonset/{ref.name}", ctx.seen.rollout.namespace
    kept = f"the nodes that have it keep it, until {ref} has the template of revision {status.stable_revision} again"
    return f"{kept}: kubectl rollout undo {name} -n {namespace} --to-revision={number}"


def beyond_step(ctx: PassContext) -> str:
    """Which nodes have the new revision beyond what the step asks for, and why; "" for none."""
    new, stable, weight_percent = ctx.new, ctx.stable, ctx.status.weight_percent
    if daemon_set_of(ctx) is None or new is None or stable is None or ctx.aborted or weight_percent is None:
        return ""
    asked = target_pair(replicas=ctx.spec.replicas, weight_percent=weight_percent, surge=0).canary
    if new.spec_replicas <= asked:
        return ""
    have = "1 node has" if new.spec_replicas == 1 else f"{new.spec_replicas} nodes have"
    have = f"{have} revision {new.revision}, and the step asks for {asked}"
    return f"{have}: a node keeps it, and one that joins, or loses its pod, gets the newest template"
