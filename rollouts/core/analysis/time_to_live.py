"""When a run that is over is deleted. Pure. Source: `ttlStrategy` of Argo Rollouts' AnalysisRun."""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.model.analysis import AnalysisPhase


class TimeToLive(Struct, frozen=True, kw_only=True):
    """How long a run is kept after its end, in seconds; None for no such rule.

    Args:
        after_completion_s: for every run that no other rule is about; the only one for Error and Inconclusive.
    """

    after_completion_s: float | None = None
    after_success_s: float | None = None
    after_failure_s: float | None = None


def expires_at_s(kept: TimeToLive, status: RunStatus) -> float | None:
    """When the run is to be deleted, in seconds since 1970; None while it runs, and for one that is kept."""
    if status.completed_at_s is None or not status.phase.over:
        return None
    after_s = kept.after_completion_s
    if status.phase is AnalysisPhase.SUCCESSFUL and kept.after_success_s is not None:
        after_s = kept.after_success_s
    if status.phase is AnalysisPhase.FAILED and kept.after_failure_s is not None:
        after_s = kept.after_failure_s
    return None if after_s is None else status.completed_at_s + after_s
