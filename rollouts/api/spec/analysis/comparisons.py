"""A metric that compares canary and stable: its rules, and core's words for it.

What still holds `{{args.name}}` is not judged: its argument has no value yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_exactly_one, core_value, given_of
from rollouts.api.v1alpha1.analysis_template import (
    CompareOfWire,
    CompareWire,
    MetricIdentifier,
    MetricWire,
    PrometheusWire,
)
from rollouts.api.v1alpha1.metric_servers import server_given
from rollouts.api.v1alpha1.template_scalars import OPEN
from rollouts.api.v1alpha1.wire import attributes_of, wire_name
from rollouts.core.analysis import metric as core
from rollouts.core.analysis.recipe import fields_of_servers
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.source import ALPHA, ComparedBy, ComparedSource, Comparison, Effect
from rollouts.core.placeholders import named_in
from rollouts.core.promql import is_selector
from rollouts.objects import mapping, mappings

ALPHA_MIN, ALPHA_MAX = 1e-9, 0.2
"""An answer that is wrong more often than that is none; and no test of this world is that sure."""

CANARY, BASELINE = "canary", "baseline"
"""The templates of an Experiment that a comparison with a baseline is about."""

NO_BASELINE = (
    f"compares the pods of an Experiment's templates {CANARY} and {BASELINE}: let the analyses of such an Experiment name this"
    " template; where there is none, give canary and stable in its place"
)
_NO_ARMS = {
    "job": "gives success or failure and no number, so there is nothing to compare; let it be a metric of its own",
    "kubernetes": "gives success or failure and no number, so there is nothing to compare; let it be a metric of its own",
    "hpa": "has one number for all revisions, so there is nothing to compare; let it be a metric of its own",
    **{name: recipe.not_compared for name, recipe in RECIPES.items() if recipe.not_compared},
}

_DECIMAL = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,12})?) ?(?P<percent>%?)", re.ASCII)
_OF_CONDITIONS = (
    *("success_condition", "failure_condition", "no_data", "min_samples"),
    *("failure_limit", "inconclusive_limit", "consecutive_success_limit"),
)


def check_comparison(metric: MetricWire, wire: CompareWire, path: str, problems: Problems) -> None:
    """Adds every rule of comparisons that the metric breaks."""
    root = f"{path}.provider.compare"
    for attribute in _OF_CONDITIONS:
        if getattr(metric, attribute) is not None:
            name = wire_name(MetricWire, attribute)
            problems.add(f"{path}.{name}", "has no meaning beside compare, which decides by effect and alpha")
    for attribute in ("canary", "stable"):
        if wire.baseline and getattr(wire, attribute):
            problems.add(f"{root}.{attribute}", "is known with baseline, which stands there too; leave one of them out")
        elif not wire.baseline and not getattr(wire, attribute):
            problems.add_missing(f"{root}.{attribute}", "is required: what {{arm}} stands for in the queries")
    if wire.canary and wire.canary == wire.stable:
        problems.add(f"{root}.stable", "is the same as canary, so there is nothing to compare")
    _check_looks(metric, wire, path, problems)
    _check_numbers(wire, root, problems)
    _check_path(wire, root, problems)
    of = wire.of or CompareOfWire.empty()
    for name, why in _NO_ARMS.items():
        if getattr(of, attributes_of(CompareOfWire)[name]) is not None:
            problems.add(f"{root}.of.{name}", why)
    check_exactly_one(of, f"{root}.of", problems)
    if len(given := given_of(of)) == 1 and of.prometheus is not None:
        _check_queries(wire, of.prometheus, root, problems)
    elif len(given) == 1:
        _check_other(wire, of, f"{root}.of.{given[0]}", root, problems)


def compares_baseline(template: Mapping[str, Any]) -> bool:
    """Whether a metric of a template, as it is written, compares with a baseline."""
    return any(_with_baseline(metric) for metric in mappings(template.get("metrics")))


def with_arms(template: Mapping[str, Any], *, canary: str, baseline: str) -> dict[str, Any]:
    """The template with these arms for its comparisons with a baseline."""
    metrics = []
    for metric in template["metrics"]:
        if _with_baseline(metric):
            compare = {**metric["provider"]["compare"], "canary": canary, "stable": baseline}
            del compare["baseline"]
            metrics.append({**metric, "provider": {**metric["provider"], "compare": compare}})
        else:
            metrics.append(metric)
    return {**template, "metrics": metrics}


def _with_baseline(metric: Any) -> bool:
    """One that names its arms, too, `check_comparison` refuses."""
    compare = mapping(mapping(mapping(metric).get("provider")).get("compare"))
    return compare.get("baseline") is True and not (compare.get("canary") or compare.get("stable"))


def _check_path(wire: CompareWire, root: str, problems: Problems) -> None:
    recipes = [recipe for recipe, _ in server_given(wire.of)] if wire.of is not None else []
    if not wire.path and any(recipe.gives_json and not recipe.not_compared for recipe in recipes):
        problems.add_missing(f"{root}.path", "is required: where the number is in what a condition sees as result")
    if wire.path and not any(recipe.gives_json or not recipe.exchanges for recipe in recipes):
        problems.add(f"{root}.path", "is for a monitoring service that answers with JSON; leave it out")


def _check_looks(metric: MetricWire, wire: CompareWire, path: str, problems: Problems) -> None:
    if wire.test == "mannWhitney":
        for name, value in (("interval", metric.interval), ("count", metric.count)):
            if value not in (None, 0, 1):
                problems.add(
                    f"{path}.{name}", "must not be given with mannWhitney: a test that is repeated is wrong more often"
                )
        return
    if metric.interval is None:
        problems.add_missing(f"{path}.interval", "is required: from one look to the next")
    if metric.count in (None, 0):
        problems.add_missing(f"{path}.count", "is required: after so many looks the comparison ends, answered or not")


def _check_numbers(wire: CompareWire, root: str, problems: Problems) -> None:
    if wire.effect is None:
        problems.add_missing(f"{root}.effect", "is required: how much worse the canary may be, such as '1%'")
    elif OPEN not in wire.effect:
        effect = _effect(wire.effect)
        if effect is None or effect.size <= 0:
            problems.add(
                f"{root}.effect", f"must be a number above 0, such as '1%' or '0.01', not {wire.effect[:40]!r}"
            )
        elif _method(wire) is ComparedBy.RATES and effect.size >= 1:
            problems.add(f"{root}.effect", f"of a rate must be below 100%, not {wire.effect}")
        elif effect.relative and effect.size >= 1 and wire.direction == "decrease":
            message = f"must be below 100%, not {wire.effect}: a value that falls to nothing would not be worse"
            problems.add(f"{root}.effect", message)
    if wire.alpha is not None and OPEN not in wire.alpha:
        alpha = _effect(wire.alpha)
        if alpha is None or not ALPHA_MIN <= alpha.size <= ALPHA_MAX:
            problems.add(
                f"{root}.alpha", f"must be a number up to {ALPHA_MAX:g}, such as '0.05', not {wire.alpha[:40]!r}"
            )


def _check_queries(wire: CompareWire, asked: PrometheusWire, root: str, problems: Problems) -> None:
    method = _method(wire)
    queries = [(f"{root}.of.prometheus.query", asked.query or "")]
    if method is ComparedBy.RATES:
        if wire.total is None:
            problems.add_missing(f"{root}.total", "is required of a rate: all events, of which `of` selects a part")
        else:
            queries.append((f"{root}.total", wire.total))
    elif wire.total is not None:
        problems.add(f"{root}.total", "has no meaning here: it is for kind rate")
    for path, query in queries:
        if query and "arm" not in named_in(query):
            problems.add(path, "must have {{arm}} in it, or canary and stable are asked the same")
        if query and method is ComparedBy.RATES and not is_selector(query):
            message = (
                'must select counters and no more, such as http_requests_total{hash="{{arm}}"}: what they grow by is'
            )
            problems.add(path, f"{message} worked out from their samples, with restarts and new series")
    if (asked.range_query is not None) != (method is ComparedBy.RANKS):
        what = "is required with mannWhitney" if method is ComparedBy.RANKS else "is for mannWhitney alone"
        problems.add(f"{root}.of.prometheus.rangeQuery", what)
    if wire.test == "mannWhitney" and wire.kind == "rate":
        problems.add(f"{root}.kind", "rate is for the sequential test; mannWhitney compares values")


def _check_other(wire: CompareWire, of: CompareOfWire, path: str, root: str, problems: Problems) -> None:
    """Adds every rule that a source of single numbers breaks."""
    if wire.test == "mannWhitney":
        problems.add(f"{root}.test", "mannWhitney needs samples of a range, which prometheus alone gives")
    elif wire.kind != "value":
        why = "a rate is counted from counters, which prometheus alone gives; let the query work the rate out, and compare that"
        problems.add(f"{root}.kind", f"must be value: {why}")
    elif wire.total is not None:
        problems.add(f"{root}.total", "has no meaning here: it is for kind rate")
    for recipe, server in server_given(of):
        if getattr(server, "interval", None) is not None:
            why = "has no meaning here: a look asks for the time since the look before, which is {{window}} in a query"
            problems.add(f"{root}.of.{recipe.name}.interval", why)
    places = _places_of_arms(of)
    if places and not any("arm" in named_in(text) for text in places.values()):
        where = " or ".join(filter(None, (", ".join([*places][:-1]), [*places][-1])))
        problems.add(path, f"must have {{{{arm}}}} in its {where}, or canary and stable are asked the same")


def _places_of_arms(of: CompareOfWire) -> dict[str, str]:
    """The texts that can tell the arms apart, by what they are; none where the arms' pods are asked about."""
    if of.web is not None:
        headers = " ".join(header.value or "" for header in of.web.headers or ())
        body = f"{of.web.body or ''}{json.dumps(of.web.json_body)}"
        return {"url": of.web.url or "", "headers": headers, "body": body}
    if of.custom_metric is not None and of.custom_metric.described_object is not None:
        name = of.custom_metric.described_object.name or ""
        return {**_of_metric(of.custom_metric.metric), "object's name": name}
    if of.external_metric is not None:
        return _of_metric(of.external_metric.metric)
    texts = [server.model_dump_json(exclude={*fields_of_servers(recipe.fields)}) for recipe, server in server_given(of)]
    return {"fields": " ".join(texts)} if texts else {}


