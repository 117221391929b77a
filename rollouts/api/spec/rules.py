"""The rules for a Rollout's spec beyond the types of its fields. Every rule adds its problems to the list; none stops the others.

Source: the rules of Argo Rollouts' validation; docs/argo-compatibility.md lists where ours differ.
"""

from __future__ import annotations

from rollouts.api.problems import Problems, path_of
from rollouts.api.spec.analysis.in_rollouts import (
    check_analysis,
    check_background,
    check_without_weight,
)
from rollouts.api.spec.autoscaling import check_autoscaling
from rollouts.api.spec.drain import check_drain
from rollouts.api.spec.experiment_step import check_experiment
from rollouts.api.spec.metadata import OUR_PREFIX, check_entries
from rollouts.api.spec.pod_template import check_pod_template
from rollouts.api.spec.reading import check_exactly_one, check_needed, given_of
from rollouts.api.spec.routing import check_routing
from rollouts.api.spec.selectors import check_selector, matches, selected_keys
from rollouts.api.spec.workload_ref import check_workload_ref
from rollouts.api.times import parse_time
from rollouts.api.v1alpha1.analysis import ObjectMetadata
from rollouts.api.v1alpha1.rollout import (
    AntiAffinityWire,
    BlueGreenStrategy,
    CanaryStep,
    CanaryStrategy,
    ProgressThresholdWire,
    RolloutSpecWire,
    RolloutStrategy,
)
from rollouts.api.v1alpha1.wire import wire_name
from rollouts.core.model.rollout import PROGRESS_DEADLINE_S, REVISION_HISTORY_LIMIT, Percent


def check(spec: RolloutSpecWire, problems: Problems) -> None:
    """Adds a problem for every rule that `spec` breaks."""
    deadline_s = spec.progress_deadline_seconds
    if deadline_s is None:
        deadline_s = int(PROGRESS_DEADLINE_S)
    min_ready_s = spec.min_ready_seconds or 0
    if deadline_s <= min_ready_s:
        problems.add(
            "spec.progressDeadlineSeconds",
            f"is {deadline_s} and must be more than minReadySeconds, which is {min_ready_s}: no pod could be available in time",
        )
    if spec.restart_at is not None:
        try:
            parse_time(spec.restart_at)
        except ValueError as error:
            problems.add("spec.restartAt", str(error))
    _check_pods(spec, problems)
    check_drain(spec.drain, problems)
    check_autoscaling(spec.autoscaling, spec.template, problems)
    strategy, path = spec.strategy or RolloutStrategy.empty(), "spec.strategy"
    check_exactly_one(strategy, path, problems, none="; it has neither", several="; it has both: remove one")
    if strategy.canary is not None:
        _check_canary(spec, strategy.canary, problems)
    if strategy.blue_green is not None:
        _check_blue_green(spec, strategy.blue_green, problems)


def _check_pods(spec: RolloutSpecWire, problems: Problems) -> None:
    reference = spec.workload_ref
    check_workload_ref(spec, problems)
    if spec.selector is not None:
        check_selector(spec.selector, "spec.selector", problems)
        for key in sorted(key for key in selected_keys(spec.selector) if key.startswith(OUR_PREFIX)):
            problems.add("spec.selector", f"must not use {key}: the controller sets it")
    elif reference is None:
        problems.add_missing("spec.selector", "is required: the labels that the pods of this Rollout have")
    if spec.template is None:
        if reference is None:
            problems.add_missing("spec.template", "is required")
        return
    labels = check_pod_template(spec.template, "spec.template", problems)
    if labels is not None and spec.selector is not None and not matches(spec.selector, labels):
        problems.add("spec.template.metadata.labels", "do not match spec.selector")


def _check_role_metadata(spec: RolloutSpecWire, metadata: ObjectMetadata | None, path: str, problems: Problems) -> None:
    """Checks the metadata of a role. It must not change keys of the selector or the template, because pods would be lost."""
    if metadata is None:
        return
    check_entries(metadata.labels or {}, f"{path}.labels", problems, labels=True)
    check_entries(metadata.annotations or {}, f"{path}.annotations", problems, labels=False)
    selected = selected_keys(spec.selector) if spec.selector else frozenset()
    of_template = (spec.template or {}).get("metadata")
    for field, entries in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        template_keys = of_template.get(field) if isinstance(of_template, dict) else None
        for key in entries or ():
            at = path_of((field, key), root=path)
            if field == "labels" and key in selected:
                problems.add(at, "is a key of spec.selector: pods would leave their ReplicaSet")
            elif isinstance(template_keys, dict) and key in template_keys:
                problems.add(at, "is in spec.template.metadata too; remove it from one of them")


def _check_anti_affinity(anti_affinity: AntiAffinityWire | None, path: str, problems: Problems) -> None:
    if anti_affinity is None:
        return
    check_exactly_one(anti_affinity, path, problems)
    if anti_affinity.preferred is not None:
        at = f"{path}.{wire_name(AntiAffinityWire, 'preferred')}"
        check_needed(anti_affinity.preferred, at, problems)


