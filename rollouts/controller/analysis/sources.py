"""Who takes a measurement: one `MeasurementSource` for each kind of metric source."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, assert_never

from msgspec import Struct

from rollouts.core.analysis.cluster_source import (
    AutoscalerMetric,
    ContainerResourceMetric,
    CustomMetric,
    ExternalMetric,
    FromCluster,
)
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due
from rollouts.core.analysis.source import Comparison, JobMetric, MetricSource, PodEvidence, PrometheusQuery, WebQuery
from rollouts.core.model.analysis import AnalysisPhase


class SourceName(StrEnum):
    """A kind of metric source, by its name in `provider`; a comparison also by who is asked, a server or the cluster."""

    PROMETHEUS = "prometheus"
    WEB = "web"
    JOB = "job"
    KUBERNETES = "kubernetes"
    CONTAINER_RESOURCE = "containerResource"
    AUTOSCALER = "hpa"
    CUSTOM_METRIC = "customMetric"
    EXTERNAL_METRIC = "externalMetric"
    COMPARE = "compare"
    COMPARE_OF_CLUSTER = "compare of the cluster's own"


JOBS_OFF = "metrics of the source job are off: start the controller with --job-metrics"


class MeasuredRun(Struct, frozen=True, kw_only=True):
    """The AnalysisRun that a measurement is for.

    Args:
        rollout, revision: the Rollout, as its label `rollouts.dev/name` says it, and the revision that it is about; "" for none.
        started_at_s: seconds since 1970.
    """

    namespace: str
    name: str
    uid: str
    rollout: str
    revision: str
    started_at_s: float


class MeasurementSource(Protocol):
    """Takes measurements of one kind of source."""

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """Takes, resumes or stops one measurement, as `due.task` says.

        A measurement that is not finished is recorded in the run's status, and resumed or stopped later. One that is stopped is
        answered by a finished one: the truth if there is one, otherwise Pending. What was not recorded is taken again with the
        same `due.number`, so whatever a source creates has that number in its name.

        Args:
            now_s: seconds since 1970.

        Raises: what `Client` raises. Cancellation: safe.
        """
        ...


def name_of(source: MetricSource) -> SourceName:
    """The kind of a metric's source."""
    match source:
        case PrometheusQuery():
            return SourceName.PROMETHEUS
        case WebQuery():
            return SourceName.WEB
        case JobMetric():
            return SourceName.JOB
        case PodEvidence():
            return SourceName.KUBERNETES
        case ContainerResourceMetric():
            return SourceName.CONTAINER_RESOURCE
        case AutoscalerMetric():
            return SourceName.AUTOSCALER
        case CustomMetric():
            return SourceName.CUSTOM_METRIC
        case ExternalMetric():
            return SourceName.EXTERNAL_METRIC
        case Comparison(of=FromCluster()):
            return SourceName.COMPARE_OF_CLUSTER
        case Comparison():
            return SourceName.COMPARE
        case _:
            assert_never(source)


def failed(why: str, *, started_at_s: float, finished_at_s: float) -> Measurement:
    """A measurement that could not be taken.

    Args:
        why: in words of ours.
    """
    return Measurement(phase=AnalysisPhase.ERROR, started_at_s=started_at_s, finished_at_s=finished_at_s, message=why)


def stopped(due: Due, *, now_s: float) -> Measurement:
    """The end of a measurement without a verdict, for sources that leave nothing behind."""
    began_s = now_s if due.measurement is None else due.measurement.started_at_s
    return Measurement(phase=AnalysisPhase.PENDING, started_at_s=began_s, finished_at_s=now_s)
