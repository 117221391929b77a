"""The changes of status that start or end an update."""

from __future__ import annotations

from rollouts.core.config.target import changed_sources
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.context.pass_context import PassContext
from rollouts.core.drain.pre_stop import injection
from rollouts.core.model.changes import (
    StatusChange,
    apply,
    begin_update,
    keep_steps_done,
    promote,
    recover_revisions,
    restart_steps,
)
from rollouts.core.model.intents import Notice
from rollouts.core.model.numbering import told_title
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import HistoryEntry, Outcome, RolloutStatus, previous_revision


def start_update(seen: Snapshot, *, target: str) -> Contribution:
    """Makes `target` the current revision; changes nothing when it is that already and its steps are the same."""
    spec = seen.rollout.spec
    recovered = _recovery(seen, target=target)
    status = apply(seen.status, recovered)
    if target != status.current_revision:
        started = _start(seen, status, target=target)
        return Contribution(changes=(*recovered, *started.changes), notices=started.notices)
    if spec.strategy_hash == status.strategy_hash:
        return Contribution(changes=recovered)
    # A finished update stays at the end of the new steps, and so does the first one: there is nothing that steps could protect.
    if status.stable_revision in ("", status.current_revision):
        return Contribution(changes=(*recovered, keep_steps_done(spec.strategy_hash, spec.strategy.step_count)))
    return Contribution(changes=(*recovered, restart_steps(spec.strategy_hash, seen.now_s)))


def promoted(ctx: PassContext, plan: Contribution, *, after: tuple[StatusChange, ...]) -> Contribution:
    """The promotion: the current revision becomes the stable one, and its update goes into the history.

    It is recorded alone, before anything follows from it.

    Args:
        after: what is recorded with it, after the changes of the plan and the promotion itself.
    """
    status, spec = ctx.status, ctx.spec
    again = any(
        entry.revision == status.current_revision and entry.outcome is Outcome.PROMOTED for entry in status.history
    )
    outcome = Outcome.ROLLED_BACK if again else Outcome.PROMOTED
    ended = _entry(status, now_s=ctx.now_s, outcome=outcome)
    promotion = promote(spec.strategy.step_count, ctx.now_s, ended, spec.history_limit)
    message = f"revision {told_title(status.revision_number, status.current_revision)} is stable"
    notice = Notice(Reason.ROLLOUT_COMPLETED, message)
    return Contribution(changes=(*plan.changes, promotion, *after), notices=(notice,))


def _recovery(seen: Snapshot, *, target: str) -> tuple[StatusChange, ...]:
    """Finds the revisions when status names none: the Rollout is new, or its status was wiped while its pods went on serving."""
    status = seen.status
    if status.current_revision and status.stable_revision:
        return ()
    serving = [
        replica_set for replica_set in seen.replica_sets if replica_set.spec_replicas > 0 and not replica_set.deleting
    ]
    if not status.current_revision:
        stable = _serving_revision(seen, serving, target=target)
        return (recover_revisions(stable, stable, seen.now_s),) if stable else ()
    # The stable one was unreadable or removed by hand, if there is a history.
    stable = previous_revision(status, template="", kept={replica_set.revision for replica_set in serving})
    return (recover_revisions(stable, status.current_revision, seen.now_s),) if stable else ()


def _serving_revision(seen: Snapshot, serving: list[ReplicaSet], *, target: str) -> str:
    """The revision other than `target` that serves; "" when there is none, or when `target` serves already."""
    others = [replica_set for replica_set in serving if replica_set.revision != target]
    service = seen.services.get(seen.rollout.spec.strategy.serving_service or "")
    selected = service.revision if isinstance(service, ServiceSeen) else ""
    if not others or selected == target:
        return ""
    others = [replica_set for replica_set in others if replica_set.revision == selected] or others
    return max(others, key=lambda replica_set: (replica_set.available, -replica_set.number)).revision


def _start(seen: Snapshot, status: RolloutStatus, *, target: str) -> Contribution:
    spec = seen.rollout.spec
    existing = next((replica_set for replica_set in seen.replica_sets if replica_set.revision == target), None)
    first = not status.stable_revision  # no revision serves yet that steps could protect
    skip = first or target == status.stable_revision or _in_rollback_window(seen, status, existing)
    changed = changed_sources(seen)
    about = f"; {changed} changed" if changed else ""
    if existing is not None:
        injected = existing.injection
    else:  # the Event tells what will be put into the template before the ReplicaSet exists
        numbers = drain_numbers(spec.drain, seen.proxy)
        injected = injection(spec.drain, spec.ends, numbers, native=seen.native_sleep)
        about += f"; {injected}" if injected else ""
    newest = max([status.revision_number, *(replica_set.number for replica_set in seen.replica_sets)])
    number = newest if existing is not None and existing.number == newest else newest + 1
    ended, notices = None, []
    outcome = Outcome.ABORTED if status.abort else Outcome.SUPERSEDED
    if status.current_revision and status.current_revision != status.stable_revision:
        ended = _entry(status, now_s=seen.now_s, outcome=outcome)
        unfinished = f"the update to revision {status.current_revision} was not finished ({outcome})"
        notices.append(Notice(Reason.ROLLOUT_NOT_COMPLETED, unfinished))
    notices.append(Notice(Reason.ROLLOUT_UPDATED, f"rolling out revision {told_title(number, target)}{about}"))
    if skip and not first:
        notices.append(Notice(Reason.SKIP_STEPS, f"revision {target} was stable before: its steps are skipped"))
    start = begin_update(
        spec,
        revision=target,
        revision_number=number,
        skipped=skip,
        injection=injected,
        at_s=seen.now_s,
        ended=ended,
    )
    return Contribution(changes=(start,), notices=tuple(notices))


def _in_rollback_window(seen: Snapshot, status: RolloutStatus, target: ReplicaSet | None) -> bool:
    """Whether the target is at most `rollbackWindow.revisions` back, or (blue-green) still has its pods since it served."""
    spec, replica_sets = seen.rollout.spec, seen.replica_sets
    stable = next((other for other in replica_sets if other.revision == status.stable_revision), None)
    if target is None or stable is None or target.created_at_s >= stable.created_at_s:
        return False
    kept = any(scale_down.revision == target.revision for scale_down in status.scale_downs)
    if isinstance(spec.strategy, BlueGreen) and kept and target.spec_replicas > 0:
        return True
    between = [other for other in replica_sets if target.created_at_s < other.created_at_s < stable.created_at_s]
    return spec.rollback_window_revisions is not None and len(between) < spec.rollback_window_revisions


def _entry(status: RolloutStatus, *, now_s: float, outcome: Outcome) -> HistoryEntry:
    return HistoryEntry(
        revision=status.current_revision,
        number=status.revision_number,
        started_at_s=status.started_at_s or now_s,
        finished_at_s=now_s,
        outcome=outcome,
        message=status.abort.message if status.abort else "",
        authors=status.authors,
    )
