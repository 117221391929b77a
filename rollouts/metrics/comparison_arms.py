"""One look of a comparison: what is asked of each arm, what the answers show, and what is carried to the next look. Pure.

Counters are read raw and summed here; any other source gives one number of each arm. A number whose times are known counts when
all its samples are newer than the look before, as one that is seen twice would be evidence twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from rollouts.core.analysis.cluster_source import ExternalMetric
from rollouts.core.analysis.recipe import Recipe
from rollouts.core.analysis.source import (
    ComparedBy,
    ComparedSource,
    Comparison,
    Fills,
    HttpSource,
    PrometheusQuery,
    ServerQuery,
)
from rollouts.core.compare.rates import Counts, RateEvidence
from rollouts.core.compare.stakes import Stakes
from rollouts.core.compare.values import Sides
from rollouts.core.model.frozen import replace
from rollouts.core.model.grammar import is_label_value
from rollouts.core.placeholders import filled
from rollouts.core.promql import filled_query
from rollouts.errors import ExpressionInvalid
from rollouts.metrics.figures import FiguresFound, NotYet
from rollouts.metrics.member_paths import NotThereError, values_at
from rollouts.metrics.prometheus import STALE_S, Series, series_of
from rollouts.metrics.requests import HttpAnswer, MetricAnswer, Window
from rollouts.metrics.samples import Absence, Document, NoEvidence, Numbers, finite
from rollouts.metrics.sources import found_in, window_of
from rollouts.objects import whole_number

SETTLE_S = 10.0
"""Counters are read up to so long ago: a scrape that began before may still be under way. Source: Prometheus' scrape_timeout."""
SPAN_MAX_S = 3_600.0
"""What a look counts at most; what was before is left out."""

LOOKBACK_S = STALE_S
"""The last sample before the span is no older than that; Prometheus itself does not show older ones."""
_WHOLE = ("looks", "canaryEvents", "canaryBad", "stableEvents", "stableBad", "sides", "above", "below")


class Carried(Struct, frozen=True, kw_only=True):
    """What was seen so far.

    Args:
        looks: that were taken, with evidence or without.
        until_s: what was counted goes up to here, seconds since 1970; None where nothing was.
    """

    looks: int = 0
    until_s: float | None = None
    tally: RateEvidence = field(default_factory=RateEvidence)
    sides: Sides = field(default_factory=Sides)


class Growth(Struct, frozen=True):
    """Of all series together.

    Args:
        by: as whole events.
        goes_on: some series has a sample from before the span, so the span follows what was seen before.
        before: what they have grown by before the span, as far as their samples go back.
    """

    by: int
    series: int
    goes_on: bool
    before: int = 0


class Sampled(Struct, frozen=True):
    """A number of samples whose times are known."""

    value: float
    newest_at_s: float


ArmSeen: TypeAlias = Growth | tuple[float, ...] | Sampled | NoEvidence
"""What one query of a look has shown: of rates what counters grew by, otherwise the values of one series, or one number."""


