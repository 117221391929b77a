"""`spec` of a Rollout, `rollouts.dev/v1alpha1`: a superset of Argo Rollouts' v1alpha1 with its names, defaults and meaning.

These are the types of the wire. api/spec/parse.py turns them into values of core/model/rollout.py. api/schema.py makes the CRD
from them, and `kubectl explain` shows the descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollouts.api.v1alpha1.analysis import (
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
    CelRule,
    Count,
    DrainSeconds,
    Duration,
    FreeObject,
    Name,
    Number,
    ObjectName,
    PercentNumber,
    ServiceName,
    SettleSeconds,
    Text,
    Weight,
    Wire,
    exactly_one,
    int32,
    needed,
    optional,
)
from rollouts.core.model.config import SETTLE_S
from rollouts.core.model.drain import DEFAULT_MAX_REQUEST_S, DEFAULT_SCRAPE_S, DEFAULT_TIMEOUT_S
from rollouts.core.model.rollout import (
    HISTORY_LIMIT,
    PODS_LIMIT,
    PROGRESS_DEADLINE_S,
    REVISION_HISTORY_LIMIT,
    SCALE_DOWN_DELAY_S,
)

_DELAY = f"{SCALE_DOWN_DELAY_S:g}"
_PODS = f"{PODS_LIMIT.value}%"


class PauseStep(Wire):
    """A pause: for a time, or until somebody promotes the revision."""

    duration: Duration | None = optional("Seconds, or 30s, 5m, 1h30m. Default: until somebody promotes the revision.")


class SetCanaryScale(Wire):
    """Sets the number of canary pods independently of the weight."""

    RULES = (
        exactly_one(text="exactly one of replicas, weight and matchTrafficWeight: true", true="matchTrafficWeight"),
    )

    replicas: Count | None = optional("This number of pods.")
    weight: PercentNumber | None = optional("This percentage of spec.replicas.")
    match_traffic_weight: Bool | None = optional("true: as many pods as the weight needs, as without this step.")


class CanaryStep(Wire):
    """One step of a canary."""

    RULES = (exactly_one(text="a step has exactly one kind"),)

    set_weight: Weight | None = optional("The canary's share of the traffic: percent, or parts of maxTrafficWeight.")
    pause: PauseStep | None = optional("Pauses for a time, or until somebody promotes the revision.")
    set_canary_scale: SetCanaryScale | None = optional("Sets the number of canary pods.")
    set_header_route: SetHeaderRouteWire | None = optional(
        "Sends requests that match to the canary, whatever the weight."
    )
    set_mirror_route: SetMirrorRouteWire | None = optional("Sends copies of requests to the canary.")
    analysis: AnalysisWire | None = optional("Completes when the analysis succeeds.")
    experiment: Experiment | None = optional("Completes when the experiment succeeds.")
    plugin: PluginStep | None = optional("Completes when a program of your own says so.")


class PreferredAntiAffinity(Wire):
    """A preference for the scheduler."""

    weight: int | None = needed(
        "Weight of the preference, 1 to 100.", ge=1, le=100, missing="is required, from 1 to 100"
    )


class RequiredAntiAffinity(Wire):
    """A rule for the scheduler."""


class AntiAffinityWire(Wire):
    """Keeps pods of a new revision off the nodes of the old revision."""

    RULES = (exactly_one(text="exactly one form"),)

    preferred: PreferredAntiAffinity | None = optional(
        "The scheduler keeps the rule if possible.", alias="preferredDuringSchedulingIgnoredDuringExecution"
    )
    required: RequiredAntiAffinity | None = optional(
        "The scheduler always keeps the rule.", alias="requiredDuringSchedulingIgnoredDuringExecution"
    )


class ProgressThresholdWire(Wire):
    """How many of the desired pods must be available before a step completes."""

    type: Literal["Percent", "Pods"] | None = needed("Unit of the value.")
    value: Number | None = needed("The amount; a negative value means no threshold.")


class CanaryStrategy(Wire):
    """Moves traffic to a new revision step by step."""

    RULES = (
        CelRule(
            "!has(self.stableService) || !has(self.canaryService) || self.stableService != self.canaryService",
            "stableService and canaryService must differ",
        ),
        CelRule(
            "has(self.trafficRouting) || !has(self.steps) || self.steps.all(step, !has(step.setCanaryScale))",
            "setCanaryScale needs trafficRouting",
        ),
        CelRule(
            "has(self.trafficRouting) || !has(self.scaleDownDelaySeconds)", "scaleDownDelaySeconds needs trafficRouting"
        ),
        CelRule(
            "!has(self.dynamicStableScale) || !self.dynamicStableScale || "
            "(has(self.trafficRouting) && !has(self.scaleDownDelaySeconds))",
            "dynamicStableScale needs trafficRouting and excludes scaleDownDelaySeconds",
        ),
        CelRule(
            "!has(self.steps) || self.steps.all(step, !has(step.setWeight) || step.setWeight <= "
            "(has(self.trafficRouting) && has(self.trafficRouting.maxTrafficWeight) ? "
            "self.trafficRouting.maxTrafficWeight : 100))",
            "setWeight must be maxTrafficWeight or less, which is 100 when it is not given",
        ),
        CelRule(
            "has(self.trafficRouting) || !has(self.steps) || "
            "self.steps.all(step, !has(step.setHeaderRoute) && !has(step.setMirrorRoute))",
            "setHeaderRoute and setMirrorRoute need trafficRouting",
        ),
        CelRule(
            "!has(self.maxSurge) || !has(self.maxUnavailable) || "
            "!(self.maxSurge == 0 || self.maxSurge == '0' || self.maxSurge == '0%') || "
            "!(self.maxUnavailable == 0 || self.maxUnavailable == '0' || self.maxUnavailable == '0%')",
            "maxSurge and maxUnavailable cannot both be 0",
        ),
    )

    canary_service: ServiceName | None = optional("Service that selects the canary's pods.")
    stable_service: ServiceName | None = optional("Service that selects the stable pods.")
    steps: list[CanaryStep] | None = optional(
        "The steps of an update, in order. Without steps, all pods are replaced within maxSurge and maxUnavailable.",
        max_length=100,
    )
    traffic_routing: TrafficRoutingWire | None = optional(
        "The routers that split the traffic. Without it the ratio of pods splits it."
    )
    max_surge: Amount | None = optional(
        f"How many pods more than spec.replicas may exist: a number, or percent, rounded up; default {_PODS}."
    )
    max_unavailable: Amount | None = optional(
        f"How many pods fewer than spec.replicas may be available: a number, or percent, rounded down; default {_PODS}."
    )
    before_update: AnalysisWire | None = optional("An analysis before the first pod of a new revision.")
    before_set_weight: AnalysisWire | None = optional("An analysis before each setWeight that raises the weight.")
    analysis: BackgroundAnalysis | None = optional("An analysis that runs beside the steps.")
    anti_affinity: AntiAffinityWire | None = optional("Keeps the canary off the nodes of stable pods.")
    canary_metadata: ObjectMetadata | None = optional(
        "Labels and annotations that pods have while they are the canary."
    )
    stable_metadata: ObjectMetadata | None = optional("Labels and annotations that pods have while they are stable.")
    scale_down_delay_seconds: Count | None = optional(
        f"How many seconds the old pods are kept after promotion; default {_DELAY}; only with trafficRouting."
    )
    scale_down_delay_revision_limit: Count | None = optional(
        "How many old revisions may keep their pods for scaleDownDelaySeconds."
    )
    abort_scale_down_delay_seconds: Count | None = optional(
        f"How many seconds the pods of an aborted canary are kept; default {_DELAY}; 0: forever; only with trafficRouting."
    )
    dynamic_stable_scale: Bool | None = optional(
        "Scale the stable revision down as its traffic shrinks; only with trafficRouting."
    )
    min_pods_per_replica_set: Count | None = optional(
        "The smallest number of pods of a revision that has any; only with trafficRouting."
    )
    ping_pong: PingPong | None = optional(
        "Two Services that change roles with every update, instead of canaryService and stableService."
    )
    replica_progress_threshold: ProgressThresholdWire | None = optional(
        "How many of the desired pods must be available before a step completes; default: all."
    )


class BlueGreenStrategy(Wire):
    """Starts a new revision beside the old one, and then moves all traffic to it at once."""

    RULES = (
        CelRule(
            "!has(self.previewService) || self.activeService != self.previewService",
            "activeService and previewService must differ",
        ),
    )

    active_service: ServiceName | None = needed(
        "Service that clients use.", missing="is required: the Service that clients use"
    )
    preview_service: ServiceName | None = optional("Service that selects the new revision before it is promoted.")
    preview_replica_count: Count | None = optional(
        "Pods of the new revision until it is promoted; default: spec.replicas."
    )
    auto_promotion_enabled: Bool | None = optional("Promote the new revision without a person; default true.")
    auto_promotion_seconds: Count | None = optional(
        "Seconds between the time when the new revision is available and its promotion; default 0."
    )
    max_unavailable: Amount | None = optional(
        f"How many pods a restart may make unavailable at once: a number, or percent; default {_PODS}."
    )
    scale_down_delay_seconds: Count | None = optional(
        f"How many seconds the old pods are kept after the switch; default {_DELAY}."
    )
    scale_down_delay_revision_limit: Count | None = optional(
        "How many old revisions may keep their pods for scaleDownDelaySeconds."
    )
    abort_scale_down_delay_seconds: Count | None = optional(
        f"How many seconds the pods of an aborted revision are kept; default {_DELAY}; 0: forever."
    )
    before_update: AnalysisWire | None = optional("An analysis before the first pod of a new revision.")
    pre_promotion_analysis: AnalysisWire | None = optional("An analysis before the switch.")
    post_promotion_analysis: AnalysisWire | None = optional("An analysis after the switch.")
    anti_affinity: AntiAffinityWire | None = optional("Keeps the new revision off the nodes of the old one.")
    active_metadata: ObjectMetadata | None = optional("Labels and annotations that pods have while they are active.")
    preview_metadata: ObjectMetadata | None = optional(
        "Labels and annotations that pods have while they are the preview."
    )


class RolloutStrategy(Wire):
    """How a new revision replaces the old one: canary or blueGreen."""

    RULES = (exactly_one(),)

    canary: CanaryStrategy | None = optional("Moves traffic to the new revision step by step.")
    blue_green: BlueGreenStrategy | None = optional("Moves all traffic to the new revision at once, after a preview.")


class WorkloadRef(Wire):
    """Names the object, in the Rollout's namespace, whose pod template is rolled out."""

    api_version: Name | None = needed("apiVersion of that object: apps/v1, or v1 for a PodTemplate.")
    kind: Literal["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "PodTemplate"] | None = needed(
        "Kind of that object."
    )
    name: ObjectName | None = needed("Name of that object.")
    mode: Literal["Template", "InPlace"] | None = optional(
        "Template (default): the pods of the template are the Rollout's own, beside those of that object. "
        "InPlace: a Deployment or StatefulSet keeps its pods, and the Rollout steps them."
    )
    hold: Literal["Auto", "Policy", "AtRest"] | None = optional(
        "With InPlace: what keeps a new template from its pods until the update begins: a policy of the API server, or the "
        "workload's own fields between updates (AtRest). Auto (default) takes the policy where it works."
    )
    on_abort: Literal["Hold", "RevertTemplate"] | None = optional(
        "With InPlace and a DaemonSet: what becomes of nodes with the new revision when its update is aborted. They stay as they "
        "are (Hold, the default), or the DaemonSet gets the stable template again (RevertTemplate)."
    )
    canary_nodes: LabelSelector | None = optional(
        "With InPlace and a DaemonSet: the nodes that are updated first; by default their names decide."
    )
    scale_down: Literal["never", "onsuccess", "progressively"] | None = optional(
        "With Template: when a Deployment's own pods are scaled down; default never."
    )


