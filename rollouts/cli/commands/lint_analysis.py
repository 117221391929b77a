"""What `rollouts lint` knows of analysis templates: the controller's own checks, and conditions that nobody can evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.api.spec.analysis.run import parse_template
from rollouts.errors import ExpressionInvalid, SpecInvalid
from rollouts.metrics.conditions import condition_of

_PLACE = "{{"


def template_problems(spec: Any) -> Iterator[tuple[str, str]]:
    """Path and message of every problem of a template's spec; one that is no object has none here."""
    if not isinstance(spec, dict):
        return
    try:
        parse_template(spec)
    except SpecInvalid as invalid:
        yield from ((problem.path, problem.message) for problem in invalid.problems)
    metrics = spec.get("metrics")
    for index, metric in enumerate(metrics if isinstance(metrics, list) else ()):
        if isinstance(metric, dict):
            yield from _condition_problems(metric, f"spec.metrics[{index}]")


def _condition_problems(metric: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Of conditions that stand there whole; one with an argument in it is known when the argument is."""
    for name in ("successCondition", "failureCondition"):
        source = metric.get(name)
        if not isinstance(source, str) or not source.strip() or _PLACE in source:
            continue
        try:
            condition_of(source, defaults=metric.get("minSamples") == 0)
        except ExpressionInvalid as invalid:
            yield f"{path}.{name}", str(invalid)
