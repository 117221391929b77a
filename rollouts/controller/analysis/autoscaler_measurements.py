"""Measurements of `hpa`: what a HorizontalPodAutoscaler wants, and whether it can have it."""

from __future__ import annotations

from rollouts.controller.analysis.figures_taken import figures_taken, nameless
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.controller.facts.cluster_metrics import ClusterMetrics, Unread
from rollouts.core.analysis.cluster_source import AutoscalerMetric
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due
from rollouts.core.model.autoscaling import LOOK_S
from rollouts.metrics.cluster_figures import autoscaler_figures
from rollouts.metrics.figures import Figures, FiguresFound, NotYet
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.objects import Key
from rollouts.ports import BoundedCalls, Clock

PATIENCE_S = 2 * LOOK_S
"""A list that was read late enough is there by then: it is looked at every 15 s, and others may have read it 15 s before."""


class AutoscalerMeasurements:
    """Reads the list that everybody in the namespace shares."""

    def __init__(self, *, cluster: ClusterMetrics, bounded: BoundedCalls, clock: Clock) -> None:
        self._cluster = cluster
        self._bounded = bounded
        self._clock = clock

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. Nothing is ever in flight between two looks."""
        source = metric.source
        assert isinstance(source, AutoscalerMetric)  # noqa: S101 - the registry knows no other for us
        if not source.name and (wrong := nameless(run, now_s, revision=False)) is not None:
            return wrong

        async def look(run: MeasuredRun) -> FiguresFound:
            found = await self._cluster.autoscalers(Key(run.namespace, run.rollout), name=source.name)
            if isinstance(found, Unread):
                return NoEvidence(found.why, Absence.ERROR)
            figures = autoscaler_figures(source, found.value, now_s=self._clock.now_s())
            if isinstance(figures, Figures) and found.at_s < run.started_at_s + LOOK_S:
                return NotYet(f"the autoscaler is given {LOOK_S:g} s to see what the run judges")
            return figures

        return await figures_taken(
            look, run, metric, due, bounded=self._bounded, clock=self._clock, now_s=now_s, patience_s=PATIENCE_S
        )
