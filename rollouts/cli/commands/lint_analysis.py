"""What `rollouts lint` knows of analysis templates: the controller's own checks, conditions that nobody can evaluate, and metrics
that a Prometheus does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rollouts.api.spec.analysis.run import parse_template
from rollouts.cli.commands.metric_names import missing_metrics
from rollouts.core.promql import filled_query
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
    for index, metric in enumerate(_list(spec.get("metrics"))):
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


def query_remarks(spec: Any, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Path and message for each metric of a query that is not among the known ones.

    Args:
        spec: of a template.
        known: the metrics of the Prometheus of queries that name none; those that name another are left out.
    """
    if not isinstance(spec, dict):
        return
    defaults = {
        f"args.{each.get('name')}": str(each["value"])
        for each in _list(spec.get("args"))
        if isinstance(each, dict) and isinstance(each.get("value"), str | int)
    }
    for index, metric in enumerate(_list(spec.get("metrics"))):
        match metric:
            case {"provider": {"prometheus": {"query": str(query)} as asked}} if not _names_server(asked):
                path = f"spec.metrics[{index}].provider.prometheus.query"
                filled = filled_query(query, defaults.get, lambda *_: None)
                yield from ((path, why) for why in missing_metrics(filled, known))


def _names_server(asked: Mapping[str, Any]) -> bool:
    return bool(asked.get("address") or asked.get("metricProvider"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
