"""`spec` of an Experiment → core, with all defaults and rules; and from its analyses to the AnalysisRuns that they ask for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.arguments import check_arguments
from rollouts.api.spec.analysis.comparisons import BASELINE, CANARY, compares_baseline, with_arms
from rollouts.api.spec.analysis.name_rules import check_matched, check_rules
from rollouts.api.spec.analysis.name_rules import matches as matches_name
from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.analysis.templates import AnalysisUse, Find, TemplateName, run_of
from rollouts.api.spec.metadata import OUR_PREFIX, check_entries
from rollouts.api.spec.pod_template import check_pod_template
from rollouts.api.spec.reading import check_needed, core_value, read_model
from rollouts.api.spec.selectors import check_selector, matches, selected_keys
from rollouts.api.times import format_time
from rollouts.api.v1alpha1.analysis import (
    DryRun,
    ExperimentAnalysis,
    ExperimentTemplate,
    MeasurementRetention,
    ObjectMetadata,
    TemplateRef,
)
from rollouts.api.v1alpha1.analysis_template import TemplateArgument
from rollouts.api.v1alpha1.experiment import ExperimentSpecWire, PodGroupWire
from rollouts.core.analysis.run import shortest_s
from rollouts.core.experiment.model import (
    ExperimentSpec,
    GroupAnalysis,
    PodGroup,
    hash_of_pods,
    name_of_pods,
)
from rollouts.core.model.analysis import Draft, DraftProblem, RunDraft
from rollouts.core.model.frozen import replace
from rollouts.core.model.grammar import is_label_value, is_object_name
from rollouts.core.model.revision import canonical_json
from rollouts.core.model.rollout import PROGRESS_DEADLINE_S
from rollouts.core.model.service_traits import ServicePort
from rollouts.core.placeholders import filled
from rollouts.errors import SpecInvalid, SpecProblem
from rollouts.objects import has_more_parts, mapping, mappings

MESSAGE_MAX = 2_000  # characters: it becomes a part of one line in status
TOO_MANY_VALUES = "has more fields and entries of lists than are read: keep what is that long in a ConfigMap"


def parse_experiment(spec: Mapping[str, Any]) -> ExperimentSpec:
    """The `spec` of an Experiment, checked and with defaults. Raises: SpecInvalid with every problem found."""
    if has_more_parts(spec):
        raise SpecInvalid((SpecProblem("spec", TOO_MANY_VALUES),))
    problems = Problems()
    wire = read_model(ExperimentSpecWire, spec, problems, root="spec")
    _check(wire, problems)
    problems.raise_found()
    groups = tuple(_group(each) for each in wire.templates or ())
    analyses = tuple(
        GroupAnalysis(name=each.name or "", required=bool(each.required_for_completion)) for each in wire.analyses or ()
    )
    content = {name: part for name, part in spec.items() if name not in _MAY_CHANGE}
    try:
        content_hash = hashlib.sha256(canonical_json(content)).hexdigest()
    except (UnicodeEncodeError, RecursionError) as error:
        raise SpecInvalid((SpecProblem("spec", f"cannot be written as JSON: {error}"),)) from error
    return core_value(ExperimentSpec, wire, groups=groups, analyses=analyses, content_hash=content_hash)


_MAY_CHANGE = frozenset({"duration", "progressDeadlineSeconds", "scaleDownDelaySeconds", "terminate"})
"""What may change after the beginning."""


def _group(wire: PodGroupWire) -> PodGroup:
    template = wire.template or {}
    assert wire.selector is not None  # noqa: S101 - `_check` has seen it
    ports = wire.service.ports if wire.service is not None else None
    given = tuple(core_value(ServicePort, each, target=each.target_port) for each in ports or ())
    return core_value(
        PodGroup,
        wire,
        template_json=canonical_json(template),
        selector_json=canonical_json(wire.selector.model_dump(by_alias=True, exclude_none=True)),
        service=None if wire.service is None else wire.service.name or "",
        ports=given or _ports(template),
    )


def _ports(template: Mapping[str, Any]) -> tuple[ServicePort, ...]:
    """The ports that containers declare, each number and protocol once."""
    found: dict[tuple[int, str], str] = {}
    names: set[str] = set()
    for container in mappings(mapping(template.get("spec")).get("containers")):
        for port in mappings(container.get("ports")):
            number, protocol = port.get("containerPort"), port.get("protocol") or "TCP"
            if not isinstance(number, int) or not isinstance(protocol, str) or (number, protocol) in found:
                continue
            name = port.get("name")
            name = name if isinstance(name, str) and name and name not in names else f"{protocol.lower()}-{number}"
            names.add(name)
            found[number, protocol] = name
    return tuple(ServicePort(port=number, name=name, protocol=protocol) for (number, protocol), name in found.items())


def _check(wire: ExperimentSpecWire, problems: Problems) -> None:
    if not wire.templates:
        problems.add_missing("spec.templates", "needs at least one template: without one there are no pods")
    names: set[str] = set()
    services: set[str] = set()
    for index, group in enumerate(wire.templates or ()):
        path = f"spec.templates[{index}]"
        check_needed(group, path, problems)
        _check_name(group.name, f"{path}.name", names, problems)
        _check_pods(group, path, problems)
        _check_service(group, f"{path}.service.name", services, problems)
        deadline_s = wire.progress_deadline_seconds
        deadline_s = int(PROGRESS_DEADLINE_S) if deadline_s is None else deadline_s
        if deadline_s <= (group.min_ready_seconds or 0):
            why = f"is {group.min_ready_seconds or 0} and must be less than progressDeadlineSeconds, which is {deadline_s}"
            problems.add(f"{path}.minReadySeconds", f"{why}: no pod could be available in time")
    analyses: set[str] = set()
    for index, analysis in enumerate(wire.analyses or ()):
        path = f"spec.analyses[{index}]"
        check_needed(analysis, path, problems)
        _check_name(analysis.name, f"{path}.name", analyses, problems)
        check_arguments(_arguments(analysis, lambda _: ""), path, problems)
    check_rules(wire.dry_run or (), wire.measurement_retention or (), "spec", problems)
    if (metadata := wire.analysis_run_metadata) is not None:
        check_entries(metadata.labels or {}, "spec.analysisRunMetadata.labels", problems, labels=True)
        check_entries(metadata.annotations or {}, "spec.analysisRunMetadata.annotations", problems, labels=False)


def _check_name(name: str | None, path: str, names: set[str], problems: Problems) -> None:
    """The name becomes a part of names and labels of objects."""
    if name is None:
        return
    if not (is_object_name(name) and is_label_value(name)):
        problems.add(path, f"must be lower-case letters, digits and '-', 63 at most, not {name[:80]!r}")
    if name in names:
        problems.add(path, f"{name!r} is the name of another one too")
    names.add(name)


def _check_pods(group: PodGroupWire, path: str, problems: Problems) -> None:
    if group.selector is not None:
        check_selector(group.selector, f"{path}.selector", problems)
        for key in sorted(key for key in selected_keys(group.selector) if key.startswith(OUR_PREFIX)):
            problems.add(f"{path}.selector", f"must not use {key}: the controller sets it")
    if group.template is None:
        return
    labels = check_pod_template(group.template, f"{path}.template", problems)
    if labels is not None and group.selector is not None and not matches(group.selector, labels):
        problems.add(f"{path}.template.metadata.labels", f"do not match {path}.selector")


def _check_service(group: PodGroupWire, path: str, services: set[str], problems: Problems) -> None:
    ports = (group.service.ports if group.service is not None else None) or ()
    for index, port in enumerate(ports):
        check_needed(port, f"{path.removesuffix('name')}ports[{index}]", problems)
    name = group.service.name if group.service is not None else None
    if name is None:
        return
    if not is_object_name(name) or "." in name or len(name) > 63 or not name[0].isalpha():
        problems.add(
            path, f"must be the name of a Service: it begins with a letter, 63 characters at most, not {name[:80]!r}"
        )
    if name in services:
        problems.add(path, f"{name!r} is the name of another template's Service too")
    services.add(name)


def _arguments(analysis: ExperimentAnalysis, value_of: Callable[[str], str | None]) -> list[TemplateArgument]:
    given = [argument.model_dump(by_alias=True, exclude_none=True) for argument in analysis.args or ()]
    for argument in given:
        if "value" in argument:
            argument["value"] = filled(argument["value"], value_of)
    return [TemplateArgument.model_validate(argument) for argument in given]


def drafts_of(
    spec: Mapping[str, Any],
    core: ExperimentSpec,
    find: Find,
    *,
    name: str,
    uid: str,
    available_at_s: float,
    step: Mapping[str, ExperimentTemplate] = {},
) -> dict[str, Draft]:
    """The run that each analysis asks for, or why none can be made, by the name of the analysis.

    Args:
        spec: as it is written, of which `core` was made.
        available_at_s: when all pods were available; before that the time of this look, to try the arguments.
        step: the templates as a step of a Rollout has them, by name.
    """
    wire = read_model(ExperimentSpecWire, spec, Problems(), root="spec")
    values = {"experiment.availableAt": format_time(available_at_s)}
    find = _finding_arms(find, core.groups, uid, step)
    for group in core.groups:
        values[f"templates.{group.name}.podTemplateHash"] = hash_of_pods(uid, group)
        values[f"templates.{group.name}.replicaset.name"] = name_of_pods(name, uid, group)
    drafts: dict[str, Draft] = {}
    metrics: set[str] = set()
    for index, analysis in enumerate(wire.analyses or ()):
        try:
            spec_json, measured = _run(wire, analysis, f"spec.analyses[{index}]", find, values)
        except SpecInvalid as invalid:
            drafts[analysis.name or ""] = DraftProblem(str(invalid)[:MESSAGE_MAX])
            continue
        metrics |= measured
        metadata = wire.analysis_run_metadata or ObjectMetadata.empty()
        labels, annotations = metadata.labels or {}, metadata.annotations or {}
        drafts[analysis.name or ""] = RunDraft(spec_json, "", "", labels, annotations)
    problems = Problems()
    if not any(isinstance(draft, DraftProblem) for draft in drafts.values()):
        check_matched(wire.dry_run or (), wire.measurement_retention or (), sorted(metrics), "spec", problems)
    if found := problems.found():
        return dict.fromkeys(drafts, DraftProblem(str(SpecInvalid(found))[:MESSAGE_MAX]))
    return drafts


def _finding_arms(find: Find, groups: Sequence[PodGroup], uid: str, step: Mapping[str, ExperimentTemplate]) -> Find:
    """Finds templates, and lets their comparisons with a baseline be of the Experiment's pods."""

    def found(name: TemplateName) -> Mapping[str, Any] | None:
        template = find(name)
        if template is None or not compares_baseline(template):
            return template
        if problem := _no_baseline(groups, step, name):
            raise SpecInvalid((problem,))
        canary, baseline = (hash_of_pods(uid, each) for of in _ARMS for each in groups if each.name == of)
        return with_arms(template, canary=canary, baseline=baseline)

    return found


