"""The policy, in order: one Snapshot in, one Decision out. All control flow of a Rollout starts here.

One-way decisions (a new revision is aborted, tried again, rolled back or promoted) are recorded alone. The next pass, which sees
the record, carries them out. Only an abort differs: the pass that records it may grow the stable revision, and for an abort by
`true` the record of that command is enough to carry it out. So a crash between any two writes leaves a world that the next pass
understands.

Three statuses are in play. `published` is what people see, and what a `true` is bound to. `ctx.recorded` is that with an abort
that only a note on a ReplicaSet records yet. `ctx.status` has the changes of this pass. A Decision is made in one of four ways:
of new commands (`_recorded_first`), of a one-way decision (`_recorded_alone`), of everything else (`_ordinary`), or, while a
question must be answered first, of that question.

A pass goes through stages. Each is a `PassContext`, named by what it adds to the record: `begun` (the target is taken up, and
commands are read), `settled` (delays and cutovers are up to date), `released` (routes that the spec no longer names), `planned`
(the step of the strategy).
"""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.carrier.carriers import as_own, carried
from rollouts.core.config.target import as_its_sources_say
from rollouts.core.context.contribution import Contribution, joined
from rollouts.core.context.pass_context import PassContext, context_of
from rollouts.core.context.waits import Wait, earliest
from rollouts.core.lifecycle.commands import (
    Reading,
    close_commands,
    pending_abort,
    read_named,
    read_shown,
    read_without_spec,
    remove_annotations,
    with_noted_abort,
)
from rollouts.core.lifecycle.conditions import WARNED, concluded, with_command_problems, with_invalid_spec
from rollouts.core.lifecycle.config_copies import config_questions
from rollouts.core.lifecycle.housekeeping import adoptions
from rollouts.core.lifecycle.progress import (
    can_abort,
    counted,
    overdue,
    progressed_at_s,
    stalls_at_s,
    waiting_for,
)
from rollouts.core.lifecycle.update import start_update
from rollouts.core.lifecycle.workload import as_its_workload_says, released_with_its_rollout, workload_questions
from rollouts.core.model.changes import apply, record_commands
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskPods,
    CreateAnalysisRun,
    Decision,
    Intent,
    Notice,
    PatchReplicaSet,
    RemoveAnnotation,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import Snapshot, is_in_place
from rollouts.core.model.status import AbortNote, RolloutStatus, Verb
from rollouts.core.one_way import abort_update, first_one_way, target_of
from rollouts.core.ordinary import as_of_now, carried_out, course_of, strategy_plan
from rollouts.core.routing.ping_pong import in_their_roles
from rollouts.core.scale.restarts import needs_pods, without_evicted, without_restart_surge
from rollouts.core.strategy.autoscaling import waits_at_gate
from rollouts.core.strategy.route_release import release_routes
from rollouts.core.strategy.rules import gates_of
from rollouts.errors import SpecProblem

TELLS_AFTER_S = 0.25
"""How long status omits an abort that is on record and can do nothing yet: a write would delay the pods that start."""


class _Begun(Struct, frozen=True, kw_only=True):
    """A pass after its target is taken up and its commands are read."""

    ctx: PassContext
    reading: Reading = Reading(())
    notices: tuple[Notice, ...] = ()


def decide(seen: Snapshot) -> Decision:
    """Decides what should happen now. Pure: the same Snapshot gives the same Decision, and a settled world gives an empty one."""
    decision = _decided(seen)
    return decision if seen.workload is None else carried(seen, decision)


def _decided(seen: Snapshot) -> Decision:
    """The Decision in sizes of ReplicaSets, whoever controls them."""
    if seen.rollout.deleting:
        return Decision(intents=released_with_its_rollout(seen), status=seen.status)
    if seen.orphans and (adopted := adoptions(seen)):
        return Decision(intents=adopted, status=seen.status)
    published = seen.status  # without an abort that is recorded only as a note
    seen, target, shown = _prepared(seen)
    if not seen.rollout.spec.revision:  # the first revision is not known yet
        ctx = context_of(seen, seen.status)
        asks = joined([workload_questions(ctx), Contribution(intents=config_questions(ctx))])
        return _concluded(_Begun(ctx=ctx), ctx, asks)
    if shown.fresh:
        return _recorded_first(seen, shown, published)
    begun, one_way = _begin(seen, target=target)
    if one_way is not None:
        return _recorded_alone(begun, one_way)
    if begun.ctx.status.evicting_since_s is not None and needs_pods(begun.ctx):
        return Decision(intents=(AskPods(),), status=published)
    return _ordinary(begun, published)


