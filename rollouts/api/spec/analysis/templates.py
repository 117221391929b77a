"""From the templates that somebody names to the spec of one AnalysisRun: a copy, so that no template changes a run.

Source: Argo Rollouts. Templates of the namespace come before those of the cluster, each before those that it names, each once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.arguments import (
    Updated,
    check_arguments,
    merged_defaults,
    resolved_arguments,
    with_given,
)
from rollouts.api.spec.analysis.name_rules import check_rules
from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.api.spec.json_values import json_value
from rollouts.api.v1alpha1.analysis import AnalysisWire, Argument, DryRun, MeasurementRetention, TemplateRef
from rollouts.api.v1alpha1.analysis_template import AnalysisTemplateSpec, TemplateArgument
from rollouts.core.analysis.metric import METRICS_MAX
from rollouts.errors import SpecInvalid

DEPTH_MAX = 8
"""Templates that name templates. The deepest that anybody has written is 2."""

TEMPLATES_MAX = 64
BYTES_MAX = 32_768
"""Of JSON of all templates of a run together: a pass reads them, in 20 ms at the most."""

Find: TypeAlias = Callable[["TemplateName"], Mapping[str, Any] | None]
"""The spec of a template; None when there is none of that name."""


class TemplateName(Struct, frozen=True):
    """Which template: of the namespace of the Rollout, or of the cluster."""

    name: str
    cluster_scope: bool = False

    def __str__(self) -> str:
        return f"{'ClusterAnalysisTemplate' if self.cluster_scope else 'AnalysisTemplate'}/{self.name}"


class AnalysisUse(Struct, frozen=True, kw_only=True):
    """Somebody's use of templates: a step, the background of a canary, a person."""

    path: str
    templates: Sequence[TemplateRef]
    args: Sequence[TemplateArgument] = ()
    dry_run: Sequence[DryRun] = ()
    measurement_retention: Sequence[MeasurementRetention] = ()


def use_of(wire: AnalysisWire, path: str) -> AnalysisUse:
    """What a Rollout's spec says of an analysis, at `path`."""
    return AnalysisUse(
        path=path,
        templates=wire.templates or (),
        args=[TemplateArgument.model_validate(_dumped(argument)) for argument in wire.args or ()],
        dry_run=wire.dry_run or (),
        measurement_retention=wire.measurement_retention or (),
    )


class _Template(Struct, frozen=True):
    name: TemplateName
    raw: Mapping[str, Any]
    wire: AnalysisTemplateSpec

    @property
    def root(self) -> str:
        return f"{self.name}.spec"


def run_of(use: AnalysisUse, find: Find, of: Updated | None) -> dict[str, Any]:
    """The spec of the AnalysisRun, ready to be created: metrics as they are written, arguments with their values.

    Raises: SpecInvalid with every problem found, those of the templates too.
    """
    problems = Problems()
    templates = _Resolution(find, problems).resolved(use)
    check_arguments(use.args, use.path, problems)
    given = resolved_arguments(use.args, of, use.path, problems)
    defaults = merged_defaults([(template.root, template.wire.args or ()) for template in templates], problems)
    arguments = with_given(defaults, given, f"{use.path}.args", problems)
    dry_run = [*use.dry_run, *(rule for template in templates for rule in template.wire.dry_run or ())]
    retention = [
        *use.measurement_retention,
        *(rule for template in templates for rule in template.wire.measurement_retention or ()),
    ]
    check_rules(dry_run, retention, use.path, problems)
    _check_names(templates, problems)
    problems.raise_found()
    spec = {
        "metrics": [metric for template in templates for metric in template.raw.get("metrics") or ()],
        "args": [_dumped(argument) for argument in resolved_arguments(arguments, of, use.path, problems)],
        "dryRun": [_dumped(rule) for rule in dry_run],
        "measurementRetention": [_dumped(rule) for rule in retention],
    }
    problems.raise_found()
    run = {name: part for name, part in spec.items() if part}
    parse_run(run, root=use.path)
    return run