class RollbackWindow(Wire):
    """Which rollbacks skip the steps."""

    revisions: Count | None = optional("A rollback by at most this many revisions skips the steps.")


class ConfigVersioningWire(Wire):
    """Makes ConfigMaps, and Secrets if asked, part of the revision: a change of one is rolled out like a new image."""

    mode: Literal["On", "Off"] | None = optional(
        "On (default): each revision reads immutable copies of the ConfigMaps that the template names. "
        "Off: pods read them as they are."
    )
    secrets: Bool | None = optional(
        "Secrets too; default false. The controller needs the right to read those that the template names, and to create "
        "Secrets: rollouts rbac -f FILE prints the Role."
    )
    settle_seconds: SettleSeconds | None = optional(
        f"Changes within this many seconds become one revision; default {SETTLE_S:g}."
    )
    retain: Bool | None = optional("Keep the copies of ConfigMaps when the Rollout is deleted; default false.")


class PrometheusDrainProbe(Wire):
    """A query to the Prometheus that the operator has configured."""

    query: Text | None = needed(
        "PromQL with one number as its result; {{revision}}, {{namespace}}, {{rollout}}, {{service}} are replaced by names."
    )
    scrape_interval_seconds: DrainSeconds | None = optional(
        f"Scrape interval of the query's metrics in seconds: how old its samples may be; default {DEFAULT_SCRAPE_S:g}."
    )