def decide_invalid(seen: Snapshot, *, problems: tuple[SpecProblem, ...], all_seen: bool = True) -> Decision:
    """The Decision about a spec that cannot be carried out: it reports everything that is wrong, and changes nothing else.

    Pods are counted and commands are put on record all the same; the annotation of a recorded `true` stays until the spec is
    repaired. What status alone can judge (an abort, a retry, a pause, a restart) is done then. What depends on the spec (a
    promotion, a rollback) is refused: a `true` for good, because nobody knows what the person saw by then; another value until
    the spec is repaired.

    Args:
        seen: with `spec_on_record`.
        all_seen: every pod is counted, and none is a workload's in place; else the counts stay as they are.
    """
    message, generation = "; ".join(map(str, problems)), seen.rollout.generation
    reading = read_without_spec(seen)
    status = apply(seen.status, (record_commands(reading.commands),)) if reading.fresh else seen.status
    if all_seen:
        now = counted(context_of(seen, status))
        status = replace(now, selector=status.selector, hpa_replicas=status.hpa_replicas)
    invalid = with_invalid_spec(status, message=message, generation=generation, now_s=seen.now_s)
    told = any(condition.type == "InvalidSpec" and condition.message == message for condition in seen.status.conditions)
    notices = () if told else (Notice(Reason.INVALID_SPEC, message, warning=True),)
    return Decision(status=invalid, notices=(*notices, *reading.notices(seen)))


def commands_on_record(seen: Snapshot) -> RolloutStatus:
    """The published status with new commands put on record, and nothing else; that status itself when there are none.

    For a pass that cannot see everything, and so takes no revision up. A `true` and a rollback are bound to the published status;
    other values are read if the template is that of the status. They are carried out when a pass can decide again.
    """
    status = seen.status
    seen, target, shown = _prepared(seen)
    if seen.rollout.deleting or not seen.rollout.spec.revision:
        return status
    if not shown.fresh and target == status.current_revision:
        shown = read_named(seen, seen.status, target=target, gates_of=gates_of)
    return _with_commands(seen, status, shown) if shown.fresh else status


def begun_on_record(seen: Snapshot) -> RolloutStatus:
    """The published status with what a pass begins with: new commands on record, or else the target taken up, and an abort
    that was asked for.

    For a pass one of whose writes was refused: this much holds without any write.
    """
    status = seen.status
    seen, target, shown = _prepared(seen)
    if seen.rollout.deleting or not seen.rollout.spec.revision:
        return status
    if shown.fresh:
        return _with_commands(seen, seen.status, shown)
    begun, _ = _begin(seen, target=target)
    return with_command_problems(begun.ctx.status, generation=seen.rollout.generation, now_s=seen.now_s)


def _with_commands(seen: Snapshot, status: RolloutStatus, reading: Reading) -> RolloutStatus:
    recorded = apply(status, (record_commands(reading.commands),))
    return with_command_problems(recorded, generation=seen.rollout.generation, now_s=seen.now_s)


def _prepared(seen: Snapshot) -> tuple[Snapshot, str, Reading]:
    """The snapshot as the rules see it, its target, and the commands about the published status.

    Services are in their roles, ReplicaSets without surge, and the revision is that of its workload and its sources.
    """
    seen = in_their_roles(seen)
    if seen.rollout.spec.workload_ref is not None:
        seen = as_own(as_its_workload_says(seen))
    seen = as_its_sources_say(with_noted_abort(without_restart_surge(seen)))
    target = target_of(seen, seen.status)
    return seen, target, read_shown(seen, target=target, gates_of=gates_of)


