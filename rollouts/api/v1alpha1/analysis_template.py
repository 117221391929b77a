"""Metrics as templates and runs of analyses have them; field names and meaning are Argo Rollouts'.

`{{args.name}}` may stand in every text, and in numbers and durations: what such a field means shows with the arguments put in.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollouts.api.v1alpha1.analysis import DryRuns, LabelSelector, Retentions, TemplateArgumentSource, TemplateRef
from rollouts.api.v1alpha1.metric_servers import ServersWire
from rollouts.api.v1alpha1.template_scalars import ConditionText, Integer, Query, Seconds, Value
from rollouts.api.v1alpha1.wire import (
    AnyJson,
    Bool,
    CelRule,
    Count,
    FreeObject,
    Name,
    ObjectName,
    Text,
    Wire,
    exactly_one,
    needed,
    optional,
)
from rollouts.core.analysis.metric import METRICS_MAX
from rollouts.core.analysis.recipes import RECIPES


class TemplateArgument(Wire):
    """An argument; one without value must be given by whoever uses the template."""

    name: Name | None = needed("Name of the argument: {{args.NAME}}.")
    value: Value | None = optional("Its value.")
    value_from: TemplateArgumentSource | None = optional("Where its value comes from.")


class MetricHeader(Wire):
    """One header of a request."""

    key: Name | None = needed("Its name.")
    value: Text | None = needed("Its value.")


class OAuth2Wire(Wire):
    """OAuth 2.0 client credentials (RFC 6749, section 4.4)."""

    token_url: Text | None = optional("Where the token is asked for.")
    client_id: Text | None = optional("Who asks.")
    client_secret: Text | None = optional("The client's secret, as {{args.NAME}} of a Secret.")
    scopes: list[Text] | None = optional("Scopes of the token.", max_length=32)


class BasicAuthWire(Wire):
    """User and password (RFC 7617)."""

    username: Text | None = optional("Who asks.")
    password: Text | None = optional("The password, as {{args.NAME}} of a Secret.")


class Sigv4Wire(Wire):
    """Signatures of AWS."""

    region: Text | None = optional("Region of AWS.")
    profile: Text | None = optional("Profile of the credentials.")
    role_arn: Text | None = optional("Role that is assumed.")


class AuthenticationWire(Wire):
    """How a request says who it is."""

    oauth2: OAuth2Wire | None = optional("Client credentials.")
    basic_auth: BasicAuthWire | None = optional("User and password.")
    sigv4: Sigv4Wire | None = optional("Signatures of AWS.")


Headers = Annotated[list[MetricHeader], Field(max_length=32)]

HttpStatus = Annotated[int, Field(ge=201, le=599)]
"""Any but 200, which always is an answer."""


class RangeQueryWire(Wire):
    """A range query instead of an instant one."""

    start: ConditionText | None = optional('Expression that gives its start: now() - duration("5m").')
    end: ConditionText | None = optional("Expression that gives its end: now().")
    step: Seconds | None = optional("Between two samples, at most.")


class PrometheusWire(Wire):
    """A query of Prometheus."""

    RULES = (CelRule("!has(self.address) || !has(self.metricProvider)", "address or metricProvider, not both"),)

    address: Text | None = optional("URL of the server, which a MetricProvider must have declared.")
    metric_provider: ObjectName | None = optional(
        "Name of a MetricProvider; without it and address, what the controller was started with."
    )
    query: Query | None = needed("PromQL.")
    authentication: AuthenticationWire | None = optional("How the request says who it is.")
    timeout: Integer | None = optional("Seconds until the query must be answered; default 30.")
    insecure: Bool | None = optional("Do not check the certificate.")
    headers: Headers | None = optional("Headers of the request.")
    range_query: RangeQueryWire | None = optional("Ask for a range of time.")


class WebWire(Wire):
    """A request whose answer is JSON, or text."""

    method: Literal["GET", "POST", "PUT"] | None = optional("Default GET.")
    url: Text | None = needed("Where it goes.")
    headers: Headers | None = optional("Headers of the request.")
    body: Query | None = optional("What is sent, with POST or PUT.")
    json_body: AnyJson = optional("The same, as JSON.")
    timeout_seconds: Integer | None = optional("Seconds until it must be answered; default 10.")
    json_path: Text | None = optional("Which part of the answer is the result: {$.data.ok}.")
    result: Literal["body", "status"] | None = optional(
        "What conditions see: the answer's body, which is the default, or its HTTP status, a number."
    )
    not_yet: list[HttpStatus] | None = optional(
        "HTTP statuses that mean: not yet. Such a measurement does not count, and the server is asked again.",
        max_length=16,
    )
    insecure: Bool | None = optional("Do not check the certificate.")
    authentication: AuthenticationWire | None = optional("How the request says who it is.")


class JobMetadata(Wire):
    """What the Job gets besides its name."""

    labels: FreeObject | None = optional("Labels of the Job.")
    annotations: FreeObject | None = optional("Annotations of the Job.")


class JobWire(Wire):
    """A Job: its success is the measurement's."""

    metadata: JobMetadata | None = optional("Labels and annotations of the Job.")
    spec: FreeObject | None = needed("Spec of the Job.")


