"""`spec` of an Experiment, `rollouts.dev/v1alpha1`; field names and meaning are Argo Rollouts'."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollouts.api.v1alpha1.analysis import (
    DryRuns,
    ExperimentAnalysis,
    ExperimentService,
    LabelSelector,
    ObjectMetadata,
    Retentions,
)
from rollouts.api.v1alpha1.wire import (
    Bool,
    Count,
    Duration,
    FreeObject,
    IntOrName,
    Name,
    Wire,
    int32,
    needed,
    optional,
)
from rollouts.core.experiment.model import ANALYSES_MAX, DEFAULT_DURATION_S, GROUPS_MAX
from rollouts.core.model.rollout import PROGRESS_DEADLINE_S, SCALE_DOWN_DELAY_S

POD_TEMPLATE_TEXT = "Template of the pods."


class ServicePortWire(Wire):
    """A port of a Service."""

    port: Annotated[int, int32(1, 65_535)] | None = needed("Number of the port.")
    name: Annotated[str, Field(max_length=63)] | None = optional("Name of the port; needed where there are several.")
    protocol: Literal["TCP", "UDP", "SCTP"] | None = optional("Protocol; default TCP.")
    target_port: IntOrName | None = optional("Number or name of the pods' port; default: the same number.")
    app_protocol: Name | None = optional("What is spoken there, such as kubernetes.io/h2c.")


class PodGroupService(ExperimentService):
    """A Service made for the pods of a template."""

    ports: list[ServicePortWire] | None = optional(
        "Its ports; default: those that the containers declare.", max_length=100
    )


class PodGroupWire(Wire):
    """Pods of one template."""

    name: Name | None = needed("Name of the template.")
    replicas: Count | None = optional("Number of pods; default 1.")
    min_ready_seconds: Count | None = optional("Seconds that a pod must be ready before it counts as available.")
    selector: LabelSelector | None = needed("Selector of the pods: labels that the template has.")
    template: FreeObject | None = needed(POD_TEMPLATE_TEXT)
    service: PodGroupService | None = optional("A Service for the pods.")


class ExperimentSpecWire(Wire):
    """Pods that run for a while, and the analyses that judge them."""

    templates: list[PodGroupWire] | None = needed(
        "The groups of pods.", max_length=GROUPS_MAX, json_schema_extra={"minItems": 1}
    )
    duration: Duration | None = optional(
        "How long it runs, from the time when all pods are available. Default: until its analyses are over; without "
        f"analyses {DEFAULT_DURATION_S / 3600:g} hour."
    )
    progress_deadline_seconds: Count | None = optional(
        f"Seconds in which the pods of each template must be available; default {PROGRESS_DEADLINE_S:g}."
    )
    scale_down_delay_seconds: Count | None = optional(
        f"Seconds for which its pods are kept after its end; default {SCALE_DOWN_DELAY_S:g}."
    )
    analyses: list[ExperimentAnalysis] | None = optional(
        "The analyses, which begin when all pods are available.", max_length=ANALYSES_MAX
    )
    dry_run: DryRuns | None = optional("Metrics that are measured, but do not decide the result.")
    measurement_retention: Retentions | None = optional("How many measurements of each metric are kept.")
    analysis_run_metadata: ObjectMetadata | None = optional("Metadata of the AnalysisRuns.")
    terminate: Bool | None = optional("End it now.")
