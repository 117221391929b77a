"""The sources that the cluster itself has, each with what takes its measurements."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.cluster.client import Client
from rollouts.controller.analysis.autoscaler_measurements import AutoscalerMeasurements
from rollouts.controller.analysis.cluster_comparisons import ClusterComparisons
from rollouts.controller.analysis.container_measurements import ContainerMeasurements
from rollouts.controller.analysis.custom_metric_measurements import CustomMetricMeasurements
from rollouts.controller.analysis.external_metric_measurements import ExternalMetricMeasurements
from rollouts.controller.analysis.sources import MeasurementSource, SourceName
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.ports import BoundedCalls, Clock


def cluster_sources(
    cluster: ClusterMetrics, *, client: Client, bounded: BoundedCalls, clock: Clock
) -> Mapping[SourceName, MeasurementSource]:
    """What measures them. Their measurements raise nothing that a server could cause."""
    containers = ContainerMeasurements(cluster=cluster, bounded=bounded, clock=clock)
    custom = CustomMetricMeasurements(cluster=cluster, client=client, bounded=bounded, clock=clock)
    external = ExternalMetricMeasurements(client=client, bounded=bounded, clock=clock)
    return {
        SourceName.CONTAINER_RESOURCE: containers,
        SourceName.AUTOSCALER: AutoscalerMeasurements(cluster=cluster, bounded=bounded, clock=clock),
        SourceName.CUSTOM_METRIC: custom,
        SourceName.EXTERNAL_METRIC: external,
        SourceName.COMPARE_OF_CLUSTER: ClusterComparisons(
            containers=containers, custom=custom, external=external, clock=clock
        ),
    }