class EnvoyDrainProbe(Wire):
    """Active requests at the revision's pods, read from the Envoys that the operator has configured as data planes."""


class DrainProbeWire(Wire):
    """Asks how many requests are in flight at the pods of a revision that its Service left, so the wait can end early."""

    RULES = (exactly_one("envoy", "prometheus"),)

    name: Name | None = needed("Name of the probe.")
    envoy: EnvoyDrainProbe | None = optional("Reads active requests from Envoy.")
    prometheus: PrometheusDrainProbe | None = optional("Queries Prometheus.")
    max_seconds: DrainSeconds | None = optional(
        "For a probe that counts long streams (websockets, SSE): the longest wait for them, apart from requests.", ge=1
    )


class Drain(Wire):
    """How pods are drained before they are deleted, so that no request is lost. The cluster's proxies decide the waits."""

    mode: Literal["Auto", "Off"] | None = optional(
        "Auto (default). Off: pods are deleted at once and the template is not changed."
    )
    pre_stop: Literal["Inject", "Validate", "Off"] | None = optional(
        "Inject (default): add a preStop sleep to containers without a preStop hook, and raise "
        "terminationGracePeriodSeconds to hold it. Validate: only report what is missing. Off: neither."
    )
    max_request_seconds: DrainSeconds | None = optional(
        f"Seconds of the longest request; default {DEFAULT_MAX_REQUEST_S:g}, or terminationGracePeriodSeconds when that is less."
    )
    timeout_seconds: DrainSeconds | None = optional(
        "Longest drain of a revision that lost its traffic, in seconds, unless onTimeout is Pause; "
        f"default {DEFAULT_TIMEOUT_S:g}."
    )
    on_timeout: Literal["Continue", "Pause"] | None = optional(
        "After timeoutSeconds: Continue (default) deletes the pods; Pause waits until they are drained. "
        "Both are reported and recorded."
    )
    probes: list[DrainProbeWire] | None = optional(
        "Probes that count what is in flight. Three polls in a row that find nothing end the wait early.",
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class History(Wire):
    """How many finished updates are recorded."""

    limit: Annotated[int, int32(3, 100)] | None = optional(
        f"How many finished updates status.history keeps, 3 to 100; default {HISTORY_LIMIT}. A rollback finds its revision there."
    )


class RolloutSpecWire(Wire):
    """The desired state of a Rollout."""

    RULES = (
        exactly_one("template", "workloadRef"),
        CelRule(
            "has(self.selector) || (has(self.workloadRef) && self.workloadRef.kind != 'PodTemplate')",
            "selector is required, unless workloadRef names a Deployment or a ReplicaSet, which has one",
        ),
        CelRule(
            f"(has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : {PROGRESS_DEADLINE_S:g}) > "
            "(has(self.minReadySeconds) ? self.minReadySeconds : 0)",
            "progressDeadlineSeconds must be more than minReadySeconds",
        ),
    )

    replicas: Count | None = optional("Number of pods; default 1.", json_schema_extra={"default": 1})
    selector: LabelSelector | None = optional(
        "Selects the pods by labels. It must match the template's labels and cannot be changed. "
        "By default that of the Deployment or ReplicaSet that workloadRef names.",
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec.selector cannot be changed"}]
        },
    )
    template: FreeObject | None = optional("The pod template, as in a Deployment.")
    workload_ref: WorkloadRef | None = optional("Takes the pod template from another object.")
    strategy: RolloutStrategy | None = needed("How a new revision replaces the old one.")
    min_ready_seconds: Count | None = optional(
        "How many seconds a pod must be ready before it counts as available; default 0."
    )
    revision_history_limit: Count | None = optional(
        f"How many old ReplicaSets without pods are kept; default {REVISION_HISTORY_LIMIT}."
    )
    progress_deadline_seconds: Count | None = optional(
        f"Seconds without progress after which the update counts as stuck; default {PROGRESS_DEADLINE_S:g}."
    )
    progress_deadline_abort: Bool | None = optional("Abort an update that is stuck; default false.")
    paused: Bool | None = optional("Pause the steps; scaling continues.")
    restart_at: Annotated[Text, Field(json_schema_extra={"format": "date-time"})] | None = optional(
        "Pods older than this time are replaced, a few at a time."
    )
    rollback_window: RollbackWindow | None = optional("Which rollbacks skip the steps.")
    analysis: AnalysisLimits | None = optional("How many finished analyses are kept.")
    config_versioning: ConfigVersioningWire | None = optional("Rolls out ConfigMaps together with the pods.")
    drain: Drain | None = optional("How pods are drained before they are deleted.")
    autoscaling: Autoscaling | None = optional(
        "What autoscalers and containers must show before a step completes; a promotion passes it once."
    )
    history: History | None = optional("How many finished updates are recorded.")
