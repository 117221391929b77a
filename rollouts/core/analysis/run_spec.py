"""The spec of an AnalysisRun, resolved: what is measured until it ends, and when it is deleted after that. Pure."""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.analysis.metric import Metric, MetricRules
from rollouts.core.model.analysis import AnalysisPhase


class TimeToLive(Struct, frozen=True, kw_only=True):
    """How long a run is kept after its end, in seconds; None for no such rule. Source: `ttlStrategy` of Argo Rollouts.

    Args:
        after_completion_s: for every run that no other rule is about; the only one for Error and Inconclusive.
    """

    after_completion_s: float | None = None
    after_success_s: float | None = None
    after_failure_s: float | None = None


class RunSpec(Struct, frozen=True, kw_only=True):
    """All metrics of a run, with the values of its arguments."""

    metrics: tuple[Metric, ...]
    terminate: bool

    @property
    def rules(self) -> tuple[MetricRules, ...]:
        """What `decide_run` needs of the metrics, in their order."""
        return tuple(metric.rules for metric in self.metrics)


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
