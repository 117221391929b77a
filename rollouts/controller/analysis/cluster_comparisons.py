"""Measurements of `compare` whose numbers the cluster itself has: the same of the canary's pods and of stable's."""

from __future__ import annotations

from typing import assert_never

from rollouts.controller.analysis.container_measurements import ContainerMeasurements
from rollouts.controller.analysis.custom_metric_measurements import CustomMetricMeasurements
from rollouts.controller.analysis.external_metric_measurements import ExternalMetricMeasurements
from rollouts.controller.analysis.figures_taken import nameless
from rollouts.controller.analysis.sources import MeasuredRun, stopped
from rollouts.core.analysis.cluster_source import ContainerResourceMetric, CustomMetric, ExternalMetric
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import ComparedSource, Comparison, PrometheusQuery, WebQuery
from rollouts.core.model.frozen import replace
from rollouts.metrics.comparison import failure_of, measurement_of
from rollouts.metrics.comparison_arms import figures_seen, look_of
from rollouts.metrics.figures import FiguresFound
from rollouts.metrics.samples import NoEvidence
from rollouts.ports import Clock


class ClusterComparisons:
    """Asks what measures the same for one revision, as often as there are arms."""

    def __init__(
        self,
        *,
        containers: ContainerMeasurements,
        custom: CustomMetricMeasurements,
        external: ExternalMetricMeasurements,
        clock: Clock,
    ) -> None:
        self._containers = containers
        self._custom = custom
        self._external = external
        self._clock = clock

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. Nothing is ever in flight between two looks."""
        source = metric.source
        assert isinstance(source, Comparison)  # noqa: S101 - the registry knows no other for us
        if due.task is Task.STOP:
            return stopped(due, now_s=now_s)
        if _is_of_pods(source.of) and (wrong := nameless(run, now_s, revision=False)) is not None:
            return wrong
        look = look_of(source, due.carried, began_at_s=run.started_at_s + source.warm_up_s, now_s=now_s)
        if isinstance(look, NoEvidence):
            return failure_of(look, now_s=now_s)
        seen = [
            figures_seen(await self._figures(replace(run, revision=arm), query), look)
            for arm, query in zip(look.arms, look.queries, strict=True)
        ]
        return measurement_of(look, seen, started_at_s=now_s, finished_at_s=self._clock.now_s())

    async def _figures(self, run: MeasuredRun, source: ComparedSource) -> FiguresFound:
        match source:
            case ContainerResourceMetric():
                return await self._containers.figures(run, source)
            case CustomMetric():
                return await self._custom.figures(run, source)
            case ExternalMetric():
                return await self._external.figures(run, source)
            case PrometheusQuery() | WebQuery():
                raise AssertionError("servers are asked by HttpMeasurements")
            case _:
                assert_never(source)


def _is_of_pods(source: ComparedSource) -> bool:
    """Whether the pods of each arm are found by their Rollout and their revision."""
    return isinstance(source, ContainerResourceMetric) or (isinstance(source, CustomMetric) and source.of is None)
