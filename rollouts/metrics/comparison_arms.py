"""One look of a comparison: what is asked of each arm, and what the answers show. Pure.

Counters are read raw and summed here; any other source gives one number of each arm. A number of the cluster's own metrics
counts when all its samples are newer than the look before, as one that is seen twice would be evidence twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, assert_never

import msgspec
from msgspec import Struct

from rollouts.core.analysis.cluster_source import ContainerResourceMetric, CustomMetric, ExternalMetric
from rollouts.core.analysis.source import ComparedBy, ComparedSource, Comparison, PrometheusQuery, WebQuery
from rollouts.core.model.frozen import replace
from rollouts.core.model.grammar import is_label_value
from rollouts.core.placeholders import filled
from rollouts.core.promql import filled_query
from rollouts.metrics.comparison_state import Carried, carried_of
from rollouts.metrics.counter_growth import LOOKBACK_S, Growth, growth
from rollouts.metrics.figures import FiguresFound, NotYet
from rollouts.metrics.prometheus import Window, numbers_of, series_of, window_of
from rollouts.metrics.requests import HttpAnswer, MetricAnswer, NoAnswer
from rollouts.metrics.samples import Absence, NoEvidence, finite
from rollouts.metrics.web import document_of

SETTLE_S = 10.0
"""Counters are read up to so long ago: a scrape that began before may still be under way. Source: Prometheus' scrape_timeout."""
SPAN_MAX_S = 3_600.0
"""What a look counts at most; what was before is left out."""


class Sampled(Struct, frozen=True):
    """A number of the cluster's own metrics.

    Args:
        newest_at_s: time of the newest of its samples, seconds since 1970.
    """

    value: float
    newest_at_s: float


ArmSeen: TypeAlias = Growth | tuple[float, ...] | Sampled | NoEvidence
"""What one query of a look has shown: of rates what counters grew by, otherwise the values of one series, or one number."""


class ComparisonLook(Struct, frozen=True, kw_only=True):
    """One look at both arms.

    Args:
        queries: of the canary and of stable; of rates the events that `of` counts and all events, of each.
        since_s, at_s: what is counted, and the time that the queries are asked for; seconds since 1970.
        before: what earlier looks have left.
    """

    source: Comparison
    queries: tuple[ComparedSource, ...]
    since_s: float
    at_s: float
    before: Carried

    @property
    def until_s(self) -> float:
        """Where the next look begins; never earlier than this one, also when another leader's clock is behind."""
        return max(self.at_s, self.since_s)

    @property
    def arms(self) -> tuple[str, ...]:
        """Whose each of `queries` is."""
        half = len(self.queries) // 2
        return (self.source.canary,) * half + (self.source.stable,) * half


def look_of(
    source: Comparison, carried: Sequence[tuple[str, str]], *, began_at_s: float, now_s: float
) -> ComparisonLook | NoEvidence:
    """What to ask now.

    Args:
        carried: by the measurement before; () for the first.
        began_at_s: nothing before counts.
        now_s: seconds since 1970.
    """
    if (wrong := _wrong_arms(source)) is not None:
        return wrong
    before = carried_of(carried)
    counters = source.by is ComparedBy.RATES
    at_s = now_s - SETTLE_S if counters else now_s
    since_s = max(began_at_s if before.until_s is None else before.until_s, at_s - SPAN_MAX_S)
    span_s = max(at_s - since_s, 0.0) + LOOKBACK_S if counters else max(at_s - since_s, 1.0)
    queries: list[ComparedSource] = []
    for arm in (source.canary, source.stable):
        for each in _asked(source):
            query = _of_arm(each, arm, span_s)
            if isinstance(query, NoEvidence):
                return query
            if counters and isinstance(query, PrometheusQuery):
                query = replace(query, query=f"{query.query}[{math.ceil(span_s)}s]")
            queries.append(query)
    return ComparisonLook(source=source, queries=tuple(queries), since_s=since_s, at_s=at_s, before=before)


def seen_in(answer: MetricAnswer, look: ComparisonLook) -> ArmSeen:
    """What the answer to one of `look.queries` shows, of a source that is asked over HTTP.

    Raises: nothing that a server could cause.
    """
    if isinstance(answer, NoAnswer):
        return NoEvidence(answer.why, Absence.ERROR)
    if look.source.by is ComparedBy.RATES:
        return _growth(answer, look)
    match look.source.of:
        case PrometheusQuery() as query:
            return _samples(answer, query, look)
        case WebQuery() as query:
            return _number(answer, query)
        case ContainerResourceMetric() | CustomMetric() | ExternalMetric():
            raise AssertionError("the cluster's own metrics are not asked over HTTP")
        case _:
            assert_never(look.source.of)


