"""The policy, in order: one Snapshot in, one Decision out. All control flow of a Rollout starts here.

One-way decisions (a new revision aborted, tried again, rolled back, promoted) are recorded alone; what follows from them comes
with the next pass, when the record is seen. An abort alone may let the stable revision grow in the pass that records it, and what
follows from one that was asked for by `true` follows from the record of that command. So a crash between any two writes leaves a
world that the next pass understands.

A pass goes through stages. Each is a `PassContext` of its own, named by what it adds to what is on record: `begun` (the target
taken up, commands read), `settled` (clocks as they stand now), `released` (routes that the spec no longer names), `planned` (the
strategy's step).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext, context_of
from rollouts.core.context.waits import NOT_HELD_UP, Wait, earliest
from rollouts.core.drain.cutover import begun_again, drain_questions, settle_cutovers
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
from rollouts.core.lifecycle.housekeeping import coalesced, explained, metadata_intents, paused_by_user, surplus
from rollouts.core.lifecycle.progress import (
    can_abort,
    counted,
    overdue,
    progressed_at_s,
    stalls_at_s,
    still_wanted,
    waiting_for,
)
from rollouts.core.lifecycle.update import take_up
from rollouts.core.model.changes import (
    AbortUpdate,
    DeclareAbort,
    Promote,
    RecordCommands,
    Retry,
    SetCanaryWeight,
    StatusChange,
    apply,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    Decision,
    Intent,
    Notice,
    PatchReplicaSet,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
    SwitchService,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Abort, AbortNote, RolloutStatus, Verb
from rollouts.core.routing.ping_pong import in_their_roles
from rollouts.core.routing.services import releases
from rollouts.core.scale.restarts import plan_restart, without_restart_surge
from rollouts.core.scale.sizing import keep_pods_until, keeping_wait, settle_scale_downs, takes_away, with_fallback
from rollouts.core.strategy.route_release import give_back, plan_standing_still, stands_still
from rollouts.core.strategy.rules import gates_of, rules_of
from rollouts.core.strategy.skeleton import plan_update
from rollouts.errors import SpecProblem

TELLS_AFTER_S = 0.25
"""So long an abort on record may wait for what it does before status tells it: a write would delay the pods that start."""

_DRAINS = {Reason.DRAINING, Reason.DRAIN_TIMED_OUT}  # pods that drain are not evicted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A pass once its target is taken up and its commands are read.

    Args:
        published: the status as it is on the API server; in the Snapshot an abort that only a note tells of is on record, too.
    """

    ctx: PassContext
    published: RolloutStatus
    reading: Reading
    notices: tuple[Notice, ...]


def decide(seen: Snapshot) -> Decision:
    """What should happen now. Pure: the same Snapshot gives the same Decision, and a settled world gives an empty one."""
    if seen.rollout.deleting:
        return Decision(status=seen.status)
    if adopted := adoptions(seen):
        return Decision(intents=adopted, status=seen.status)
    published = seen.status
    seen = with_noted_abort(without_restart_surge(in_their_roles(seen)))
    target = _target(seen, seen.status)
    shown = read_shown(seen, target=target, gates=gates_of(seen.rollout.spec.strategy, seen.status))
    if shown.fresh:
        return _recorded_first(seen, shown, published)
    begun = _begin(seen, published, target=target)
    one_way = _one_way(begun.ctx)
    if one_way is not None and not _is_on_record(begun.ctx, one_way):
        return _recorded_alone(begun, one_way)
    return _ordinary(begun if one_way is None else _gone_on(begun, one_way))


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


def _begin(seen: Snapshot, published: RolloutStatus, *, target: str) -> _Begun:
    """Takes up the target; then the commands that name their revision are read."""
    taken_up = take_up(seen, target=target)
    status = apply(seen.status, taken_up.changes)
    reading = read_named(seen, status, target=target, gates=gates_of(seen.rollout.spec.strategy, status))
    if reading.commands != status.commands:
        status = apply(status, (RecordCommands(reading.commands),))
    return _Begun(ctx=context_of(seen, status), published=published, reading=reading, notices=taken_up.notices)


