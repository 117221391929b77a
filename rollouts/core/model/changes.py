"""What a pass records in `.status`: the changes, each a function by name, and the one place that applies them.

A rule returns changes and never rewrites a status itself. Counts, conditions and the current wait are computed at the end of the
pass (`core/lifecycle/conditions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from rollouts.core.model.analysis import AnalysisKind, AnalysisRecord
from rollouts.core.model.frozen import replace
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.rollout import RolloutSpec
from rollouts.core.model.status import (
    Abort,
    Command,
    Cutover,
    Given,
    GivenBack,
    HistoryEntry,
    RolloutStatus,
    ScaleDown,
    Traffic,
    Verb,
    stable_before,
)
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteName

_ABOUT_UPDATES = frozenset({Verb.PROMOTE, Verb.ABORT, Verb.RETRY, Verb.ROLLBACK})
_AUTHORS_MAX = 8

StatusChange: TypeAlias = Callable[[RolloutStatus], RolloutStatus]
"""Gives the status after the change; the status that it gets has the changes of the pass that stand before it."""


def apply(status: RolloutStatus, changes: Iterable[StatusChange]) -> RolloutStatus:
    """The status after the changes, in their order; the same object when there are none."""
    for change in changes:
        status = change(status)
    return status


# --- the update


def recover_revisions(stable_revision: str, current_revision: str, at_s: float) -> StatusChange:
    """Revisions that status lacks, found in the cluster or in the history. Whether pods were just evicted is lost with them."""
    return lambda status: replace(
        status, stable_revision=stable_revision, current_revision=current_revision, evicting_since_s=at_s
    )


def begin_update(
    spec: RolloutSpec,
    *,
    revision: str,
    revision_number: int,
    skipped: bool,
    injection: Injection | None,
    at_s: float,
    ended: HistoryEntry | None,
) -> StatusChange:
    """Starts the update to another revision.

    Args:
        skipped: all steps, and the gate of a blue-green update.
        ended: the history entry of the unfinished update that it replaces.
    """
    return lambda status: replace(
        _at_first_step(status, at_s=at_s),
        current_revision=revision,
        revision_number=revision_number,
        strategy_hash=spec.strategy_hash,
        step_index=spec.strategy.step_count if skipped else 0,
        gate_passed=skipped,
        attempt=0,
        authors=tuple(
            Given(command.verb, command.by)
            for command in status.commands
            if command.by is not None and command.verb is Verb.ROLLBACK and command.holds and command.target == revision
        ),
        injection=injection,
        history=status.history if ended is None else _with_entry(status, ended, limit=spec.history_limit),
    )


def restart_steps(strategy_hash: str, at_s: float) -> StatusChange:
    """Starts the update again at the first step of a changed list of steps."""
    return lambda status: replace(
        _at_first_step(status, at_s=at_s), strategy_hash=strategy_hash, analyses=_of_its_beginning(status)
    )


def keep_steps_done(strategy_hash: str, step_count: int) -> StatusChange:
    """Keeps a finished update finished although the list of steps has changed."""
    return lambda status: replace(status, strategy_hash=strategy_hash, step_index=step_count, gate_passed=True)


def retry_update(attempt: int, at_s: float) -> StatusChange:
    """Tries the current revision again from its first step."""
    return lambda status: replace(_at_first_step(status, at_s=at_s), attempt=attempt)


def record_abort(abort: Abort) -> StatusChange:
    """Aborts the current revision; its steps start over when it is tried again."""
    return lambda status: replace(
        status,
        abort=abort,
        authors=_with_authors(status, status.commands),
        step_index=0,
        step_started_at_s=None,
        gate_started_at_s=None,
        gate_passed=False,
        progressed_at_s=abort.at_s,
    )


def declare_abort(abort: Abort) -> StatusChange:
    """Makes an existing abort last as long as its annotation."""
    return lambda status: replace(status, abort=replace(abort, declared=True))


def promote(step_count: int, at_s: float, ended: HistoryEntry, history_limit: int) -> StatusChange:
    """Makes the current revision the stable one.

    Args:
        ended: the history entry of the update.
        history_limit: how many entries the history keeps, at least 3.
    """
    return lambda status: replace(
        status,
        stable_revision=status.current_revision,
        step_index=step_count,
        finished_at_s=at_s,
        progressed_at_s=at_s,
        history=_with_entry(status, ended, limit=history_limit),
        commands=tuple(
            [
                command
                for command in status.commands
                if not (command.verb is Verb.PROMOTE and command.annotation_removed)
            ]
        ),
        authors=(),
    )


def record_commands(commands: tuple[Command, ...]) -> StatusChange:
    """Records the judged commands."""
    return lambda status: replace(status, commands=commands, authors=_with_authors(status, commands))


# --- its steps, gates and analyses


def skip_steps(step_count: int, at_s: float) -> StatusChange:
    """Skips all steps because somebody promoted the update past them; the state after the last step must still be reached."""
    return lambda status: replace(status, step_index=step_count, step_started_at_s=at_s)


def begin_step(step_index: int, at_s: float) -> StatusChange:
    """Begins a step: the one before is done, or a verdict takes the weight back, and a promotion past it does this step again."""
    return lambda status: replace(status, step_index=step_index, step_started_at_s=at_s, progressed_at_s=at_s)


def go_forward(attempt: int, at_s: float) -> StatusChange:
    """Tries the step again to which a verdict has gone back: in a new attempt, so all evidence is measured again."""
    return lambda status: replace(
        status, attempt=attempt, step_started_at_s=at_s, progressed_at_s=at_s, analyses=_of_its_beginning(status)
    )


def record_analysis(record: AnalysisRecord) -> StatusChange:
    """Records the latest run of a gate, its verdict, or that somebody promoted the revision past it."""
    return lambda status: replace(
        status, analyses=(*[other for other in status.analyses if other.gate != record.gate], record)
    )


def record_gate(started_at_s: float | None, *, passed: bool) -> StatusChange:
    """Blue-green: records when the preview reached its gate, and whether it passed."""
    return lambda status: replace(status, gate_started_at_s=started_at_s, gate_passed=passed)


def record_selected(active_revision: str, preview_revision: str) -> StatusChange:
    """Blue-green: records the revisions that the Services' selectors name."""
    return lambda status: replace(status, active_revision=active_revision, preview_revision=preview_revision)


