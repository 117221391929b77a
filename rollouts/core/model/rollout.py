"""The spec of a Rollout as values, parsed, defaulted and validated by `api/spec/parse.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct, field

from rollouts.core.model.analysis import Analysis, AnalysisGate, AnalysisKind
from rollouts.core.model.author import Author
from rollouts.core.model.autoscaling import AutoscalingGate
from rollouts.core.model.config import ConfigRef, ConfigVersioning
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.pod_exit import PodExit
from rollouts.core.model.revision import POD_TEMPLATE_HASH_LABEL, REVISION_LABEL
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.steps import Analyze, RunExperiment, SetWeight, Step
from rollouts.core.model.traffic import Sticky
from rollouts.core.model.workload_ref import NamedWorkload, WorkloadMode
from rollouts.objects import Manifest


class Percent(Struct, frozen=True):
    """A share of the replicas in percent, 0..100; `25%` in a manifest."""

    value: int


IntOrPercent: TypeAlias = int | Percent
"""Pods, or a share of the replicas (maxSurge rounds up, maxUnavailable down)."""


PROGRESS_DEADLINE_S = 600.0
SCALE_DOWN_DELAY_S = 30.0
REVISION_HISTORY_LIMIT = 10
HISTORY_LIMIT = 10
RUNS_KEPT = 5
PODS_LIMIT = Percent(25)
"""maxSurge and maxUnavailable, as of a Deployment."""


class PodMetadata(Struct, frozen=True):
    """Labels and annotations that pods have for as long as they have a role ("ephemeral metadata")."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations)


class AntiAffinity(Struct, frozen=True):
    """Keeps pods of a new revision off the nodes of the stable one.

    Args:
        required: a hard rule, or a preference of `weight`.
        weight: 1..100; only for a preference.
    """

    required: bool
    weight: int = 100


class ProgressThreshold(Struct, frozen=True):
    """`replicaProgressThreshold`: how many of the desired replicas must be available to go on."""

    value: IntOrPercent


class Router(Struct, frozen=True):
    """One traffic provider that the spec names, with its settings, which only its codec understands."""

    name: str
    settings: Mapping[str, Any]


class TrafficRouting(Struct, frozen=True, kw_only=True):
    """`trafficRouting`: weights move the traffic, not the ratio of pods, so stable keeps its size while the canary grows.

    Args:
        routers: the traffic providers. With none, somebody else moves the traffic, and follows the weight in status.
        managed_routes: names of the routes that steps make; the first one that matches wins.
        min_pods_per_replica_set: the fewest canary pods once there is any.
        dynamic_stable_scale: stable shrinks with its share.
        sticky: weights are shares of clients instead of requests, here without the seed; None for requests.
        own: manifests of the routes that the controller creates.
    """

    routers: tuple[Router, ...] = ()
    managed_routes: tuple[str, ...] = ()
    min_pods_per_replica_set: int = 0
    dynamic_stable_scale: bool = False
    sticky: Sticky | None = None
    own: tuple[Manifest, ...] = ()


class Canary(Struct, frozen=True, kw_only=True):
    """`spec.strategy.canary`.

    Args:
        traffic_routing: None for a canary by the ratio of pods.
        ping_pong: the two Services take turns as the stable one, so that none changes its selector at the end. Here
            `pingService` is the stable one; `with_roles` exchanges them as status says.
        scale_down_delay_s: how long the old stable revision is kept after promotion; only with traffic routing.
        scale_down_delay_revision_limit: how many old revisions may wait for that delay; None for all.
        abort_scale_down_delay_s: how long an aborted canary is kept; 0 keeps it; only with traffic routing.
        analysis: the background analysis.
        before_update: the analysis that a revision must pass before it gets its first pod.
    """

    steps: tuple[Step, ...] = ()
    max_surge: IntOrPercent = PODS_LIMIT
    max_unavailable: IntOrPercent = PODS_LIMIT
    stable_service: ServiceRef | None = None
    canary_service: ServiceRef | None = None
    traffic_routing: TrafficRouting | None = None
    ping_pong: bool = False
    canary_metadata: PodMetadata = PodMetadata()
    stable_metadata: PodMetadata = PodMetadata()
    anti_affinity: AntiAffinity | None = None
    replica_progress_threshold: ProgressThreshold | None = None
    scale_down_delay_s: float = SCALE_DOWN_DELAY_S
    scale_down_delay_revision_limit: int | None = None
    abort_scale_down_delay_s: float = SCALE_DOWN_DELAY_S
    analysis: Analysis | None = None
    before_update: Analysis | None = None

    @property
    def step_count(self) -> int:
        """How many steps an update has; 0 for blue-green, which has a gate."""
        return len(self.steps)

    @property
    def by_ratio(self) -> bool:
        """Whether the ratio of pods sets the shares of traffic, instead of Services or routers."""
        return self.traffic_routing is None

    @property
    def routers(self) -> tuple[Router, ...]:
        """The traffic providers that move traffic by weights."""
        return self.traffic_routing.routers if self.traffic_routing is not None else ()

    @property
    def serving_service(self) -> ServiceRef | None:
        """The Service that brings requests to the stable revision."""
        return self.stable_service

    @property
    def serving_metadata(self) -> PodMetadata:
        """Ephemeral metadata of the stable revision's pods."""
        return self.stable_metadata

    @property
    def candidate_metadata(self) -> PodMetadata:
        """Ephemeral metadata of the new revision's pods before it is stable."""
        return self.canary_metadata


