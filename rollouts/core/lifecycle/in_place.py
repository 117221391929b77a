"""What people are told of an update in place of each kind, and which commands a workload carries out by its template alone."""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.nodes import DaemonSetSeen
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import Snapshot, is_in_place
from rollouts.core.model.status import Command, RolloutStatus, Verb
from rollouts.core.model.workload import WorkloadSeen, to_write
from rollouts.core.model.workload_ref import OnAbort, WorkloadKind
from rollouts.core.scale.replicas import target_pair


def left_in_update(kind: WorkloadKind, name: str, *, namespace: str) -> str:
    """What becomes of a workload that is released in the middle of its update, and what ends that."""
    match kind:
        case WorkloadKind.STATEFUL_SET:
            left, fields = "with its partition", '{"rollingUpdate": {"partition": 0}}'
        case WorkloadKind.DAEMON_SET:
            left, fields = "with OnDelete", '{"type": "RollingUpdate"}'
        case _:
            left, fields = "paused", ""
    goes_on = f"kubectl rollout resume {kind.lower()}/{name} -n {namespace}"
    if fields:
        patch = f'{{"spec": {{"updateStrategy": {fields}}}}}'
        goes_on = f"kubectl patch {kind.lower()} {name} -n {namespace} --type merge -p '{patch}'"
    back = "to go back, apply the stable template first"
    return f"{kind} {name} is left {left} in its update: to go on with it: {goes_on}; {back}"


def has_fields_of_a_step(seen: Snapshot) -> bool:
    """Whether the workload of an update in place has not got its user's fields back."""
    workload = to_write(seen.workload, seen.rollout.name)
    return workload is not None and workload.in_place is not None and workload.in_place.in_update


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
    new, more = ctx.new, _more_than_asked(ctx) if daemon_set_of(ctx) is not None else 0
    if new is None or more == 0:
        return ""
    have = "1 node has" if new.spec_replicas == 1 else f"{new.spec_replicas} nodes have"
    have = f"{have} revision {new.revision}, and the step asks for {new.spec_replicas - more}"
    return f"{have}: a node keeps it, and one that joins, or loses its pod, gets the newest template"


def _more_than_asked(ctx: PassContext) -> int:
    """How many pods of the new revision there are beyond what the step asks for; 0 after an abort."""
    new, weight_percent = ctx.new, ctx.status.weight_percent
    if new is None or ctx.stable is None or ctx.aborted or weight_percent is None:
        return 0
    asked = target_pair(replicas=ctx.spec.replicas, weight_percent=weight_percent, surge=0).canary
    return max(0, new.spec_replicas - asked)


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
    if held is not None and held.surplus and (more := _more_than_asked(ctx)):
        pods = "1 more pod" if more == 1 else f"{more} more pods"
        message = f"scaling has made {pods} of revision {ctx.status.current_revision} than the step asks for"
        facts.append(("ScaledInStep", True, Reason.SCALED_IN_STEP, message))
    if lost := stable_is_lost(ctx):
        facts.append(("TemplateNeedsRevert", True, Reason.TEMPLATE_NEEDS_REVERT, lost))
    return facts


def needs_its_template(seen: Snapshot, status: RolloutStatus, command: Command) -> str:
    """Why such a command is refused, and what to type; "" for another one."""
    rollout, ref = seen.rollout, seen.rollout.spec.workload_ref
    if ref is None or not is_in_place(seen):
        return ""
    undoes = command.verb is Verb.ROLLBACK and not _makes_pods_of(seen, status, ref.kind, command.target)
    if not (undoes or command.verb is Verb.RESTART):
        return ""
    kubectl = f"kubectl rollout {'undo' if undoes else 'restart'} {ref.kind.lower()}/{ref.name} -n {rollout.namespace}"
    return f"{ref} is updated in place, so its template decides: {kubectl}; the steps of this Rollout follow"


def _makes_pods_of(seen: Snapshot, status: RolloutStatus, kind: WorkloadKind, revision: str) -> bool:
    """Whether the workload makes pods of that revision whatever its template is.

    A StatefulSet forgets the stable one when all pods of another were ready once; a DaemonSet knows only its template.
    """
    found = seen.workload.stateful_set if isinstance(seen.workload, WorkloadSeen) else None
    is_forgotten = found is not None and found.current_revision != revision
    return revision == status.stable_revision and kind is not WorkloadKind.DAEMON_SET and not is_forgotten
