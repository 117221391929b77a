"""When time alone ends what an Experiment waits for, by the wall clock. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.experiment.model import ExperimentSpec, ExperimentStatus, GroupPhase, GroupStatus

VERDICT_S = 300.0
"""For an AnalysisRun that was told to end: longer than any measurement takes to be stopped."""


def pods_until_s(spec: ExperimentSpec, groups: Iterable[GroupStatus]) -> float | None:
    """When the first template that is not whole has been so for too long; None when all are whole."""
    since_s = [group.since_s for group in groups if group.phase is GroupPhase.PROGRESSING]
    return min(since_s) + spec.progress_deadline_s if since_s else None


def ends_at_s(spec: ExperimentSpec, status: ExperimentStatus) -> float | None:
    """When the duration is over; None where the analyses end it, and before its pods were available."""
    if status.available_at_s is None or spec.lasts_s is None:
        return None
    return status.available_at_s + spec.lasts_s


def leaves_at_s(spec: ExperimentSpec, status: ExperimentStatus, *, kept_until_s: float) -> float:
    """When the Services and pods of one that is over go; infinity while nothing but its Rollout decides that."""
    return max((status.completed_at_s or 0.0) + spec.scale_down_delay_s, kept_until_s)


def waits_until_s(spec: ExperimentSpec, status: ExperimentStatus, *, created_at_s: float) -> float | None:
    """When the present wait ends by itself, one way or the other; None when it is over, or when only verdicts end the wait."""
    if status.phase.over:
        return None
    if status.started_at_s is None:
        return created_at_s + spec.progress_deadline_s
    if status.ending_at_s is not None:
        return status.ending_at_s + VERDICT_S
    ended = {record.name for record in status.runs if record.phase.over}
    # The end of the duration ends no analysis that the Experiment needs.
    needs_verdict = any(each.required and each.name not in ended for each in spec.analyses)
    times_s = (None if needs_verdict else ends_at_s(spec, status), pods_until_s(spec, status.groups))
    return min((at_s for at_s in times_s if at_s is not None), default=None)
