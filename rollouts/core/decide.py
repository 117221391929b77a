"""The policy, in order: one Snapshot in, one Decision out. All control flow of a Rollout starts here.

One-way decisions (a new revision aborted, tried again, rolled back, promoted) are recorded alone; what follows from them comes
with the next pass, when the record is seen. An abort alone may let the stable revision grow in the pass that records it, and what
follows from one that was asked for by `true` follows from the record of that command. So a crash between any two writes leaves a
world that the next pass understands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from rollouts.core.context.pass_context import PassContext, context_of
from rollouts.core.context.plan import Plan
from rollouts.core.context.waits import NOT_HELD_UP, Wait, earliest
from rollouts.core.drain.cutover import begun_again, drain_questions, settled_cutovers
from rollouts.core.lifecycle.adoption import adoptions
from rollouts.core.lifecycle.commands import (
    Reading,
    abort_asked,
    is_declared,
    pending_abort,
    read_named,
    read_shown,
    retry_asked,
    rollback_target,
    settled_commands,
    taken_off,
    with_noted_abort,
)
from rollouts.core.lifecycle.conditions import WARNED, concluded, with_command_problems, with_invalid_spec
from rollouts.core.lifecycle.housekeeping import explained, held_by_user, metadata_intents, one_patch_each, surplus
from rollouts.core.lifecycle.progress import (
    can_abort,
    counted,
    overdue,
    progressed_at_s,
    stalls_at_s,
    still_wanted,
    waiting_for,
)
from rollouts.core.lifecycle.update import held_back, retried, taken_up
from rollouts.core.lifecycle.verdicts import Gates
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    Decision,
    Intent,
    Notice,
    PatchReplicaSet,
    PointService,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Abort, AbortNote, RolloutStatus, Verb
from rollouts.core.routing.ping_pong import in_their_roles
from rollouts.core.routing.services import releases
from rollouts.core.scale.restarts import plan_restart, without_restart_surge
from rollouts.core.scale.sizing import keeping_wait, settled_scale_downs, takes_away, with_fallback, with_scale_down
from rollouts.core.strategy import blue_green, canary
from rollouts.core.strategy.giving_back import give_back, plan_standing_still, stands_still
from rollouts.errors import SpecProblem

TELLS_AFTER_S = 0.1
"""So long an abort on record may wait for what it does before status tells it: a write would delay the pods that start."""

_DRAINS = {Reason.DRAINING, Reason.DRAIN_TIMED_OUT}  # pods that drain are not evicted


def decide(seen: Snapshot) -> Decision:
    """What should happen now. Pure: the same Snapshot gives the same Decision, and a settled world gives an empty one."""
    if seen.rollout.deleting:
        return Decision(status=seen.status)
    if adopted := adoptions(seen):
        return Decision(intents=adopted, status=seen.status)
    published = seen.status
    seen = with_noted_abort(without_restart_surge(in_their_roles(seen)))
    target = _target(seen, seen.status)
    shown = read_shown(seen, target=target, gates=_gates(seen, seen.status))
    if shown.fresh:
        return _recorded_first(seen, shown, published)
    status, notices = taken_up(seen, seen.status, target=target)
    reading = read_named(seen, status, target=target, gates=_gates(seen, status))
    if reading.commands != status.commands:
        status = replace(status, commands=reading.commands)
    one_way = _one_way(seen, status)
    if one_way is not None and not _is_on_record(seen, one_way):
        return _recorded_alone(seen, one_way, reading, notices)
    if one_way is not None:
        status, notices = one_way.status, (*notices, *one_way.notices)
    ctx = context_of(seen, status)
    ctx = ctx.after(settled_scale_downs(ctx))
    ctx = ctx.after(settled_cutovers(ctx))
    back = give_back(ctx)
    ctx = ctx.after(back.status)
    plan = _strategy_plan(ctx)
    if plan.status.stable_revision != status.stable_revision:  # a promotion: recorded alone
        return _concluded(context_of(seen, plan.status), plan, reading, notices)
    plan, ctx = _with_housekeeping(ctx, plan, back), ctx.after(plan.status)
    if (late := _late(ctx, plan.wait)) is not None:  # judged by what this pass waits for, not by what was written last
        aborted = _abort(seen, status, Reason.PROGRESS_DEADLINE_EXCEEDED, late, declared=False)
        return _recorded_alone(seen, aborted, reading, notices)
    return _told_with_its_acts(seen, _concluded(ctx, plan, reading, notices), published)


def decide_invalid(
    *, status: RolloutStatus, generation: int, problems: tuple[SpecProblem, ...], now_s: float
) -> Decision:
    """What to do about a spec that cannot be carried out: say everything that is wrong with it, and leave all else as it is."""
    message = "; ".join(map(str, problems))
    invalid = with_invalid_spec(status, message=message, generation=generation, now_s=now_s)
    told = any(each.type == "InvalidSpec" and each.message == message for each in status.conditions)
    notices = () if told else (Notice(Reason.INVALID_SPEC, message, warning=True),)
    return Decision(status=invalid, notices=notices)


def _target(seen: Snapshot, status: RolloutStatus) -> str:
    """The revision that the Rollout is about; a rollback's only while its ReplicaSet, which alone has its template, is kept."""
    spec_revision = seen.rollout.spec.revision
    target = rollback_target(seen.rollout, status)
    kept = any(each.revision == target and not each.deleting for each in seen.replica_sets)
    return target if kept else spec_revision