def _gone_on(begun: _Begun, one_way: Contribution) -> _Begun:
    """The pass with a one-way decision that is on record already, as the command that asks for it."""
    return replace(begun, ctx=_after(begun.ctx, one_way), notices=(*begun.notices, *one_way.notices))


# --- what is recorded alone


OneWay: TypeAlias = Callable[[PassContext], Contribution | None]


def _one_way(ctx: PassContext) -> Contribution | None:
    """The first one-way decision that this pass is the first to know of."""
    return next((found for rule in ONE_WAY if (found := rule(ctx)) is not None), None)


def _rollback_begins_or_ends(ctx: PassContext) -> Contribution | None:
    """The commands that were just read name another target; the next pass takes it up."""
    return None if _target(ctx.seen, ctx.status) == ctx.status.current_revision else Contribution()


def _abort_asked(ctx: PassContext) -> Contribution | None:
    asked, status = abort_asked(ctx.status), ctx.status
    if status.abort is not None or asked is None or status.current_revision == status.stable_revision:
        return None
    message = f"revision {status.current_revision} was aborted by annotation{f' (by {asked.by})' if asked.by else ''}"
    return _abort(ctx, Reason.ROLLOUT_ABORTED, message, declared=is_declared(asked))


def _abort_declared(ctx: PassContext) -> Contribution | None:
    """An abort that there is is declared as well: it lasts as long as the annotation."""
    abort = ctx.status.abort
    if abort is None or abort.declared or not _is_declared_now(ctx):
        return None
    return Contribution(changes=(DeclareAbort(abort),))


def _declared_abort_ends(ctx: PassContext) -> Contribution | None:
    abort = ctx.status.abort
    if abort is None or not abort.declared or _is_declared_now(ctx):
        return None
    notice = Notice(Reason.ROLLOUT_RETRY, f"the abort of revision {abort.revision} was taken back")
    return Contribution(changes=(Retry(ctx.status.attempt + 1, ctx.now_s),), notices=(notice,))


def _retry(ctx: PassContext) -> Contribution | None:
    abort, retry = ctx.status.abort, retry_asked(ctx.status)
    if abort is None or abort.declared or _is_declared_now(ctx) or retry is None or retry.step is None:
        return None
    by = f" (by {retry.by})" if retry.by else ""
    notice = Notice(Reason.ROLLOUT_RETRY, f"attempt {retry.step} of revision {retry.revision}{by}")
    return Contribution(changes=(Retry(retry.step, ctx.now_s),), notices=(notice,))


ONE_WAY: tuple[OneWay, ...] = (_rollback_begins_or_ends, _abort_asked, _abort_declared, _declared_abort_ends, _retry)
"""In this order; the first that fires is recorded alone. Promotions come with the strategy, the deadline's aborts after it."""


def _is_declared_now(ctx: PassContext) -> bool:
    asked = abort_asked(ctx.status)
    return asked is not None and is_declared(asked)


def _abort(ctx: PassContext, reason: Reason, message: str, *, declared: bool) -> Contribution:
    status, strategy = ctx.status, ctx.spec.strategy
    changes: tuple[StatusChange, ...] = (
        AbortUpdate(Abort(status.current_revision, ctx.now_s, reason, message, declared)),
    )
    if strategy.by_ratio:
        # Nothing follows from the recorded weight there, so it need not wait for a write of its own.
        changes = (*changes, SetCanaryWeight(0))
    elif strategy.abort_scale_down_delay_s > 0:
        at_s = ctx.now_s + strategy.abort_scale_down_delay_s
        changes = (*changes, *keep_pods_until(status, revision=status.current_revision, at_s=at_s))
    return Contribution(changes=changes, notices=(Notice(Reason.ROLLOUT_ABORTED, message, warning=True),))


def _is_on_record(ctx: PassContext, one_way: Contribution) -> bool:
    """Whether the decision is durable already, as the accepted command that asks for it: then its acts need not wait."""
    aborts = apply(ctx.status, one_way.changes).abort is not None
    return aborts and pending_abort(ctx.recorded) is not None


