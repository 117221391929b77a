"""Measurements of what the cluster itself has: use of containers, autoscalers, metrics APIs, and comparisons of these.

They raise nothing that a server could cause, and nothing is ever in flight between two looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import assert_never

from rollouts.cluster.client import Client
from rollouts.controller.analysis.sources import MeasuredRun, MeasurementSource, failed, stopped
from rollouts.controller.facts.cluster_metrics import ClusterMetrics, Unread
from rollouts.controller.facts.in_place import pods_of_revision
from rollouts.core.analysis.cluster_source import (
    AutoscalerMetric,
    ClusterSource,
    ContainerResourceMetric,
    CustomMetric,
    DescribedObject,
    ExternalMetric,
)
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import COMPARED_IN_CLUSTER, Comparison, MetricSource
from rollouts.core.model.autoscaling import LOOK_S
from rollouts.core.model.frozen import replace
from rollouts.errors import ApiForbidden, ApiNotFound, ApiThrottled, ApiUnavailable, RolloutsError
from rollouts.manifests.ownership import NAME, REVISION
from rollouts.metrics.comparison import failure_of, measurement_of
from rollouts.metrics.comparison_arms import figures_seen, look_of
from rollouts.metrics.figures import (
    Figures,
    FiguresFound,
    LookTimes,
    NotYet,
    autoscaler_figures,
    container_figures,
    custom_figures,
    external_figures,
    figures_measured,
)
from rollouts.metrics.metric_values import (
    ALL_OBJECTS,
    CUSTOM_GROUP,
    CUSTOM_VERSIONS,
    EXTERNAL_GROUP,
    custom_path,
    external_path,
    metric_values,
    plural_in,
    versions_in,
)
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.objects import EXTERNAL_METRIC_VALUES, METRIC_VALUES, POD, Key, Kind
from rollouts.ports import BoundedCalls, Clock

AUTOSCALER_PATIENCE_S = 2 * LOOK_S
"""A list that was read late enough is there by then: it is looked at every 15 s, and others may have read it 15 s before."""


def cluster_sources(
    cluster: ClusterMetrics, *, client: Client, bounded: BoundedCalls, clock: Clock
) -> Mapping[str, MeasurementSource]:
    """What takes the measurements of the cluster's own sources, by `provider`."""
    sources = (ContainerResourceMetric, AutoscalerMetric, CustomMetric, ExternalMetric)
    names = (*(source.provider for source in sources), COMPARED_IN_CLUSTER)
    return dict.fromkeys(names, ClusterMeasurements(cluster, client=client, bounded=bounded, clock=clock))


