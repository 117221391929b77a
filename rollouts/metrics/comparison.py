"""Comparisons of canary and stable: the measurement that follows from what a look has shown of both arms.

A look that does not decide is Pending and finished: it does not count, and the metric is measured again after its interval. What
the looks have shown is carried in the metric's result, as totals, so a look that is taken twice counts once. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.source import ComparedBy, Comparison
from rollouts.core.compare.rates import NOTHING, Counts, with_counts
from rollouts.core.compare.stakes import Conclusion, Stakes
from rollouts.core.compare.values import with_values
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.metrics.comparison_arms import ArmSeen, Carried, ComparisonLook, Growth, Sampled, carry
from rollouts.metrics.samples import Absence, NoEvidence

SHOWN_MAX = 1_000_000.0

SAMPLES_MIN = 10
"""Of each arm of a test of ranks; of fewer, hardly any difference is told."""
NO_SCIPY = (
    "the test mannWhitney needs scipy, which the controller does not have here: make image REQUIREMENTS=requirements-stats.lock,"
    " or pip install 'rollouts-dev[stats]'"
)


class _Told(Struct, frozen=True):
    """What a look comes to."""

    answer: Conclusion = Conclusion.UNDECIDED
    value: str = ""
    why: str = ""
    samples: int = 0


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


def _found(look: ComparisonLook, seen: Sequence[ArmSeen], after: Carried) -> tuple[Carried, _Told] | NoEvidence:
    grown: list[Growth] = []
    values: list[tuple[float, ...]] = []
    until_s = look.until_s
    for arm_seen in seen:
        match arm_seen:
            case NoEvidence():
                arm = "canary" if len(grown) + len(values) < len(seen) / 2 else "stable"
                return arm_seen if arm_seen.absence is Absence.ERROR else NoEvidence(f"{arm}: {arm_seen.why}")
            case Growth():
                grown.append(arm_seen)
            case Sampled(value, newest_at_s):
                values.append((value,))
                until_s = max(until_s, newest_at_s)
            case _:
                values.append(arm_seen)
    after = replace(after, until_s=until_s)
    match look.source.by:
        case ComparedBy.RATES:
            return _rates(look, grown, after)
        case ComparedBy.VALUES:
            return _values(look, values, after)
        case ComparedBy.RANKS:
            return _ranks(look, values, after)


def _rates(look: ComparisonLook, grown: Sequence[Growth], after: Carried) -> tuple[Carried, _Told] | NoEvidence:
    of_canary, all_canary, of_stable, all_stable = grown
    tally = look.before.tally
    canary = _counts(of_canary, all_canary, "canary", look, first=tally.canary.events == 0)
    stable = _counts(of_stable, all_stable, "stable", look, first=False)
    if isinstance(canary, NoEvidence):
        return canary
    if isinstance(stable, NoEvidence):
        return stable
    # What stable has done before the look, as far as the answers go back: the first look bets by it.
    before = NOTHING
    if of_stable.before <= all_stable.before:
        good_of = look.source.less_is_worse
        before = Counts(all_stable.before, all_stable.before - of_stable.before if good_of else of_stable.before)
    tally = with_counts(tally, canary, stable, effect=look.source.effect.size, stable_before=before)
    after = replace(after, tally=tally)
    why = "; ".join(
        f"{name} has no requests" for name, counts in (("the canary", canary), ("stable", stable)) if not counts.events
    )
    shown = f"canary {_percent(tally.canary)} · stable {_percent(tally.stable)}"
    return after, _sequential(look.source, tally.stakes, shown, why, canary.events + stable.events)


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
    shown = f"canary {canary:.4g} · stable {stable:.4g}"
    return replace(after, sides=sides), _sequential(look.source, sides.stakes, shown, "", 2)


def _ranks(
    look: ComparisonLook, both: Sequence[tuple[float, ...]], after: Carried
) -> tuple[Carried, _Told] | NoEvidence:
    """The Mann-Whitney U test of two samples, by scipy, which is imported with the first test: it takes about a second.

    Corrected for ties; exact for small samples without ties. Its error holds for one test, of a number of samples that was fixed
    before, and for samples that do not depend on each other. So it is not repeated until it says something.
    Source: https://docs.scipy.org/doc/scipy/reference/generated/scipy.stats.mannwhitneyu.html
    """
    canary, stable = both
    source = look.source
    limits: list[float] = []
    for value in stable:
        limit = _limit(source, value)
        if isinstance(limit, NoEvidence):
            return limit
        limits.append(limit)
    fewest = min(len(canary), len(limits))
    if fewest < SAMPLES_MIN:
        return NoEvidence(f"an arm has {fewest} of the {SAMPLES_MIN} values that are needed")
    try:
        from scipy.stats import mannwhitneyu  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        return NoEvidence(NO_SCIPY, Absence.ERROR)
    sign = -1 if source.less_is_worse else 1
    arms = [sign * value for value in canary], [sign * value for value in limits]
    p_worse = float(mannwhitneyu(*arms, alternative="greater").pvalue)
    p_not_worse = float(mannwhitneyu(*arms, alternative="less").pvalue)
    answer = Conclusion.UNDECIDED
    if p_worse <= source.alpha:
        answer = Conclusion.WORSE
    elif p_not_worse <= source.alpha:
        answer = Conclusion.NOT_WORSE
    shown = f"canary {median(canary):.4g} · stable {median(stable):.4g}"
    value_text = f"{shown} · p {min(p_worse, p_not_worse):.2g} of {source.alpha:g}"
    return after, _Told(answer, value_text, "", len(canary) + len(stable))


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
    strength = f"over {SHOWN_MAX:.0f}" if most > math.log(SHOWN_MAX) else f"{math.exp(most):.3g}"
    value = f"{shown} · evidence {strength} of {1 / source.alpha:.4g}"
    said = why or (f"it looks {leaning}" if most > 0 else "")
    return _Told(stakes.answer(source.alpha), value, said, samples)


def _percent(counts: Counts) -> str:
    return f"{100 * counts.rate:.3g} %" if counts.events else "no requests"
