"""One-way decisions: a new revision is aborted, tried again or rolled back. The first that fires is recorded alone.

The pass that sees the record carries the decision out, so a crash between any two writes leaves a world that the next pass
understands. Promotions are decided by the strategy, and aborts by the progress deadline after that.
"""

from __future__ import annotations

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.lifecycle.analyses import believed_run, deadline_s
from rollouts.core.lifecycle.commands import abort_asked, is_declared, retry_asked, rollback_target
from rollouts.core.model.analysis import AnalysisPhase, AnalysisRecord, OnDeadline, OnFailure
from rollouts.core.model.changes import (
    StatusChange,
    begin_step,
    declare_abort,
    go_forward,
    record_abort,
    record_analysis,
    retry_update,
    set_canary_weight,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Abort, RolloutStatus, analysis_of
from rollouts.core.scale.sizing import keep_pods_until
from rollouts.core.strategy.canary_steps import one_weight_back
from rollouts.core.strategy.guards import guarding, held_gate


def first_one_way(ctx: PassContext) -> Contribution | None:
    """The first one-way decision that status does not contain yet. It is recorded alone."""
    status = ctx.status
    if status.commands != ctx.recorded.commands and target_of(ctx.seen, status) != status.current_revision:
        return Contribution()  # a rollback begins or ends; the next pass takes the other target up
    first = _abort_asked(ctx) or _abort_declared(ctx) or _retry(ctx)
    if first is None and status.analyses:
        first = _fresh_verdict(ctx) or _no_verdict(ctx) or _verdict_passed(ctx) or _went_unjudged(ctx)
    return first


def target_of(seen: Snapshot, status: RolloutStatus) -> str:
    """The revision of the spec, or the target of a rollback while its ReplicaSet, the only copy of its template, is kept."""
    spec_revision = seen.rollout.spec.revision
    target = rollback_target(seen.rollout, status)
    if target == spec_revision:
        return target
    kept = any(replica_set.revision == target and not replica_set.deleting for replica_set in seen.replica_sets)
    return target if kept else spec_revision


def _abort_asked(ctx: PassContext) -> Contribution | None:
    status = ctx.status
    unfinished = status.abort is None and status.current_revision != status.stable_revision
    asked = abort_asked(status) if unfinished and status.commands else None
    if asked is None:
        return None
    message = f"revision {status.current_revision} was aborted by annotation{asked.by_whom}"
    return abort_update(ctx, Reason.ROLLOUT_ABORTED, message, declared=is_declared(asked))


def _abort_declared(ctx: PassContext) -> Contribution | None:
    """Fires when an annotation declares an existing abort, which then lasts as long as the annotation, and when that is gone."""
    abort = ctx.status.abort
    if abort is None or abort.declared is _is_declared_now(ctx):
        return None
    if not abort.declared:
        return Contribution(changes=(declare_abort(abort),))
    notice = Notice(Reason.ROLLOUT_RETRY, f"the abort of revision {abort.revision} was taken back")
    return Contribution(changes=(retry_update(ctx.status.attempt + 1, ctx.now_s),), notices=(notice,))


def _retry(ctx: PassContext) -> Contribution | None:
    abort = ctx.status.abort
    if not ctx.status.commands or (abort is not None and abort.declared) or _is_declared_now(ctx):
        return None
    retry = retry_asked(ctx.status)
    if retry is None or retry.step is None:
        return None
    notice = Notice(Reason.ROLLOUT_RETRY, f"attempt {retry.step} of revision {retry.revision}{retry.by_whom}")
    return Contribution(changes=(retry_update(retry.step, ctx.now_s),), notices=(notice,))


def _fresh_verdict(ctx: PassContext) -> Contribution | None:
    """Records the verdict of a run, and with it the abort that follows from a failure."""
    for gate, analysis in guarding(ctx).items():
        record = analysis_of(ctx.status, gate)
        run = believed_run(ctx, record)
        if record is None or record.settled or run is None or not run.phase.over:
            continue
        judged = replace(record, phase=run.phase, message=run.message, at_s=ctx.now_s)
        said = f"{gate} of revision {ctx.status.current_revision}: {gate.kind.object_kind.kind} {run.name} ended {run.phase}"
        said = f"{said}: {run.message}" if run.message else said
        failed = gate.kind.fails_with(run.phase)
        if failed and analysis.on_failure is OnFailure.ABORT:
            aborts = abort_update(ctx, Reason.ANALYSIS_FAILED, said, declared=False)
            return replace(aborts, changes=(record_analysis(judged), *aborts.changes))
        if failed and analysis.on_failure is OnFailure.STEP_BACK:
            return _stepped_back(ctx, judged, said)
        reason = Reason.ANALYSIS_INCONCLUSIVE if run.phase.bad else Reason.ANALYSIS_SUCCESSFUL
        return Contribution(changes=(record_analysis(judged),), notices=(Notice(reason, said, warning=run.phase.bad),))
    return None


def _no_verdict(ctx: PassContext) -> Contribution | None:
    """Records that a deadline has passed without a verdict: that is no success, and a run that ends later changes nothing."""
    for gate, analysis in guarding(ctx).items():
        record = analysis_of(ctx.status, gate)
        due_s = deadline_s(ctx, record)
        if record is None or due_s is None or ctx.now_s < due_s:
            continue
        why = f"no verdict within {analysis.deadline_s:g} s"
        said = f"{gate} of revision {ctx.status.current_revision}: {gate.kind.object_kind.kind} {record.run} has given {why}"
        judged = record_analysis(replace(record, phase=AnalysisPhase.INCONCLUSIVE, message=why, at_s=ctx.now_s))
        if analysis.on_deadline is OnDeadline.ABORT:
            aborts = abort_update(ctx, Reason.ANALYSIS_INCONCLUSIVE, said, declared=False)
            return replace(aborts, changes=(judged, *aborts.changes))
        return Contribution(changes=(judged,), notices=(Notice(Reason.ANALYSIS_INCONCLUSIVE, said, warning=True),))
    return None


def _stepped_back(ctx: PassContext, record: AnalysisRecord, said: str) -> Contribution:
    """Records a failed verdict, and that the canary goes back to the weight before."""
    strategy = ctx.spec.strategy
    assert isinstance(strategy, Canary)  # noqa: S101 - a blue-green update has no weights: its spec is refused
    lower = one_weight_back(strategy, ctx.status)
    judged = record_analysis(replace(record, back_to_percent=lower.weight_percent))
    said = f"{said}; the weight returns to {float(lower.weight_percent):g} %"
    notice = Notice(Reason.ANALYSIS_FAILED, said, warning=True)
    return Contribution(changes=(judged, begin_step(lower.step_index, ctx.now_s)), notices=(notice,))


def _verdict_passed(ctx: PassContext) -> Contribution | None:
    """Records that somebody promoted the revision past a verdict that holds it.

    Past one that has taken the weight back this begins another attempt, which measures everything from that step on again.
    """
    gate = held_gate(ctx.spec.strategy, ctx.status)
    record = analysis_of(ctx.status, gate) if gate is not None else None
    if gate is None or record is None or not ctx.promoted_past(gate.promoted_as):
        return None
    if record.back_to_percent is not None and not ctx.promoted_full:
        return Contribution(changes=(go_forward(ctx.status.attempt + 1, ctx.now_s),))
    return Contribution(changes=(record_analysis(replace(record, passed=True)),))


def _went_unjudged(ctx: PassContext) -> Contribution | None:
    """Records that somebody promoted the revision past an analysis that has no verdict yet; its run ends with the next pass."""
    for command in ctx.status.commands:
        record = analysis_of(ctx.status, command.gate) if command.gate is not None else None
        if not (command.unjudged and command.promotes(ctx.status)) or record is None or record.settled:
            continue
        said = f"passed without a verdict{command.by_whom}"
        return Contribution(changes=(record_analysis(replace(record, passed=True, message=said, at_s=ctx.now_s)),))
    return None


def _is_declared_now(ctx: PassContext) -> bool:
    asked = abort_asked(ctx.status)
    return asked is not None and is_declared(asked)


def abort_update(ctx: PassContext, reason: Reason, message: str, *, declared: bool) -> Contribution:
    """Aborts the current revision.

    Args:
        declared: an annotation that names the revision keeps it aborted, for as long as the annotation is set.
    """
    status, strategy = ctx.status, ctx.spec.strategy
    changes: tuple[StatusChange, ...] = (
        record_abort(Abort(status.current_revision, ctx.now_s, reason, message, declared)),
    )
    if strategy.by_ratio:
        # By ratio, nothing follows from the recorded weight, so the weight needs no write of its own.
        changes = (*changes, set_canary_weight(0))
    elif strategy.abort_scale_down_delay_s > 0:
        at_s = ctx.now_s + strategy.abort_scale_down_delay_s
        changes = (*changes, *keep_pods_until(status, revision=status.current_revision, at_s=at_s))
    return Contribution(changes=changes, notices=(Notice(Reason.ROLLOUT_ABORTED, message, warning=True),))