def _gates(seen: Snapshot, status: RolloutStatus) -> Gates:
    match seen.rollout.spec.strategy:
        case Canary() as strategy:
            return Gates(at=canary.gate_index(status, strategy), ahead=canary.next_gate_index(status, strategy))
        case BlueGreen():
            return Gates(at=blue_green.gate_index(status), ahead=blue_green.GATE)
        case never:
            assert_never(never)


def _strategy_plan(ctx: PassContext) -> Plan:
    if stands_still(ctx):
        return plan_standing_still(ctx)
    match ctx.spec.strategy:
        case Canary() as strategy:
            return canary.plan_canary(ctx, strategy)
        case BlueGreen() as strategy:
            if ctx.status.traffic is not None:  # of a canary before; its routes are given back
                ctx = ctx.after(replace(ctx.status, traffic=None))
            return blue_green.plan_blue_green(ctx, strategy)
        case never:
            assert_never(never)


def _one_way(seen: Snapshot, status: RolloutStatus) -> Plan | None:
    """An abort, the end of one, or a rollback, if this pass is the first to know of it."""
    current = status.current_revision
    if _target(seen, status) != current:
        return Plan(status=status)
    unfinished = current != status.stable_revision
    asked = abort_asked(status)
    declared = asked is not None and is_declared(asked)
    if status.abort is None:
        if asked is not None and unfinished:
            message = f"revision {current} was aborted by annotation{f' (by {asked.by})' if asked.by else ''}"
            return _abort(seen, status, Reason.ROLLOUT_ABORTED, message, declared=declared)
        return None
    return _abort_ended(seen, status, status.abort, declared=declared)


def _is_on_record(seen: Snapshot, one_way: Plan) -> bool:
    """Whether the decision is durable already, as the accepted command that asks for it: then its acts need not wait."""
    return one_way.status.abort is not None and pending_abort(seen.status) is not None


def _told_with_its_acts(seen: Snapshot, decision: Decision, published: RolloutStatus) -> Decision:
    """The decision; an abort on record that can do nothing yet is told a moment later, with what it does then."""
    asked = pending_abort(seen.status) if decision.status.abort is not None else None
    acts = any(not isinstance(each, RemoveAnnotation) for each in decision.intents)
    if asked is None or acts or seen.status.waiting_for is None:
        return decision
    told_at_s = asked.at_s + TELLS_AFTER_S
    return Decision(status=published, requeue_at_s=told_at_s) if asked.at_s <= seen.now_s < told_at_s else decision


def _late(ctx: PassContext, wait: Wait | None) -> str | None:
    """Why the progress deadline aborts the update; None while it does not, or may not."""
    if not can_abort(ctx):
        return None
    status = counted(ctx)
    moved_at_s = progressed_at_s(ctx, status, wait)
    waiting = waiting_for(ctx, status, wait, progressed_at_s=moved_at_s)
    if waiting is None or not overdue(ctx, waiting, progressed_at_s=moved_at_s):
        return None
    deadline_s = ctx.spec.progress_deadline_s
    return f"revision {status.current_revision} made no progress for {deadline_s:g} s: {waiting.message}"