class BlueGreen(Struct, frozen=True, kw_only=True):
    """`spec.strategy.blueGreen`.

    Args:
        auto_promotion_s: seconds from "preview is available" to the switch; only when promotion is automatic.
        preview_replica_count: pods of the preview until it is promoted; None for `spec.replicas`.
        max_unavailable: how many pods a restart may take away at once.
        abort_scale_down_delay_s: how long an aborted preview is kept; 0 keeps it.
        before_update: the analysis that a revision must pass before it gets its first pod.
        pre_promotion: the analysis that a preview must pass before it gets the traffic.
        post_promotion: the analysis that it must pass with the traffic before it is stable.
    """

    active_service: str
    preview_service: str | None = None
    preview_replica_count: int | None = None
    auto_promotion_enabled: bool = True
    auto_promotion_s: float = 0.0
    max_unavailable: IntOrPercent = PODS_LIMIT
    scale_down_delay_s: float = SCALE_DOWN_DELAY_S
    scale_down_delay_revision_limit: int | None = None
    abort_scale_down_delay_s: float = SCALE_DOWN_DELAY_S
    active_metadata: PodMetadata = PodMetadata()
    preview_metadata: PodMetadata = PodMetadata()
    anti_affinity: AntiAffinity | None = None
    before_update: Analysis | None = None
    pre_promotion: Analysis | None = None
    post_promotion: Analysis | None = None

    step_count: ClassVar[int] = 0
    by_ratio: ClassVar[bool] = False
    routers: ClassVar[tuple[Router, ...]] = ()
    ping_pong: ClassVar[bool] = False
    max_surge: ClassVar[IntOrPercent] = PODS_LIMIT
    """How many pods a restart may add: a Deployment's default. An update may have twice the pods anyway."""

    @property
    def serving_service(self) -> str:
        """The Service that brings requests to the stable revision."""
        return self.active_service

    @property
    def serving_metadata(self) -> PodMetadata:
        """Ephemeral metadata of the stable revision's pods."""
        return self.active_metadata

    @property
    def candidate_metadata(self) -> PodMetadata:
        """Ephemeral metadata of the new revision's pods before it is stable."""
        return self.preview_metadata


def named_services(strategy: Strategy) -> tuple[ServiceRef, ...]:
    """Every Service that the strategy names, that of the stable revision first."""
    services: tuple[ServiceRef | None, ...]
    if isinstance(strategy, BlueGreen):
        services = (strategy.active_service, strategy.preview_service)
    else:
        services = (strategy.stable_service, strategy.canary_service)
    return tuple(filter(None, services))


Strategy: TypeAlias = Canary | BlueGreen


def judged_step(strategy: Strategy, index: int) -> tuple[AnalysisGate, Analysis] | None:
    """What is judged at the step of that index, and its gate; None for a step that needs no verdict, and for no step."""
    step = strategy.steps[index] if isinstance(strategy, Canary) and index < len(strategy.steps) else None
    match step:
        case Analyze(analysis) | SetWeight(before=Analysis() as analysis):
            return AnalysisGate(AnalysisKind.STEP, index), analysis
        case RunExperiment(analysis):
            return AnalysisGate(AnalysisKind.EXPERIMENT, index), analysis
        case _:
            return None


