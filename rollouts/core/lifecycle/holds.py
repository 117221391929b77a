"""What holds a Rollout at the revision on record: its workload, or the sources of its configuration, say nothing certain."""

from __future__ import annotations

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.workload import workload_wait
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateReplicaSet
from rollouts.core.model.reasons import Reason

AT_REST = {Reason.SCALE_DOWN_DELAY, Reason.DRAINING, Reason.ROLLED_BACK}
"""Waits of a Rollout whose update is over."""


def hold_of(ctx: PassContext) -> Wait | None:
    """What holds the Rollout, None for nothing. Without a message it ends in a moment."""
    if (wait := workload_wait(ctx.seen)) is not None:
        return wait
    hold = ctx.seen.config.hold if ctx.seen.config is not None else None
    return None if hold is None else Wait(hold.reason, hold.message, hold.deadline_s)


def is_reading(ctx: PassContext) -> bool:
    """Whether a read that was just asked for will say what the spec means."""
    hold = hold_of(ctx)
    return hold is not None and not hold.message


def with_hold(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """The wait of the pass, with what holds the Rollout at the revision on record; an unfinished update keeps its own reason."""
    hold = hold_of(ctx)
    if hold is None or (not hold.message and ctx.status.current_revision):
        return wait
    if wait is None or wait.reason is hold.reason:
        return _with_message(ctx, hold)
    if wait.reason in AT_REST:
        return replace(hold, message=f"{hold.message}; {wait.message}")
    return replace(wait, message=f"{wait.message}; {hold.message}")


def without_creation(ctx: PassContext, step: Contribution) -> Contribution:
    """The step up to its new ReplicaSet, which cannot be created while its template, or what it reads, is not known."""
    hold = hold_of(ctx)
    at = next((index for index, intent in enumerate(step.intents) if isinstance(intent, CreateReplicaSet)), None)
    if hold is None or at is None:
        return step
    return replace(step, intents=step.intents[:at], wait=_with_message(ctx, hold))


def _with_message(ctx: PassContext, hold: Wait) -> Wait:
    what = ctx.spec.workload_ref if hold.reason is Reason.WORKLOAD_NOT_READ else None
    reading = "the ConfigMaps and Secrets that the template names" if what is None else what
    return replace(hold, message=hold.message or f"reading {reading}")
