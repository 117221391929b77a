"""Taking up a new revision, trying one again, holding one back: the changes of memory that start or end an update."""

from __future__ import annotations

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.drain.pre_stop import injection
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.snapshot import ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import WAS_STABLE, Abort, HistoryEntry, Outcome, RolloutStatus, Verb

HISTORY_LIMIT = 10  # finished updates kept in status, like revisionHistoryLimit's default


def taken_up(seen: Snapshot, status: RolloutStatus, *, target: str) -> tuple[RolloutStatus, tuple[Notice, ...]]:
    """The memory with `target` as the current revision; unchanged when it is already, and its steps are the same."""
    spec = seen.rollout.spec
    if not status.current_revision:
        status = _recovered(seen, status, target=target)
    elif not status.stable_revision:  # unreadable, or taken out by hand; else its history would be empty
        status = replace(status, stable_revision=_last_promoted(seen, status))
    if target != status.current_revision:
        return _superseded(seen, status, target=target)
    if spec.strategy_hash == status.strategy_hash:
        return status, ()
    if status.current_revision == status.stable_revision:  # finished, and stays so: only the place in its steps is new
        return replace(
            status, strategy_hash=spec.strategy_hash, step_index=spec.strategy.step_count, gate_passed=True
        ), ()
    return replace(_at_first_step(status, now_s=seen.now_s), strategy_hash=spec.strategy_hash), ()


def retried(seen: Snapshot, status: RolloutStatus, *, attempt: int) -> RolloutStatus:
    """The current revision at its first step again, as attempt number `attempt`."""
    return replace(_at_first_step(status, now_s=seen.now_s), attempt=attempt)


def held_back(seen: Snapshot, status: RolloutStatus, *, reason: Reason, message: str, declared: bool) -> RolloutStatus:
    """The current revision aborted; steps start over when it is tried again."""
    return replace(
        status,
        abort=Abort(status.current_revision, seen.now_s, reason, message, declared),
        step_index=0,
        step_started_at_s=None,
        gate_started_at_s=None,
        gate_passed=False,
        progressed_at_s=seen.now_s,
    )


def promoted(seen: Snapshot, status: RolloutStatus) -> RolloutStatus:
    """The current revision as the stable one, and its update in the history."""
    again = any(
        entry.revision == status.current_revision and entry.outcome is Outcome.PROMOTED for entry in status.history
    )
    outcome = Outcome.ROLLED_BACK if again else Outcome.PROMOTED
    return replace(
        _recorded(status, now_s=seen.now_s, outcome=outcome),
        stable_revision=status.current_revision,
        step_index=seen.rollout.spec.strategy.step_count,
        finished_at_s=seen.now_s,
        progressed_at_s=seen.now_s,
        commands=tuple(each for each in status.commands if not (each.verb is Verb.PROMOTE and each.taken_off)),
    )


def _recovered(seen: Snapshot, status: RolloutStatus, *, target: str) -> RolloutStatus:
    """A memory for a Rollout without one: new, or its status was wiped while its pods went on serving."""
    serving = [each for each in seen.replica_sets if each.spec_replicas > 0 and not each.deleting]
    others = [each for each in serving if each.revision != target]
    strategy = seen.rollout.spec.strategy
    name = strategy.serving_service
    service = seen.services.get(name or "")
    selected = service.revision if isinstance(service, ServiceSeen) else ""
    if not others or selected == target:
        return status
    others = [each for each in others if each.revision == selected] or others
    stable = max(others, key=lambda each: (each.available, -each.number))
    return replace(status, stable_revision=stable.revision, current_revision=stable.revision)


def _last_promoted(seen: Snapshot, status: RolloutStatus) -> str:
    """The newest promoted revision of the history that still has pods; "" for none."""
    serving = {each.revision for each in seen.replica_sets if each.spec_replicas > 0 and not each.deleting}
    promoted_before = (entry.revision for entry in reversed(status.history) if entry.outcome in WAS_STABLE)
    return next((revision for revision in promoted_before if revision in serving), "")


def _superseded(seen: Snapshot, status: RolloutStatus, *, target: str) -> tuple[RolloutStatus, tuple[Notice, ...]]:
    notices: list[Notice] = []
    unfinished = status.current_revision and status.current_revision != status.stable_revision
    if unfinished:
        outcome = Outcome.ABORTED if status.abort else Outcome.SUPERSEDED
        notices.append(
            Notice(Reason.ROLLOUT_NOT_COMPLETED, f"revision {status.current_revision} was not finished ({outcome})")
        )
        status = _recorded(status, now_s=seen.now_s, outcome=outcome)
    existing = next((each for each in seen.replica_sets if each.revision == target), None)
    newest = max([status.revision_number, *(each.number for each in seen.replica_sets)])
    number = newest if existing is not None and existing.number == newest else newest + 1
    first = not status.stable_revision  # nothing serves that the steps could protect
    skip = first or target == status.stable_revision or _in_rollback_window(seen, status, existing)
    started = replace(
        _at_first_step(status, now_s=seen.now_s),
        current_revision=target,
        revision_number=number,
        strategy_hash=seen.rollout.spec.strategy_hash,
        step_index=seen.rollout.spec.strategy.step_count if skip else 0,
        gate_passed=skip,
        attempt=0,
    )
    injected = _injected(seen) if existing is None else existing.injection
    started = replace(started, injection=injected)
    about = f"; {injected}" if injected and existing is None else ""
    notices.append(Notice(Reason.ROLLOUT_UPDATED, f"rolling out revision {number} ({target}){about}"))
    if skip and not first:
        notices.append(Notice(Reason.SKIP_STEPS, f"revision {target} was stable before: its steps are skipped"))
    return started, tuple(notices)


def _injected(seen: Snapshot) -> Injection | None:
    """What goes into the template of the spec's revision, told here as its ReplicaSet comes in the same pass."""
    spec = seen.rollout.spec
    return injection(spec.drain, spec.ends, drain_numbers(spec.drain, seen.proxy), native=seen.native_sleep)


def _in_rollback_window(seen: Snapshot, status: RolloutStatus, target: ReplicaSet | None) -> bool:
    """Going back at most `rollbackWindow.revisions`, or (blue-green) to a revision that has kept its pods since it served."""
    stable = next((each for each in seen.replica_sets if each.revision == status.stable_revision), None)
    if target is None or stable is None or target.created_at_s >= stable.created_at_s:
        return False
    kept = any(each.revision == target.revision for each in status.scale_downs)
    if isinstance(seen.rollout.spec.strategy, BlueGreen) and kept and target.spec_replicas > 0:
        return True
    window = seen.rollout.spec.rollback_window_revisions
    between = [each for each in seen.replica_sets if target.created_at_s < each.created_at_s < stable.created_at_s]
    return window is not None and len(between) < window


def _at_first_step(status: RolloutStatus, *, now_s: float) -> RolloutStatus:
    return replace(
        status,
        step_index=0,
        step_started_at_s=now_s,
        started_at_s=now_s,
        finished_at_s=None,
        progressed_at_s=now_s,
        weight_percent=0,
        abort=None,
        gate_started_at_s=None,
        gate_passed=False,
    )


def _recorded(status: RolloutStatus, *, now_s: float, outcome: Outcome) -> RolloutStatus:
    entry = HistoryEntry(
        revision=status.current_revision,
        number=status.revision_number,
        started_at_s=status.started_at_s or now_s,
        finished_at_s=now_s,
        outcome=outcome,
        message=status.abort.message if status.abort else "",
    )
    return replace(status, history=(*status.history, entry)[-HISTORY_LIMIT:])