def _recorded_first(seen: Snapshot, shown: Reading, published: RolloutStatus) -> Decision:
    """A new `true` is recorded alone: a new template is taken up by the next pass. Only what an abort needs first begins.

    What this template ends is over from now on, whatever template the next pass sees. The record of an abort is the note on
    the ReplicaSet that grows for it, where one does: a write of status would compete with the pods that start.
    """
    commands, outlived = settled_commands(seen, replace(seen.status, commands=shown.commands))
    status = replace(seen.status, commands=commands)
    next_one = _one_way(seen, status)
    grows = _stable_grows(context_of(seen, next_one.status)) if next_one is not None else ()
    asked = pending_abort(status)
    started_at_s = status.started_at_s
    if grows and asked and (asked,) == shown.fresh and commands == shown.commands and started_at_s is not None:
        note = AbortNote(asked.revision, status.attempt, started_at_s, asked.at_s, asked.by)
        return Decision(intents=tuple(replace(each, abort_note=note) for each in grows), status=published)
    recorded = with_command_problems(status, generation=seen.rollout.generation, now_s=seen.now_s)
    return Decision(intents=grows, status=recorded, notices=(*shown.notices(seen), *outlived))


def _recorded_alone(seen: Snapshot, one_way: Plan, reading: Reading, notices: tuple[Notice, ...]) -> Decision:
    ctx = context_of(seen, one_way.status)
    return _concluded(ctx, replace(one_way, intents=_stable_grows(ctx)), reading, notices)


def _stable_grows(ctx: PassContext) -> tuple[PatchReplicaSet, ...]:
    """What an abort needs first, and what is safe before it is recorded: more pods of the revision that serves."""
    if not ctx.aborted or ctx.stable is None:
        return ()
    uid, size = ctx.stable.uid, ctx.stable.spec_replicas
    patches = (each for each in _strategy_plan(ctx).intents if isinstance(each, PatchReplicaSet))
    return tuple(each for each in patches if each.uid == uid and each.replicas is not None and each.replicas > size)


def _abort_ended(seen: Snapshot, status: RolloutStatus, abort: Abort, *, declared: bool) -> Plan | None:
    if declared:
        return None if abort.declared else Plan(status=replace(status, abort=replace(abort, declared=True)))
    if abort.declared:
        notice = Notice(Reason.ROLLOUT_RETRY, f"the abort of revision {abort.revision} was taken back")
        return Plan(status=retried(seen, status, attempt=status.attempt + 1), notices=(notice,))
    retry = retry_asked(status)
    if retry is not None and retry.step is not None:
        by = f" (by {retry.by})" if retry.by else ""
        notice = Notice(Reason.ROLLOUT_RETRY, f"attempt {retry.step} of revision {retry.revision}{by}")
        return Plan(status=retried(seen, status, attempt=retry.step), notices=(notice,))
    return None


def _abort(seen: Snapshot, status: RolloutStatus, reason: Reason, message: str, *, declared: bool) -> Plan:
    held = held_back(seen, status, reason=reason, message=message, declared=declared)
    strategy = seen.rollout.spec.strategy
    delayed = not strategy.by_ratio
    if delayed and strategy.abort_scale_down_delay_s > 0:
        held = with_scale_down(
            held, revision=status.current_revision, at_s=seen.now_s + strategy.abort_scale_down_delay_s
        )
    if strategy.by_ratio:
        # Nothing follows from the recorded weight there, so it need not wait for a write of its own.
        held = replace(held, weight_percent=0)
    return Plan(status=held, notices=(Notice(Reason.ROLLOUT_ABORTED, message, warning=True),))


def _with_housekeeping(ctx: PassContext, plan: Plan, back: Plan) -> Plan:
    """The strategy's plan and what goes on beside it; a restart holds the steps, as availability means little meanwhile.

    Args:
        back: what the routes need that the spec no longer names.
    """
    plan = replace(plan, wait=with_fallback(ctx, _both(plan.wait, back.wait)))
    restart = plan_restart(ctx.after(plan.status))
    surging = any(each.restart_surge for each in ctx.seen.replica_sets)
    held = held_by_user(ctx, _both(plan.wait, restart.wait) if surging else plan.wait)
    wait, question, look_again_s = explained(ctx, held or restart.wait)
    settled = plan.wait is None or plan.wait.reason in NOT_HELD_UP - _DRAINS
    tidy = surplus(ctx) if settled else ()
    # Beside a shrink an eviction would be of the same pods that `maxUnavailable` spares.
    shrinks = any(takes_away(ctx, each) for each in plan.intents)
    evictions = restart.intents if settled and not shrinks else ()
    services = () if ctx.status.given_back else releases(ctx)
    given_back: tuple[Intent, ...] = (*back.intents, *services)
    if wait is None and not ctx.aborted:
        wait = keeping_wait(ctx.after(plan.status))
    again = begun_again(ctx.after(plan.status))
    ready = (each for each in plan.intents if not (isinstance(each, PointService) and each.name in again))
    return Plan(
        status=restart.status if settled else plan.status,
        intents=one_patch_each(
            (*ready, *given_back, *metadata_intents(ctx), *evictions, *question, *drain_questions(ctx), *tidy)
        ),
        wait=still_wanted(ctx, wait, plan.intents),
        wake_at_s=earliest([plan.wake_at_s, back.wake_at_s, restart.wake_at_s, look_again_s]),
        notices=(*plan.notices, *_released(given_back), *(restart.notices if settled else ())),
    )


