"""`spec` of a Rollout, `rollouts.dev/v1alpha1`: a superset of Argo Rollouts' v1alpha1 with its names, defaults and meaning.

These are the types of the wire. api/spec/parse.py turns them into values of core/model/rollout.py; the CRD is made from them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollouts.api.v1alpha1.analysis import (
    ONE_STEP,
    Analysis,
    AnalysisLimits,
    BackgroundAnalysis,
    Experiment,
    LabelSelector,
    ObjectMetadata,
    PluginStep,
)
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
    Text,
    Weight,
    Wire,
    exactly_one,
    needs,
)


class PauseStep(Wire):
    """Waits."""

    duration: Duration | None = Field(
        None, description="Seconds, or 30s, 5m, 1h30m. Without it: until somebody promotes the revision."
    )


class SetCanaryScale(Wire):
    """Sets the number of canary pods apart from the weight."""

    model_config = needs(
        rules=((exactly_one("replicas", "weight", "matchTrafficWeight"), "exactly one of its fields"),)
    )

    replicas: Count | None = Field(None, description="So many pods.")
    weight: PercentNumber | None = Field(None, description="Pods for this percentage of spec.replicas.")
    match_traffic_weight: Bool | None = Field(None, description="As many pods as the weight needs, again.")


class CanaryStep(Wire):
    """One step of a canary."""

    model_config = needs(rules=((ONE_STEP, "a step has exactly one kind"),))

    set_weight: Weight | None = Field(
        None, description="Share of the traffic for the canary: percent, or parts of maxTrafficWeight."
    )
    pause: PauseStep | None = Field(None, description="Waits for a time, or until somebody promotes the revision.")
    set_canary_scale: SetCanaryScale | None = Field(None, description="Sets the number of canary pods.")
    set_header_route: SetHeaderRouteWire | None = Field(
        None, description="Sends requests with some headers to the canary."
    )
    set_mirror_route: SetMirrorRouteWire | None = Field(None, description="Sends copies of requests to the canary.")
    analysis: Analysis | None = Field(None, description="Goes on when the analysis succeeds.")
    experiment: Experiment | None = Field(None, description="Goes on when the experiment succeeds.")
    plugin: PluginStep | None = Field(None, description="Goes on when a program of your own says so.")


class PreferredAntiAffinity(Wire):
    """A preference of the scheduler."""

    model_config = needs("weight")

    weight: Annotated[int, Field(ge=1, le=100)] | None = Field(None, description="How much it matters, 1 to 100.")


class RequiredAntiAffinity(Wire):
    """A rule for the scheduler."""


class AntiAffinityWire(Wire):
    """Keeps pods of a new revision off the nodes of the old one."""

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
        None, alias="preferredDuringSchedulingIgnoredDuringExecution", description="If possible."
    )
    required: RequiredAntiAffinity | None = Field(
        None, alias="requiredDuringSchedulingIgnoredDuringExecution", description="Always."
    )


class ProgressThresholdWire(Wire):
    """How much of the desired pods is enough for a step to complete."""

    model_config = needs("type", "value")

    type: Literal["Percent", "Pods"] | None = Field(None, description="Unit of the value.")
    value: Number | None = Field(None, description="The amount; below 0 for no threshold.")


class CanaryStrategy(Wire):
    """Gives a new revision more and more of the traffic, step by step."""

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
        None, description="What happens, in this order; none: all pods at once, within the limits."
    )
    traffic_routing: TrafficRoutingWire | None = Field(
        None, description="Who moves the traffic. Without it the ratio of pods does."
    )
    max_surge: Amount | None = Field(None, description="Pods above spec.replicas: number or percent, rounded up; 25%.")
    max_unavailable: Amount | None = Field(
        None, description="Pods below spec.replicas: number or percent, rounded down; 25%."
    )
    analysis: BackgroundAnalysis | None = Field(None, description="An analysis that runs beside the steps.")
    anti_affinity: AntiAffinityWire | None = Field(None, description="Keeps the canary off the nodes of stable pods.")
    canary_metadata: ObjectMetadata | None = Field(None, description="Metadata of pods while they are the canary.")
    stable_metadata: ObjectMetadata | None = Field(None, description="Metadata of pods while they are stable.")
    scale_down_delay_seconds: Count | None = Field(
        None, description="Seconds the old pods are kept after promotion; 30; only with trafficRouting."
    )
    scale_down_delay_revision_limit: Count | None = Field(None, description="Revisions that may wait for that delay.")
    abort_scale_down_delay_seconds: Count | None = Field(
        None, description="Seconds an aborted canary is kept; 30; 0: for ever; only with trafficRouting."
    )
    dynamic_stable_scale: Bool | None = Field(
        None, description="The stable revision shrinks as its traffic does; only with trafficRouting."
    )
    min_pods_per_replica_set: Count | None = Field(
        None, description="Least pods of a revision that has any; only with trafficRouting."
    )
    ping_pong: PingPong | None = Field(None, description="Two Services that take turns.")
    replica_progress_threshold: ProgressThresholdWire | None = Field(
        None, description="How much of the desired pods is enough for a step to complete; default: all."
    )


class BlueGreenStrategy(Wire):
    """Brings a new revision up beside the old one and then moves all traffic at once."""

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
    preview_service: ServiceName | None = Field(None, description="Service that selects the new revision at once.")
    preview_replica_count: Count | None = Field(
        None, description="Pods of the new revision until it is promoted; default: spec.replicas."
    )
    auto_promotion_enabled: Bool | None = Field(None, description="Promote without asking; default true.")
    auto_promotion_seconds: Count | None = Field(
        None, description="Seconds from the new revision's availability to its promotion; default 0."
    )
    max_unavailable: Amount | None = Field(
        None, description="Pods that a restart may take away at once: number or percent; 25%."
    )
    scale_down_delay_seconds: Count | None = Field(
        None, description="Seconds the old pods are kept after the switch; default 30."
    )
    scale_down_delay_revision_limit: Count | None = Field(None, description="Revisions that may wait for that delay.")
    abort_scale_down_delay_seconds: Count | None = Field(
        None, description="Seconds an aborted new revision is kept; default 30; 0: for ever."
    )
    pre_promotion_analysis: Analysis | None = Field(None, description="An analysis before the switch.")
    post_promotion_analysis: Analysis | None = Field(None, description="An analysis after the switch.")
    anti_affinity: AntiAffinityWire | None = Field(
        None, description="Keeps the new revision off the nodes of the old one."
    )
    active_metadata: ObjectMetadata | None = Field(None, description="Metadata of pods while they are active.")
    preview_metadata: ObjectMetadata | None = Field(None, description="Metadata of pods while they are the preview.")


class RolloutStrategy(Wire):
    """How a new revision takes over: exactly one of the two."""

    model_config = needs(rules=((exactly_one("canary", "blueGreen"), "exactly one of canary and blueGreen"),))

    canary: CanaryStrategy | None = Field(None, description="Step by step.")
    blue_green: BlueGreenStrategy | None = Field(None, description="All at once, after a look.")


class WorkloadRef(Wire):
    """Takes the pod template from another object."""

    model_config = needs("apiVersion", "kind", "name")

    api_version: Name | None = Field(None, description="Its apiVersion.")
    kind: Name | None = Field(None, description="Deployment, ReplicaSet or PodTemplate.")
    name: Name | None = Field(None, description="Its name.")
    scale_down: Literal["never", "onsuccess", "progressively"] | None = Field(
        None, description="What happens to a Deployment's own pods; default never."
    )


class RollbackWindow(Wire):
    """How far one may go back without the steps."""

    revisions: Count | None = Field(None, description="Going back no further than this skips the steps.")


class ConfigVersioning(Wire):
    """ConfigMaps are part of the revision: a change rolls out like a new image."""

    mode: Literal["Immutable", "Off"] | None = Field(None, description="Copy what the template names, or do not.")
    secrets: Literal["Immutable", "Off"] | None = Field(None, description="The same for Secrets; default Off.")
    settle_seconds: Count | None = Field(None, description="Changes within so many seconds are one revision.")


class PrometheusDrainProbe(Wire):
    """A query to the Prometheus that the operator named."""

    model_config = needs("query")

    query: Text | None = Field(
        None,
        description=(
            "PromQL with one number as its result; {{revision}}, {{namespace}}, {{rollout}}, {{service}} stand for names."
        ),
    )
    scrape_interval_seconds: DrainSeconds | None = Field(
        None, description="How old the samples may be that the query looks at; default 30."
    )


class EnvoyDrainProbe(Wire):
    """Active requests at the revision's pods, by the Envoys that the operator named as data planes."""


