"""Measurements of `customMetric`: a metric of an object or of the revision's pods, as custom.metrics.k8s.io has it."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.cluster.client import Client
from rollouts.controller.analysis.figures_taken import absent, figures_taken, nameless, of_adapter
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.controller.facts.cluster_metrics import ClusterMetrics, Unread
from rollouts.core.analysis.cluster_source import CustomMetric, DescribedObject
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due
from rollouts.errors import ApiNotFound
from rollouts.manifests.ownership import NAME, REVISION
from rollouts.metrics.cluster_figures import custom_figures
from rollouts.metrics.figures import FiguresFound
from rollouts.metrics.metric_values import (
    ALL_OBJECTS,
    CUSTOM_GROUP,
    CUSTOM_VERSIONS,
    custom_path,
    metric_values,
    plural_in,
    versions_in,
)
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.objects import METRIC_VALUES, POD, Key
from rollouts.ports import BoundedCalls, Clock


class CustomMetricMeasurements:
    """Asks the adapter that serves the API; one request for each measurement."""

    def __init__(self, *, cluster: ClusterMetrics, client: Client, bounded: BoundedCalls, clock: Clock) -> None:
        self._cluster = cluster
        self._client = client
        self._bounded = bounded
        self._clock = clock
        self._plurals: dict[tuple[str, str], str] = {}

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. Nothing is ever in flight between two looks."""
        source = metric.source
        assert isinstance(source, CustomMetric)  # noqa: S101 - the registry knows no other for us
        if source.of is None and (wrong := nameless(run, now_s)) is not None:
            return wrong

        async def look(run: MeasuredRun) -> FiguresFound:
            return await self.figures(run, source)

        return await figures_taken(
            look, run, metric, due, bounded=self._bounded, clock=self._clock, now_s=now_s, patience_s=source.max_age_s
        )

    async def figures(self, run: MeasuredRun, source: CustomMetric) -> FiguresFound:
        """What the adapter has of the run's revision, or of the object, now. Raises: nothing that a server could cause."""
        asked = self._of_pods(run, source) if source.of is None else self._of(run, source, source.of)
        return await of_adapter(CUSTOM_GROUP, "analysis.customMetrics", asked)

    async def _of_pods(self, run: MeasuredRun, source: CustomMetric) -> FiguresFound:
        labels = f"{NAME}={run.rollout},{REVISION}={run.revision}"
        body = await self._asked(run.namespace, POD.plural, ALL_OBJECTS, source, labels)
        if isinstance(body, NoEvidence):
            return body
        pods = await self._cluster.pods(Key(run.namespace, run.rollout))
        if isinstance(pods, Unread):
            return NoEvidence(pods.why, Absence.ERROR)
        names = frozenset(each.name for each in pods.value if each.counts and each.revision == run.revision)
        return custom_figures(source, metric_values(body), names, now_s=self._clock.now_s())

    async def _of(self, run: MeasuredRun, source: CustomMetric, of: DescribedObject) -> FiguresFound:
        resource = await self._resource(of)
        if isinstance(resource, NoEvidence):
            return resource
        body = await self._asked(run.namespace, resource, of.name, source, "")
        if isinstance(body, NoEvidence):
            return body
        return custom_figures(source, metric_values(body), None, now_s=self._clock.now_s())

    async def _asked(
        self, namespace: str, resource: str, name: str, source: CustomMetric, labels: str
    ) -> bytes | NoEvidence:
        """The answer of the newest version that the adapter has. Raises: what `Client` raises; ValueError."""
        query = {"labelSelector": labels, "metricLabelSelector": source.selector}
        asked = {parameter: text for parameter, text in query.items() if text}

        async def of(version: str) -> bytes | None:
            return await self._found(custom_path(version, namespace, resource, name, source.metric), asked)

        newest, *older = CUSTOM_VERSIONS
        if (body := await of(newest)) is not None:
            return body
        group = await self._found(f"/apis/{CUSTOM_GROUP}", {})
        if group is None:
            return absent(CUSTOM_GROUP)
        served = versions_in(group)
        if newest not in served:
            for version in older:
                if version in served and (body := await of(version)) is not None:
                    return body
        return NoEvidence(f"{CUSTOM_GROUP} has no metric {source.metric} of {resource}")

    async def _found(self, path: str, query: Mapping[str, str]) -> bytes | None:
        try:
            return await self._client.read(METRIC_VALUES, path, query)
        except ApiNotFound:
            return None

    async def _resource(self, of: DescribedObject) -> str | NoEvidence:
        """The plural of the object's kind, with its group, once found for ever. Raises: what `Client` raises; ValueError."""
        asked = (of.api_version, of.kind)
        if asked not in self._plurals:
            group, _, version = of.api_version.rpartition("/")
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            served = await self._found(path, {})
            plural = None if served is None else plural_in(served, of.kind)
            if plural is None:
                return NoEvidence(f"the cluster does not have {of.kind} of {of.api_version}", Absence.ERROR)
            self._plurals[asked] = f"{plural}.{group}" if group else plural
        return self._plurals[asked]