def analyses(strategy: Strategy) -> dict[AnalysisGate, Analysis]:
    """Every analysis of an update by this strategy, by the gate that it guards."""
    found = dict[AnalysisGate, Analysis]()
    if strategy.before_update is not None:
        found[AnalysisGate(AnalysisKind.BEFORE_UPDATE)] = strategy.before_update
    match strategy:
        case Canary():
            if strategy.analysis is not None:
                found[AnalysisGate(AnalysisKind.BACKGROUND)] = strategy.analysis
            judged = [judged_step(strategy, index) for index in range(len(strategy.steps))]
            found.update(each for each in judged if each is not None)
        case BlueGreen():
            if strategy.pre_promotion is not None:
                found[AnalysisGate(AnalysisKind.PRE_PROMOTION)] = strategy.pre_promotion
            if strategy.post_promotion is not None:
                found[AnalysisGate(AnalysisKind.POST_PROMOTION)] = strategy.post_promotion
    return found


def written_analyses(strategy: Strategy) -> dict[AnalysisGate, Analysis]:
    """The same with each analysis that the spec says once: `beforeSetWeight` guards many gates, and is wrong once."""
    of_paths = {analysis.path: (gate, analysis) for gate, analysis in reversed(analyses(strategy).items())}
    return dict(reversed(of_paths.values()))


class RolloutSpec(Struct, frozen=True, kw_only=True):
    """`spec` of a Rollout.

    Args:
        selector_json: the user's label selector as canonical JSON (a `LabelSelector` object).
        selector_text: the selector in the syntax of `kubectl -l` and the scale subresource.
        template_json: the user's pod template exactly as given: canonical JSON, or that of a workload as the API server gave it;
            `{}` while it is not known.
        template_hash: of it as canonical JSON, see core/model/revision.py; "" while that is not known.
        revision: `template_hash`; with the contents of `config_refs` once they are known, see core/config/content.py.
        strategy_hash: hash of the strategy's kind and steps; a change restarts the steps.
        restart_at_s: pods older than this (seconds since 1970) are restarted.
        rollback_window_revisions: going back at most this many revisions skips the steps.
        successful_runs_kept, unsuccessful_runs_kept: AnalysisRuns of earlier updates and attempts that are kept after their end.
        history_limit: finished updates that status keeps, at least 3.
        config_refs: the sources that the template names and that may be versioned.
        autoscaling: what the autoscaler must show before a step completes.
        workload_ref: the workload that the template is taken from; None for a template in the spec.
    """

    replicas: int
    selector_json: bytes
    selector_text: str
    template_json: bytes
    template_hash: str
    revision: str
    strategy: Strategy
    strategy_hash: str
    min_ready_s: int = 0
    revision_history_limit: int = REVISION_HISTORY_LIMIT
    progress_deadline_s: float = PROGRESS_DEADLINE_S
    progress_deadline_abort: bool = False
    paused: bool = False
    restart_at_s: float | None = None
    rollback_window_revisions: int | None = None
    successful_runs_kept: int = RUNS_KEPT
    unsuccessful_runs_kept: int = RUNS_KEPT
    history_limit: int = HISTORY_LIMIT
    drain: DrainSpec = DrainSpec()
    ends: PodExit = PodExit()
    config_versioning: ConfigVersioning = ConfigVersioning()
    config_refs: tuple[ConfigRef, ...] = ()
    autoscaling: AutoscalingGate | None = None
    template_labels: Mapping[str, str] = field(default_factory=dict)
    workload_ref: NamedWorkload | None = None

    @property
    def revision_label(self) -> str:
        """The label by which a Service selects the pods of one revision."""
        in_place = self.workload_ref is not None and self.workload_ref.mode is WorkloadMode.IN_PLACE
        return POD_TEMPLATE_HASH_LABEL if in_place else REVISION_LABEL


class Rollout(Struct, frozen=True, kw_only=True):
    """One Rollout as the API server stores it: its identity, its spec, and the commands in its annotations.

    Args:
        annotations: those under `rollouts.dev/`, without the prefix.
        annotated_by: by command: who set its annotation, where that is known.
        restart_asked_at_s: the `restart` annotation's time; None also when it is unreadable.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at_s: float
    spec: RolloutSpec
    annotations: Mapping[str, str] = field(default_factory=dict)
    annotated_by: Mapping[str, Author] = field(default_factory=dict)
    restart_asked_at_s: float | None = None
    deleting: bool = False
