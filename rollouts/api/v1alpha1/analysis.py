"""Analyses and experiments in the spec of a Rollout; field names and meaning are Argo Rollouts'."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollouts.api.v1alpha1.wire import Bool, Count, Duration, Name, Number, StringMap, Text, Wire, exactly_one, needs


class ObjectMetadata(Wire):
    """Labels and annotations to add to objects."""

    labels: StringMap | None = Field(None, description="Labels to add.")
    annotations: StringMap | None = Field(None, description="Annotations to add.")


class TemplateRef(Wire):
    """An analysis template to run."""

    model_config = needs("templateName")

    template_name: Name | None = Field(None, description="Name of the AnalysisTemplate.")
    cluster_scope: Bool | None = Field(None, description="Take a ClusterAnalysisTemplate instead.")


class FieldRef(Wire):
    """A field of the Rollout."""

    model_config = needs("fieldPath")

    field_path: Text | None = Field(None, description="Path in the Rollout, such as metadata.labels['region'].")


class ArgumentSource(Wire):
    """Where the value of an argument comes from."""

    pod_template_hash_value: Literal["Stable", "Latest"] | None = Field(
        None, description="Use the revision of the stable or of the latest pods as the value."
    )
    field_ref: FieldRef | None = Field(None, description="A field of the Rollout.")


class Argument(Wire):
    """One argument of an analysis template."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Name of the argument.")
    value: Text | None = Field(None, description="Its value.")
    value_from: ArgumentSource | None = Field(None, description="Where its value comes from.")


class DryRun(Wire):
    """Metrics that are measured, but do not decide the result."""

    model_config = needs("metricName")

    metric_name: Text | None = Field(None, description="Regular expression for names of metrics.")


class MeasurementRetention(Wire):
    """How many measurements of a metric are kept."""

    model_config = needs("metricName", "limit")

    metric_name: Text | None = Field(None, description="Regular expression for names of metrics.")
    limit: Count | None = Field(None, description="Measurements to keep.")


Templates = Annotated[list[TemplateRef], Field(max_length=32)]
Arguments = Annotated[list[Argument], Field(max_length=64)]
DryRuns = Annotated[list[DryRun], Field(max_length=64)]


class AnalysisWire(Wire):
    """An analysis: templates and their arguments."""

    templates: Templates | None = Field(None, description="Templates to run as one analysis.")
    args: Arguments | None = Field(None, description="Arguments for the templates.")
    dry_run: DryRuns | None = Field(None, description="Metrics that are measured, but do not decide the result.")
    measurement_retention: Annotated[list[MeasurementRetention], Field(max_length=64)] | None = Field(
        None, description="How many measurements of each metric are kept."
    )
    analysis_run_metadata: ObjectMetadata | None = Field(None, description="Metadata of the AnalysisRun.")
    on_failure: Literal["abort", "hold", "stepBack"] | None = Field(
        None,
        description="What follows when the analysis fails: abort, which is the default; hold: the update stands still until "
        "somebody promotes or aborts it; or stepBack, of a canary: it stands still at the weight before.",
    )


class BackgroundAnalysis(AnalysisWire):
    """An analysis that runs beside the steps."""

    starting_step: Count | None = Field(None, description="Step at which it starts; default 0.")


class AnalysisLimits(Wire):
    """How many finished AnalysisRuns and Experiments are kept."""

    successful_run_history_limit: Count | None = Field(None, description="How many successful ones; default 5.")
    unsuccessful_run_history_limit: Count | None = Field(None, description="How many others; default 5.")


class ExperimentService(Wire):
    """A Service made for an experiment's pods."""

    name: Name | None = Field(None, description="Name of the Service; default: the template's name.")


class ExpressionOfLabels(Wire):
    """One requirement of a label selector."""

    model_config = needs("key", "operator")

    key: Annotated[str, Field(min_length=1, max_length=317)] | None = Field(None, description="Label key.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] | None = Field(
        None, description="How the label's value relates to the values."
    )
    values: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = Field(
        None, description="Values for the operators In and NotIn."
    )


class LabelSelector(Wire):
    """A label selector; all of its requirements must hold."""

    match_labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = Field(
        None, description="Labels and the values that they must have."
    )
    match_expressions: Annotated[list[ExpressionOfLabels], Field(max_length=64)] | None = Field(
        None, description="Further requirements."
    )


class ExperimentTemplate(Wire):
    """A group of pods in an experiment, made from one pod template."""

    model_config = needs("name", "specRef")

    name: Name | None = Field(None, description="Name of the template.")
    spec_ref: Literal["canary", "stable"] | None = Field(None, description="The revision whose pod template is used.")
    replicas: Count | None = Field(None, description="Number of pods; default 1.")
    metadata: ObjectMetadata | None = Field(None, description="Labels and annotations to add to the pods.")
    selector: LabelSelector | None = Field(None, description="Selector of the pods.")
    weight: Annotated[int, Field(ge=0, le=100)] | None = Field(None, description="Share of the traffic, in percent.")
    service: ExperimentService | None = Field(None, description="A Service for the pods.")


class ExperimentAnalysis(Wire):
    """An analysis inside an experiment."""

    model_config = needs("name", "templateName")

    name: Name | None = Field(None, description="Name of the analysis.")
    template_name: Name | None = Field(None, description="Name of the AnalysisTemplate.")
    cluster_scope: Bool | None = Field(None, description="Take a ClusterAnalysisTemplate instead.")
    args: Arguments | None = Field(None, description="Arguments for the template.")
    required_for_completion: Bool | None = Field(
        None, description="The experiment is complete when all analyses with this field have succeeded."
    )


class Experiment(Wire):
    """Runs pods beside the Rollout's for a while."""

    model_config = needs("templates")

    templates: Annotated[list[ExperimentTemplate], Field(max_length=16)] | None = Field(
        None, description="The groups of pods."
    )
    duration: Duration | None = Field(
        None, description="How long the experiment runs; default: until its analyses end."
    )
    analyses: Annotated[list[ExperimentAnalysis], Field(max_length=32)] | None = Field(
        None, description="The analyses to run."
    )
    dry_run: DryRuns | None = Field(None, description="Metrics that are measured, but do not decide the result.")
    analysis_run_metadata: ObjectMetadata | None = Field(None, description="Metadata of the AnalysisRuns.")
    scale_down_delay_seconds: Number | None = Field(
        None, description="How many seconds its pods are kept after it ends; default 30."
    )


class PluginStep(Wire):
    """A step that a program of your own carries out."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Name of the plugin.")
    config: dict[str, object] | None = Field(
        None, description="Settings of the plugin.", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )
    disabled: Bool | None = Field(None, description="Skips the step.")


ONE_STEP = exactly_one(
    "setWeight", "pause", "setCanaryScale", "setHeaderRoute", "setMirrorRoute", "analysis", "experiment", "plugin"
)