# --- traffic


def set_canary_weight(weight_percent: WeightPercent | None) -> StatusChange:
    """Sets the share of traffic, or of pods, that the canary should have now; None for a strategy without one."""
    return lambda status: replace(status, weight_percent=weight_percent)


def exchange_roles(status: RolloutStatus) -> RolloutStatus:
    """`pingPong`: the two Services exchange roles, so the traffic of the former canary Service is that of the stable one now."""
    traffic = status.traffic
    if traffic is not None:
        traffic = Traffic(
            desired_percent=0, seen_at_s=traffic.seen_at_s, observed_percent=0, verified_by=traffic.verified_by
        )
    return replace(status, traffic=traffic, pong_is_stable=not status.pong_is_stable)


def record_traffic(traffic: Traffic | None) -> StatusChange:
    """Records which split is wanted and which was found live; None without routers."""
    return lambda status: replace(status, traffic=traffic)


def record_released(given_back: tuple[GivenBack, ...]) -> StatusChange:
    """Records routes that the spec no longer names and that may still send requests to the canary Service."""
    return lambda status: replace(status, given_back=given_back)


def record_routes_elsewhere(elsewhere: tuple[RouteName, ...]) -> StatusChange:
    """Records the routes in other namespaces that this Rollout manages or is about to manage."""
    return lambda status: replace(status, elsewhere=elsewhere)


# --- pods that go


def record_cutovers(cutovers: tuple[Cutover, ...]) -> StatusChange:
    """Records the present state of the cutovers."""
    return lambda status: replace(status, cutovers=cutovers)


def record_scale_downs(scale_downs: tuple[ScaleDown, ...]) -> StatusChange:
    """Records the old revisions that keep their pods for a while."""
    return lambda status: replace(status, scale_downs=scale_downs)


def record_evictions(since_s: float | None) -> StatusChange:
    """Records that pods may be evicted from now on, before the first is; None: every ReplicaSet has counted those that were."""
    return lambda status: replace(status, evicting_since_s=since_s)


def record_restart(older_than_s: float, at_s: float) -> StatusChange:
    """Records that pods older than `older_than_s` have been replaced, and that every ReplicaSet has counted the evicted ones."""
    return lambda status: replace(status, restarted_at_s=older_than_s, evicting_since_s=None, progressed_at_s=at_s)


def _at_first_step(status: RolloutStatus, *, at_s: float) -> RolloutStatus:
    return replace(
        status,
        step_index=0,
        step_started_at_s=at_s,
        started_at_s=at_s,
        finished_at_s=None,
        progressed_at_s=at_s,
        weight_percent=0,
        abort=None,
        gate_started_at_s=None,
        gate_passed=False,
        analyses=(),
    )


def _of_its_beginning(status: RolloutStatus) -> tuple[AnalysisRecord, ...]:
    """The verdict that has let the update begin: other steps, and going forward again, do not begin it once more."""
    before = [each for each in status.analyses if each.gate.kind is AnalysisKind.BEFORE_UPDATE]
    return tuple([each for each in before if each.opens])


def _with_authors(status: RolloutStatus, commands: tuple[Command, ...]) -> tuple[Given, ...]:
    """Who gave commands during this update: those who are known, and those of accepted commands about the current revision."""
    if not any(command.by for command in commands) or status.current_revision == status.stable_revision:
        return status.authors
    fresh = (
        Given(command.verb, command.by)
        for command in commands
        if command.by is not None
        and command.holds
        and command.verb in _ABOUT_UPDATES
        and command.revision == status.current_revision
    )
    return tuple(dict.fromkeys((*status.authors, *fresh)))[-_AUTHORS_MAX:]


def _with_entry(status: RolloutStatus, ended: HistoryEntry, *, limit: int) -> tuple[HistoryEntry, ...]:
    """The newest entries; among them, whatever came to nothing since, those of the last two revisions that became stable."""
    entries = (*status.history, ended)
    stable = stable_before(entries, "")
    before = stable_before(entries, stable.revision) if stable is not None else None
    needed = [entry for entry in (stable, before) if entry is not None]
    others = [entry for entry in entries if entry not in needed]
    kept = (*needed, *others[-(limit - len(needed)) :])
    return tuple(entry for entry in entries if entry in kept)
