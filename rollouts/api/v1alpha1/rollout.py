"""`spec` of a Rollout, `rollouts.dev/v1alpha1`: a superset of Argo Rollouts' v1alpha1 with its names, defaults and meaning.

These are the types of the wire. api/spec/parse.py turns them into values of core/model/rollout.py. api/schema.py makes the CRD
from them, and `kubectl explain` shows the descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from rollouts.api.v1alpha1.analysis import (
    ONE_STEP,
    AnalysisLimits,
    AnalysisWire,
    BackgroundAnalysis,
    Experiment,
    LabelSelector,
    ObjectMetadata,
    PluginStep,
)
from rollouts.api.v1alpha1.autoscaling import Autoscaling
from rollouts.api.v1alpha1.traffic import PingPong, SetHeaderRouteWire, SetMirrorRouteWire, TrafficRoutingWire
from rollouts.api.v1alpha1.wire import (
    Amount,
    Bool,
    Count,
    DrainSeconds,
    Duration,
    FreeObject,
    Name,
    Number,
    PercentNumber,
    ServiceName,
    SettleSeconds,
    Text,
    Weight,
    Wire,
    exactly_one,
    needs,
)


class PauseStep(Wire):
    """A pause: for a time, or until somebody promotes the revision."""

    duration: Duration | None = Field(
        None, description="Seconds, or 30s, 5m, 1h30m. Default: until somebody promotes the revision."
    )


class SetCanaryScale(Wire):
    """Sets the number of canary pods independently of the weight."""

    model_config = needs(
        rules=(
            (
                exactly_one("replicas", "weight", true="matchTrafficWeight"),
                "exactly one of replicas, weight and matchTrafficWeight: true",
            ),
        )
    )

    replicas: Count | None = Field(None, description="This number of pods.")
    weight: PercentNumber | None = Field(None, description="This percentage of spec.replicas.")
    match_traffic_weight: Bool | None = Field(
        None, description="true: as many pods as the weight needs, as without this step."
    )


class CanaryStep(Wire):
    """One step of a canary."""

    model_config = needs(rules=((ONE_STEP, "a step has exactly one kind"),))

    set_weight: Weight | None = Field(
        None, description="The canary's share of the traffic: percent, or parts of maxTrafficWeight."
    )
    pause: PauseStep | None = Field(None, description="Pauses for a time, or until somebody promotes the revision.")
    set_canary_scale: SetCanaryScale | None = Field(None, description="Sets the number of canary pods.")
    set_header_route: SetHeaderRouteWire | None = Field(
        None, description="Sends requests that match to the canary, whatever the weight."
    )
    set_mirror_route: SetMirrorRouteWire | None = Field(None, description="Sends copies of requests to the canary.")
    analysis: AnalysisWire | None = Field(None, description="Completes when the analysis succeeds.")
    experiment: Experiment | None = Field(None, description="Completes when the experiment succeeds.")
    plugin: PluginStep | None = Field(None, description="Completes when a program of your own says so.")


class PreferredAntiAffinity(Wire):
    """A preference for the scheduler."""

    model_config = needs("weight")

    weight: Annotated[int, Field(ge=1, le=100)] | None = Field(None, description="Weight of the preference, 1 to 100.")


class RequiredAntiAffinity(Wire):
    """A rule for the scheduler."""


class AntiAffinityWire(Wire):
    """Keeps pods of a new revision off the nodes of the old revision."""

    model_config = needs(
        rules=(
            (
                exactly_one(
                    "preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution"
                ),
                "exactly one form",
            ),
        )
    )

    preferred: PreferredAntiAffinity | None = Field(
        None,
        alias="preferredDuringSchedulingIgnoredDuringExecution",
        description="The scheduler keeps the rule if possible.",
    )
    required: RequiredAntiAffinity | None = Field(
        None, alias="requiredDuringSchedulingIgnoredDuringExecution", description="The scheduler always keeps the rule."
    )


class ProgressThresholdWire(Wire):
    """How many of the desired pods must be available before a step completes."""

    model_config = needs("type", "value")

    type: Literal["Percent", "Pods"] | None = Field(None, description="Unit of the value.")
    value: Number | None = Field(None, description="The amount; a negative value means no threshold.")


class CanaryStrategy(Wire):
    """Moves traffic to a new revision step by step."""

    model_config = needs(
        rules=(
            (
                "!has(self.stableService) || !has(self.canaryService) || self.stableService != self.canaryService",
                "stableService and canaryService must differ",
            ),
            (
                "has(self.trafficRouting) || !has(self.steps) || self.steps.all(step, !has(step.setCanaryScale))",
                "setCanaryScale needs trafficRouting",
            ),
            (
                "has(self.trafficRouting) || !has(self.scaleDownDelaySeconds)",
                "scaleDownDelaySeconds needs trafficRouting",
            ),
            (
                (
                    "!has(self.dynamicStableScale) || !self.dynamicStableScale || "
                    "(has(self.trafficRouting) && !has(self.scaleDownDelaySeconds))"
                ),
                "dynamicStableScale needs trafficRouting and excludes scaleDownDelaySeconds",
            ),
            (
                (
                    "!has(self.steps) || self.steps.all(step, !has(step.setWeight) || step.setWeight <= "
                    "(has(self.trafficRouting) && has(self.trafficRouting.maxTrafficWeight) ? "
                    "self.trafficRouting.maxTrafficWeight : 100))"
                ),
                "setWeight must be maxTrafficWeight or less, which is 100 when it is not given",
            ),
            (
                (
                    "has(self.trafficRouting) || !has(self.steps) || "
                    "self.steps.all(step, !has(step.setHeaderRoute) && !has(step.setMirrorRoute))"
                ),
                "setHeaderRoute and setMirrorRoute need trafficRouting",
            ),
            (
                (
                    "!has(self.maxSurge) || !has(self.maxUnavailable) || "
                    "!(self.maxSurge == 0 || self.maxSurge == '0' || self.maxSurge == '0%') || "
                    "!(self.maxUnavailable == 0 || self.maxUnavailable == '0' || self.maxUnavailable == '0%')"
                ),
                "maxSurge and maxUnavailable cannot both be 0",
            ),
        )
    )

    canary_service: ServiceName | None = Field(None, description="Service that selects the canary's pods.")
    stable_service: ServiceName | None = Field(None, description="Service that selects the stable pods.")
    steps: Annotated[list[CanaryStep], Field(max_length=100)] | None = Field(
        None,
        description="The steps of an update, in order. Without steps, all pods are replaced within maxSurge and maxUnavailable.",
    )
    traffic_routing: TrafficRoutingWire | None = Field(
        None, description="The routers that split the traffic. Without it the ratio of pods splits it."
    )
    max_surge: Amount | None = Field(
        None,
        description="How many pods more than spec.replicas may exist: a number, or percent, rounded up; default 25%.",
    )
    max_unavailable: Amount | None = Field(
        None,
        description="How many pods fewer than spec.replicas may be available: a number, or percent, rounded down; default 25%.",
    )
    analysis: BackgroundAnalysis | None = Field(None, description="An analysis that runs beside the steps.")
    anti_affinity: AntiAffinityWire | None = Field(None, description="Keeps the canary off the nodes of stable pods.")
    canary_metadata: ObjectMetadata | None = Field(
        None, description="Labels and annotations that pods have while they are the canary."
    )
    stable_metadata: ObjectMetadata | None = Field(
        None, description="Labels and annotations that pods have while they are stable."
    )
    scale_down_delay_seconds: Count | None = Field(
        None,
        description="How many seconds the old pods are kept after promotion; default 30; only with trafficRouting.",
    )
    scale_down_delay_revision_limit: Count | None = Field(
        None, description="How many old revisions may keep their pods for scaleDownDelaySeconds."
    )
    abort_scale_down_delay_seconds: Count | None = Field(
        None,
        description="How many seconds the pods of an aborted canary are kept; default 30; 0: for ever; only with trafficRouting.",
    )
    dynamic_stable_scale: Bool | None = Field(
        None, description="Scale the stable revision down as its traffic shrinks; only with trafficRouting."
    )
    min_pods_per_replica_set: Count | None = Field(
        None, description="The smallest number of pods of a revision that has any; only with trafficRouting."
    )
    ping_pong: PingPong | None = Field(
        None,
        description="Two Services that change roles with every update, instead of canaryService and stableService.",
    )
    replica_progress_threshold: ProgressThresholdWire | None = Field(
        None, description="How many of the desired pods must be available before a step completes; default: all."
    )


class BlueGreenStrategy(Wire):
    """Starts a new revision beside the old one, and then moves all traffic to it at once."""

    model_config = needs(
        "activeService",
        rules=(
            (
                "!has(self.previewService) || self.activeService != self.previewService",
                "activeService and previewService must differ",
            ),
        ),
    )

    active_service: ServiceName | None = Field(None, description="Service that clients use.")
    preview_service: ServiceName | None = Field(
        None, description="Service that selects the new revision before it is promoted."
    )
    preview_replica_count: Count | None = Field(
        None, description="Pods of the new revision until it is promoted; default: spec.replicas."
    )
    auto_promotion_enabled: Bool | None = Field(
        None, description="Promote the new revision without a person; default true."
    )
    auto_promotion_seconds: Count | None = Field(
        None, description="Seconds between the time when the new revision is available and its promotion; default 0."
    )
    max_unavailable: Amount | None = Field(
        None, description="How many pods a restart may make unavailable at once: a number, or percent; default 25%."
    )
    scale_down_delay_seconds: Count | None = Field(
        None, description="How many seconds the old pods are kept after the switch; default 30."
    )
    scale_down_delay_revision_limit: Count | None = Field(
        None, description="How many old revisions may keep their pods for scaleDownDelaySeconds."
    )
    abort_scale_down_delay_seconds: Count | None = Field(
        None, description="How many seconds the pods of an aborted revision are kept; default 30; 0: for ever."
    )
    pre_promotion_analysis: AnalysisWire | None = Field(None, description="An analysis before the switch.")
    post_promotion_analysis: AnalysisWire | None = Field(None, description="An analysis after the switch.")
    anti_affinity: AntiAffinityWire | None = Field(
        None, description="Keeps the new revision off the nodes of the old one."
    )
    active_metadata: ObjectMetadata | None = Field(
        None, description="Labels and annotations that pods have while they are active."
    )
    preview_metadata: ObjectMetadata | None = Field(
        None, description="Labels and annotations that pods have while they are the preview."
    )


class RolloutStrategy(Wire):
    """How a new revision replaces the old one: canary or blueGreen."""

    model_config = needs(rules=((exactly_one("canary", "blueGreen"), "exactly one of canary and blueGreen"),))

    canary: CanaryStrategy | None = Field(None, description="Moves traffic to the new revision step by step.")
    blue_green: BlueGreenStrategy | None = Field(
        None, description="Moves all traffic to the new revision at once, after a preview."
    )


class WorkloadRef(Wire):
    """Takes the pod template from another object."""

    model_config = needs("apiVersion", "kind", "name")

    api_version: Name | None = Field(None, description="apiVersion of that object.")
    kind: Name | None = Field(None, description="Deployment, ReplicaSet or PodTemplate.")
    name: Name | None = Field(None, description="Name of that object.")
    scale_down: Literal["never", "onsuccess", "progressively"] | None = Field(
        None, description="When a Deployment's own pods are scaled down; default never."
    )


class RollbackWindow(Wire):
    """Which rollbacks skip the steps."""

    revisions: Count | None = Field(None, description="A rollback by at most this many revisions skips the steps.")


class ConfigVersioningWire(Wire):
    """Makes ConfigMaps, and Secrets if asked, part of the revision: a change of one is rolled out like a new image."""

    mode: Literal["On", "Off"] | None = Field(
        None,
        description=(
            "On (default): each revision reads immutable copies of the ConfigMaps that the template names. "
            "Off: pods read them as they are."
        ),
    )
    secrets: Bool | None = Field(
        None,
        description=(
            "Secrets too; default false. The controller needs the right to read those that the template names, and to create "
            "Secrets: rollouts rbac -f FILE prints the Role."
        ),
    )
    settle_seconds: SettleSeconds | None = Field(
        None, description="Changes within this many seconds become one revision; default 3."
    )
    retain: Bool | None = Field(
        None, description="Keep the copies of ConfigMaps when the Rollout is deleted; default false."
    )


class PrometheusDrainProbe(Wire):
    """A query to the Prometheus that the operator has configured."""

    model_config = needs("query")

    query: Text | None = Field(
        None,
        description=(
            "PromQL with one number as its result; {{revision}}, {{namespace}}, {{rollout}}, {{service}} are replaced by names."
        ),
    )
    scrape_interval_seconds: DrainSeconds | None = Field(
        None, description="Scrape interval of the query's metrics in seconds: how old its samples may be; default 30."
    )


class EnvoyDrainProbe(Wire):
    """Active requests at the revision's pods, read from the Envoys that the operator has configured as data planes."""


