"""Comparisons of canary and stable: what is asked for a look, and the measurement that follows from the answers.

A look that does not decide is Pending and finished: it does not count, and the metric is measured again after its interval. What
the looks have shown is carried in the metric's result, as totals, so a look that is taken twice counts once. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import msgspec

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.source import ComparedBy, Comparison, PrometheusQuery
from rollouts.core.compare.rates import Counts, with_counts
from rollouts.core.compare.stakes import Conclusion, Stakes
from rollouts.core.compare.values import with_values
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.promql import filled_query
from rollouts.metrics.comparison_state import Carried, carried_of, carry
from rollouts.metrics.counter_growth import LOOKBACK_S, Growth, growth
from rollouts.metrics.prometheus import Window, numbers_of, series_of, window_of
from rollouts.metrics.rank_test import ranks_compared
from rollouts.metrics.requests import HttpAnswer, MetricAnswer, NoAnswer
from rollouts.metrics.samples import Absence, NoEvidence, finite

SETTLE_S = 10.0
"""Counters are read up to so long ago: a scrape that began before may still be under way. Source: Prometheus' scrape_timeout."""
SPAN_MAX_S = 3_600.0
"""What a look counts at most; what was before is left out."""
SHOWN_MAX = 1_000_000.0

ArmSeen: TypeAlias = Growth | tuple[float, ...] | NoEvidence
"""What one query of a look has shown: of rates what counters grew by, otherwise the values of one series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonLook:
    """One look at both arms.

    Args:
        queries: of the canary and of stable; of rates the events that `of` counts and all events, of each.
        since_s, at_s: what is counted, and the time that the queries are asked for; seconds since 1970.
        before: what earlier looks have left.
    """

    source: Comparison
    queries: tuple[PrometheusQuery, ...]
    since_s: float
    at_s: float
    before: Carried

    @property
    def until_s(self) -> float:
        """Where the next look begins; never earlier than this one, also when another leader's clock is behind."""
        return max(self.at_s, self.since_s)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a look comes to."""

    answer: Conclusion = Conclusion.UNDECIDED
    value: str = ""
    why: str = ""
    samples: int = 0


def look_of(
    source: Comparison, carried: Sequence[tuple[str, str]], *, began_at_s: float, now_s: float
) -> ComparisonLook | NoEvidence:
    """What to ask now.

    Args:
        carried: by the measurement before; () for the first.
        began_at_s: nothing before counts.
        now_s: seconds since 1970.
    """
    if not source.canary or not source.stable:
        missing = "canary" if not source.canary else "stable"
        return NoEvidence(f"compare.{missing} is empty, so nothing tells its pods apart", Absence.ERROR)
    if source.canary == source.stable:
        return NoEvidence(
            "compare.canary and compare.stable are the same, so there is nothing to compare", Absence.ERROR
        )
    before = carried_of(carried)
    counters = source.by is ComparedBy.RATES
    at_s = now_s - SETTLE_S if counters else now_s
    since_s = max(began_at_s if before.until_s is None else before.until_s, at_s - SPAN_MAX_S)
    texts = (source.of.query, source.total) if counters else (source.of.query,)
    span_s = max(at_s - since_s, 0.0) + LOOKBACK_S if counters else max(at_s - since_s, 1.0)
    queries: list[PrometheusQuery] = []
    for arm in (source.canary, source.stable):
        for text in texts:
            query = _filled(text, arm, span_s)
            if isinstance(query, NoEvidence):
                return query
            queries.append(replace(source.of, query=f"{query}[{math.ceil(span_s)}s]" if counters else query))
    return ComparisonLook(source=source, queries=tuple(queries), since_s=since_s, at_s=at_s, before=before)


def seen_in(answer: MetricAnswer, look: ComparisonLook) -> ArmSeen:
    """What the answer to one of `look.queries` shows. Raises: nothing that a server could cause."""
    if isinstance(answer, NoAnswer):
        return NoEvidence(answer.why, Absence.ERROR)
    return _growth(answer, look) if look.source.by is ComparedBy.RATES else _samples(answer, look)


def measurement_of(
    look: ComparisonLook, seen: Sequence[ArmSeen], *, started_at_s: float, finished_at_s: float
) -> Measurement:
    """The measurement that follows from what was seen.

    Args:
        seen: of each of `look.queries`.

    Raises: nothing that a server or an author could cause.
    """
    after = replace(look.before, looks=look.before.looks + 1)
    found = _found(look, seen, after)
    if isinstance(found, NoEvidence) and found.absence is Absence.ERROR:
        return Measurement(
            phase=AnalysisPhase.ERROR, started_at_s=started_at_s, finished_at_s=finished_at_s, message=found.why
        )
    after, told = (after, _Told(why=found.why)) if isinstance(found, NoEvidence) else found
    phase, why = _verdict(look.source, after, told)
    return Measurement(
        phase=phase,
        started_at_s=started_at_s,
        finished_at_s=finished_at_s,
        value=told.value,
        message=why,
        samples=told.samples,
        carried=carry(after),
    )


def failure_of(why: NoEvidence, *, now_s: float) -> Measurement:
    """The measurement of a look that nobody can take."""
    return Measurement(phase=AnalysisPhase.ERROR, started_at_s=now_s, finished_at_s=now_s, message=why.why)


def condition_of_comparison(source: Comparison) -> str:
    """What is good, for people: `not worse by more than 1 %, alpha 0.05`."""
    size = f"{100 * source.effect.size:g} %" if source.effect.relative or source.by is ComparedBy.RATES else None
    return f"not worse by more than {size or format(source.effect.size, 'g')}, alpha {source.alpha:g}"


def _verdict(source: Comparison, after: Carried, told: _Told) -> tuple[AnalysisPhase, str]:
    limit = condition_of_comparison(source).partition(",")[0].removeprefix("not ")
    match told.answer:
        case Conclusion.WORSE:
            return AnalysisPhase.FAILED, f"the canary is {limit}"
        case Conclusion.NOT_WORSE:
            return AnalysisPhase.SUCCESSFUL, f"the canary is not {limit}"
        case Conclusion.UNDECIDED:
            pass
    why = f"undecided after {after.looks} look{'' if after.looks == 1 else 's'}" + (f": {told.why}" if told.why else "")
    if source.looks_max is not None and after.looks < source.looks_max:
        return AnalysisPhase.PENDING, why
    return AnalysisPhase.FAILED if source.undecided_fails else AnalysisPhase.INCONCLUSIVE, why


def _filled(text: str, arm: str, span_s: float) -> str | NoEvidence:
    problems: list[str] = []
    values: Mapping[str, str] = {"arm": arm, "window": f"{math.floor(span_s)}s"}
    query = filled_query(text, values.get, lambda name, why: problems.append(f"{{{{{name}}}}} {why}"))
    return NoEvidence(problems[0], Absence.ERROR) if problems else query


def _found(look: ComparisonLook, seen: Sequence[ArmSeen], after: Carried) -> tuple[Carried, _Told] | NoEvidence:
    grown: list[Growth] = []
    values: list[tuple[float, ...]] = []
    for each in seen:
        match each:
            case NoEvidence():
                arm = "canary" if len(grown) + len(values) < len(seen) / 2 else "stable"
                return each if each.absence is Absence.ERROR else NoEvidence(f"{arm}: {each.why}")
            case Growth():
                grown.append(each)
            case _:
                values.append(each)
    match look.source.by:
        case ComparedBy.RATES:
            return _rates(look, grown, after)
        case ComparedBy.VALUES:
            return _values(look, values, after)
        case ComparedBy.RANKS:
            return _ranks(look, values, after)
        case _:
            assert_never(look.source.by)


def _rates(look: ComparisonLook, grown: Sequence[Growth], after: Carried) -> tuple[Carried, _Told] | NoEvidence:
    of_canary, all_canary, of_stable, all_stable = grown
    tally = look.before.tally
    canary = _counts(of_canary, all_canary, "canary", look, first=tally.canary.events == 0)
    stable = _counts(of_stable, all_stable, "stable", look, first=False)
    for each in (canary, stable):
        if isinstance(each, NoEvidence):
            return each
    assert isinstance(canary, Counts)  # noqa: S101 - the loop has returned otherwise
    assert isinstance(stable, Counts)  # noqa: S101
    tally = with_counts(tally, canary, stable, effect=look.source.effect.size)
    after = replace(after, until_s=look.until_s, tally=tally)
    why = "; ".join(
        f"{name} has no requests" for name, counts in (("the canary", canary), ("stable", stable)) if not counts.events
    )
    shown = f"canary {_percent(tally.canary)} · stable {_percent(tally.stable)}"
    return after, _sequential(look.source, tally.stakes, shown, why, canary.events + stable.events)


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


def _counts(of: Growth, total: Growth, arm: str, look: ComparisonLook, *, first: bool) -> Counts | NoEvidence:
    """What the arm has done.

    Args:
        first: all its pods may have begun within the look.
    """
    if total.series and not total.goes_on and not first:
        return Counts()  # nothing was scraped for a while: what the counters have by now may have been counted before
    if of.by > total.by:
        why = f"{arm}: {of.by} events of {total.by}: `total` must select all events of which `of` selects a part"
        return NoEvidence(why, Absence.ERROR)
    return Counts(total.by, total.by - of.by if look.source.less_is_worse else of.by)


def _values(
    look: ComparisonLook, values: Sequence[tuple[float, ...]], after: Carried
) -> tuple[Carried, _Told] | NoEvidence:
    (canary,), (stable,) = values
    limit = _limit(look.source, stable)
    if isinstance(limit, NoEvidence):
        return limit
    sign = -1 if look.source.less_is_worse else 1
    sides = with_values(look.before.sides, sign * canary, sign * limit)
    after = replace(after, until_s=look.until_s, sides=sides)
    shown = f"canary {canary:.4g} · stable {stable:.4g}"
    return after, _sequential(look.source, sides.stakes, shown, "", 2)


def _ranks(
    look: ComparisonLook, both: Sequence[tuple[float, ...]], after: Carried
) -> tuple[Carried, _Told] | NoEvidence:
    limits: list[float] = []
    for each in both[1]:
        limit = _limit(look.source, each)
        if isinstance(limit, NoEvidence):
            return limit
        limits.append(limit)
    sign = -1 if look.source.less_is_worse else 1
    ranked = ranks_compared(
        [sign * each for each in both[0]], [sign * each for each in limits], alpha=look.source.alpha
    )
    if isinstance(ranked, NoEvidence):
        return ranked
    shown = f"canary {_median(both[0]):.4g} · stable {_median(both[1]):.4g}"
    value = f"{shown} · p {min(ranked.p_worse, ranked.p_not_worse):.2g} of {look.source.alpha:g}"
    return replace(after, until_s=look.until_s), _Told(ranked.answer, value, "", len(both[0]) + len(both[1]))


def _samples(answer: HttpAnswer, look: ComparisonLook) -> tuple[float, ...] | NoEvidence:
    """The values of one series."""
    window = window_of(look.source.of, now_s=look.at_s)
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


def _limit(source: Comparison, stable: float) -> float | NoEvidence:
    """The value of the canary's that is worse by exactly the effect."""
    sign = -1 if source.less_is_worse else 1
    if not source.effect.relative:
        return stable + sign * source.effect.size
    if stable <= 0:
        return NoEvidence("stable's value is not above 0, so there is no share of it: give the effect as a number")
    return stable * (1 + sign * source.effect.size)


def _sequential(source: Comparison, stakes: Stakes, shown: str, why: str, samples: int) -> _Told:
    most = max(stakes.log_worse, stakes.log_not_worse)
    leaning = "worse" if stakes.log_worse > stakes.log_not_worse else "not worse"
    evidence = f"evidence {_evidence(most)} of {1 / source.alpha:.4g}"
    said = why or (f"it looks {leaning}" if most > 0 else "")
    return _Told(stakes.answer(source.alpha), f"{shown} · {evidence}", said, samples)


def _evidence(log: float) -> str:
    return f"over {SHOWN_MAX:.0f}" if log > math.log(SHOWN_MAX) else f"{math.exp(log):.3g}"


def _percent(counts: Counts) -> str:
    return f"{100 * counts.rate:.3g} %" if counts.events else "no requests"


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