def _both(wait: Wait | None, beside: Wait | None) -> Wait | None:
    """What the update waits for, and what goes on beside it waits for."""
    if wait is None or beside is None:
        return wait or beside
    return replace(wait, message=f"{wait.message}; {beside.message}")


def _released(intents: tuple[Intent, ...]) -> Iterator[Notice]:
    for each in intents:
        if isinstance(each, ReleaseService):
            yield Notice(Reason.SERVICE_RELEASED, f"Service {each.name} selects all its pods again")
        if isinstance(each, ReleaseRoute):
            yield Notice(Reason.ROUTE_RELEASED, f"{each.route} is as its user wrote it")


def _concluded(ctx: PassContext, plan: Plan, reading: Reading, notices: tuple[Notice, ...]) -> Decision:
    commands, outlived = settled_commands(ctx.seen, plan.status)
    plan = plan if commands == plan.status.commands else replace(plan, status=replace(plan.status, commands=commands))
    status = concluded(ctx.after(plan.status), plan.wait)
    before = ctx.recorded
    off, status, look_again_s = taken_off(ctx.seen, status, now=_shows(status) != _shows(before))
    deadline_s = status.waiting_for.deadline_s if status.waiting_for else None
    times = (plan.wake_at_s, look_again_s, deadline_s, stalls_at_s(status.waiting_for))
    future = [each for each in times if each is not None and each > ctx.now_s]
    stepped = status.current_revision == before.current_revision and status.step_index > before.step_index
    return Decision(
        intents=(*plan.intents, *off),
        status=status,
        # People and gates wait for the step; what it leaves to shrink is shrunk by this pass or by the next.
        status_first=stepped and not off,  # a `true` goes before status shows what the next one is for
        requeue_at_s=earliest(future),
        notices=(*notices, *reading.notices(ctx.seen), *outlived, *plan.notices, *_changes(ctx, status, reading)),
    )


def _shows(status: RolloutStatus) -> tuple[object, ...]:
    """What people act on: another one of these, and a `true` means something else."""
    return (
        status.current_revision,
        status.stable_revision,
        status.strategy_hash,
        status.attempt,
        status.abort,
        status.step_index,
        status.gate_started_at_s is None,
        status.gate_passed,
    )


def _changes(ctx: PassContext, status: RolloutStatus, reading: Reading) -> tuple[Notice, ...]:
    """Events for what people wait for: a pause that begins or ends, what stalls."""
    before = {each.type: each for each in ctx.recorded.conditions}
    notices = []
    for condition in status.conditions:
        old = before.get(condition.type)
        if old is not None and (old.status, old.reason, old.message) == (
            condition.status,
            condition.reason,
            condition.message,
        ):
            continue
        if condition.type == "Stalled" and condition.reason not in (Reason.ROLLOUT_ABORTED, Reason.ROLLED_BACK):
            notices.append(Notice(condition.reason, condition.message, warning=True))
        if condition.type in WARNED:
            notices.append(Notice(condition.reason, condition.message, warning=True))
        told = condition.reason is Reason.PAUSED_BY_USER and any(each.verb is Verb.PAUSE for each in reading.fresh)
        if condition.type == "Paused" and not told:
            notices.append(Notice(Reason.ROLLOUT_PAUSED, condition.message))
    if "Paused" in before and before["Paused"].reason is Reason.PAUSED_BY_USER and not ctx.paused:
        notices.append(Notice(Reason.ROLLOUT_RESUMED, "nobody holds the Rollout any more"))
    return tuple(notices)
