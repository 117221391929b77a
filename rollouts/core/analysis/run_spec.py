"""The spec of an AnalysisRun, resolved: what is measured until it ends."""

from __future__ import annotations

from msgspec import Struct, field

from rollouts.core.analysis.metric import Metric, MetricRules
from rollouts.core.analysis.time_to_live import TimeToLive


class RunSpec(Struct, frozen=True, kw_only=True):
    """All metrics of a run, with the values of its arguments.

    Args:
        terminate: somebody has told it to end.
    """

    metrics: tuple[Metric, ...]
    terminate: bool = False
    time_to_live: TimeToLive = field(default_factory=TimeToLive)

    @property
    def rules(self) -> tuple[MetricRules, ...]:
        """What `decide_run` needs of the metrics, in their order."""
        return tuple(metric.rules for metric in self.metrics)