class KubernetesWire(Wire):
    """What Kubernetes shows of the pods of the revision."""

    max_restarts: Integer | None = optional("Restarts of containers that are borne; default 0.")
    min_ready_percent: Integer | None = optional("Pods that must be ready, in percent; default 100.")
    containers: list[Name] | None = optional("Only these; without it all but native sidecars.", max_length=64)


class ContainerResourceWire(Wire):
    """What one container of the revision's pods uses, as metrics.k8s.io has it."""

    container: Name | None = needed("Name of the container; others in the pod are left out.")
    resource: Name | None = needed("cpu or memory.", missing="is required: cpu or memory")
    max_age_seconds: Integer | None = optional("Age of a sample that counts; default 90.")


class AutoscalerWire(Wire):
    """What a HorizontalPodAutoscaler says."""

    name: Name | None = optional("Its name; without it the one whose target is the Rollout.")


class MetricIdentifier(Wire):
    """A metric, as HorizontalPodAutoscalers name it."""

    name: Name | None = needed("Name of the metric.")
    selector: LabelSelector | None = optional("Selector of the metric's labels.")


class DescribedObjectWire(Wire):
    """An object in the namespace of the run."""

    api_version: Name | None = optional("API version of the object; default v1.")
    kind: Name | None = needed("Kind of the object.")
    name: Name | None = needed("Name of the object.")


class CustomMetricWire(Wire):
    """A metric of custom.metrics.k8s.io."""

    metric: MetricIdentifier | None = needed("Which metric.")
    described_object: DescribedObjectWire | None = optional(
        "The object that it is about; without it the pods of the revision."
    )
    max_age_seconds: Integer | None = optional("Age of a value that counts; default 90.")


class ExternalMetricWire(Wire):
    """A metric of external.metrics.k8s.io."""

    metric: MetricIdentifier | None = needed("Which metric.")
    max_age_seconds: Integer | None = optional("Age of a value that counts; default 90.")


class CompareOfWire(ServersWire):
    """What is measured of both arms; {{arm}} stands in texts of a monitoring service where it tells them apart."""

    RULES = (
        exactly_one(
            *("prometheus", "web", "containerResource", "customMetric", "externalMetric"),
            *(name for name, recipe in RECIPES.items() if not recipe.not_compared),
            text="exactly one source of both arms is required",
        ),
    )

    prometheus: PrometheusWire | None = optional("A query of Prometheus, with {{arm}} where it tells the arms apart.")
    web: WebWire | None = optional(
        "A request that is answered with one number, with {{arm}} in its URL, headers or body."
    )
    container_resource: ContainerResourceWire | None = optional(
        "What a container uses, on average over the pods of each arm; the arms are revisions."
    )
    custom_metric: CustomMetricWire | None = optional(
        "Of the pods of each arm, on average; or of an object, with {{arm}} in its name or the selector."
    )
    external_metric: ExternalMetricWire | None = optional(
        "One value for each arm, with {{arm}} in the metric's name or its selector."
    )
    job: FreeObject | None = optional("Refused: it gives success or failure, and no number.")
    kubernetes: FreeObject | None = optional("Refused: it gives success or failure, and no number.")
    hpa: FreeObject | None = optional("Refused: an autoscaler has one number for all revisions.")


class CompareWire(Wire):
    """Canary against stable, by a statistical test."""

    RULES = (
        CelRule(
            "has(self.baseline) && self.baseline ? !has(self.canary) && !has(self.stable)"
            " : has(self.canary) && has(self.stable)",
            "canary and stable, or baseline: true",
        ),
    )

    test: Literal["sequential", "mannWhitney"] | None = optional(
        "sequential, the default, answers as soon as it can; mannWhitney looks once, at samples of a range."
    )
    kind: Literal["rate", "value"] | None = optional(
        "Of the sequential test: rate of events, the default, or a value of each look."
    )
    canary: Text | None = optional("What {{arm}} is for the canary: its revision, as an argument.")
    stable: Text | None = optional("What {{arm}} is for stable.")
    of: CompareOfWire | None = needed(
        "Of a rate the counters of bad events, with direction decrease of good ones; otherwise the value."
    )
    total: Query | None = optional("Of a rate: PromQL that selects the counters of all events.")
    path: Text | None = optional(
        "Of a monitoring service that answers with JSON: where the number is in it, such as latency.value."
    )
    effect: Value | None = needed(
        "How much worse the canary may be: '1%' of all events; of values '10%' of stable's, or a difference."
    )
    alpha: Value | None = optional("Chance that an answer is wrong; default 0.05.")
    direction: Literal["increase", "decrease"] | None = optional("Which is worse; default increase.")
    undecided: Literal["inconclusive", "fail"] | None = optional(
        "What the metric is without an answer after count looks; default inconclusive."
    )
    baseline: bool | None = optional(
        "In an Experiment, in place of canary and stable: the pods of its templates canary and baseline are compared."
    )


