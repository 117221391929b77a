"""Measurements of `containerResource`: what one container of the revision's pods uses, as metrics.k8s.io has it."""

from __future__ import annotations

from rollouts.controller.analysis.figures_taken import figures_taken, nameless
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.controller.facts.cluster_metrics import ClusterMetrics, Unread
from rollouts.core.analysis.cluster_source import ContainerResourceMetric
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due
from rollouts.metrics.cluster_figures import container_figures
from rollouts.metrics.figures import FiguresFound
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.objects import Key
from rollouts.ports import BoundedCalls, Clock


class ContainerMeasurements:
    """Reads the lists that everybody in the namespace shares."""

    def __init__(self, *, cluster: ClusterMetrics, bounded: BoundedCalls, clock: Clock) -> None:
        self._cluster = cluster
        self._bounded = bounded
        self._clock = clock

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. Nothing is ever in flight between two looks."""
        source = metric.source
        assert isinstance(source, ContainerResourceMetric)  # noqa: S101 - the registry knows no other for us
        if (wrong := nameless(run, now_s)) is not None:
            return wrong

        async def look(run: MeasuredRun) -> FiguresFound:
            return await self.figures(run, source)

        return await figures_taken(
            look, run, metric, due, bounded=self._bounded, clock=self._clock, now_s=now_s, patience_s=source.max_age_s
        )

    async def figures(self, run: MeasuredRun, source: ContainerResourceMetric) -> FiguresFound:
        """What the container uses in the run's revision, now. Raises: what `Client` raises."""
        key = Key(run.namespace, run.rollout)
        found = await self._cluster.container_use(key, source.container, source.resource, max_age_s=source.max_age_s)
        if isinstance(found, Unread):
            return NoEvidence(found.why, Absence.ERROR)
        return container_figures(source, found.value.get(run.revision), now_s=self._clock.now_s())