class ComparisonLook(Struct, frozen=True, kw_only=True):
    """One look at both arms.

    Args:
        queries: of the canary and of stable; of rates the events that `of` counts and all events, of each.
        since_s, at_s: what is counted, and the time that the queries are asked for; seconds since 1970.
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

    def window_of(self, source: HttpSource) -> Window | NoEvidence:
        """The times that one of `queries` is asked for: a server that is asked for an interval since the look before."""
        return Window(self.at_s, self.since_s) if isinstance(source, ServerQuery) else window_of(source, self.at_s)


def look_of(
    source: Comparison, carried: Sequence[tuple[str, str]], *, began_at_s: float, now_s: float
) -> ComparisonLook | NoEvidence:
    """What to ask now.

    Args:
        began_at_s: nothing before counts.
    """
    if (wrong := _wrong_arms(source)) is not None:
        return wrong
    before = carried_of(carried)
    counters = source.by is ComparedBy.RATES
    at_s = now_s - SETTLE_S if counters else now_s
    since_s = max(began_at_s if before.until_s is None else before.until_s, at_s - SPAN_MAX_S)
    span_s = max(at_s - since_s, 0.0) + LOOKBACK_S if counters else max(at_s - since_s, 1.0)
    asked: tuple[ComparedSource, ...] = (source.of,)
    if counters and isinstance(source.of, PrometheusQuery):
        samples = f"[{math.ceil(span_s)}s]"
        of, total = f"{source.of.query}{samples}", f"{source.total}{samples}"
        asked = (replace(source.of, query=of), replace(source.of, query=total))
    queries: list[ComparedSource] = []
    problems: list[str] = []
    for arm in (source.canary, source.stable):
        fills = _fills_of_arm(
            {"arm": arm, "window": f"{math.floor(span_s)}s", "seconds": f"{math.floor(span_s)}"}, problems
        )
        queries += [query.filled(fills) for query in asked]
    if problems:
        return NoEvidence(problems[0], Absence.ERROR)
    return ComparisonLook(source=source, queries=tuple(queries), since_s=since_s, at_s=at_s, before=before)


def _fills_of_arm(values: Mapping[str, str], problems: list[str]) -> Fills:
    """Puts the name of an arm into its places. Except in PromQL, which is escaped, an arm is a label's value."""

    def plain(text: str) -> str:
        return filled(text, values.get)

    def query(text: str) -> str:
        return filled_query(text, values.get, lambda name, why: problems.append(f"{{{{{name}}}}} {why}"))

    return Fills(plain=plain, url=plain, body=plain, json=plain, query=query)


def seen_in(answer: MetricAnswer, look: ComparisonLook, recipe: Recipe | None = None) -> ArmSeen:
    """What the answer to one of `look.queries` shows, of a source that is asked over HTTP.

    Args:
        recipe: of its MetricProvider, where that has one of its own.

    Raises: nothing that a server could cause.
    """
    source = look.source.of
    assert isinstance(source, HttpSource)  # noqa: S101 - the cluster's own metrics are not asked over HTTP
    if look.source.by is ComparedBy.RATES and isinstance(answer, HttpAnswer) and answer.status == 200:
        try:
            series, problem = series_of(answer.body)
        except msgspec.DecodeError:
            return NoEvidence("the answer is not one of Prometheus' API", Absence.ERROR)
        if series is None:
            return NoEvidence(problem, Absence.ERROR)
        return growth(series, since_s=look.since_s, until_s=look.until_s)
    if isinstance(source, ServerQuery) and recipe is not None:
        source = replace(source, recipe=recipe)
    window = look.window_of(source)
    found = window if isinstance(window, NoEvidence) else found_in(answer, source, window)
    match found:
        case NoEvidence():
            return found
        case Numbers() if isinstance(source, ServerQuery):
            return _mean_of_one_series(found, look)
        case Numbers():
            return _values_of_one_series(found, look)
        case Document() if isinstance(source, ServerQuery):
            return _number_at(found, look.source.path)
        case Document(None):
            return NoEvidence("no value")
        case Document(float(number)):
            return (number,) if math.isfinite(number) else NoEvidence("a number is NaN or infinite")
        case Document():
            return NoEvidence("the answer is not one number: let jsonPath lead to one", Absence.ERROR)


def _values_of_one_series(found: Numbers, look: ComparisonLook) -> tuple[float, ...] | NoEvidence:
    if found.warnings:
        return NoEvidence("the answer has warnings, so it may be incomplete")
    if (series := len({sample.series for sample in found.samples})) > 1:
        return NoEvidence(f"the query gave {series} series: let it give one, as sum() does", Absence.ERROR)
    if not found.samples:
        return NoEvidence("no value")
    if look.source.by is ComparedBy.VALUES and len(found.samples) > 1:
        return NoEvidence("the query gave many values of one series, and a look needs one", Absence.ERROR)
    return found.numbers if finite(found.numbers) else NoEvidence("a number is NaN or infinite")


def _mean_of_one_series(found: Numbers, look: ComparisonLook) -> Sampled | NoEvidence:
    """The mean of the points that are newer than the look before: which of them a server gives is its own affair."""
    if (series := len({sample.series for sample in found.samples})) > 1:
        return NoEvidence(f"the query gave {series} series: let it give one", Absence.ERROR)
    newer = [sample for sample in found.samples if sample.at_s > look.since_s]
    if not newer:
        return NoEvidence("there is no newer value than at the look before" if found.samples else "no value")
    value = fmean(sample.value for sample in newer)
    if not math.isfinite(value):
        return NoEvidence("a number is NaN or infinite")
    return Sampled(value, max(sample.at_s for sample in newer))


