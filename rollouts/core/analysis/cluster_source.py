"""Sources of metrics that the cluster itself has: its metrics APIs, and its autoscalers."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.autoscaling import SAMPLE_MAX_AGE_S, ContainerMetric


class FromCluster(Struct, frozen=True):
    """A source of the cluster's own: only a run about a Rollout can ask it, and no secret may stand in it."""


class ContainerResourceMetric(FromCluster, frozen=True, kw_only=True):
    """What one container of the revision's pods uses (metrics.k8s.io).

    Args:
        max_age_s: of a sample that counts.
    """

    container: str
    resource: ContainerMetric
    max_age_s: float = SAMPLE_MAX_AGE_S


class AutoscalerMetric(FromCluster, frozen=True, kw_only=True):
    """What a HorizontalPodAutoscaler says.

    Args:
        name: "" for the one whose target is the Rollout.
    """

    name: str = ""


class DescribedObject(Struct, frozen=True, kw_only=True):
    """The object that a custom metric is about, in the namespace of the run."""

    api_version: str
    kind: str
    name: str


class CustomMetric(FromCluster, frozen=True, kw_only=True):
    """A metric of custom.metrics.k8s.io.

    Args:
        selector: of the metric's labels, as `kubectl -l` has it.
        of: the object that it is about; None for the pods of the revision.
        max_age_s: of a value that counts.
    """

    metric: str
    selector: str = ""
    of: DescribedObject | None = None
    max_age_s: float = SAMPLE_MAX_AGE_S


class ExternalMetric(FromCluster, frozen=True, kw_only=True):
    """A metric of external.metrics.k8s.io, in the namespace of the run.

    Args:
        selector: of the metric's labels, as `kubectl -l` has it.
        max_age_s: of a value that counts.
    """

    metric: str
    selector: str = ""
    max_age_s: float = SAMPLE_MAX_AGE_S


ClusterSource: TypeAlias = ContainerResourceMetric | AutoscalerMetric | CustomMetric | ExternalMetric