def _begin(seen: Snapshot, *, target: str) -> tuple[_Begun, Contribution | None]:
    """Takes up the target, then reads the commands that name their revision; and the one-way decision to record alone.

    One that is on record already, as the command that asked for it, is taken up too.
    """
    started = start_update(seen, target=target)
    status = apply(seen.status, started.changes)
    reading = read_named(seen, status, target=target, gates_of=gates_of)
    if reading.commands != status.commands:
        status = apply(status, (record_commands(reading.commands),))
    ctx = context_of(seen if status.evicting_since_s is None else without_evicted(seen, status), status)
    one_way = first_one_way(ctx)
    if one_way is None or not _is_on_record(ctx, one_way):
        return _Begun(ctx=ctx, reading=reading, notices=started.notices), one_way
    notices = (*started.notices, *one_way.notices)
    return _Begun(ctx=_after(ctx, one_way), reading=reading, notices=notices), None


# --- what is recorded alone


def _is_on_record(ctx: PassContext, one_way: Contribution) -> bool:
    """Whether the decision is an abort that is on record already as an accepted command: then its intents need not wait."""
    aborts = apply(ctx.status, one_way.changes).abort is not None
    return aborts and pending_abort(ctx.recorded) is not None


def _recorded_first(seen: Snapshot, shown: Reading, published: RolloutStatus) -> Decision:
    """Records new commands alone; the next pass takes up a new template. Only the growth that an abort needs first begins now.

    Commands that this template ends are over from now on, whatever template the next pass sees. If a ReplicaSet of the Rollout's
    own grows for an abort, a note on it is the record of the abort: a write of status would compete with the pods that start.
    """
    commands, outlived = close_commands(seen, apply(seen.status, (record_commands(shown.commands),)))
    ctx = context_of(seen, apply(seen.status, (record_commands(commands),)))
    next_one = first_one_way(ctx)
    grows = _stable_grows(_after(ctx, next_one)) if next_one is not None else ()
    asked, started_at_s = pending_abort(ctx.status), ctx.status.started_at_s
    alone = (asked,) == shown.fresh and commands == shown.commands
    if grows and alone and asked is not None and started_at_s is not None and not is_in_place(seen):
        by = asked.by.name if asked.by is not None else ""
        note = AbortNote(asked.revision, ctx.status.attempt, started_at_s, asked.at_s, by)
        return Decision(intents=tuple(replace(patch, abort_note=note) for patch in grows), status=published)
    recorded = with_command_problems(ctx.status, generation=seen.rollout.generation, now_s=seen.now_s)
    return Decision(intents=grows, status=recorded, notices=(*shown.notices(seen), *outlived))


def _recorded_alone(begun: _Begun, one_way: Contribution) -> Decision:
    done = _after(begun.ctx, one_way)
    return _concluded(begun, done, replace(one_way, intents=_stable_grows(done)))


def _after(ctx: PassContext, one_way: Contribution) -> PassContext:
    """The pass after a one-way decision, which may give ReplicaSets other roles."""
    return context_of(ctx.seen, apply(ctx.status, one_way.changes))


def _stable_grows(ctx: PassContext) -> tuple[PatchReplicaSet, ...]:
    """The patch with more pods of the stable revision: an abort needs it first, and it is safe before the abort is recorded."""
    if not ctx.aborted or ctx.stable is None:
        return ()
    uid, size = ctx.stable.uid, ctx.stable.spec_replicas
    patches = (intent for intent in strategy_plan(ctx).intents if isinstance(intent, PatchReplicaSet))
    return tuple(each for each in patches if each.uid == uid and each.replicas is not None and each.replicas > size)


# --- the ordinary rules


def _ordinary(begun: _Begun, published: RolloutStatus) -> Decision:
    """The Decision of a pass that had nothing to record alone so far; a promotion or a progress deadline may come now."""
    settled = as_of_now(begun.ctx)
    release = release_routes(settled)
    released = settled.recording(release.changes)
    step = strategy_plan(released)
    planned = released.recording(step.changes)
    if planned.status.stable_revision != released.status.stable_revision:
        return _concluded(begun, context_of(planned.seen, planned.status), step)
    whole = carried_out(course_of(released, planned, step=step, release=release))
    late = _late(planned, whole.wait)
    if late is not None:  # judged by the wait of this pass, not by the recorded one
        return _recorded_alone(begun, abort_update(begun.ctx, Reason.PROGRESS_DEADLINE_EXCEEDED, late, declared=False))
    decision = _concluded(begun, planned.recording(whole.changes), whole)
    asked = pending_abort(settled.recorded) if decision.status.abort is not None else None
    if asked is None or settled.recorded.waiting_for is None:
        return decision
    # An abort on record that can do nothing yet: status shows it a moment later, with what the pass does then.
    acts = any(not isinstance(intent, RemoveAnnotation) for intent in decision.intents)
    told_at_s = asked.at_s + TELLS_AFTER_S
    waits = not acts and asked.at_s <= settled.now_s < told_at_s
    return Decision(status=published, requeue_at_s=told_at_s) if waits else decision


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