def _number_at(found: Document, path: str) -> tuple[float, ...] | NoEvidence:
    """The number of an answer that is JSON. Without a path it is the only one that the server has measured."""
    numbers: list[object] = list(found.counted or ())
    if found.counted is None:
        if not path:
            return NoEvidence("the answer is JSON: say in compare.path where its number is", Absence.ERROR)
        try:
            numbers = [value for value in values_at(found.value, path) if value is not None]
        except NotThereError:
            return NoEvidence("nothing is where compare.path leads", Absence.ERROR)
        except ExpressionInvalid as error:
            return NoEvidence(f"compare.path {error}", Absence.ERROR)
    match numbers:
        case []:
            return NoEvidence("no value")
        case [float(number)]:
            return (number,) if math.isfinite(number) else NoEvidence("a number is NaN or infinite")
        case _:
            return NoEvidence("the answer is not one number: let the query give one for the arm", Absence.ERROR)


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


def growth(series: Iterable[Series], *, since_s: float, until_s: float) -> Growth:
    """What the series have grown by: exact where `increase` of Prometheus estimates.

    `increase` leaves out what a series began with, and a first error begins a series; and it scales what it saw up to the whole
    span, which would make evidence of requests that nobody sent.

    A series whose value fell has begun again at 0, as after a restart; one without a sample before the span has begun in it.

    Args:
        since_s, until_s: seconds since 1970; samples after the first and up to the second count.
    """
    total, count, goes_on, earlier = 0.0, 0, False, 0.0
    for counter in series:
        inside = [value for at_s, value in counter.samples if since_s < at_s <= until_s]
        before = [value for at_s, value in counter.samples if at_s <= since_s]
        count += bool(inside or before)
        goes_on = goes_on or bool(before)
        earlier += _grown(before)
        total += _grown([before[-1] if before else 0.0, *inside])
    return Growth(round(total), count, goes_on, round(earlier))


def _grown(values: Sequence[float]) -> float:
    return sum(after - before if after >= before else after for before, after in pairwise(values))


def carry(state: Carried) -> tuple[tuple[str, str], ...]:
    """The state as texts in the metric's result; without what is 0.

    Totals, not differences: a look that is recorded twice is the same as one that is recorded once.
    """
    canary, stable, stakes, sides = state.tally.canary, state.tally.stable, state.tally.stakes, state.sides
    whole = (state.looks, canary.events, canary.bad, stable.events, stable.bad, sides.looks, sides.above, sides.below)
    found = {name: str(number) for name, number in zip(_WHOLE, whole, strict=True) if number}
    for name, number in (("logWorse", stakes.log_worse), ("logNotWorse", stakes.log_not_worse)):
        if number:
            found[name] = repr(number)
    if state.until_s is not None:
        found["until"] = f"{state.until_s:.3f}"
    return tuple(found.items())


def carried_of(texts: Sequence[tuple[str, str]]) -> Carried:
    """The state that was carried; what cannot be read is as if there were none."""
    found = dict(texts)
    try:
        looks, events, bad, of_stable, stable_bad, seen, above, below = (_count(found, name) for name in _WHOLE)
        stakes = Stakes(log_worse=_number(found, "logWorse"), log_not_worse=_number(found, "logNotWorse"))
        until_s = _number(found, "until") if "until" in found else None
    except ValueError:
        return Carried()
    if bad > events or stable_bad > of_stable or above + below > seen:
        return Carried()
    tally = RateEvidence(canary=Counts(events, bad), stable=Counts(of_stable, stable_bad), stakes=stakes)
    return Carried(looks=looks, until_s=until_s, tally=tally, sides=Sides(looks=seen, above=above, below=below))


def _count(found: Mapping[str, str], name: str) -> int:
    number = whole_number(found.get(name, "0"), digits=18)
    if number is None:
        raise ValueError(name)
    return number


def _number(found: Mapping[str, str], name: str) -> float:
    number = float(found.get(name, "0"))
    if not math.isfinite(number):
        raise ValueError(name)
    return number
