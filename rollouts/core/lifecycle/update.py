"""The changes of status that start or end an update."""

from __future__ import annotations

from rollouts.core.config.target import changed_sources
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.drain.pre_stop import injection
from rollouts.core.model.changes import (
    KeepStepsDone,
    Promote,
    RecoverRevisions,
    StartSteps,
    StartUpdate,
    StatusChange,
    apply,
)
from rollouts.core.model.intents import Notice
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import WAS_STABLE, HistoryEntry, Outcome, RolloutStatus


def take_up(seen: Snapshot, *, target: str) -> Contribution:
    """Makes `target` the current revision; changes nothing when it is that already and its steps are the same."""
    recovered = _recovery(seen, target=target)
    status = apply(seen.status, recovered)
    if target != status.current_revision:
        started = _start(seen, status, target=target)
        return Contribution(changes=(*recovered, *started.changes), notices=started.notices)
    return Contribution(changes=(*recovered, *_new_steps(seen, status)))


def promotion(seen: Snapshot, status: RolloutStatus) -> Promote:
    """The current revision becomes the stable one, and its update goes into the history."""
    again = any(
        entry.revision == status.current_revision and entry.outcome is Outcome.PROMOTED for entry in status.history
    )
    outcome = Outcome.ROLLED_BACK if again else Outcome.PROMOTED
    ended = _entry(status, now_s=seen.now_s, outcome=outcome)
    spec = seen.rollout.spec
    return Promote(spec.strategy.step_count, seen.now_s, ended, spec.history_limit)


def _new_steps(seen: Snapshot, status: RolloutStatus) -> tuple[StatusChange, ...]:
    spec = seen.rollout.spec
    if spec.strategy_hash == status.strategy_hash:
        return ()
    # A finished update stays at the end of the new steps, and so does the first one: there is nothing that steps could protect.
    if status.stable_revision in ("", status.current_revision):
        return (KeepStepsDone(spec.strategy_hash, spec.strategy.step_count),)
    return (StartSteps(spec.strategy_hash, seen.now_s),)


def _recovery(seen: Snapshot, *, target: str) -> tuple[StatusChange, ...]:
    """Finds the revisions when status names none: the Rollout is new, or its status was wiped while its pods went on serving."""
    status = seen.status
    if not status.current_revision:
        stable = _serving_revision(seen, target=target)
        return (RecoverRevisions(stable, stable, seen.now_s),) if stable else ()
    if not status.stable_revision:  # it was unreadable or removed by hand, if there is a history
        stable = _last_promoted(seen, status)
        return (RecoverRevisions(stable, status.current_revision, seen.now_s),) if stable else ()
    return ()


def _serving_revision(seen: Snapshot, *, target: str) -> str:
    """The revision other than `target` that serves; "" when there is none, or when `target` serves already."""
    serving = [each for each in seen.replica_sets if each.spec_replicas > 0 and not each.deleting]
    others = [each for each in serving if each.revision != target]
    service = seen.services.get(seen.rollout.spec.strategy.serving_service or "")
    selected = service.revision if isinstance(service, ServiceSeen) else ""
    if not others or selected == target:
        return ""
    others = [each for each in others if each.revision == selected] or others
    return max(others, key=lambda each: (each.available, -each.number)).revision


def _last_promoted(seen: Snapshot, status: RolloutStatus) -> str:
    """The newest promoted revision of the history that still has pods; "" for none."""
    serving = {each.revision for each in seen.replica_sets if each.spec_replicas > 0 and not each.deleting}
    promoted_before = (entry.revision for entry in reversed(status.history) if entry.outcome in WAS_STABLE)
    return next((revision for revision in promoted_before if revision in serving), "")


def _start(seen: Snapshot, status: RolloutStatus, *, target: str) -> Contribution:
    """Starts the update to `target` and ends the one that it replaces."""
    existing = next((each for each in seen.replica_sets if each.revision == target), None)
    first = not status.stable_revision  # no revision serves yet that steps could protect
    skip = first or target == status.stable_revision or _in_rollback_window(seen, status, existing)
    strategy = seen.rollout.spec.strategy
    injected = _injected(seen) if existing is None else existing.injection
    number = _number(seen, status, existing)
    ended, left = _left(seen, status)
    start = StartUpdate(
        revision=target,
        revision_number=number,
        strategy_hash=seen.rollout.spec.strategy_hash,
        step_index=strategy.step_count if skip else 0,
        gate_passed=skip,
        injection=injected,
        at_s=seen.now_s,
        ended=ended,
        history_limit=seen.rollout.spec.history_limit,
    )
    changed = changed_sources(seen)
    about = f"; {changed} changed" if changed else ""
    about += f"; {injected}" if injected and existing is None else ""
    notices = [*left, Notice(Reason.ROLLOUT_UPDATED, f"rolling out revision {number} ({target}){about}")]
    if skip and not first:
        notices.append(Notice(Reason.SKIP_STEPS, f"revision {target} was stable before: its steps are skipped"))
    return Contribution(changes=(start,), notices=tuple(notices))


def _left(seen: Snapshot, status: RolloutStatus) -> tuple[HistoryEntry | None, tuple[Notice, ...]]:
    """The history entry and the Event for an unfinished update that ends now."""
    if not status.current_revision or status.current_revision == status.stable_revision:
        return None, ()
    outcome = Outcome.ABORTED if status.abort else Outcome.SUPERSEDED
    message = f"the update to revision {status.current_revision} was not finished ({outcome})"
    return _entry(status, now_s=seen.now_s, outcome=outcome), (Notice(Reason.ROLLOUT_NOT_COMPLETED, message),)


def _number(seen: Snapshot, status: RolloutStatus, existing: ReplicaSet | None) -> int:
    newest = max([status.revision_number, *(each.number for each in seen.replica_sets)])
    return newest if existing is not None and existing.number == newest else newest + 1


def _injected(seen: Snapshot) -> Injection | None:
    """What will be put into the new ReplicaSet's template; the Event needs it before the ReplicaSet exists."""
    spec = seen.rollout.spec
    return injection(spec.drain, spec.ends, drain_numbers(spec.drain, seen.proxy), native=seen.native_sleep)


def _in_rollback_window(seen: Snapshot, status: RolloutStatus, target: ReplicaSet | None) -> bool:
    """Whether the target is at most `rollbackWindow.revisions` back, or (blue-green) still has its pods since it served."""
    stable = next((each for each in seen.replica_sets if each.revision == status.stable_revision), None)
    if target is None or stable is None or target.created_at_s >= stable.created_at_s:
        return False
    kept = any(each.revision == target.revision for each in status.scale_downs)
    if isinstance(seen.rollout.spec.strategy, BlueGreen) and kept and target.spec_replicas > 0:
        return True
    window = seen.rollout.spec.rollback_window_revisions
    between = [each for each in seen.replica_sets if target.created_at_s < each.created_at_s < stable.created_at_s]
    return window is not None and len(between) < window


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