def _of_metric(metric: MetricIdentifier | None) -> dict[str, str]:
    metric = metric or MetricIdentifier.empty()
    selector = "" if metric.selector is None else metric.selector.model_dump_json()
    return {"metric's name": metric.name or "", "selector": selector}


def core_comparison(
    metric: MetricWire,
    wire: CompareWire,
    of: ComparedSource,
    *,
    dry_run: bool,
    kept: int,
) -> tuple[core.MetricRules, Comparison]:
    """With all defaults; `check_comparison` has found nothing wrong with it, and all arguments have been put in.

    To the rules a comparison is one measurement that is taken again until it has an answer, so `count` is the comparison's own.
    """
    effect, alpha = _effect(wire.effect or ""), _effect(wire.alpha or str(ALPHA))
    assert effect is not None  # noqa: S101 - check_comparison has seen it
    assert alpha is not None  # noqa: S101
    method, warm_up_s = _method(wire), float(metric.initial_delay or 0.0)
    delay_s = warm_up_s + (0.0 if method is ComparedBy.RANKS else float(metric.interval or 0.0))
    rules = core_value(core.MetricRules, metric, initial_delay_s=delay_s, count=1, dry_run=dry_run, kept=kept)
    return rules, core_value(
        Comparison,
        wire,
        by=method,
        of=of,
        effect=effect,
        alpha=alpha.size,
        less_is_worse=wire.direction == "decrease",
        looks_max=None if method is ComparedBy.RANKS else int(metric.count or 1),
        undecided_fails=wire.undecided == "fail",
        warm_up_s=warm_up_s,
    )


def _method(wire: CompareWire) -> ComparedBy:
    if wire.test == "mannWhitney":
        return ComparedBy.RANKS
    return ComparedBy.VALUES if wire.kind == "value" else ComparedBy.RATES


def _effect(text: str) -> Effect | None:
    """A number, or a share in percent; None for any other text."""
    decimal = _DECIMAL.fullmatch(text.strip())
    if decimal is None:
        return None
    number = float(decimal["number"])
    return Effect(size=number / 100, relative=True) if decimal["percent"] else Effect(size=number)