PLANNED = ("kayenta", "plugin")
"""Argo Rollouts' sources that are refused by name."""


class MetricSourceWire(ServersWire):
    """Where the numbers come from."""

    RULES = (
        exactly_one(
            *("prometheus", "web", "job", "kubernetes", "compare"),
            *("containerResource", "hpa", "customMetric", "externalMetric"),
            *RECIPES,
            *PLANNED,
            text="exactly one provider is required",
        ),
    )

    prometheus: PrometheusWire | None = optional("A query of Prometheus.")
    web: WebWire | None = optional("A request to any HTTP server.")
    job: JobWire | None = optional("A Job.")
    kubernetes: KubernetesWire | None = optional("The pods themselves.")
    container_resource: ContainerResourceWire | None = optional("What a container uses.")
    hpa: AutoscalerWire | None = optional("What the autoscaler says.")
    custom_metric: CustomMetricWire | None = optional("A metric of custom.metrics.k8s.io.")
    external_metric: ExternalMetricWire | None = optional("A metric of external.metrics.k8s.io.")
    compare: CompareWire | None = optional("Canary against stable.")
    kayenta: FreeObject | None = optional("Not carried out.")
    plugin: FreeObject | None = optional("Not carried out.")


class MetricWire(Wire):
    """One metric: what is measured, how often, and what is good."""

    name: Name | None = needed("Its name.")
    interval: Seconds | None = optional("From one measurement to the next; without it there is one.")
    initial_delay: Seconds | None = optional("From the start of the run to the first measurement.")
    count: Integer | None = optional("Measurements that are judged; 0 for no end.")
    success_condition: ConditionText | None = optional("What is good: result[0] >= 0.95.")
    failure_condition: ConditionText | None = optional("What is bad.")
    failure_limit: Integer | None = optional("Failures that are borne; default 0, -1 for any number.")
    inconclusive_limit: Integer | None = optional("Measurements without a verdict that are borne.")
    consecutive_error_limit: Integer | None = optional("Errors in a row that are borne; default 4.")
    consecutive_success_limit: Integer | None = optional(
        "Successes in a row that end the metric; default 0, which is off."
    )
    no_data: Literal["inconclusive", "fail", "wait"] | None = optional(
        "What a measurement without evidence is; default inconclusive. It is never a success."
    )
    min_samples: Integer | None = optional("Numbers that a measurement needs; default 1.")
    provider: MetricSourceWire | None = needed("Where the numbers come from.")


Metrics = Annotated[list[MetricWire], Field(max_length=METRICS_MAX)]
TemplateArguments = Annotated[list[TemplateArgument], Field(max_length=64)]


class AnalysisTemplateSpec(Wire):
    """What an analysis measures. AnalysisTemplates and ClusterAnalysisTemplates have the same."""

    metrics: Metrics | None = optional("Metrics of the analysis.")
    args: TemplateArguments | None = optional("Arguments, with default values or without.")
    dry_run: DryRuns | None = optional("Metrics that are measured and never judged.")
    measurement_retention: Retentions | None = optional("How many measurements are kept.")
    templates: list[TemplateRef] | None = optional("Templates whose metrics and arguments are added.", max_length=32)


class TTLStrategy(Wire):
    """How long a run is kept after its end."""

    seconds_after_completion: Count | None = optional("Seconds after any end.")
    seconds_after_success: Count | None = optional("Seconds after success.")
    seconds_after_failure: Count | None = optional("Seconds after failure.")


class AnalysisRunSpecWire(Wire):
    """A copy of what is measured, with the values of all arguments: a template that changes changes no run."""

    RULES = tuple(
        CelRule(
            f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
            f"{field} of a run cannot be changed; only terminate can",
        )
        for field in ("metrics", "args", "dryRun", "measurementRetention", "ttlStrategy")
    )

    metrics: Metrics | None = needed("Metrics of the analysis.")
    args: TemplateArguments | None = optional("Arguments with their values.")
    dry_run: DryRuns | None = optional("Metrics that are measured and never judged.")
    measurement_retention: Retentions | None = optional("How many measurements are kept.")
    terminate: Bool | None = optional("End the run now.")
    ttl_strategy: TTLStrategy | None = optional("How long the run is kept after its end.")
