"""What a Rollout tells about a StatefulSet that it updates in place, and about pods that wait for their volumes."""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.reasons import Reason
from rollouts.core.model.workload import WorkloadSeen


def stable_is_lost(ctx: PassContext) -> str:
    """Why pods of the new revision stay although the update goes back, and what helps; "" when they can go back."""
    workload, status = ctx.seen.workload, ctx.status
    found = workload.stateful_set if isinstance(workload, WorkloadSeen) else None
    if found is None or not isinstance(workload, WorkloadSeen) or not workload.observed:
        return ""
    if found.current_revision == status.stable_revision or not status.stable_revision:
        return ""
    others = [each for each in ctx.seen.replica_sets if each.spec_replicas and each.revision != status.stable_revision]
    goes_back = ctx.aborted or status.current_revision == status.stable_revision != found.update_revision
    if not goes_back or not others:
        return ""
    kubectl = f"kubectl rollout undo statefulset/{workload.name} -n {ctx.seen.rollout.namespace}"
    return f"its pods stay: the StatefulSet has forgotten revision {status.stable_revision}; apply its template, or {kubectl}"


def ordinal_facts(ctx: PassContext) -> list[tuple[str, bool, Reason, str]]:
    """The conditions about a StatefulSet; each exists only while it is true."""
    workload = ctx.seen.workload
    held = workload.stateful_set.held if isinstance(workload, WorkloadSeen) and workload.stateful_set else None
    facts: list[tuple[str, bool, Reason, str]] = []
    if held is not None and held.surplus and not ctx.aborted:
        message = f"scaling has made {held.surplus} more pods of revision {ctx.status.current_revision} than the step asks for"
        facts.append(("ScaledInStep", True, Reason.SCALED_IN_STEP, message))
    if lost := stable_is_lost(ctx):
        facts.append(("TemplateNeedsRevert", True, Reason.TEMPLATE_NEEDS_REVERT, lost))
    return facts