def _check_blue_green(spec: RolloutSpecWire, blue_green: BlueGreenStrategy, problems: Problems) -> None:
    path = "spec.strategy.blueGreen"
    check_needed(blue_green, path, problems)
    if blue_green.active_service is not None and blue_green.active_service == blue_green.preview_service:
        problems.add(f"{path}.previewService", "must differ from activeService")
    limit, history = blue_green.scale_down_delay_revision_limit, spec.revision_history_limit
    history = REVISION_HISTORY_LIMIT if history is None else history
    if limit is not None and limit > history:
        problems.add(
            f"{path}.scaleDownDelayRevisionLimit",
            f"is {limit} and must not be more than revisionHistoryLimit, {history}",
        )
    if isinstance(blue_green.max_unavailable, Percent) and blue_green.max_unavailable.value > 100:
        problems.add(f"{path}.maxUnavailable", "must be 100% or less")
    _check_anti_affinity(blue_green.anti_affinity, f"{path}.antiAffinity", problems)
    _check_role_metadata(spec, blue_green.active_metadata, f"{path}.activeMetadata", problems)
    _check_role_metadata(spec, blue_green.preview_metadata, f"{path}.previewMetadata", problems)
    check_without_weight(blue_green.before_update, f"{path}.beforeUpdate", problems)
    check_without_weight(blue_green.pre_promotion_analysis, f"{path}.prePromotionAnalysis", problems)
    check_without_weight(blue_green.post_promotion_analysis, f"{path}.postPromotionAnalysis", problems)


def _check_canary(spec: RolloutSpecWire, canary: CanaryStrategy, problems: Problems) -> None:
    path = "spec.strategy.canary"
    if canary.stable_service is not None and canary.stable_service == canary.canary_service:
        problems.add(f"{path}.canaryService", "must differ from stableService")
    if canary.max_surge in (0, Percent(0)) and canary.max_unavailable in (0, Percent(0)):
        problems.add(f"{path}.maxSurge", "must not be 0 while maxUnavailable is 0: no pod could be replaced")
    if isinstance(canary.max_unavailable, Percent) and canary.max_unavailable.value > 100:
        problems.add(f"{path}.maxUnavailable", "must be 100% or less")
    if canary.traffic_routing is None:
        if canary.scale_down_delay_seconds is not None:
            problems.add(f"{path}.scaleDownDelaySeconds", "needs trafficRouting")
        if canary.dynamic_stable_scale:
            problems.add(f"{path}.dynamicStableScale", "needs trafficRouting")
    elif canary.dynamic_stable_scale and canary.scale_down_delay_seconds is not None:
        problems.add(f"{path}.dynamicStableScale", "cannot be combined with scaleDownDelaySeconds")
    _check_threshold(canary.replica_progress_threshold, f"{path}.replicaProgressThreshold", problems)
    for index, step in enumerate(canary.steps or ()):
        _check_step(step, f"{path}.steps[{index}]", problems, with_routing=canary.traffic_routing is not None)
    check_without_weight(canary.before_update, f"{path}.beforeUpdate", problems)
    check_analysis(canary.before_set_weight, f"{path}.beforeSetWeight", problems)
    check_background(canary.analysis, f"{path}.analysis", problems, steps=len(canary.steps or ()))
    check_routing(canary, problems)
    _check_anti_affinity(canary.anti_affinity, f"{path}.antiAffinity", problems)
    _check_role_metadata(spec, canary.canary_metadata, f"{path}.canaryMetadata", problems)
    _check_role_metadata(spec, canary.stable_metadata, f"{path}.stableMetadata", problems)


def _check_threshold(threshold: ProgressThresholdWire | None, path: str, problems: Problems) -> None:
    if threshold is None:
        return
    check_needed(threshold, path, problems)
    if threshold.type == "Percent" and (threshold.value or 0) > 100:
        problems.add(f"{path}.value", "must be 100 or less for a percentage")


def _check_step(step: CanaryStep, path: str, problems: Problems, *, with_routing: bool) -> None:
    kinds = given_of(step)
    if not kinds:
        problems.add_missing(
            path, "needs exactly one kind of step; it has none (a pause until promotion is `pause: {}`)"
        )
    elif len(kinds) > 1:
        problems.add(
            path, f"needs exactly one kind of step; it has {', '.join(kinds)}: begin each with a dash of its own"
        )
    check_analysis(step.analysis, f"{path}.analysis", problems)
    check_experiment(step.experiment, f"{path}.experiment", problems)
    if step.set_canary_scale is not None:
        path = f"{path}.setCanaryScale"
        if not with_routing:
            problems.add(path, "needs trafficRouting: without it the weight decides the number of pods")
        check_exactly_one(step.set_canary_scale, path, problems, none="; it has none", several="; it has several")