# --- the Decision


def _concluded(begun: _Begun, done: PassContext, plan: Contribution) -> Decision:
    """The Decision, with the status, Events and times that follow from what was decided.

    Args:
        plan: the intents, the wait and the Events of the pass; its changes are in `done`.
    """
    commands, outlived = close_commands(done.seen, done.status)
    recorded = done if commands == done.status.commands else done.recording((record_commands(commands),))
    status, before = concluded(recorded, plan.wait), done.recorded
    shows_more = bool(status.commands) and _shows(status) != _shows(before)
    removals: tuple[Intent, ...] = ()
    remove_at_s: float | None = None
    if status.commands:
        removals, status, remove_at_s = remove_annotations(done.seen, status, now=shows_more)
    deadline_s = status.waiting_for.deadline_s if status.waiting_for else None
    times = (plan.wake_at_s, remove_at_s, deadline_s, stalls_at_s(status.waiting_for))
    stepped = status.current_revision == before.current_revision and status.step_index > before.step_index
    begins = CreateAnalysisRun in map(type, plan.intents)
    read = begun.reading.notices(done.seen) if begun.reading.fresh else ()
    intents = plan.intents
    if begins and removals:  # status is written last in this pass, so the runs come with the next one
        intents = tuple(intent for intent in intents if not isinstance(intent, CreateAnalysisRun))
    return Decision(
        intents=(*intents, *removals),
        status=status,
        # People and gates wait for the new step; pods that it no longer needs leave in this pass or in the next one. A run
        # counts only if what it was asked for with is on record before it exists.
        status_first=(stepped or begins)
        and not removals,  # a `true` is removed before status shows what the next one means
        requeue_at_s=earliest(times, after_s=done.now_s),
        notices=(*begun.notices, *read, *outlived, *plan.notices, *_changes(recorded, status, begun.reading)),
    )


def _shows(status: RolloutStatus) -> tuple[object, ...]:
    """The fields that people act on: when one of them changes, a `true` means something else."""
    return (
        status.current_revision,
        status.stable_revision,
        status.strategy_hash,
        status.attempt,
        status.abort,
        status.step_index,
        status.gate_started_at_s is None,
        status.gate_passed,
        waits_at_gate(status),
        tuple([record for record in status.analyses if record.held]),
    )


def _changes(ctx: PassContext, status: RolloutStatus, reading: Reading) -> tuple[Notice, ...]:
    """Events about what people wait for: a pause that begins or ends, a stall, and warnings."""
    before = {condition.type: condition for condition in ctx.recorded.conditions}
    told = Reason.PAUSED_BY_USER if Verb.PAUSE in [command.verb for command in reading.fresh] else None
    notices = []
    for condition in status.conditions:
        old, kind, reason, message = before.get(condition.type), condition.type, condition.reason, condition.message
        if old is not None and (old.status, old.reason, old.message) == (condition.status, reason, message):
            continue
        stalls = kind == "Stalled" and reason not in (Reason.ROLLOUT_ABORTED, Reason.ROLLED_BACK)
        if stalls or kind in WARNED:
            notices.append(Notice(reason, message, warning=True))
        if kind == "Paused" and reason is not told:
            notices.append(Notice(Reason.ROLLOUT_PAUSED, message))
    if "Paused" in before and before["Paused"].reason is Reason.PAUSED_BY_USER and not ctx.paused:
        notices.append(Notice(Reason.ROLLOUT_RESUMED, "nobody holds the Rollout any more"))
    return tuple(notices)
