"""Turns a Rollout of the API server into core values. All defaults and all validation are applied here and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, assert_never

from msgspec import Struct
from pydantic_core import from_json

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.in_rollouts import core_analysis
from rollouts.api.spec.autoscaling import autoscaling_gate
from rollouts.api.spec.drain import drain_spec
from rollouts.api.spec.experiment_step import core_experiment
from rollouts.api.spec.metadata import OUR_PREFIX
from rollouts.api.spec.reading import core_value, read_model
from rollouts.api.spec.retired import refuse_retired
from rollouts.api.spec.routing import header_route, mirror_route, pair_of, traffic_routing, weight_percent
from rollouts.api.spec.rules import check
from rollouts.api.spec.selectors import selector_text
from rollouts.api.times import parse_time
from rollouts.api.v1alpha1.analysis import AnalysisLimits
from rollouts.api.v1alpha1.rollout import (
    AntiAffinityWire,
    CanaryStep,
    CanaryStrategy,
    ConfigVersioningWire,
    Drain,
    History,
    RolloutSpecWire,
    RolloutStrategy,
    WorkloadRef,
)
from rollouts.core.config.references import SOURCES_MAX, references
from rollouts.core.model.author import NAME_MAX, NOTE_SUFFIX, Author, AuthorKind
from rollouts.core.model.config import ConfigVersioning
from rollouts.core.model.drain import PreStop
from rollouts.core.model.frozen import one_for_all, replace
from rollouts.core.model.pod_exit import PodExit, read_pod_exit
from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.core.model.rollout import (
    HISTORY_LIMIT,
    RUNS_KEPT,
    AntiAffinity,
    BlueGreen,
    Canary,
    Percent,
    ProgressThreshold,
    Rollout,
    RolloutSpec,
    Strategy,
)
from rollouts.core.model.selectors import template_labels
from rollouts.core.model.status import Verb
from rollouts.core.model.steps import (
    Analyze,
    MatchTrafficWeight,
    Pause,
    PauseUntilPromoted,
    RunExperiment,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetHeaderRoute,
    SetMirrorRoute,
    SetWeight,
    Step,
    WeightPercent,
)
from rollouts.core.model.traffic import RequestMatch
from rollouts.core.model.workload_ref import NamedWorkload, WorkloadMode
from rollouts.errors import SpecInvalid, SpecProblem
from rollouts.objects import VALUES_MAX, has_more_parts, has_more_values

_P = TypeVar("_P")
_T = TypeVar("_T")

TOO_MANY_VALUES = (
    f"has more than {VALUES_MAX:,} fields and entries of lists, and reading them would hold up other Rollouts: keep what is that "
    "long in a ConfigMap, or in one text"
)


class WorkloadTemplate(Struct, frozen=True):
    """What a Rollout takes from the workload that its spec names.

    Args:
        template: its pod template.
        selector: its label selector; None for a PodTemplate, which has none.
    """

    template: Mapping[str, Any]
    selector: Mapping[str, Any] | None = None


def parse_spec(spec: Mapping[str, Any] | bytes, workload: WorkloadTemplate | None = None) -> RolloutSpec:
    """The `spec` of a Rollout, checked and with defaults.

    Args:
        spec: a JSON object, or the bytes of one; it is not changed.
        workload: of the workload that `workloadRef` names; None while it is not known: then the spec has no template.

    Raises: SpecInvalid with every problem found.
    """
    raw = _decoded(spec)
    problems = Problems()
    wire = read_model(RolloutSpecWire, raw, problems, root="spec")
    refuse_retired(wire, problems)
    check(wire, problems)
    problems.raise_found()
    template, selector = raw.get("template"), raw.get("selector")
    reference = None if wire.workload_ref is None else _named_workload(wire.workload_ref)
    if reference is not None and workload is not None:
        template, selector = workload.template, selector or workload.selector
        wire = _with_template_of(wire, reference, template, selector)
    assert wire.strategy is not None  # noqa: S101 - api/spec/rules.py has checked it
    strategy, strategy_hash = _written_as_json("spec.strategy", _strategy, wire.strategy)
    template_json = _written_as_json("spec.template", canonical_json, template or {})
    template_hash = "" if template is None else short_hash(template_json)
    given = wire.config_versioning or ConfigVersioningWire.empty()
    in_place = reference is not None and reference.mode is WorkloadMode.IN_PLACE
    versioning = core_value(ConfigVersioning, given, enabled=given.mode != "Off" and not in_place)
    refs = references(template, secrets=versioning.secrets) if template is not None and versioning.enabled else ()
    if len(refs) > SOURCES_MAX:
        what = f"names {len(refs)} ConfigMaps and Secrets, and {SOURCES_MAX} at most can belong to a revision"
        message = f"{what}: name fewer, or set spec.configVersioning.mode: Off"
        raise SpecInvalid((SpecProblem("spec.template", message),))
    ends = read_pod_exit(template or {})
    kept, drain = wire.analysis or AnalysisLimits.empty(), drain_spec(wire.drain or Drain.empty(), ends)
    return core_value(
        RolloutSpec,
        wire,
        replicas=1 if wire.replicas is None else wire.replicas,
        selector_json=canonical_json(selector or {}),
        selector_text="" if wire.selector is None else selector_text(wire.selector),
        template_json=template_json,
        template_hash=template_hash,
        revision=template_hash,
        strategy=strategy,
        strategy_hash=strategy_hash,
        restart_at_s=parse_time(wire.restart_at) if wire.restart_at is not None else None,
        rollback_window_revisions=(wire.rollback_window and wire.rollback_window.revisions) or None,
        successful_runs_kept=_or(kept.successful_run_history_limit, RUNS_KEPT),
        unsuccessful_runs_kept=_or(kept.unsuccessful_run_history_limit, RUNS_KEPT),
        history_limit=_or((wire.history or History.empty()).limit, HISTORY_LIMIT),
        drain=one_for_all(
            replace(drain, pre_stop=PreStop.VALIDATE) if in_place and drain.pre_stop is PreStop.INJECT else drain
        ),
        ends=PodExit(grace_s=0) if template is None else ends,  # nothing is known to be wrong with it
        config_versioning=one_for_all(versioning),
        config_refs=refs,
        autoscaling=autoscaling_gate(wire.autoscaling),
        template_labels=template_labels(template),
        workload_ref=reference,
    )


def _named_workload(wire: WorkloadRef) -> NamedWorkload:
    nodes = "" if wire.canary_nodes is None else selector_text(wire.canary_nodes)
    name = sys.intern(wire.name or "")  # the text that the workload's own name is
    return core_value(NamedWorkload, wire, name=name, canary_nodes=nodes)


def _with_template_of(
    wire: RolloutSpecWire, reference: NamedWorkload, template: Mapping[str, Any], selector: Mapping[str, Any] | None
) -> RolloutSpecWire:
    """The spec as if the workload's template and selector stood in it.

    Raises: SpecInvalid with what the spec does not allow of them.
    """
    problems = Problems()
    of_workload = read_model(RolloutSpecWire, {"selector": selector}, problems, root="spec").selector
    joined = wire.model_copy(update={"template": dict(template), "selector": of_workload, "workload_ref": None})
    check(joined, problems)
    if found := problems.found():
        raise SpecInvalid(
            tuple(SpecProblem("spec.workloadRef", f"{reference}: {problem}", problem.may_come) for problem in found)
        )
    return joined


def _written_as_json(path: str, write: Callable[[_P], _T], part: _P) -> _T:
    """What `write` makes of a part of the spec; what JSON cannot hold is a problem at `path`."""
    try:
        return write(part)
    except (UnicodeEncodeError, RecursionError) as error:
        raise SpecInvalid((SpecProblem(path, f"cannot be written as JSON: {error}"),)) from error


def parse_rollout(  # noqa: PLR0913 - keyword-only: callers have the parts of an object separately
    *,
    namespace: str,
    name: str,
    uid: str,
    resource_version: str,
    generation: int,
    created_at_s: float,
    annotations: Mapping[str, str],
    spec: Mapping[str, Any] | bytes | RolloutSpec,
    deleting: bool = False,
    annotators: Mapping[str, str] | None = None,
    notes: bool = False,
) -> Rollout:
    """Makes a Rollout of the parts of its object.

    Args:
        annotations: all annotations of the object.
        spec: JSON, or a spec that was parsed before.
        annotators: the field manager that set each annotation, by the annotation's key.
        notes: whether a policy of the API server notes who gave a command, so that nobody can write such a note.

    Raises: SpecInvalid with every problem found.
    """
    own, managers = own_annotations(annotations), own_annotations(annotators or {})
    authors = {}
    for verb in Verb:
        if verb not in own:
            continue
        if notes and (user := _one_line(own.get(f"{verb}{NOTE_SUFFIX}", ""))):
            authors[verb.value] = Author(user, AuthorKind.USER)
        elif manager := _one_line(managers.get(verb, "")):
            authors[verb.value] = Author(manager, AuthorKind.FIELD_MANAGER)
    restart_asked_at_s = None
    with suppress(ValueError):  # for nonsense, which `decide` reports, as for `true` there is no time
        restart_asked_at_s = parse_time(own[Verb.RESTART]) if own.get(Verb.RESTART) else None
    return Rollout(
        namespace=namespace,
        name=name,
        uid=uid,
        resource_version=resource_version,
        generation=generation,
        created_at_s=created_at_s,
        spec=spec if isinstance(spec, RolloutSpec) else parse_spec(spec),
        annotations=own,
        annotated_by=authors,
        restart_asked_at_s=restart_asked_at_s,
        deleting=deleting,
    )


def _one_line(name: str) -> str:
    """A name as people may be shown it: others chose it."""
    return "".join(character if character.isprintable() else "?" for character in name[:NAME_MAX]).strip()


def own_annotations(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """The annotations whose keys begin with `rollouts.dev/`, without that prefix."""
    return {key.removeprefix(OUR_PREFIX): value for key, value in annotations.items() if key.startswith(OUR_PREFIX)}


def warm_up() -> None:
    """Builds the validator now (about 60 ms of CPU) rather than in the first pass. Safe to call again."""
    RolloutSpecWire.model_rebuild()


def _decoded(spec: Mapping[str, Any] | bytes) -> Mapping[str, Any]:
    if has_more_values(spec) if isinstance(spec, bytes) else has_more_parts(spec):
        raise SpecInvalid((SpecProblem("spec", TOO_MANY_VALUES),))
    if isinstance(spec, bytes):
        try:
            spec = from_json(spec, cache_strings="keys")  # as in status/wire.py
        except ValueError as error:
            if "recursion" in str(error):  # pydantic_core reads about 200 levels; only this word tells the error apart
                message = "is nested too deeply; no Kubernetes object needs 200 levels: make it flatter"
                raise SpecInvalid((SpecProblem("spec", message),)) from error
            raise SpecInvalid((SpecProblem("spec", f"is not JSON: {error}"),)) from error
    if not isinstance(spec, Mapping):
        raise SpecInvalid((SpecProblem("spec", "must be an object"),))
    return spec


def _strategy(wire: RolloutStrategy) -> tuple[Strategy, str]:
    """The strategy, and the hash of what its steps mean, not of their text: `pause: 60` for `pause: 1m` restarts no update."""
    strategy: Strategy
    if (canary := wire.canary) is not None:
        stable_service, canary_service = pair_of(canary)
        progress, threshold = canary.replica_progress_threshold, None
        if (
            progress is not None and progress.value is not None and progress.value >= 0
        ):  # Argo: below 0 means no threshold
            threshold = ProgressThreshold(Percent(progress.value) if progress.type == "Percent" else progress.value)
        strategy = core_value(
            Canary,
            canary,
            steps=_steps(canary),
            stable_service=stable_service,
            canary_service=canary_service,
            ping_pong=canary.ping_pong is not None,
            traffic_routing=traffic_routing(canary),
            anti_affinity=_anti_affinity(canary.anti_affinity),
            replica_progress_threshold=threshold,
            analysis=core_analysis(canary.analysis, "spec.strategy.canary.analysis"),
            before_update=core_analysis(canary.before_update, "spec.strategy.canary.beforeUpdate"),
        )
        facts = {"kind": "canary", "steps": [_step_fact(step) for step in strategy.steps]}
    else:
        blue_green = wire.blue_green
        assert blue_green is not None  # noqa: S101 - api/spec/rules.py has checked it
        path = "spec.strategy.blueGreen"
        strategy = core_value(
            BlueGreen,
            blue_green,
            anti_affinity=_anti_affinity(blue_green.anti_affinity),
            before_update=core_analysis(blue_green.before_update, f"{path}.beforeUpdate"),
            pre_promotion=core_analysis(blue_green.pre_promotion_analysis, f"{path}.prePromotionAnalysis"),
            post_promotion=core_analysis(blue_green.post_promotion_analysis, f"{path}.postPromotionAnalysis"),
        )
        facts = {"kind": "blueGreen", "steps": []}
    return strategy, short_hash(canonical_json(facts))


def _step_fact(step: Step) -> list[Any]:
    match step:
        case SetWeight(percent):
            return ["setWeight", percent if isinstance(percent, int) else str(percent)]
        case Pause(duration_s):
            return ["pause", duration_s]
        case PauseUntilPromoted():
            return ["pauseUntilPromoted"]
        case SetCanaryReplicas(replicas):
            return ["setCanaryReplicas", replicas]
        case SetCanaryScalePercent(percent):
            return ["setCanaryScalePercent", percent]
        case MatchTrafficWeight():
            return ["matchTrafficWeight"]
        case SetHeaderRoute(name, request):
            return ["setHeaderRoute", name, request and _request_fact(request)]
        case SetMirrorRoute(name, mirror):
            matches = mirror and [mirror.percent, *map(_request_fact, mirror.matches)]
            return ["setMirrorRoute", name, matches]
        case RunExperiment(analysis, weights):
            shares = [["weight", each.template, str(each.weight_percent)] for each in weights]
            return ["experiment", *analysis.templates, *shares]
        case Analyze(analysis):  # its arguments are no part of its identity: to change one restarts no update
            return ["analysis", *analysis.templates]
        case _:
            assert_never(step)


def _request_fact(request: RequestMatch) -> list[Any]:
    """The conditions that are set. Conditions that a later version adds do not change the hash of today's steps."""
    facts: list[Any] = []
    for name, text in (("method", request.method), ("path", request.path)):
        if text is not None:
            facts.append([name, text.kind.value, text.value])
    for kind, named in (("header", request.headers), ("cookie", request.cookies), ("query", request.query)):
        facts += [[kind, match.name, match.value.kind.value, match.value.value] for match in named]
    return facts