class DrainProbeWire(Wire):
    """Asks how many requests are in flight at the pods of a revision that its Service left, so the wait can end early."""

    model_config = needs("name", rules=((exactly_one("envoy", "prometheus"), "exactly one of envoy and prometheus"),))

    name: Name | None = Field(None, description="Name of the probe.")
    envoy: EnvoyDrainProbe | None = Field(None, description="Reads active requests from Envoy.")
    prometheus: PrometheusDrainProbe | None = Field(None, description="Queries Prometheus.")
    max_seconds: Annotated[DrainSeconds, Field(ge=1)] | None = Field(
        None,
        description="For a probe that counts long streams (websockets, SSE): the longest wait for them, apart from requests.",
    )


class Drain(Wire):
    """How pods are drained before they are deleted, so that no request is lost. The cluster's proxies decide the waits."""

    mode: Literal["Auto", "Off"] | None = Field(
        None, description="Auto (default). Off: pods are deleted at once and the template is not changed."
    )
    pre_stop: Literal["Inject", "Validate", "Off"] | None = Field(
        None,
        description=(
            "Inject (default): add a preStop sleep to containers without a preStop hook, and raise "
            "terminationGracePeriodSeconds to hold it. Validate: only report what is missing. Off: neither."
        ),
    )
    max_request_seconds: DrainSeconds | None = Field(
        None,
        description="Seconds of the longest request; default 30, or terminationGracePeriodSeconds when that is less.",
    )
    timeout_seconds: DrainSeconds | None = Field(
        None,
        description="Longest drain of a revision that lost its traffic, in seconds, unless onTimeout is Pause; default 300.",
    )
    on_timeout: Literal["Continue", "Pause"] | None = Field(
        None,
        description="After timeoutSeconds: Continue (default) deletes the pods; Pause waits until they are drained. "
        "Both are reported and recorded.",
    )
    probes: Annotated[list[DrainProbeWire], Field(max_length=8)] | None = Field(
        None,
        description="Probes that count what is in flight. Three polls in a row that find nothing end the wait early.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class History(Wire):
    """How many finished updates are recorded."""

    limit: Annotated[int, Strict(), Field(ge=3, le=100, json_schema_extra={"format": "int32"})] | None = Field(
        None,
        description="How many finished updates status.history keeps, 3 to 100; default 10. A rollback finds its revision there.",
    )


class RolloutSpecWire(Wire):
    """The desired state of a Rollout."""

    model_config = needs(
        "selector",
        "strategy",
        rules=(
            (exactly_one("template", "workloadRef"), "exactly one of template and workloadRef"),
            (
                (
                    "(has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600) > "
                    "(has(self.minReadySeconds) ? self.minReadySeconds : 0)"
                ),
                "progressDeadlineSeconds must be more than minReadySeconds",
            ),
        ),
    )

    replicas: Count | None = Field(None, description="Number of pods; default 1.", json_schema_extra={"default": 1})
    selector: LabelSelector | None = Field(
        None,
        description="Selects the pods by labels. It must match the template's labels and cannot be changed.",
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec.selector cannot be changed"}]
        },
    )
    template: FreeObject | None = Field(None, description="The pod template, as in a Deployment.")
    workload_ref: WorkloadRef | None = Field(None, description="Takes the pod template from another object.")
    strategy: RolloutStrategy | None = Field(None, description="How a new revision replaces the old one.")
    min_ready_seconds: Count | None = Field(
        None, description="How many seconds a pod must be ready before it counts as available; default 0."
    )
    revision_history_limit: Count | None = Field(
        None, description="How many old ReplicaSets without pods are kept; default 10."
    )
    progress_deadline_seconds: Count | None = Field(
        None, description="Seconds without progress after which the update counts as stuck; default 600."
    )
    progress_deadline_abort: Bool | None = Field(None, description="Abort an update that is stuck; default false.")
    paused: Bool | None = Field(None, description="Pause the steps; scaling goes on.")
    restart_at: Annotated[Text, Field(json_schema_extra={"format": "date-time"})] | None = Field(
        None, description="Pods older than this time are replaced, a few at a time."
    )
    rollback_window: RollbackWindow | None = Field(None, description="Which rollbacks skip the steps.")
    analysis: AnalysisLimits | None = Field(None, description="How many finished analyses are kept.")
    config_versioning: ConfigVersioningWire | None = Field(
        None, description="Rolls out ConfigMaps together with the pods."
    )
    drain: Drain | None = Field(None, description="How pods are drained before they are deleted.")
    autoscaling: Autoscaling | None = Field(
        None,
        description="What autoscalers and containers must show before a step completes; a promotion passes it once.",
    )
    history: History | None = Field(None, description="How many finished updates are recorded.")
