"""Checks `spec.workloadRef`, and what the spec must leave to the workload."""

from __future__ import annotations

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_needed
from rollouts.api.spec.routing import ROUTING_PATH, destination_rule, weighted_templates
from rollouts.api.spec.selectors import check_selector
from rollouts.api.v1alpha1.rollout import (
    BlueGreenStrategy,
    CanaryStrategy,
    ConfigVersioningWire,
    Drain,
    RolloutSpecWire,
    RolloutStrategy,
    WorkloadRef,
)
from rollouts.core.model.workload_ref import ScaleDownWorkload, WorkloadKind, WorkloadMode

_PATH = "spec.workloadRef"
_IN_PLACE = "workloadRef.mode: InPlace"
_NAME_MAX = 46
"""Of a Deployment whose pods are told apart by name: the API server cuts it after 58 characters, before the five that it adds.
A ReplicaSet's name has up to 11 more than its Deployment's."""
_KINDS_IN_PLACE = (WorkloadKind.DEPLOYMENT, WorkloadKind.STATEFUL_SET, WorkloadKind.DAEMON_SET)
_KINDS_WITH_PODS_OF_THEIR_OWN = (WorkloadKind.STATEFUL_SET, WorkloadKind.DAEMON_SET)
_BY_RATIO = {
    WorkloadKind.DAEMON_SET: "is not supported for a DaemonSet, which goes by nodes: each has one pod, of one revision",
    WorkloadKind.STATEFUL_SET: "is not supported for a StatefulSet, which goes by the ratio of pods: it has each pod once",
}
"""Why there are no Services, routers and blue-green."""
_SCALED = {
    WorkloadKind.DAEMON_SET: "is not supported for a DaemonSet: it has a pod on each node, and no autoscaler",
    WorkloadKind.STATEFUL_SET: "is not supported for a StatefulSet yet; its autoscaler works without",
}
"""Why there is no gate for an autoscaler."""


def check_workload_ref(spec: RolloutSpecWire, problems: Problems) -> None:
    """Adds every rule that `spec.workloadRef` breaks; there is none without it."""
    reference = spec.workload_ref
    if reference is None:
        return
    check_needed(reference, _PATH, problems)
    if spec.template is not None:
        problems.add("spec.template", f"must be absent: it comes from {_PATH}; remove one of them")
    if reference.kind is not None and reference.api_version is not None:
        of_kind = WorkloadKind(reference.kind).resource.api_version
        if reference.api_version != of_kind:
            problems.add(f"{_PATH}.apiVersion", f"must be {of_kind} for a {reference.kind}")
    if reference.mode == WorkloadMode.IN_PLACE.value:
        _check_in_place(spec, reference, problems)
        return
    if reference.kind in _KINDS_WITH_PODS_OF_THEIR_OWN:
        problems.add(f"{_PATH}.mode", f"must be InPlace for a {reference.kind}")
    if spec.selector is None and reference.kind == WorkloadKind.POD_TEMPLATE.value:
        problems.add_missing("spec.selector", "is required: the labels of the pods (a PodTemplate has none)")
    if reference.hold is not None:
        problems.add(f"{_PATH}.hold", "is for mode: InPlace")
    if reference.on_abort is not None:
        problems.add(f"{_PATH}.onAbort", "is for mode: InPlace with a DaemonSet")
    if reference.canary_nodes is not None:
        problems.add(f"{_PATH}.canaryNodes", "is for mode: InPlace with a DaemonSet")
    scales = reference.scale_down not in (None, ScaleDownWorkload.NEVER)
    if scales and reference.kind not in (None, WorkloadKind.DEPLOYMENT):
        problems.add(f"{_PATH}.scaleDown", f"is for a Deployment: scale the {reference.kind} down yourself")