def _steps(canary: CanaryStrategy) -> tuple[Step, ...]:
    """The core's steps; those that raise the weight have the analysis before them."""
    before = core_analysis(canary.before_set_weight, "spec.strategy.canary.beforeSetWeight")
    steps: list[Step] = []
    weight: WeightPercent = 0
    for index, wire in enumerate(canary.steps or ()):
        step = _step(wire, index, canary)
        if isinstance(step, SetWeight):
            rises, weight = step.weight_percent > weight, step.weight_percent
            step = SetWeight(weight, before if rises else None)
        steps.append(step)
    return tuple(steps)


def _step(wire: CanaryStep, index: int, canary: CanaryStrategy) -> Step:
    """The core's value of a step; api/spec/rules.py and api/spec/retired.py have refused all other steps."""
    if wire.set_weight is not None:
        return SetWeight(weight_percent(wire.set_weight, canary))
    if wire.set_header_route is not None:
        return header_route(wire.set_header_route)
    if wire.set_mirror_route is not None:
        return mirror_route(wire.set_mirror_route)
    if (analysis := core_analysis(wire.analysis, f"spec.strategy.canary.steps[{index}].analysis")) is not None:
        return Analyze(analysis)
    if wire.experiment is not None:
        return core_experiment(wire.experiment, f"spec.strategy.canary.steps[{index}].experiment", canary)
    if (scale := wire.set_canary_scale) is not None:
        if scale.replicas is not None:
            return SetCanaryReplicas(scale.replicas)
        if scale.weight is not None:
            return SetCanaryScalePercent(scale.weight)
        return MatchTrafficWeight()
    if wire.pause is not None and wire.pause.duration is not None:
        return Pause(wire.pause.duration)
    return PauseUntilPromoted()


def _anti_affinity(wire: AntiAffinityWire | None) -> AntiAffinity | None:
    if wire is None:
        return None
    if wire.preferred is not None and wire.preferred.weight is not None:
        return AntiAffinity(required=False, weight=wire.preferred.weight)
    return AntiAffinity(required=True)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