def figures_seen(found: FiguresFound, look: ComparisonLook) -> ArmSeen:
    """What one of `look.queries` shows, of a source of the cluster's own."""
    match found:
        case NoEvidence():
            return found
        case NotYet(why):
            return NoEvidence(why)
    if found.oldest_at_s is None or found.newest_at_s is None:
        return NoEvidence("its samples have no time", Absence.ERROR)
    if found.oldest_at_s <= look.since_s:
        return NoEvidence("there is no newer sample of all of it than at the look before")
    if isinstance(look.source.of, ExternalMetric) and found.samples != 1:
        return NoEvidence(f"the metric has {found.samples} values: let its selector give one", Absence.ERROR)
    value = float(found.values["averageValue"])
    return Sampled(value, found.newest_at_s) if math.isfinite(value) else NoEvidence("a number is NaN or infinite")


def _wrong_arms(source: Comparison) -> NoEvidence | None:
    """Why the arms cannot be told apart; None when they can."""
    for name, arm in (("canary", source.canary), ("stable", source.stable)):
        if not arm:
            return NoEvidence(f"compare.{name} is empty, so nothing tells its pods apart", Absence.ERROR)
        if not isinstance(source.of, PrometheusQuery) and not is_label_value(arm):
            why = f"compare.{name} must be a revision, or another value that a label may have"
            return NoEvidence(why, Absence.ERROR)
    if source.canary == source.stable:
        why = "compare.canary and compare.stable are the same, so there is nothing to compare"
        return NoEvidence(why, Absence.ERROR)
    return None


def _asked(source: Comparison) -> tuple[ComparedSource, ...]:
    """What is asked of each arm, before its name is put in."""
    if source.by is ComparedBy.RATES and isinstance(source.of, PrometheusQuery):
        return (source.of, replace(source.of, query=source.total))
    return (source.of,)


def _of_arm(source: ComparedSource, arm: str, span_s: float) -> ComparedSource | NoEvidence:
    """The source with the arm in its places. Except in PromQL, which is escaped, an arm is a label's value."""
    values: Mapping[str, str] = {"arm": arm, "window": f"{math.floor(span_s)}s"}

    def put(text: str) -> str:
        return filled(text, values.get)

    match source:
        case PrometheusQuery():
            problems: list[str] = []
            query = filled_query(source.query, values.get, lambda name, why: problems.append(f"{{{{{name}}}}} {why}"))
            return NoEvidence(problems[0], Absence.ERROR) if problems else replace(source, query=query)
        case WebQuery():
            headers = tuple((name, put(value)) for name, value in source.headers)
            return replace(source, url=put(source.url), body=put(source.body), headers=headers)
        case ContainerResourceMetric():
            return source
        case CustomMetric():
            of = None if source.of is None else replace(source.of, name=put(source.of.name))
            return replace(source, metric=put(source.metric), selector=put(source.selector), of=of)
        case ExternalMetric():
            return replace(source, metric=put(source.metric), selector=put(source.selector))
        case _:
            assert_never(source)


def _growth(answer: HttpAnswer, look: ComparisonLook) -> Growth | NoEvidence:
    if answer.status != 200:
        refused = numbers_of(answer, Window(look.at_s))
        return refused if isinstance(refused, NoEvidence) else NoEvidence("no answer", Absence.ERROR)
    try:
        series, problem = series_of(answer.body)
    except msgspec.DecodeError:
        return NoEvidence("the answer is not one of Prometheus' API", Absence.ERROR)
    if series is None:
        return NoEvidence(problem, Absence.ERROR)
    return growth(series, since_s=look.since_s, until_s=look.until_s)


def _samples(answer: HttpAnswer, query: PrometheusQuery, look: ComparisonLook) -> tuple[float, ...] | NoEvidence:
    """The values of one series."""
    window = window_of(query, now_s=look.at_s)
    found = window if isinstance(window, NoEvidence) else numbers_of(answer, window)
    if isinstance(found, NoEvidence):
        return found
    if found.warnings:
        return NoEvidence("the answer has warnings, so it may be incomplete")
    if len({each.series for each in found.samples}) > 1:
        return NoEvidence(f"the query gave {len(found.labels)} series: let it give one, as sum() does", Absence.ERROR)
    if not found.samples:
        return NoEvidence("no value")
    if look.source.by is ComparedBy.VALUES and len(found.samples) > 1:
        return NoEvidence("the query gave many values of one series, and a look needs one", Absence.ERROR)
    return found.numbers if finite(found.numbers) else NoEvidence("a number is NaN or infinite")


def _number(answer: HttpAnswer, query: WebQuery) -> tuple[float, ...] | NoEvidence:
    """The one number of a JSON answer."""
    found = document_of(answer, query)
    if isinstance(found, NoEvidence):
        return found
    if found.value is None:
        return NoEvidence("no value")
    if type(found.value) is not float:
        return NoEvidence("the answer is not one number: let jsonPath lead to one", Absence.ERROR)
    return (found.value,) if math.isfinite(found.value) else NoEvidence("a number is NaN or infinite")