_ARMS = {CANARY: "canary", BASELINE: "stable"}
"""The templates that a comparison with a baseline is about, and the revisions that they are of in a step."""


def _no_baseline(
    groups: Sequence[PodGroup], step: Mapping[str, ExperimentTemplate], asked_by: TemplateName
) -> SpecProblem | None:
    """Why a template that asks for it cannot compare the pods with a baseline: it takes as many, with as many requests."""
    by_name = {group.name: (index, group) for index, group in enumerate(groups)}
    for name, of in _ARMS.items():
        if name not in by_name:
            return SpecProblem("spec.templates", f"have no {name}, and {asked_by} compares {CANARY} with {BASELINE}")
        if step and (role := step[name].spec_ref) != of:
            why = f"must be {of} and not {role}: {asked_by} compares {CANARY} with {BASELINE}"
            return SpecProblem(f"spec.templates[{by_name[name][0]}].specRef", why)
    index, baseline = by_name[BASELINE]
    numbers = {"replicas": (baseline.replicas, by_name[CANARY][1].replicas)}
    if step:
        numbers["weight"] = (step[BASELINE].weight or 0, step[CANARY].weight or 0)
    for field, (found, needed) in numbers.items():
        if found != needed:
            why = f"is {found} and must be {needed}, as of {CANARY}: {asked_by} compares them"
            return SpecProblem(f"spec.templates[{index}].{field}", why)
    return None


