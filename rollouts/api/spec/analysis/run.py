"""Templates and AnalysisRuns → core: every metric with its arguments put in, and every problem with its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.arguments import ArgumentValues, check_arguments, known_arguments
from rollouts.api.spec.analysis.comparisons import NO_BASELINE
from rollouts.api.spec.analysis.metrics import check_metric, core_metric
from rollouts.api.spec.analysis.name_rules import check_matched, check_rules, is_dry_run, kept_of
from rollouts.api.spec.analysis.substitution import SIZE_MAX, Substitution
from rollouts.api.spec.json_values import json_value
from rollouts.api.spec.reading import check_needed, core_value, read_model
from rollouts.api.v1alpha1.analysis_template import AnalysisRunSpecWire, AnalysisTemplateSpec, MetricWire, TTLStrategy
from rollouts.core.analysis.metric import SecretReference
from rollouts.core.analysis.run_spec import RunSpec, TimeToLive
from rollouts.errors import SpecInvalid, SpecProblem

JSON_MAX = 262_144
"""Characters of the JSON of a template or a run. To read the 1.5 MB that an object may hold would take half a second."""

Filled = tuple[MetricWire, tuple[SecretReference, ...]]
"""A metric with its arguments put in, and the secrets that it still has places for."""


def parse_template(spec: Mapping[str, Any], *, root: str = "spec") -> AnalysisTemplateSpec:
    """The spec of a template, checked as far as it can be without the values of its arguments; those with a default are put in.

    Raises: SpecInvalid with every problem found.
    """
    problems = Problems()
    raw = _plain(spec, root)
    wire = read_model(AnalysisTemplateSpec, raw, problems, root=root)
    _check_common(wire, root, problems)
    for index, reference in enumerate(wire.templates or ()):
        check_needed(reference, f"{root}.templates[{index}]", problems)
    if not wire.metrics and not wire.templates:
        problems.add_missing(f"{root}.metrics", "is required where there are no templates")
    _filled(raw, known_arguments(wire.args or ()), root, problems, complete=False)
    problems.raise_found()
    return wire


def parse_run(spec: Mapping[str, Any], *, root: str = "spec") -> RunSpec:
    """The spec of an AnalysisRun. Values of secrets are not needed: they stay references.

    Raises: SpecInvalid with every problem found.
    """
    problems = Problems()
    raw = _plain(spec, root)
    wire = read_model(AnalysisRunSpecWire, raw, problems, root=root)
    _check_common(wire, root, problems)
    if not wire.metrics:
        problems.add_missing(f"{root}.metrics", "is required")
    for index, argument in enumerate(wire.args or ()):
        if argument.value is None and (argument.value_from is None or argument.value_from.secret_key_ref is None):
            problems.add(f"{root}.args[{index}]", f"{argument.name!r} has no value, and no secretKeyRef")
    dry_run, retention = wire.dry_run or (), wire.measurement_retention or ()
    metrics = _filled(raw, known_arguments(wire.args or ()), root, problems, complete=True)
    check_matched(dry_run, retention, [metric.name or "" for metric, _ in metrics], root, problems)
    problems.raise_found()
    return RunSpec(
        metrics=tuple(
            core_metric(
                metric,
                dry_run=is_dry_run(metric.name or "", dry_run),
                kept=kept_of(metric.name or "", retention),
                secrets=secrets,
            )
            for metric, secrets in metrics
        ),
        terminate=bool(wire.terminate),
    )


def time_to_live_in(spec: Mapping[str, Any]) -> TimeToLive:
    """How long a run is kept, whatever else its spec says; without a rule when that cannot be read."""
    problems = Problems()
    strategy = spec.get("ttlStrategy")
    wire = read_model(TTLStrategy, strategy if isinstance(strategy, Mapping) else {}, problems, root="spec.ttlStrategy")
    return TimeToLive() if problems.found() else core_value(TimeToLive, wire)


def _check_common(wire: AnalysisTemplateSpec | AnalysisRunSpecWire, root: str, problems: Problems) -> None:
    check_arguments(wire.args or (), root, problems)
    check_rules(wire.dry_run or (), wire.measurement_retention or (), root, problems)


def _filled(
    raw: Mapping[str, Any], arguments: ArgumentValues, root: str, problems: Problems, *, complete: bool
) -> list[Filled]:
    """The metrics, each with its arguments put in, read and checked."""
    filled: list[Filled] = []
    names: dict[str, int] = {}
    size = 0
    metrics = raw.get("metrics")
    for index, metric in enumerate(metrics if isinstance(metrics, list) else ()):
        if not isinstance(metric, dict):
            continue
        path = f"{root}.metrics[{index}]"
        substitution = Substitution(arguments=arguments, root=path, problems=problems, complete=complete, size=size)
        wire = read_model(MetricWire, substitution.metric(metric), problems, root=path)
        size = substitution.size
        if size > SIZE_MAX:
            problems.add(
                path, f"is too much: all metrics have at most {SIZE_MAX} characters, with their arguments put in"
            )
            break
        check_metric(wire, path, problems)
        if complete and wire.provider is not None and wire.provider.compare and wire.provider.compare.baseline:
            problems.add(f"{path}.provider.compare.baseline", NO_BASELINE)
        if wire.name in names:
            problems.add(f"{path}.name", f"{wire.name!r} is the name of {root}.metrics[{names[wire.name]}] too")
        elif wire.name is not None:
            names[wire.name] = index
        secrets = substitution.secrets
        filled.append((wire, tuple(secrets[name] for name in sorted(secrets))))
    return filled


def _plain(spec: Mapping[str, Any], root: str) -> Mapping[str, Any]:
    """A copy that is JSON, which a YAML file need not be, and without nulls, which Kubernetes drops."""
    if not isinstance(spec, Mapping):
        raise SpecInvalid((SpecProblem(root, "must be an object"),))
    try:
        text = json.dumps(dict(spec), allow_nan=False, ensure_ascii=False)
        if len(text) > JSON_MAX:
            raise SpecInvalid((SpecProblem(root, f"is too much: as JSON it has at most {JSON_MAX} characters"),))
        plain = json_value(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecInvalid((SpecProblem(root, f"cannot be written as JSON: {error}"),)) from error
    assert isinstance(plain, dict)  # noqa: S101 - of a dict comes a dict
    return plain
