"""Whether a Rollout makes progress: the counts, the progress clock, and the deadlines of waits.

Status and the abort of `progressDeadlineAbort` use the same clock. It compares what is seen with what is on record, for each side
of an update by itself: when one side gains an available pod and the other shrinks for it, the total stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import AT_AUTOSCALING_GATE, NOT_HELD_UP, WORKLOAD_HOLDS, Wait
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskFeatures, AskRoute, AskService, Intent
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.status import RolloutStatus, WaitingFor
from rollouts.core.routing.routes import ROUTES_NEED_A_PERSON
from rollouts.core.routing.services import NEEDS_A_PERSON

STALLED_AFTER_S = 10.0
"""`kubectl apply` of a folder creates a Service or a route a moment after the Rollout that names it. What is still missing or
unusable after this time needs a person."""

_NEED_A_PERSON = (
    NEEDS_A_PERSON
    | ROUTES_NEED_A_PERSON
    | {Reason.ANALYSIS_INVALID, Reason.AUTOSCALER_NOT_FOUND, Reason.CONFIG_NOT_FOUND, Reason.CONFIG_FORBIDDEN}
    | {Reason.CONFIG_COPY_NOT_USABLE, Reason.CONFIG_COPY_MISSING}
    | (WORKLOAD_HOLDS - {Reason.WORKLOAD_NOT_READ})
)


def needs_a_person(reason: Reason) -> bool:
    """Whether only a person can end a wait with this reason: something that the spec names is missing or cannot be used."""
    return reason in _NEED_A_PERSON


def counted(ctx: PassContext) -> RolloutStatus:
    """`ctx.status` with the counts of the pods that exist now.

    Autoscalers are told of no more than `replicas`: by an average of the whole load an HPA that sees a small difference keeps the
    number that it is told, and would take pods of a canary, or of a surge, for pods that the load needs. All pods are in the
    selector, because usage is measured in all that serve. Source: k8s.io/kubernetes pkg/controller/podautoscaler
    /replica_calculator.go, `GetExternalPerPodMetricReplicas`.
    """
    sets = ctx.seen.replica_sets
    selector = ctx.spec.selector_text or ctx.status.selector  # without one while its workload is not known
    active = ctx.status.active_revision or ctx.status.stable_revision or ctx.status.current_revision
    if isinstance(ctx.spec.strategy, BlueGreen) and active:  # the autoscaler measures the pods that serve
        sets = tuple(replica_set for replica_set in sets if replica_set.revision == active)
        selector = f"{selector},{ctx.spec.revision_label}={active}"
    new = ctx.new
    replicas = ready = available = 0
    for replica_set in sets:
        replicas += replica_set.replicas
        ready += replica_set.ready
        available += replica_set.available
    return replace(
        ctx.status,
        replicas=replicas,
        updated_replicas=new.replicas if new else 0,
        updated_ready_replicas=new.ready if new else 0,
        updated_available_replicas=new.available if new else 0,
        ready_replicas=ready,
        available_replicas=available,
        hpa_replicas=min(replicas, ctx.spec.replicas),
        selector=selector,
    )


def moved(before: RolloutStatus, now: RolloutStatus) -> bool:
    """Whether pods came up or older ones left between two counts.

    Source: `DeploymentProgressing` of the Deployment controller (pkg/controller/deployment/util). The Deployment controller
    compares ready and available pods in total only; here those of the new revision count too.
    """
    return (
        now.updated_replicas > before.updated_replicas
        or now.updated_ready_replicas > before.updated_ready_replicas
        or now.updated_available_replicas > before.updated_available_replicas
        or now.ready_replicas > before.ready_replicas
        or now.available_replicas > before.available_replicas
        or now.replicas < before.replicas
        or now.replicas - now.updated_replicas < before.replicas - before.updated_replicas
    )


def progressed_at_s(ctx: PassContext, status: RolloutStatus, wait: Wait | None) -> float:
    """The time of the last progress: now when pods moved, or when a wait that the clock measures has just begun.

    Args:
        status: `ctx.status` after `counted`.
    """
    before = ctx.recorded
    if status.progressed_at_s is None or status.progressed_at_s != before.progressed_at_s:
        return ctx.now_s if status.progressed_at_s is None else status.progressed_at_s
    was = _clock(before.waiting_for.reason if before.waiting_for is not None else None)
    clock = _clock(wait.reason if wait is not None else None)
    begins = clock is not None and clock is not was
    return ctx.now_s if begins or (was is not None and moved(before, status)) else status.progressed_at_s


def waiting_for(
    ctx: PassContext, status: RolloutStatus, wait: Wait | None, *, progressed_at_s: float
) -> WaitingFor | None:
    """The wait with its times; one that needs a person has a deadline only if the progress deadline aborts the update."""
    if wait is None:
        return None
    before, since_s, deadline_s = ctx.recorded.waiting_for, ctx.now_s, wait.deadline_s
    needs_person = needs_a_person(wait.reason)
    if before is not None and ctx.recorded.step_index == status.step_index:
        same = before.reason is wait.reason or {before.reason, wait.reason} <= AT_AUTOSCALING_GATE
        if same or (needs_person and needs_a_person(before.reason)):
            since_s = before.since_s
    if deadline_s is None and wait.reason not in NOT_HELD_UP and (not needs_person or can_abort(ctx)):
        deadline_s = progressed_at_s + ctx.spec.progress_deadline_s
    return WaitingFor(wait.reason, wait.message, since_s, deadline_s, wait.problem)


def can_abort(ctx: PassContext) -> bool:
    """Whether the progress deadline aborts the update that is under way."""
    status = ctx.status
    unfinished = bool(status.stable_revision) and status.stable_revision != status.current_revision
    return ctx.spec.progress_deadline_abort and unfinished and status.abort is None


def overdue(ctx: PassContext, waiting: WaitingFor | None, *, progressed_at_s: float) -> bool:
    """Whether there was no progress for the progress deadline; a wait with a deadline of its own may last until then."""
    if waiting is None or waiting.reason in NOT_HELD_UP:
        return False
    return ctx.now_s >= max(progressed_at_s + ctx.spec.progress_deadline_s, waiting.deadline_s or 0.0)


def stalls_at_s(waiting: WaitingFor | None) -> float | None:
    """From when on a wait counts as stalled; None for one that needs no person."""
    return waiting.since_s + STALLED_AFTER_S if waiting is not None and needs_a_person(waiting.reason) else None


def still_wanted(ctx: PassContext, wait: Wait | None, intents: Iterable[Intent]) -> Wait | None:
    """`wait`, or the recorded wait for a person while the missing object is read again: only the answer ends that wait."""
    before = ctx.recorded.waiting_for
    if before is None or not needs_a_person(before.reason) or (wait is not None and needs_a_person(wait.reason)):
        return wait
    if not any(isinstance(intent, AskService | AskRoute | AskFeatures) for intent in intents):
        return wait
    spec_is_wrong = any(condition.type == "InvalidSpec" for condition in ctx.recorded.conditions)
    return Wait(before.reason, before.message, spec_is_wrong=spec_is_wrong)


def _clock(reason: Reason | None) -> bool | None:
    """What a wait means for the progress clock: None while it stands still, else whether a person must end the wait."""
    return None if reason is None or reason in NOT_HELD_UP else needs_a_person(reason)
