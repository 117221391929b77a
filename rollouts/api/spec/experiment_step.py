"""The canary step `experiment` → core, with its rules; and from it to the Experiment that is made for an update.

The Experiment is complete: it has copies of the pod templates of both revisions, so nothing that happens later changes it.
Source: Argo Rollouts' rollout/experiment.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.arguments import Updated, resolved_arguments
from rollouts.api.spec.analysis.templates import Find
from rollouts.api.spec.experiment import drafts_of, parse_experiment
from rollouts.api.spec.metadata import OUR_PREFIX, check_entries
from rollouts.api.spec.reading import check_needed, core_value
from rollouts.api.spec.routing import weight_percent
from rollouts.api.spec.selectors import check_selector
from rollouts.api.v1alpha1.analysis import Experiment, ExperimentTemplate
from rollouts.api.v1alpha1.analysis_template import TemplateArgument
from rollouts.api.v1alpha1.rollout import CanaryStrategy
from rollouts.core.model.analysis import Analysis, DraftProblem, RunDraft, TemplatesUnread
from rollouts.core.model.revision import canonical_json
from rollouts.core.model.rollout import RolloutSpec
from rollouts.core.model.service_traits import ServicePort
from rollouts.core.model.steps import RunExperiment, TemplateWeight
from rollouts.errors import SpecInvalid, SpecProblem
from rollouts.objects import CLUSTER_ANALYSIS_TEMPLATE, Manifest, mapping


class PodsBeside(Struct, frozen=True, kw_only=True):
    """What an Experiment takes from the Rollout's own pods.

    Args:
        stand_in: the pod template of the spec: what is wrong with the step beside it is told before the first pod.
        selector: of the Rollout, JSON.
        revision_label: label by which pods of revisions are told apart, where that is not `rollouts.dev/revision`.
        sets: name and uid of the ReplicaSets of the `stable` and of the `canary`; None for one that is not there.
        templates: pod templates, JSON, of those that are there; None for one that is not read yet.
        ports: of the stable Service, which routes name; None while that is not seen.
    """

    stand_in: bytes
    selector: bytes
    revision_label: str
    min_ready_s: int
    progress_deadline_s: float
    sets: Mapping[str, tuple[str, str] | None] = {}
    templates: Mapping[str, bytes | None] = {}
    ports: tuple[ServicePort, ...] | None = None

    @property
    def known(self) -> tuple[object, ...]:
        """What changes when another Experiment would be made."""
        read = tuple([(role, template is not None) for role, template in self.templates.items()])
        return (*self.sets.values(), *read, self.selector, self.min_ready_s, self.progress_deadline_s, self.ports)

    def unread(self, roles: Collection[str], *, weighted: bool) -> TemplatesUnread | None:
        """What must be read before pods of these roles can be run; None when all is there.

        Args:
            weighted: some of them get requests, by the ports of the stable Service.
        """
        if weighted and self.ports is None:
            return TemplatesUnread(())
        missing = [self.sets.get(role) for role in sorted(roles) if self.templates.get(role) is None]
        if not missing:
            return None
        return TemplatesUnread(() if None in missing else tuple([each for each in missing if each is not None]))


_LABELS = {"rollouts-example": "pod"}
_ANY_PODS: Manifest = {
    "selector": {"matchLabels": _LABELS},
    "template": {"metadata": {"labels": _LABELS}, "spec": {"containers": [{"name": "any", "image": "any"}]}},
}
"""In the place of pods that only an update has."""


_ANY_PORTS = (ServicePort(port=80),)


def pods_beside(spec: RolloutSpec) -> PodsBeside:
    """What an Experiment takes from a spec."""
    known = spec.template_json != b"{}"
    return PodsBeside(
        stand_in=spec.template_json if known else canonical_json(_ANY_PODS["template"]),
        selector=spec.selector_json if known else canonical_json(_ANY_PODS["selector"]),
        revision_label=spec.revision_label,
        min_ready_s=spec.min_ready_s,
        progress_deadline_s=spec.progress_deadline_s,
    )


def check_experiment(wire: Experiment | None, path: str, problems: Problems) -> None:
    """Adds a problem for every rule that an experiment at `path` breaks, as far as it says nothing about pods of a revision."""
    if wire is None:
        return
    groups = wire.templates or ()
    for index, group in enumerate(groups):
        at = f"{path}.templates[{index}]"
        check_needed(group, at, problems)
        if (metadata := group.metadata) is not None:
            check_entries(metadata.labels or {}, f"{at}.metadata.labels", problems, labels=True)
            check_entries(metadata.annotations or {}, f"{at}.metadata.annotations", problems, labels=False)
        if group.selector is not None:
            check_selector(group.selector, f"{at}.selector", problems)
    if wire.on_deadline is not None and wire.deadline_seconds is None:
        problems.add(f"{path}.onDeadline", "needs deadlineSeconds: without it there is no deadline")
    try:
        parse_experiment(_spec(wire, [_group(group, _ANY_PODS) for group in groups]))
    except SpecInvalid as invalid:
        for problem in _at(path, invalid):
            problems.add_missing(problem.path, problem.message)


def core_experiment(wire: Experiment, path: str, canary: CanaryStrategy) -> RunExperiment:
    """The core's value of an experiment at `path`, which `check_experiment` has found right."""
    names = {
        f"{CLUSTER_ANALYSIS_TEMPLATE.kind}/{each.template_name}" if each.cluster_scope else each.template_name or ""
        for each in wire.analyses or ()
    }
    settings = wire.model_dump(
        by_alias=True, exclude_none=True, exclude={"duration", "on_failure", "deadline_seconds", "on_deadline"}
    )
    analysis = core_value(
        Analysis, wire, path=path, settings=settings | _duration(wire), templates=tuple(sorted(names))
    )
    weights = [
        TemplateWeight(group.name or "", weight_percent(group.weight, canary))
        for group in wire.templates or ()
        if group.weight
    ]
    return RunExperiment(analysis, tuple(weights))


