"""The gate of autoscaling in the spec of a Rollout."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from rollouts.api.v1alpha1.wire import MAX_INT32, Bool, Name, PercentNumber, Wire, needs


class ContainerResource(Wire):
    """The highest use of a resource by one container of the new revision, averaged over its pods."""

    model_config = needs("container", "resource", "maxUtilizationPercent")

    container: Name | None = Field(None, description="Name of the container.")
    resource: Literal["cpu", "memory"] | None = Field(None, description="cpu or memory.")
    max_utilization_percent: (
        Annotated[int, Strict(), Field(ge=1, le=MAX_INT32, json_schema_extra={"format": "int32"})] | None
    ) = Field(None, description="Highest use, in percent of what the pods request for the container.")


class Autoscaling(Wire):
    """What autoscalers and containers must show before a step completes, and before a promotion."""

    model_config = needs(
        rules=(
            (
                "has(self.settled) || has(self.minHeadroomPercent) || has(self.containerResource)",
                "at least one of settled, minHeadroomPercent and containerResource",
            ),
        ),
    )

    settled: Bool | None = Field(
        None,
        description="The HorizontalPodAutoscaler must scale nothing, and its last change must be older than its stabilization "
        "window.",
    )
    min_headroom_percent: PercentNumber | None = Field(
        None,
        description="Smallest distance from the pods that the autoscaler wants to its maximum, in percent of the maximum.",
    )
    container_resource: ContainerResource | None = Field(
        None, description="A limit on the use of a resource by one container of the new revision."
    )
