"""Whether a policy of the API server holds the workload that is updated in place: asked once it is marked."""

from __future__ import annotations

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.intents import AskHold
from rollouts.core.model.workload import WorkloadSeen, is_of
from rollouts.core.model.workload_ref import Hold, WorkloadMode

HOLD_AGAIN_S = 600.0
"""Policies are not watched, and a Rollout at rest wakes for nothing: a pass that comes later asks again."""
HOLD_SOON_S = (5.0, 30.0)
"""A policy is effective some seconds after it was created, often together with the workload: so long after the first no."""


def hold_question(ctx: PassContext) -> Contribution:
    """Asks while no update is under way, twice more after a first no. In one the guard keeps the question's template, too."""
    reference, workload = ctx.spec.workload_ref, ctx.seen.workload
    if reference is None or reference.mode is not WorkloadMode.IN_PLACE or reference.hold is Hold.AT_REST:
        return Contribution()
    if not isinstance(workload, WorkloadSeen) or not is_of(workload, ctx.seen.rollout.name):
        return Contribution()
    found, answer = workload.in_place, workload.hold
    if found is None or not found.holds or found.in_update:
        return Contribution()
    if answer is not None and ctx.now_s < answer.at_s + HOLD_AGAIN_S:
        since_s = None if answer.works else answer.since_s
        soon_s = [] if since_s is None else [since_s + after_s for after_s in HOLD_SOON_S]
        again_s = next((at_s for at_s in soon_s if at_s > answer.at_s), None)
        if again_s is None or ctx.now_s < again_s:
            return Contribution(wake_at_s=again_s)
    return Contribution(intents=(AskHold(workload.kind, workload.name, workload.uid),))