class DrainProbeWire(Wire):
    """Asks what is still in flight at the pods of a revision that its Service left, so that the wait can end early."""

    model_config = needs("name", rules=((exactly_one("envoy", "prometheus"), "exactly one of envoy and prometheus"),))

    name: Name | None = Field(None, description="Name of the probe.")
    envoy: EnvoyDrainProbe | None = Field(None, description="Active requests of Envoy.")
    prometheus: PrometheusDrainProbe | None = Field(None, description="A query.")
    max_seconds: Annotated[DrainSeconds, Field(ge=1)] | None = Field(
        None,
        description="What it counts are long streams (websockets, SSE): they are waited for so long, apart from requests.",
    )


class Drain(Wire):
    """What is done and waited for so that pods that go lose no request; the waits follow from the cluster's proxies."""

    mode: Literal["Auto", "Off"] | None = Field(
        None, description="Auto (default), or Off: pods go at once and the template stays as it is."
    )
    pre_stop: Literal["Inject", "Validate", "Off"] | None = Field(
        None,
        description=(
            "Inject (default): containers without a preStop sleep before they are told to end, and "
            "terminationGracePeriodSeconds is raised to hold it. Validate: only say what is missing. Off: neither."
        ),
    )
    max_request_seconds: DrainSeconds | None = Field(
        None, description="The longest request; default 30, or terminationGracePeriodSeconds when that is less."
    )
    timeout_seconds: DrainSeconds | None = Field(
        None,
        description="No revision that lost its traffic is waited for longer, unless onTimeout is Pause; default 300.",
    )
    on_timeout: Literal["Continue", "Pause"] | None = Field(
        None,
        description="Continue (default): then its pods go. Pause: wait to the end, and say so. Either is recorded.",
    )
    probes: Annotated[list[DrainProbeWire], Field(max_length=8)] | None = Field(
        None,
        description="Who is asked what is in flight; three answers of nothing in a row end the wait early.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class ContainerResource(Wire):
    """Use of a resource by one container."""

    model_config = needs("container", "resource", "maxUtilizationPercent")

    container: Name | None = Field(None, description="Name of the container.")
    resource: Name | None = Field(None, description="cpu or memory.")
    max_utilization_percent: Count | None = Field(None, description="Of its request.")


class Autoscaling(Wire):
    """A step goes on only when the HorizontalPodAutoscaler has room."""

    settled: Bool | None = Field(None, description="It must not be scaling.")
    min_headroom_percent: PercentNumber | None = Field(None, description="Distance to its maximum.")
    container_resource: ContainerResource | None = Field(None, description="Use of a resource by one container.")


class History(Wire):
    """What is kept about finished updates."""

    limit: Count | None = Field(None, description="Finished updates in status.history.")


class RolloutSpecWire(Wire):
    """What a Rollout wants."""

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

    replicas: Count | None = Field(None, description="Pods; default 1.", json_schema_extra={"default": 1})
    selector: LabelSelector | None = Field(
        None,
        description="Labels of the pods; must match the template's and cannot be changed.",
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec.selector cannot be changed"}]
        },
    )
    template: FreeObject | None = Field(None, description="The pods, as in a Deployment.")
    workload_ref: WorkloadRef | None = Field(None, description="Takes the pod template from another object.")
    strategy: RolloutStrategy | None = Field(None, description="How a new revision takes over.")
    min_ready_seconds: Count | None = Field(
        None, description="Seconds a pod must be ready before it counts as available; default 0."
    )
    revision_history_limit: Count | None = Field(None, description="Old ReplicaSets without pods to keep; default 10.")
    progress_deadline_seconds: Count | None = Field(
        None, description="Seconds without progress after which the update counts as stuck; default 600."
    )
    progress_deadline_abort: Bool | None = Field(None, description="Abort an update that is stuck; default false.")
    paused: Bool | None = Field(None, description="Hold the steps; scaling goes on.")
    restart_at: Annotated[Text, Field(json_schema_extra={"format": "date-time"})] | None = Field(
        None, description="Pods older than this time are replaced one by one."
    )
    rollback_window: RollbackWindow | None = Field(None, description="How far one may go back without the steps.")
    analysis: AnalysisLimits | None = Field(None, description="How many finished analyses are kept.")
    config_versioning: ConfigVersioning | None = Field(None, description="Rolls ConfigMaps out with the pods.")
    drain: Drain | None = Field(None, description="What happens before pods are taken away.")
    autoscaling: Autoscaling | None = Field(None, description="Waits for the HorizontalPodAutoscaler.")
    history: History | None = Field(None, description="What is kept about finished updates.")
