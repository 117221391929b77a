"""Sources of metrics that the cluster itself has: its metrics APIs, and its autoscalers."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from msgspec import Struct

from rollouts.core.analysis.source import ComparedSource, Fills, MetricSource
from rollouts.core.model.autoscaling import SAMPLE_MAX_AGE_S, ContainerMetric
from rollouts.core.model.frozen import replace


class ContainerResourceMetric(Struct, ComparedSource, frozen=True, kw_only=True):
    """What one container of the revision's pods uses (metrics.k8s.io).

    Args:
        max_age_s: of a sample that counts.
    """

    provider: ClassVar[str] = "containerResource"
    container: str
    resource: ContainerMetric
    max_age_s: float = SAMPLE_MAX_AGE_S

    @property
    def of_rollout(self) -> bool:
        """See `MetricSource.of_rollout`."""
        return True


class AutoscalerMetric(Struct, MetricSource, frozen=True, kw_only=True):
    """What a HorizontalPodAutoscaler says.

    Args:
        name: "" for the one whose target is the Rollout.
    """

    provider: ClassVar[str] = "hpa"
    name: str = ""

    @property
    def of_rollout(self) -> bool:
        """See `MetricSource.of_rollout`."""
        return not self.name


class DescribedObject(Struct, frozen=True, kw_only=True):
    """The object that a custom metric is about, in the namespace of the run."""

    api_version: str
    kind: str
    name: str


class CustomMetric(Struct, ComparedSource, frozen=True, kw_only=True):
    """A metric of custom.metrics.k8s.io.

    Args:
        selector: of the metric's labels, as `kubectl -l` has it.
        of: the object that it is about; None for the pods of the revision.
        max_age_s: of a value that counts.
    """

    provider: ClassVar[str] = "customMetric"
    metric: str
    selector: str = ""
    of: DescribedObject | None = None
    max_age_s: float = SAMPLE_MAX_AGE_S

    @property
    def of_rollout(self) -> bool:
        """See `MetricSource.of_rollout`."""
        return self.of is None

    def filled(self, fills: Fills) -> CustomMetric:
        """See `MetricSource.filled`; it has places for an arm alone."""
        of = None if self.of is None else replace(self.of, name=fills.plain(self.of.name))
        return replace(self, metric=fills.plain(self.metric), selector=fills.plain(self.selector), of=of)


class ExternalMetric(Struct, ComparedSource, frozen=True, kw_only=True):
    """A metric of external.metrics.k8s.io, in the namespace of the run.

    Args:
        selector: of the metric's labels, as `kubectl -l` has it.
        max_age_s: of a value that counts.
    """

    provider: ClassVar[str] = "externalMetric"
    metric: str
    selector: str = ""
    max_age_s: float = SAMPLE_MAX_AGE_S

    def filled(self, fills: Fills) -> ExternalMetric:
        """See `MetricSource.filled`; it has places for an arm alone."""
        return replace(self, metric=fills.plain(self.metric), selector=fills.plain(self.selector))


ClusterSource: TypeAlias = ContainerResourceMetric | AutoscalerMetric | CustomMetric | ExternalMetric
"""Only a run about a Rollout can ask one, and no secret may stand in it."""
