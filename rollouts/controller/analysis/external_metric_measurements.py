"""Measurements of `externalMetric`: a metric that is about nothing in the cluster, as external.metrics.k8s.io has it."""

from __future__ import annotations

from rollouts.cluster.client import Client
from rollouts.controller.analysis.figures_taken import absent, figures_taken, of_adapter
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.core.analysis.cluster_source import ExternalMetric
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due
from rollouts.errors import ApiNotFound
from rollouts.metrics.cluster_figures import external_figures
from rollouts.metrics.figures import FiguresFound
from rollouts.metrics.metric_values import EXTERNAL_GROUP, external_path, metric_values
from rollouts.metrics.samples import NoEvidence
from rollouts.objects import EXTERNAL_METRIC_VALUES
from rollouts.ports import BoundedCalls, Clock


class ExternalMetricMeasurements:
    """Asks the adapter that serves the API; one request for each measurement."""

    def __init__(self, *, client: Client, bounded: BoundedCalls, clock: Clock) -> None:
        self._client = client
        self._bounded = bounded
        self._clock = clock

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. Nothing is ever in flight between two looks."""
        source = metric.source
        assert isinstance(source, ExternalMetric)  # noqa: S101 - the registry knows no other for us

        async def look(run: MeasuredRun) -> FiguresFound:
            return await self.figures(run, source)

        return await figures_taken(
            look, run, metric, due, bounded=self._bounded, clock=self._clock, now_s=now_s, patience_s=source.max_age_s
        )

    async def figures(self, run: MeasuredRun, source: ExternalMetric) -> FiguresFound:
        """What the adapter has of the metric, now. Raises: nothing that a server could cause."""
        return await of_adapter(EXTERNAL_GROUP, "analysis.externalMetrics", self._asked(run.namespace, source))

    async def _asked(self, namespace: str, source: ExternalMetric) -> FiguresFound:
        """Raises: what `Client` raises; ValueError."""
        query = {"labelSelector": source.selector} if source.selector else {}
        path = external_path(namespace, source.metric)
        try:
            body = await self._client.read(EXTERNAL_METRIC_VALUES, path, query)
        except ApiNotFound:
            return await self._missing(source)
        return external_figures(source, metric_values(body), now_s=self._clock.now_s())

    async def _missing(self, source: ExternalMetric) -> NoEvidence:
        try:
            await self._client.read(EXTERNAL_METRIC_VALUES, f"/apis/{EXTERNAL_GROUP}")
        except ApiNotFound:
            return absent(EXTERNAL_GROUP)
        return NoEvidence(f"{EXTERNAL_GROUP} has no metric {source.metric}")