def _run(
    wire: ExperimentSpecWire, analysis: ExperimentAnalysis, path: str, find: Find, values: Mapping[str, str]
) -> tuple[bytes, set[str]]:
    """The spec of an analysis's run, and the names of its metrics. Raises: SpecInvalid."""
    reference = {"templateName": analysis.template_name, "clusterScope": analysis.cluster_scope}
    use = AnalysisUse(
        path=path, templates=(TemplateRef.model_validate(reference),), args=_arguments(analysis, values.get)
    )
    try:
        run = run_of(use, find, None)
        metrics = {str(metric["name"]) for metric in run["metrics"]}
        for field, rules in (
            ("dryRun", wire.dry_run or ()),
            ("measurementRetention", wire.measurement_retention or ()),
        ):
            if about := _about(rules, metrics):
                run[field] = [*run.get(field, ()), *about]
        _check_metrics(run, path, needs_end=bool(analysis.required_for_completion) or wire.duration is None)
        return msgspec.json.encode(run), metrics
    except SpecInvalid as invalid:
        # The builder of runs knows lists of templates, and an analysis of an Experiment names one.
        named = [
            replace(each, path=f"{path}.templateName") if each.path == f"{path}.templates[0]" else each
            for each in invalid.problems
        ]
        raise SpecInvalid(tuple(named)) from invalid
    except (RecursionError, UnicodeError) as error:
        raise SpecInvalid((SpecProblem(path, f"the AnalysisRun cannot be written as JSON: {error}"),)) from error