def _recorded_first(seen: Snapshot, shown: Reading, published: RolloutStatus) -> Decision:
    """A new `true` is recorded alone: a new template is taken up by the next pass. Only what an abort needs first begins.

    What this template ends is over from now on, whatever template the next pass sees. The record of an abort is the note on
    the ReplicaSet that grows for it, where one does: a write of status would compete with the pods that start.
    """
    commands, outlived = settled_commands(seen, apply(seen.status, (RecordCommands(shown.commands),)))
    ctx = context_of(seen, apply(seen.status, (RecordCommands(commands),)))
    next_one = _one_way(ctx)
    grows = _stable_grows(_after(ctx, next_one)) if next_one is not None else ()
    if grows and commands == shown.commands and (note := _abort_note(ctx.status, shown)) is not None:
        return Decision(intents=tuple(replace(each, abort_note=note) for each in grows), status=published)
    recorded = with_command_problems(ctx.status, generation=seen.rollout.generation, now_s=seen.now_s)
    return Decision(intents=grows, status=recorded, notices=(*shown.notices(seen), *outlived))


def _abort_note(status: RolloutStatus, shown: Reading) -> AbortNote | None:
    """The note that records an accepted abort; None where another command was read with it."""
    asked = pending_abort(status)
    if asked is None or (asked,) != shown.fresh or status.started_at_s is None:
        return None
    return AbortNote(asked.revision, status.attempt, status.started_at_s, asked.at_s, asked.by)


def _recorded_alone(begun: _Begun, one_way: Contribution) -> Decision:
    done = _after(begun.ctx, one_way)
    return _concluded(begun, done, replace(one_way, intents=_stable_grows(done)))


def _after(ctx: PassContext, one_way: Contribution) -> PassContext:
    """The pass with a one-way decision; ReplicaSets may have other roles then."""
    return context_of(ctx.seen, apply(ctx.status, one_way.changes))


def _stable_grows(ctx: PassContext) -> tuple[PatchReplicaSet, ...]:
    """What an abort needs first, and what is safe before it is recorded: more pods of the revision that serves."""
    if not ctx.aborted or ctx.stable is None:
        return ()
    uid, size = ctx.stable.uid, ctx.stable.spec_replicas
    patches = (each for each in _strategy_plan(ctx).intents if isinstance(each, PatchReplicaSet))
    return tuple(each for each in patches if each.uid == uid and each.replicas is not None and each.replicas > size)


# --- the ordinary rules


def _ordinary(begun: _Begun) -> Decision:
    """What a pass does that has nothing to record alone, unless it promotes or its deadline is over."""
    settled = _settled(begun.ctx)
    release = give_back(settled)
    released = settled.recording(release.changes)
    plan = _strategy_plan(released)
    planned = released.recording(plan.changes)
    if any(isinstance(each, Promote) for each in plan.changes):
        return _concluded(begun, context_of(planned.seen, planned.status), plan)
    whole = _with_housekeeping(released, planned, plan, release)
    late = _late(planned, whole.wait)
    if late is not None:  # judged by what this pass waits for, not by what was written last
        return _recorded_alone(begun, _abort(begun.ctx, Reason.PROGRESS_DEADLINE_EXCEEDED, late, declared=False))
    return _told_with_its_acts(begun, _concluded(begun, planned.recording(whole.changes), whole))


def _settled(ctx: PassContext) -> PassContext:
    """Scale-down delays and cutovers as they stand now."""
    return ctx.recording((*settle_scale_downs(ctx), *settle_cutovers(ctx)))


def _strategy_plan(ctx: PassContext) -> Contribution:
    return plan_standing_still(ctx) if stands_still(ctx) else plan_update(ctx, rules_of(ctx))


def _with_housekeeping(
    released: PassContext, planned: PassContext, plan: Contribution, release: Contribution
) -> Contribution:
    """The strategy's plan and what goes on beside it; a restart holds the steps, as availability means little meanwhile.

    Args:
        release: what the routes need that the spec no longer names.

    Returns: its changes are those that come after the plan's.
    """
    plan = replace(plan, wait=with_fallback(released, _both(plan.wait, release.wait)))
    restart = plan_restart(planned)
    wait, question, look_again_s = explained(released, _update_wait(released, plan, restart) or restart.wait)
    settled = plan.wait is None or plan.wait.reason in NOT_HELD_UP - _DRAINS
    back: tuple[Intent, ...] = (*release.intents, *(() if released.status.given_back else releases(released)))
    beside = (*back, *metadata_intents(released), *_evictions(released, plan, restart, settled=settled))
    later = (*question, *drain_questions(released), *(surplus(released) if settled else ()))
    if wait is None and not released.aborted:
        wait = keeping_wait(planned)
    return Contribution(
        changes=restart.changes if settled else (),
        intents=coalesced((*_on_record(planned, plan.intents), *beside, *later)),
        wait=still_wanted(released, wait, plan.intents),
        wake_at_s=earliest([plan.wake_at_s, release.wake_at_s, restart.wake_at_s, look_again_s]),
        notices=(*plan.notices, *_released(back), *(restart.notices if settled else ())),
    )


