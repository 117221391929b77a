"""The ordinary rules of a pass, in the order of its writes: the step of the strategy, and the work beside it.

Each rule decides from what the pass has found so far (`Course`). No rule looks at the contribution of another rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.context.contribution import Contribution, joined
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import CONFIG_HOLDS, NOT_HELD_UP, WORKLOAD_HOLDS, Wait, earliest
from rollouts.core.drain.cutover import drain_questions, restarted_drains, settle_cutovers
from rollouts.core.lifecycle.analyses import surplus_runs, unwanted_runs
from rollouts.core.lifecycle.config_copies import (
    baseline_note,
    config_questions,
    copy_owners,
    surplus_copies,
    with_copies,
)
from rollouts.core.lifecycle.hold import hold_question
from rollouts.core.lifecycle.holds import without_creation
from rollouts.core.lifecycle.housekeeping import (
    merged_patches,
    metadata_intents,
    paused_by_user,
    pods_question,
    surplus,
    with_pod_problems,
)
from rollouts.core.lifecycle.lost_copies import copy_questions, lost_copies, without_unusable_copies
from rollouts.core.lifecycle.progress import still_wanted
from rollouts.core.lifecycle.workload import workload_questions, workload_releases, workload_size
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateConfigCopy, Notice, ReleaseRoute, SwitchService
from rollouts.core.model.reasons import Reason
from rollouts.core.routing.services import releases, switches
from rollouts.core.scale.restarts import plan_restart, settle_evictions
from rollouts.core.scale.sizing import keeping_wait, settle_scale_downs, takes_away, with_fallback
from rollouts.core.strategy.autoscaling import autoscaling_question
from rollouts.core.strategy.experiment_traffic import let_go
from rollouts.core.strategy.guards import guarding
from rollouts.core.strategy.route_release import plan_standing_still, stands_still
from rollouts.core.strategy.rules import rules_of
from rollouts.core.strategy.skeleton import plan_update

_HOLD_PODS = CONFIG_HOLDS | WORKLOAD_HOLDS | {Reason.DRAINING, Reason.DRAIN_TIMED_OUT}
"""While pods drain none is evicted, nor while a ReplicaSet is missing whose template or configuration is not known."""

_NOTHING = Contribution()


class Course(Struct, frozen=True, kw_only=True):
    """A pass after the strategy has decided its step.

    Args:
        ctx: the pass before the step, with the changes that `release` records.
        planned: the pass with the changes that the step records.
        release: the contribution for routes that the spec no longer names.
        step: the contribution of the strategy.
        restart: the contribution that replaces pods older than the restart time.
        wait: the wait of the update, or else of the restart.
        pods_may_go: the update waits for no pods and no pods drain, so pods may be evicted and ReplicaSets deleted.
    """

    ctx: PassContext
    planned: PassContext
    release: Contribution
    step: Contribution
    restart: Contribution
    wait: Wait | None
    pods_may_go: bool


Ordinary: TypeAlias = Callable[[Course], Contribution]


def as_of_now(ctx: PassContext) -> PassContext:
    """The pass with its scale-down delays and cutovers brought up to date."""
    return ctx.recording((*settle_scale_downs(ctx), *settle_cutovers(ctx)))


def strategy_plan(ctx: PassContext) -> Contribution:
    """The step of the strategy; the update stops while a route that its sizes followed is released."""
    step = plan_standing_still(ctx) if stands_still(ctx) else plan_update(ctx, rules_of(ctx))
    if ctx.has_config:  # before copies are added: one without the write that notes it would be made in each pass
        step = without_unusable_copies(ctx, step)
    if ctx.seen.config is not None or ctx.spec.workload_ref is not None:
        step = with_copies(ctx, without_creation(ctx, step))
    return step


def course_of(ctx: PassContext, planned: PassContext, *, step: Contribution, release: Contribution) -> Course:
    """The input of the rules. While a restart adds pods, the update waits for it too: availability means little then."""
    restart = plan_restart(planned)
    held_up = with_fallback(ctx, _joined(step.wait, release.wait))
    surging = restart.wait is not None and any(replica_set.restart_surge for replica_set in ctx.seen.replica_sets)
    update = paused_by_user(ctx, _joined(held_up, restart.wait) if surging else held_up)
    return Course(
        ctx=ctx,
        planned=planned,
        release=release,
        step=step,
        restart=restart,
        wait=update or restart.wait,
        pods_may_go=held_up is None or held_up.reason in NOT_HELD_UP - _HOLD_PODS,
    )


def carried_out(course: Course) -> Contribution:
    """The contributions of all rules together; the changes are recorded after those of the step."""
    whole = joined(
        [rule(course) for rule in ORDINARY], after_s=course.ctx.now_s
    )  # a pause that is over hides no later time
    wait = with_pod_problems(course.ctx, course.wait)
    if wait is None and not course.ctx.aborted:  # why old pods are still there
        wait = keeping_wait(course.planned)
    intents = merged_patches(whole.intents) if whole.intents else ()
    return replace(whole, intents=intents, wait=still_wanted(course.ctx, wait, course.step.intents))


def _strategy_step(course: Course) -> Contribution:
    """The step without switches of Services whose drain starts again in this pass: they switch once that is on record."""
    step, again = course.step, restarted_drains(course.planned) if course.planned.status.cutovers else ()
    intents = step.intents
    if again:
        intents = tuple(
            intent for intent in intents if not (isinstance(intent, SwitchService) and intent.name in again)
        )
    told = switches(course.ctx, intents) if intents else ()
    return Contribution(intents=intents, wake_at_s=step.wake_at_s, notices=(*told, *step.notices))


def _route_release(course: Course) -> Contribution:
    """Releases routes that the spec no longer names, with an Event for each; they are then as their users wrote them."""
    release = course.release
    if not release.intents:
        return Contribution(wake_at_s=release.wake_at_s)
    released = [intent for intent in release.intents if isinstance(intent, ReleaseRoute)]
    notices = [Notice(Reason.ROUTE_RELEASED, f"{intent.route} is as its user wrote it") for intent in released]
    return Contribution(intents=release.intents, wake_at_s=release.wake_at_s, notices=tuple(notices))


def _service_release(course: Course) -> Contribution:
    """Releases Services that the spec no longer names, once no released route sends them requests, with an Event for each."""
    if course.ctx.status.given_back or not (released := releases(course.ctx)):
        return Contribution()
    told = [
        Notice(Reason.SERVICE_RELEASED, f"Service {service.name} selects all its pods again") for service in released
    ]
    return Contribution(intents=released, notices=tuple(told))


def _workload(course: Course) -> Contribution:
    """Reads and marks the workload of the spec, asks what holds it, and releases those that the spec no longer names."""
    ctx = course.ctx
    if ctx.spec.workload_ref is None and not ctx.seen.left_workloads:
        return _NOTHING
    return joined([workload_questions(ctx), hold_question(ctx), workload_releases(ctx)], after_s=ctx.now_s)


def _workload_size(course: Course) -> Contribution:
    """Scales the pods of the workload itself."""
    return workload_size(course.planned) if course.ctx.spec.workload_ref is not None else _NOTHING


def _role_metadata(course: Course) -> Contribution:
    """Gives pods the labels and annotations of their role."""
    return Contribution(intents=metadata_intents(course.ctx))


def _restart(course: Course) -> Contribution:
    """Evicts old pods, but not in a pass that shrinks: both would use the same allowance of `maxUnavailable`."""
    restart = course.restart
    if not course.pods_may_go:
        return Contribution(wake_at_s=restart.wake_at_s)
    shrinks = bool(restart.intents) and any(takes_away(course.ctx, intent) for intent in course.step.intents)
    return replace(restart, intents=()) if shrinks else restart


def _evictions(course: Course) -> Contribution:
    """Compares the counts of ReplicaSets with the list of pods, while evictions are on record."""
    return settle_evictions(course.planned) if course.planned.status.evicting_since_s is not None else _NOTHING


def _pods_question(course: Course) -> Contribution:
    """Asks for the list of pods when the wait for pods has lasted too long."""
    return pods_question(course.ctx, course.wait)


def _drain_questions(course: Course) -> Contribution:
    """Asks the probes about pods that drain."""
    return Contribution(intents=drain_questions(course.ctx)) if course.ctx.spec.drain.probes else _NOTHING


def _autoscaling_question(course: Course) -> Contribution:
    """Asks what the autoscalers and the containers show while the update waits for that."""
    if course.ctx.spec.autoscaling is None:
        return _NOTHING
    return autoscaling_question(course.planned, course.wait)


def _surplus(course: Course) -> Contribution:
    """Deletes ReplicaSets beyond `revisionHistoryLimit`, and copies of sources that nothing names any more."""
    ctx = course.planned
    copies = surplus_copies(ctx) if ctx.seen.copies else Contribution()
    if not course.pods_may_go or len(ctx.older) <= ctx.spec.revision_history_limit:
        return copies
    return replace(copies, intents=(*surplus(course.ctx), *copies.intents))


def _config(course: Course) -> Contribution:
    """Asks for the contents of sources, notes what a ReplicaSet began with, and keeps copies and their owners."""
    ctx = course.planned
    if not ctx.has_config:
        return _NOTHING
    plan = ctx.seen.config
    made = {intent.use.copy for intent in course.step.intents if isinstance(intent, CreateConfigCopy)}
    lost = [copy for copy in lost_copies(ctx) if copy.use.copy not in made]
    owners = [adoption for adoption in copy_owners(ctx) if adoption.name not in made]
    questions = copy_questions(ctx)
    asked = (*config_questions(ctx), *questions.intents)
    held_until_s = plan.hold.deadline_s if plan is not None and plan.hold is not None else None
    return Contribution(
        intents=(*asked, *baseline_note(ctx), *lost, *owners),
        wake_at_s=earliest((held_until_s, questions.wake_at_s), after_s=ctx.now_s),
    )


def _analysis_runs(course: Course) -> Contribution:
    """Ends runs that nobody waits for, lets pods go that no route reaches, and deletes old runs beyond the limits."""
    ctx = course.planned
    if not ctx.seen.runs:
        return Contribution()
    return Contribution(intents=(*unwanted_runs(ctx, guarding(ctx).keys()), *let_go(ctx), *surplus_runs(ctx)))


ORDINARY: tuple[Ordinary, ...] = (
    _strategy_step,
    _route_release,
    _service_release,
    _workload,
    _role_metadata,
    _restart,
    _evictions,
    _pods_question,
    _drain_questions,
    _autoscaling_question,
    _config,
    _workload_size,
    _analysis_runs,
    _surplus,
)
"""The rules in their order: the step comes first, and deletions come last."""


def _joined(wait: Wait | None, other: Wait | None) -> Wait | None:
    """The wait of the update joined with the wait of the work beside it."""
    if wait is None or other is None:
        return wait or other
    return replace(wait, message=f"{wait.message}; {other.message}")
