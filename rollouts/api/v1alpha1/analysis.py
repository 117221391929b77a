"""Analyses and experiments in the spec of a Rollout; field names and meaning are Argo Rollouts'."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollouts.api.v1alpha1.wire import (
    MAX_INT32,
    Bool,
    Count,
    Duration,
    Name,
    ObjectName,
    StringMap,
    Text,
    Weight,
    Wire,
    int32,
    needed,
    optional,
)
from rollouts.core.experiment.model import ANALYSES_MAX, GROUPS_MAX
from rollouts.core.model.rollout import RUNS_KEPT


class ObjectMetadata(Wire):
    """Labels and annotations to add to objects."""

    labels: StringMap | None = optional("Labels to add.")
    annotations: StringMap | None = optional("Annotations to add.")


class TemplateRef(Wire):
    """An analysis template to run."""

    template_name: Name | None = needed("Name of the AnalysisTemplate.")
    cluster_scope: Bool | None = optional("Take a ClusterAnalysisTemplate instead.")


class FieldRef(Wire):
    """A field of the Rollout."""

    field_path: Text | None = needed("Path in the Rollout, such as metadata.labels['region'].")


class ArgumentSource(Wire):
    """Where the value of an argument comes from."""

    pod_template_hash_value: Literal["Stable", "Latest"] | None = optional(
        "Use the revision of the stable or of the latest pods as the value."
    )
    field_ref: FieldRef | None = optional("A field of the Rollout.")


class SecretKeyRef(Wire):
    """One key of a Secret."""

    name: ObjectName | None = needed("Name of the Secret.")
    key: Name | None = needed("Key in its data.")


class TemplateArgumentSource(ArgumentSource):
    """Where the value of an argument comes from; a Secret is one in the namespace of the run."""

    secret_key_ref: SecretKeyRef | None = optional("A key of a Secret.")


class Argument(Wire):
    """One argument of an analysis template."""

    name: Name | None = needed("Name of the argument.")
    value: Text | None = optional("Its value.")
    value_from: ArgumentSource | None = optional("Where its value comes from.")


class ExperimentAnalysisArgument(Argument):
    """One argument of an analysis of an Experiment."""

    value_from: TemplateArgumentSource | None = optional("Where its value comes from.")


class DryRun(Wire):
    """Metrics that are measured, but do not decide the result."""

    metric_name: Text | None = needed("Regular expression for names of metrics.")


class MeasurementRetention(Wire):
    """How many measurements of a metric are kept."""

    metric_name: Text | None = needed("Regular expression for names of metrics.")
    limit: Count | None = needed("Measurements to keep.")


Arguments = Annotated[list[Argument], Field(max_length=64)]
DryRuns = Annotated[list[DryRun], Field(max_length=64)]
Retentions = Annotated[list[MeasurementRetention], Field(max_length=64)]


class JudgedWire(Wire):
    """What follows when there is no success."""

    on_failure: Literal["abort", "hold", "stepBack"] | None = optional(
        "What follows when it fails: abort, which is the default; hold: the update waits until "
        "somebody promotes or aborts it; or stepBack, of a canary: it waits at the previous weight."
    )
    deadline_seconds: Annotated[int, int32(1, MAX_INT32)] | None = optional(
        "Seconds until the verdict must be there, from the time when it is asked for. Default: no end."
    )
    on_deadline: Literal["hold", "abort"] | None = optional(
        "What follows without a verdict by then: hold, which is the default: the update waits until somebody promotes or "
        "aborts it; or abort."
    )


class AnalysisWire(JudgedWire):
    """An analysis: templates and their arguments."""

    templates: list[TemplateRef] | None = optional("Templates to run as one analysis.", max_length=32)
    args: Arguments | None = optional("Arguments for the templates.")
    dry_run: DryRuns | None = optional("Metrics that are measured, but do not decide the result.")
    measurement_retention: Retentions | None = optional("How many measurements of each metric are kept.")
    analysis_run_metadata: ObjectMetadata | None = optional("Metadata of the AnalysisRun.")


class BackgroundAnalysis(AnalysisWire):
    """An analysis that runs beside the steps."""

    starting_step: Count | None = optional("Step at which it starts; default 0.")


class AnalysisLimits(Wire):
    """How many finished AnalysisRuns and Experiments are kept."""

    successful_run_history_limit: Count | None = optional(f"How many successful ones; default {RUNS_KEPT}.")
    unsuccessful_run_history_limit: Count | None = optional(f"How many others; default {RUNS_KEPT}.")


class ExperimentService(Wire):
    """A Service made for an experiment's pods."""

    name: Name | None = optional("Name of the Service; default: the template's name.")


class ExpressionOfLabels(Wire):
    """One requirement of a label selector."""

    key: str | None = needed("Label key.", min_length=1, max_length=317)
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] | None = needed(
        "How the label's value relates to the values."
    )
    values: list[Annotated[str, Field(max_length=63)]] | None = optional(
        "Values for the operators In and NotIn.", max_length=64
    )


class LabelSelector(Wire):
    """A label selector; all of its requirements must hold."""

    match_labels: dict[str, Annotated[str, Field(max_length=63)]] | None = optional(
        "Labels and the values that they must have.", max_length=64
    )
    match_expressions: list[ExpressionOfLabels] | None = optional("Further requirements.", max_length=64)


class ExperimentTemplate(Wire):
    """A group of pods in an experiment, made from one pod template."""

    name: Name | None = needed("Name of the template.")
    spec_ref: Literal["canary", "stable"] | None = needed("The revision whose pod template is used.")
    replicas: Count | None = optional("Number of pods; default 1.")
    metadata: ObjectMetadata | None = optional(
        "Labels and annotations to add to the pods; the labels to their selector, too."
    )
    selector: LabelSelector | None = optional("Selector of the pods; default: that of the Rollout.")
    weight: Weight | None = optional(
        "Share of the requests while the experiment runs, beside the canary's: percent, or parts of maxTrafficWeight."
    )
    service: ExperimentService | None = optional("A Service for the pods.")


class ExperimentAnalysis(Wire):
    """An analysis inside an experiment."""

    name: Name | None = needed("Name of the analysis.")
    template_name: Name | None = needed("Name of the AnalysisTemplate.")
    cluster_scope: Bool | None = optional("Take a ClusterAnalysisTemplate instead.")
    args: list[ExperimentAnalysisArgument] | None = optional("Arguments for the template.", max_length=64)
    required_for_completion: Bool | None = optional(
        "The experiment is complete when all analyses with this field have succeeded."
    )


class Experiment(JudgedWire):
    """Runs pods beside the Rollout's for a while."""

    templates: list[ExperimentTemplate] | None = needed("The groups of pods.", max_length=GROUPS_MAX)
    duration: Duration | None = optional("How long the experiment runs; default: until its analyses end.")
    analyses: list[ExperimentAnalysis] | None = optional("The analyses to run.", max_length=ANALYSES_MAX)
    dry_run: DryRuns | None = optional("Metrics that are measured, but do not decide the result.")
    analysis_run_metadata: ObjectMetadata | None = optional("Metadata of the AnalysisRuns.")
    scale_down_delay_seconds: Count | None = optional("How many seconds its pods are kept after it ends; default 30.")


class PluginStep(Wire):
    """A step that a program of your own carries out."""

    name: Name | None = needed("Name of the plugin.")
    config: dict[str, object] | None = optional(
        "Settings of the plugin.", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )
    disabled: Bool | None = optional("Skips the step.")