def _about(rules: Sequence[DryRun | MeasurementRetention], metrics: Collection[str]) -> list[dict[str, Any]]:
    """Of the rules for all analyses those that are about one of these metrics."""
    matching = (rule for rule in rules if any(matches_name(rule.metric_name or "", name) for name in metrics))
    return [rule.model_dump(by_alias=True, exclude_none=True) for rule in matching]


def _check_metrics(run: Mapping[str, Any], path: str, *, needs_end: bool) -> None:
    """Raises: SpecInvalid, also for a metric about pods of a Rollout, and for one that never ends where nothing else would end
    the Experiment.
    """
    metrics = parse_run(run, root=path).metrics
    if of_rollout := [metric.rules.name for metric in metrics if metric.source.of_rollout]:
        why = f"measures {of_rollout[0]} of pods of a Rollout, and those here are the Experiment's"
        remedy = "ask a server or a Job about them, by {{templates.NAME.podTemplateHash}} as an argument"
        raise SpecInvalid((SpecProblem(path, f"{why}: {remedy}"),))
    endless = [metric.rules.name for metric in metrics if math.isinf(shortest_s((metric.rules,)))]
    if needs_end and endless:
        why = f"measures {endless[0]} until somebody ends it, and the Experiment waits for its verdict"
        remedy = "give that metric a count, or the Experiment a duration without requiredForCompletion"
        raise SpecInvalid((SpecProblem(path, f"{why}: {remedy}"),))