def experiment_of(analysis: Analysis, find: Find, of: Updated, beside: PodsBeside) -> RunDraft | TemplatesUnread:
    """The Experiment that the step asks for now. Raises: SpecInvalid with every problem found."""
    wire = Experiment.model_validate(analysis.settings)
    by_role = [(group.spec_ref or "", group) for group in wire.templates or ()]
    groups = [_group(group, _pods(beside, role), beside.ports) for role, group in by_role]
    problems, weighted = Problems(), any(group.weight for _, group in by_role)
    given = _given(wire, of, beside, analysis.path, problems)
    problems.raise_found()
    spec = _spec(wire, groups) | given | {"progressDeadlineSeconds": int(beside.progress_deadline_s)}
    try:
        core = parse_experiment(spec)
    except SpecInvalid as invalid:
        raise SpecInvalid(tuple(_at(analysis.path, invalid))) from invalid
    named = {group.name or "": group for _, group in by_role}
    drafts = drafts_of(spec, core, find, name="", uid="", available_at_s=0.0, step=named).values()
    for draft in [draft for draft in drafts if isinstance(draft, DraftProblem)]:
        at, _, why = draft.message.partition(": ")
        problems.add(f"{analysis.path}{at.removeprefix('spec')}" if at.startswith("spec.") else at, why)
    problems.raise_found()
    unread = beside.unread({role for role, _ in by_role}, weighted=weighted)
    if unread is not None:
        return unread
    return RunDraft(spec_json=canonical_json(spec), latest=of.latest, stable=of.stable, keeps_pods=weighted)


def _spec(wire: Experiment, groups: list[Manifest]) -> Manifest:
    """`spec` of the Experiment, with the fields that the step has too."""
    same = {"analyses", "dry_run", "analysis_run_metadata", "scale_down_delay_seconds"}
    spec: Manifest = wire.model_dump(by_alias=True, exclude_none=True, include=same)
    return spec | _duration(wire) | {"templates": groups}


def _duration(wire: Experiment) -> Manifest:
    """As it is written: `300s`."""
    return {} if wire.duration is None else {"duration": f"{wire.duration:.6f}".rstrip("0").rstrip(".") + "s"}


def _group(wire: ExperimentTemplate, pods: Manifest, ports: Collection[ServicePort] | None = None) -> Manifest:
    """One of the templates of the Experiment: that of a revision, with the names that the step gives.

    Args:
        ports: of the stable Service. A route names them, so the Service of a template with a weight has the same ones.
    """
    group: Manifest = wire.model_dump(by_alias=True, exclude_none=True, include={"name", "replicas", "service"})
    if wire.weight:
        group["service"] = {**mapping(group.get("service")), "ports": [each.manifest for each in ports or _ANY_PORTS]}
    selector = pods["selector"] if wire.selector is None else wire.selector.model_dump(by_alias=True, exclude_none=True)
    template, metadata = dict(pods["template"]), dict(mapping(pods["template"].get("metadata")))
    if wire.metadata is not None:
        labels, annotations = wire.metadata.labels or {}, wire.metadata.annotations or {}
        metadata["labels"] = {**mapping(metadata.get("labels")), **labels}
        metadata["annotations"] = {**mapping(metadata.get("annotations")), **annotations}
        if labels:
            selector = {**selector, "matchLabels": {**mapping(selector.get("matchLabels")), **labels}}
    template["metadata"] = metadata
    kept = {"minReadySeconds": pods["minReadySeconds"]} if pods.get("minReadySeconds") else {}
    return {**group, **kept, "selector": selector, "template": template}


def _pods(beside: PodsBeside, role: str) -> Manifest:
    """Selector and template of the pods of a revision, without what tells them apart from those of other revisions."""
    template: Manifest = msgspec.json.decode(beside.templates.get(role) or beside.stand_in)
    metadata = dict(mapping(template.get("metadata")))
    for field in ("labels", "annotations"):
        entries = mapping(metadata.get(field))
        metadata[field] = {
            key: text
            for key, text in entries.items()
            if not key.startswith(OUR_PREFIX) and key != beside.revision_label
        }
    template["metadata"] = metadata
    return {
        "selector": msgspec.json.decode(beside.selector),
        "template": template,
        "minReadySeconds": beside.min_ready_s,
    }


def _given(wire: Experiment, of: Updated, beside: PodsBeside, path: str, problems: Problems) -> Manifest:
    """`analyses` of the Experiment, with the values that come from the Rollout; {} for none. Checks that there are ports, too."""
    if beside.ports == () and any(group.weight for group in wire.templates or ()):
        why = "have weights, and the stable Service has no ports: the Services of their pods get the same ones"
        problems.add(f"{path}.templates", f"{why}; give it the ports that the routes name")
    analyses = list[dict[str, Any]]()
    for index, each in enumerate(wire.analyses or ()):
        dumped = each.model_dump(by_alias=True, exclude_none=True)
        if each.args:
            given = [TemplateArgument.model_validate(argument) for argument in dumped["args"]]
            resolved = resolved_arguments(given, of, f"{path}.analyses[{index}]", problems)
            dumped["args"] = [argument.model_dump(by_alias=True, exclude_none=True) for argument in resolved]
        analyses.append(dumped)
    return {"analyses": analyses} if analyses else {}


def _at(path: str, invalid: SpecInvalid) -> list[SpecProblem]:
    """The problems of an Experiment's spec, as of the step at `path` of which it was made."""
    return [SpecProblem(f"{path}{each.path.removeprefix('spec')}", each.message) for each in invalid.problems]