def _update_wait(ctx: PassContext, plan: Contribution, restart: Contribution) -> Wait | None:
    """What the update waits for, also while a restart has added pods."""
    surging = any(each.restart_surge for each in ctx.seen.replica_sets)
    return paused_by_user(ctx, _both(plan.wait, restart.wait) if surging else plan.wait)


def _evictions(ctx: PassContext, plan: Contribution, restart: Contribution, *, settled: bool) -> tuple[Intent, ...]:
    """Beside a shrink an eviction would be of the same pods that `maxUnavailable` spares."""
    shrinks = any(takes_away(ctx, each) for each in plan.intents)
    return restart.intents if settled and not shrinks else ()


def _on_record(planned: PassContext, intents: tuple[Intent, ...]) -> Iterator[Intent]:
    """The same without Services whose wait starts again in this pass: they are pointed once that is on record."""
    again = begun_again(planned)
    return (each for each in intents if not (isinstance(each, SwitchService) and each.name in again))


def _both(wait: Wait | None, beside: Wait | None) -> Wait | None:
    """What the update waits for, and what goes on beside it waits for."""
    if wait is None or beside is None:
        return wait or beside
    return replace(wait, message=f"{wait.message}; {beside.message}")


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


def _told_with_its_acts(begun: _Begun, decision: Decision) -> Decision:
    """The decision; an abort on record that can do nothing yet is told a moment later, with what it does then."""
    seen = begun.ctx.seen
    asked = pending_abort(seen.status) if decision.status.abort is not None else None
    acts = any(not isinstance(each, RemoveAnnotation) for each in decision.intents)
    if asked is None or acts or seen.status.waiting_for is None:
        return decision
    told_at_s = asked.at_s + TELLS_AFTER_S
    waits = asked.at_s <= seen.now_s < told_at_s
    return Decision(status=begun.published, requeue_at_s=told_at_s) if waits else decision


def _released(given_back: tuple[Intent, ...]) -> Iterator[Notice]:
    for each in given_back:
        if isinstance(each, ReleaseService):
            yield Notice(Reason.SERVICE_RELEASED, f"Service {each.name} selects all its pods again")
        if isinstance(each, ReleaseRoute):
            yield Notice(Reason.ROUTE_RELEASED, f"{each.route} is as its user wrote it")


def _concluded(begun: _Begun, done: PassContext, plan: Contribution) -> Decision:
    """The Decision, with everything that follows for status from what was decided.

    Args:
        done: the pass with all that it records.
        plan: what it does besides.
    """
    commands, outlived = settled_commands(done.seen, done.status)
    recorded = done if commands == done.status.commands else done.recording((RecordCommands(commands),))
    status, before = concluded(recorded, plan.wait), done.recorded
    off, status, look_again_s = taken_off(done.seen, status, now=_shows(status) != _shows(before))
    deadline_s = status.waiting_for.deadline_s if status.waiting_for else None
    times = (plan.wake_at_s, look_again_s, deadline_s, stalls_at_s(status.waiting_for))
    stepped = status.current_revision == before.current_revision and status.step_index > before.step_index
    read = begun.reading.notices(done.seen)
    return Decision(
        intents=(*plan.intents, *off),
        status=status,
        # People and gates wait for the step; what it leaves to shrink is shrunk by this pass or by the next.
        status_first=stepped and not off,  # a `true` goes before status shows what the next one is for
        requeue_at_s=earliest(each for each in times if each is not None and each > done.now_s),
        notices=(*begun.notices, *read, *outlived, *plan.notices, *_changes(recorded, status, begun.reading)),
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