@dataclass(slots=True, eq=False)
class ClusterMeasurements:
    """Reads the lists that everybody in the namespace shares, and asks the adapters of metrics APIs.

    Args:
        bounded: evaluates conditions.
    """

    cluster: ClusterMetrics
    _: KW_ONLY
    client: Client
    bounded: BoundedCalls
    clock: Clock
    _plurals: dict[tuple[str, str], str] = field(default_factory=dict, init=False)  # once found, forever

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. One that waits for a newer sample looks again later."""
        source = metric.source
        if due.task is Task.STOP:
            return stopped(due, now_s=now_s)
        if lacking := _lacking_labels(source, run):
            return failed(f"the AnalysisRun needs {lacking}", started_at_s=now_s, finished_at_s=now_s)
        if isinstance(source, Comparison):
            return await self._compared(source, run, due, now_s)
        assert isinstance(source, ClusterSource)  # noqa: S101 - the registry knows no other for us
        figures = await self._figures(run, source)
        asked = LookTimes(
            since_s=run.started_at_s,
            started_at_s=now_s if due.measurement is None else due.measurement.started_at_s,
            now_s=self.clock.now_s(),
            patience_s=AUTOSCALER_PATIENCE_S if isinstance(source, AutoscalerMetric) else source.max_age_s,
        )
        return await self.bounded.call(figures_measured, figures, metric.condition, asked, tenant=run.namespace)

    async def _compared(self, source: Comparison, run: MeasuredRun, due: Due, now_s: float) -> Measurement:
        """Asks the same of each revision, as often as there are arms."""
        look = look_of(source, due.carried, began_at_s=run.started_at_s + source.warm_up_s, now_s=now_s)
        if isinstance(look, NoEvidence):
            return failure_of(look, now_s=now_s)
        seen = []
        for arm, query in zip(look.arms, look.queries, strict=True):
            assert isinstance(query, ClusterSource)  # noqa: S101 - `HttpMeasurements` asks servers
            seen.append(figures_seen(await self._figures(replace(run, revision=arm), query), look))
        return measurement_of(look, seen, started_at_s=now_s, finished_at_s=self.clock.now_s())

    async def _figures(self, run: MeasuredRun, source: ClusterSource) -> FiguresFound:
        """What the cluster has for the run's revision, now."""
        key = Key(run.namespace, run.rollout)
        match source:
            case ContainerResourceMetric(container=container, resource=resource, max_age_s=max_age_s):
                uses = await self.cluster.container_use(key, container, resource, max_age_s=max_age_s)
                if isinstance(uses, Unread):
                    return NoEvidence(uses.why, Absence.ERROR)
                return container_figures(source, uses.value.get(run.revision), now_s=self.clock.now_s())
            case AutoscalerMetric(name=name):
                autoscalers = await self.cluster.autoscalers(key, name=name)
                if isinstance(autoscalers, Unread):
                    return NoEvidence(autoscalers.why, Absence.ERROR)
                figures = autoscaler_figures(source, autoscalers.value, now_s=self.clock.now_s())
                if isinstance(figures, Figures) and autoscalers.at_s < run.started_at_s + LOOK_S:
                    return NotYet(f"the autoscaler is given {LOOK_S:g} s to see what the run judges")
                return figures
            case CustomMetric():
                return await _of_adapter(CUSTOM_GROUP, "analysis.customMetrics", self._custom(run, source))
            case ExternalMetric():
                return await _of_adapter(EXTERNAL_GROUP, "analysis.externalMetrics", self._external(run, source))
            case _:
                assert_never(source)

    async def _custom(self, run: MeasuredRun, source: CustomMetric) -> FiguresFound:
        """Raises: what `Client` raises; ValueError for an answer that cannot be read."""
        if source.of is not None:
            resource = await self._resource(source.of)
            if isinstance(resource, NoEvidence):
                return resource
            body = await self._custom_body(run.namespace, resource, source.of.name, source, labels="")
            if isinstance(body, NoEvidence):
                return body
            return custom_figures(source, metric_values(body), None, now_s=self.clock.now_s())
        key = Key(run.namespace, run.rollout)
        labels = pods_of_revision(key, run.revision, self.cluster.in_place(key))
        body = await self._custom_body(run.namespace, POD.plural, ALL_OBJECTS, source, labels=labels)
        if isinstance(body, NoEvidence):
            return body
        pods = await self.cluster.pods(key)
        if isinstance(pods, Unread):
            return NoEvidence(pods.why, Absence.ERROR)
        names = frozenset(pod.name for pod in pods.value if pod.counts and pod.revision == run.revision)
        return custom_figures(source, metric_values(body), names, now_s=self.clock.now_s())

    async def _custom_body(
        self, namespace: str, resource: str, name: str, source: CustomMetric, *, labels: str
    ) -> bytes | NoEvidence:
        """The answer of the newest version that the adapter has. Raises: as `_custom`."""
        query = {"labelSelector": labels, "metricLabelSelector": source.selector}
        query = {parameter: text for parameter, text in query.items() if text}

        async def of_version(version: str) -> bytes | None:
            return await self._read(
                METRIC_VALUES, custom_path(version, namespace, resource, name, source.metric), query
            )

        newest, *older = CUSTOM_VERSIONS
        if (body := await of_version(newest)) is not None:
            return body
        group = await self._read(METRIC_VALUES, f"/apis/{CUSTOM_GROUP}")
        if group is None:
            return _not_served(CUSTOM_GROUP)
        served = versions_in(group)
        if newest not in served:
            for version in older:
                if version in served and (body := await of_version(version)) is not None:
                    return body
        return NoEvidence(f"{CUSTOM_GROUP} has no metric {source.metric} of {resource}")

    async def _resource(self, described: DescribedObject) -> str | NoEvidence:
        """The plural of the object's kind, with its group. Raises: as `_custom`."""
        kind = (described.api_version, described.kind)
        if kind not in self._plurals:
            group, _, version = described.api_version.rpartition("/")
            served = await self._read(METRIC_VALUES, f"/apis/{group}/{version}" if group else f"/api/{version}")
            plural = None if served is None else plural_in(served, described.kind)
            if plural is None:
                why = f"the cluster does not have {described.kind} of {described.api_version}"
                return NoEvidence(why, Absence.ERROR)
            self._plurals[kind] = f"{plural}.{group}" if group else plural
        return self._plurals[kind]

    async def _external(self, run: MeasuredRun, source: ExternalMetric) -> FiguresFound:
        """Raises: as `_custom`."""
        query = {"labelSelector": source.selector} if source.selector else {}
        body = await self._read(EXTERNAL_METRIC_VALUES, external_path(run.namespace, source.metric), query)
        if body is not None:
            return external_figures(source, metric_values(body), now_s=self.clock.now_s())
        if await self._read(EXTERNAL_METRIC_VALUES, f"/apis/{EXTERNAL_GROUP}") is None:
            return _not_served(EXTERNAL_GROUP)
        return NoEvidence(f"{EXTERNAL_GROUP} has no metric {source.metric}")

    async def _read(self, kind: Kind, path: str, query: Mapping[str, str] | None = None) -> bytes | None:
        try:
            return await self.client.read(kind, path, query)
        except ApiNotFound:
            return None


async def _of_adapter(group: str, setting: str, asked: Awaitable[FiguresFound]) -> FiguresFound:
    """What an adapter's answer shows; what it does wrong is no evidence, with the remedy.

    Args:
        group: the API that the adapter serves.
        setting: of the chart, which names what the controller may read there.
    """
    try:
        return await asked
    except ApiForbidden:
        why = f"{group} cannot be read: the controller may not; name the metric in {setting} of the chart"
    except (ApiUnavailable, ApiThrottled):
        why = f"{group} cannot be read: it does not answer; see kubectl get apiservice"
    except RolloutsError as exc:
        why = f"{group} cannot be read: it does not answer as it must ({type(exc).__name__})"
    except ValueError:
        why = f"the answer of {group} cannot be read"
    return NoEvidence(why, Absence.ERROR)


def _not_served(group: str) -> NoEvidence:
    return NoEvidence(f"the cluster does not have {group}: install an adapter that serves it", Absence.ERROR)


def _lacking_labels(source: MetricSource, run: MeasuredRun) -> str:
    """Which labels of the run would say which pods, or which Rollout, it is about; "" when they do. Arms are revisions."""
    if not source.of_rollout:
        return ""
    if isinstance(source, Comparison | AutoscalerMetric):
        return "" if run.rollout else f"the label {NAME}"
    return "" if run.rollout and run.revision else f"the labels {NAME} and {REVISION}"