def _check_in_place(spec: RolloutSpecWire, reference: WorkloadRef, problems: Problems) -> None:
    if reference.kind not in (None, *_KINDS_IN_PLACE):
        problems.add(f"{_PATH}.kind", f"must be {' or '.join(_KINDS_IN_PLACE)} for mode: InPlace")
    kind = WorkloadKind(reference.kind or WorkloadKind.DEPLOYMENT)
    if reference.scale_down is not None:
        problems.add(f"{_PATH}.scaleDown", f"is for mode: Template; with InPlace the {kind}'s pods are the only ones")
    _check_nodes(reference, kind, problems)
    strategy = spec.strategy or RolloutStrategy.empty()
    _check_traffic(strategy, reference, kind, problems)
    canary, blue_green = strategy.canary or CanaryStrategy.empty(), strategy.blue_green or BlueGreenStrategy.empty()
    drain, versioning = spec.drain or Drain.empty(), spec.config_versioning or ConfigVersioningWire.empty()
    path, preview = "spec.strategy.canary", "spec.strategy.blueGreen"
    has_it = f"must be absent with {_IN_PLACE}: the {kind} has it"
    changes = f"is not supported with {_IN_PLACE}: it would change the {kind}'s template"
    bare = f"is not supported for a {kind}: a ReplicaSet runs pods of its template without what the {kind} gives them"
    refused: tuple[tuple[str, object, str], ...] = (
        ("spec.replicas", None if spec.replicas == 1 else spec.replicas, has_it),  # 1 is the API server's default
        ("spec.selector", spec.selector, has_it),
        ("spec.minReadySeconds", spec.min_ready_seconds, has_it),
        ("spec.revisionHistoryLimit", spec.revision_history_limit, has_it),
        (f"{path}.maxSurge", canary.max_surge, has_it),
        (f"{path}.maxUnavailable", canary.max_unavailable, has_it),
        (f"{preview}.maxUnavailable", blue_green.max_unavailable, has_it),
        (f"{preview}.antiAffinity", blue_green.anti_affinity, changes),
        (f"{preview}.activeMetadata", blue_green.active_metadata, changes),
        (f"{preview}.previewMetadata", blue_green.preview_metadata, changes),
        (f"{path}.antiAffinity", canary.anti_affinity, changes),
        (f"{path}.canaryMetadata", canary.canary_metadata, changes),
        (f"{path}.stableMetadata", canary.stable_metadata, changes),
        ("spec.drain.preStop", "Inject" if drain.pre_stop == "Inject" else None, f"{changes}; use Validate"),
        ("spec.configVersioning", versioning.mode == "On" or versioning.secrets or None, changes),
        ("spec.autoscaling", spec.autoscaling if kind in _SCALED else None, _SCALED.get(kind, "")),
        ("spec.restartAt", spec.restart_at, f"{changes}; use kubectl rollout restart"),
        *[
            (f"{path}.steps[{index}].experiment", step.experiment, f"{bare}; create an Experiment beside it")
            for index, step in enumerate(canary.steps or ())
            if kind in _KINDS_WITH_PODS_OF_THEIR_OWN
        ],
    )
    for name, value, why in refused:
        if value is not None:
            problems.add(name, why)


def _check_traffic(strategy: RolloutStrategy, reference: WorkloadRef, kind: WorkloadKind, problems: Problems) -> None:
    """What sends requests to one revision."""
    path = "spec.strategy.canary"
    canary, blue_green = strategy.canary or CanaryStrategy.empty(), strategy.blue_green
    parts = {
        "spec.strategy.blueGreen": blue_green,
        f"{path}.trafficRouting": canary.traffic_routing,
        f"{path}.stableService": canary.stable_service,
        f"{path}.canaryService": canary.canary_service,
        f"{path}.pingPong": canary.ping_pong,
    }
    if kind in _BY_RATIO:
        for name in [name for name in parts if parts[name] is not None]:
            problems.add(name, _BY_RATIO[kind])
        return
    yet = f"is not supported with {_IN_PLACE} yet"
    if canary.dynamic_stable_scale:
        keeps = "the Deployment keeps all stable pods while routers move requests"
        problems.add(f"{path}.dynamicStableScale", f"is not supported with {_IN_PLACE}: {keeps}")
    if destination_rule(canary) is not None:
        problems.add(f"{ROUTING_PATH}.istio.destinationRule", f"{yet}; name two Services")
    if canary.ping_pong is not None:
        problems.add(f"{path}.pingPong", f"{yet}; name stableService and canaryService")
    for weighted in weighted_templates(canary):
        problems.add(f"{weighted}.weight", f"{yet}; leave it out")
    services = (canary.stable_service, canary.canary_service, blue_green and blue_green.active_service)
    if any(services) and len(reference.name or "") > _NAME_MAX:
        problems.add(
            f"{_PATH}.name",
            f"has more than {_NAME_MAX} characters, so the names of pods do not show the revision that a Service leads to; "
            "use mode: Template",
        )


def _check_nodes(reference: WorkloadRef, kind: WorkloadKind, problems: Problems) -> None:
    """What is for a DaemonSet alone."""
    path, nodes = f"{_PATH}.canaryNodes", reference.canary_nodes
    if kind is not WorkloadKind.DAEMON_SET:
        if nodes is not None:
            problems.add(path, "is for a DaemonSet, whose pods belong to nodes")
        if reference.on_abort is not None:
            problems.add(
                f"{_PATH}.onAbort", f"is for a DaemonSet: a {kind} gets its stable pods back without its template"
            )
    elif nodes is not None and not nodes.match_labels and not nodes.match_expressions:
        problems.add_missing(path, "is empty and would choose every node; give it matchLabels")
    elif nodes is not None:
        check_selector(nodes, path, problems)
