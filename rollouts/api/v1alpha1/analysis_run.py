"""`status` of an AnalysisRun, as the wire has it; field names are Argo Rollouts'."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from rollouts.api.v1alpha1.wire import Time, Wire, needs

PhaseWire: TypeAlias = Literal["Pending", "Running", "Successful", "Inconclusive", "Error", "Failed"]


class MeasurementStatus(Wire):
    """One measurement."""

    model_config = needs("phase")

    phase: PhaseWire | None = Field(None, description="Its verdict.")
    started_at: Time | None = Field(None, description="When it began.")
    finished_at: Time | None = Field(None, description="When it ended.")
    resume_at: Time | None = Field(None, description="When one that runs is looked at again.")
    value: str | None = Field(None, description="The numbers that were measured.")
    message: str | None = Field(None, description="Why it is what it is.")
    samples: int | None = Field(None, description="Numbers that it is made of.")
    metadata: dict[str, str] | None = Field(None, description="What its provider needs to go on, such as a Job's name.")


class MetricResultStatus(Wire):
    """All that is known of one metric."""

    model_config = needs("name", "phase")

    name: str | None = Field(None, description="Name of the metric.")
    phase: PhaseWire | None = Field(None, description="Its verdict.")
    message: str | None = Field(None, description="Why.")
    measurements: list[MeasurementStatus] | None = Field(None, description="The latest, the oldest first.")
    count: int | None = Field(None, description="Measurements that were judged: all but errors.")
    successful: int | None = Field(None, description="Those that were good.")
    failed: int | None = Field(None, description="Those that were bad.")
    inconclusive: int | None = Field(None, description="Those that were neither.")
    error: int | None = Field(None, description="Those that could not be taken.")
    consecutive_error: int | None = Field(None, description="Errors at the end.")
    consecutive_success: int | None = Field(None, description="Successes at the end.")
    dry_run: bool | None = Field(None, description="It is measured and never judged.")
    metadata: dict[str, str] | None = Field(None, description="What its provider tells of it.")


class RunSummaryStatus(Wire):
    """Metrics, counted by their verdicts."""

    count: int | None = Field(None, description="All of them.")
    successful: int | None = Field(None, description="Those that succeeded.")
    failed: int | None = Field(None, description="Those that failed.")
    inconclusive: int | None = Field(None, description="Those that did neither.")
    error: int | None = Field(None, description="Those that could not be measured.")


class AnalysisRunStatus(Wire):
    """What was measured, and what follows."""

    phase: PhaseWire | None = Field(None, description="The worst of the metrics that count.")
    message: str | None = Field(None, description="Why.")
    metric_results: list[MetricResultStatus] | None = Field(None, description="Each metric.")
    run_summary: RunSummaryStatus | None = Field(None, description="The metrics that count.")
    dry_run_summary: RunSummaryStatus | None = Field(None, description="The others.")
    started_at: Time | None = Field(None, description="When it began.")
    completed_at: Time | None = Field(None, description="When it ended.")
