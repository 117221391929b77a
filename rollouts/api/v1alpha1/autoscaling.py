"""The gate of autoscaling in the spec of a Rollout."""

from __future__ import annotations

from typing import Annotated, Literal

from rollouts.api.v1alpha1.wire import MAX_INT32, Bool, CelRule, Name, PercentNumber, Wire, int32, needed, optional


class ContainerResource(Wire):
    """The highest use of a resource by one container of the new revision, averaged over its pods."""

    container: Name | None = needed("Name of the container.")
    resource: Literal["cpu", "memory"] | None = needed("cpu or memory.")
    max_utilization_percent: Annotated[int, int32(1, MAX_INT32)] | None = needed(
        "Highest use, in percent of what the pods request for the container."
    )


class Autoscaling(Wire):
    """What autoscalers and containers must show before a step completes, and before a promotion."""

    RULES = (
        CelRule(
            "has(self.settled) || has(self.minHeadroomPercent) || has(self.containerResource)",
            "at least one of settled, minHeadroomPercent and containerResource",
        ),
    )

    settled: Bool | None = optional(
        "The HorizontalPodAutoscaler must scale nothing, and its last change must be older than its stabilization "
        "window."
    )
    min_headroom_percent: PercentNumber | None = optional(
        "Smallest distance from the pods that the autoscaler wants to its maximum, in percent of the maximum."
    )
    container_resource: ContainerResource | None = optional(
        "A limit on the use of a resource by one container of the new revision."
    )