@dataclass(slots=True)
class _Resolution:
    """Templates by name, each read once."""

    find: Find
    problems: Problems
    seen: dict[TemplateName, _Template | None] = field(default_factory=dict)
    metrics: int = 0
    size_bytes: int = 0

    def resolved(self, use: AnalysisUse) -> list[_Template]:
        """All templates, in the order in which their metrics stand in the run."""
        if not use.templates:
            self.problems.add_missing(f"{use.path}.templates", "is required")
        self._visit(use.templates, f"{use.path}.templates", ())
        templates = [template for template in self.seen.values() if template is not None]
        return sorted(templates, key=lambda template: template.name.cluster_scope)

    def _visit(self, references: Sequence[TemplateRef], path: str, above: tuple[TemplateName, ...]) -> None:
        for index, reference in enumerate(references):
            at = f"{path}[{index}]"
            name = TemplateName(reference.template_name or "", bool(reference.cluster_scope))
            if not name.name:
                self.problems.add_missing(f"{at}.templateName", "is required")
            elif name in above:
                way = " → ".join(map(str, (*above[above.index(name) :], name)))
                self.problems.add(at, f"leads back to where it comes from: {way}")
            elif name not in self.seen:
                self._read(name, at, above)

    def _read(self, name: TemplateName, path: str, above: tuple[TemplateName, ...]) -> None:
        if len(above) >= DEPTH_MAX or len(self.seen) >= TEMPLATES_MAX:
            message = f"is too much: templates may name templates {DEPTH_MAX} levels deep, {TEMPLATES_MAX} in all"
            self.problems.add(path, message)
            return
        if self.metrics > METRICS_MAX or self.size_bytes > BYTES_MAX:
            return  # which is told
        self.seen[name] = None
        raw = self.find(name)
        if raw is None:
            self.problems.add(path, f"names {name}, which does not exist: create it, or name another one")
            return
        if self._is_too_much(raw, path):
            return
        root = f"{name}.spec"
        try:
            wire = parse_template(raw, root=root)
        except SpecInvalid as invalid:
            for problem in invalid.problems:
                self.problems.add(problem.path, problem.message)
            return
        self.seen[name] = _Template(name, json_value(dict(raw)), wire)
        self._visit(wire.templates or (), f"{root}.templates", (*above, name))

    def _is_too_much(self, raw: Mapping[str, Any], path: str) -> bool:
        """Whether a run cannot carry this template too. Asked before it is read: whoever writes templates slows nobody down."""
        metrics = raw.get("metrics")
        self.metrics += len(metrics) if isinstance(metrics, list) else 0
        with suppress(TypeError, ValueError, RecursionError):  # what is no JSON `parse_template` tells
            self.size_bytes += len(json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode())
        if self.metrics > METRICS_MAX:
            self.problems.add(
                path, f"is too much: a run has at most {METRICS_MAX} metrics, of all its templates together"
            )
        if self.size_bytes > BYTES_MAX:
            self.problems.add(path, f"is too much: a run carries at most {BYTES_MAX} bytes of templates, as JSON")
        return self.metrics > METRICS_MAX or self.size_bytes > BYTES_MAX


def _check_names(templates: Sequence[_Template], problems: Problems) -> None:
    """Metrics of two templates with one name. Those of one template its own check has found."""
    owners: dict[str, TemplateName] = {}
    for template in templates:
        for index, metric in enumerate(template.wire.metrics or ()):
            owner = owners.setdefault(metric.name or "", template.name)
            if owner != template.name:
                problems.add(f"{template.root}.metrics[{index}].name", f"{metric.name!r} is a metric of {owner} too")


def _dumped(part: Argument | TemplateArgument | DryRun | MeasurementRetention) -> dict[str, Any]:
    return part.model_dump(by_alias=True, exclude_none=True)
