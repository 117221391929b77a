"""From what was found to a measurement: conditions as in Argo Rollouts, with one change. No evidence is never a success.

| conditions | measurement |
|---|---|
| success | Successful where it holds, otherwise Failed |
| failure | Failed where it holds, otherwise Successful |
| both | Failed where failure holds; else Successful where success holds; otherwise Inconclusive |
| none | Inconclusive (in Argo Rollouts: Successful) |

What says nothing (no series, too few numbers, NaN, infinity, a part only, old, several series where one is read) is what `noData`
says, whatever the conditions are. Two exceptions, both written down by the author: a failure condition that asks about what is
missing or not finite is heard, and with `minSamples: 0` conditions that all ask about it decide.
A message quotes the condition that decided, shortened: it stands in the run, where everybody may read it, so no Secret can be in
it. What was measured is never quoted, only numbers.
Source: https://argo-rollouts.readthedocs.io/en/stable/features/analysis/#failure-conditions-and-failure-limit
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition, NoData
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.metrics.conditions import CompiledCondition, condition_of
from rollouts.metrics.samples import Absence, Document, MetricData, NoEvidence, Numbers, ResultShape, finite, leaves

VALUES_SHOWN = 16
QUOTED_MAX = 100
"""Characters of a condition in a message: there is one for each measurement that does not succeed."""

_NO_DATA = {
    NoData.INCONCLUSIVE: AnalysisPhase.INCONCLUSIVE,
    NoData.FAIL: AnalysisPhase.FAILED,
    NoData.WAIT: AnalysisPhase.PENDING,
}
_KINDS = {bool: "true or false", float: "one number, result", str: "a text", list: "a list", dict: "an object"}
"""What a value of JSON is, for the author; null is nothing."""


def measured(
    found: MetricData, condition: MetricCondition, *, started_at_s: float, finished_at_s: float
) -> Measurement:
    """The measurement that follows from what was found.

    With `noData: wait` one without evidence is Pending and finished: it does not count, and the metric is measured again.
    So is one whose server says that it does not know yet.

    Raises: nothing that a server or an author could cause.
    """
    try:
        phase, message = _verdict(found, condition, finished_at_s)
    except ExpressionInvalid as error:
        phase, message = AnalysisPhase.ERROR, str(error)
    return Measurement(
        phase=phase,
        started_at_s=started_at_s,
        finished_at_s=finished_at_s,
        value=_value(found),
        message=message,
        samples=_count(found),
    )


class _Gap(Struct, frozen=True):
    """What is wrong with the evidence; with `of_missing` or `of_finite` a condition may ask about it."""

    why: str
    of_missing: bool = False
    of_finite: bool = False

    def asked_by(self, condition: CompiledCondition) -> bool:
        reads = condition.reads
        return (self.of_missing and reads.of_missing) or (self.of_finite and reads.of_finite)


def _compiled(name: str, source: str, condition: MetricCondition) -> CompiledCondition | None:
    """Raises: ExpressionInvalid."""
    try:
        return condition_of(source, defaults=condition.min_samples == 0) if source.strip() else None
    except ExpressionInvalid as error:
        raise ExpressionInvalid(f"{name} {error}") from None


def _verdict(found: MetricData, condition: MetricCondition, now_s: float) -> tuple[AnalysisPhase, str]:
    """Raises: ExpressionInvalid."""
    success = _compiled("successCondition", condition.success, condition)
    failure = _compiled("failureCondition", condition.failure, condition)
    conditions = [compiled for compiled in (success, failure) if compiled is not None]
    if isinstance(found, NoEvidence):
        match found.absence:
            case Absence.ERROR:
                return AnalysisPhase.ERROR, found.why
            case Absence.NOT_YET:
                return AnalysisPhase.PENDING, found.why
            case Absence.NO_DATA:
                return _NO_DATA[condition.no_data], found.why
    if not conditions:
        return AnalysisPhase.INCONCLUSIVE, "the metric has no condition, so nothing says what is good"
    gap = _gap(found, condition, conditions)
    if gap is None or (condition.min_samples == 0 and all(map(gap.asked_by, conditions))):
        return _judged(found, condition, success, failure, now_s)
    if failure is not None and gap.asked_by(failure):
        with suppress(ExpressionFailed):
            if failure.holds(found.result, now_s=now_s):
                why = f"{gap.why}, and the failure condition holds: {quoted(condition.failure)}"
                return AnalysisPhase.FAILED, why
    return _NO_DATA[condition.no_data], gap.why


def _gap(found: Numbers | Document, condition: MetricCondition, conditions: Sequence[CompiledCondition]) -> _Gap | None:
    """Why this is no evidence; None when it is."""
    if isinstance(found, Numbers) and found.warnings:
        return _Gap("the answer has warnings, so it may be incomplete")
    if (unread := _unread(found, conditions)) is not None:
        return _Gap(unread)
    if not finite(found.numbers):
        return _Gap("a number is NaN or infinite", of_finite=True)
    count, needed = _count(found), max(condition.min_samples, 1)
    if count < needed:
        what = "no value" if count == 0 else f"{count} of the {needed} values that are needed"
        return _Gap(f"there is {what}", of_missing=True)
    return None


def _unread(found: Numbers | Document, conditions: Sequence[CompiledCondition]) -> str | None:
    """Why a condition does not see all that was measured. The order of series means nothing, so one of several is chance."""
    scalar = isinstance(found, Numbers) and found.shape is ResultShape.SCALAR
    count = found.rows if isinstance(found, Document) else len(found.samples)
    if scalar or count < 2:
        return None
    for reads in (condition.reads for condition in conditions):
        if isinstance(
            found, Document
        ):  # of rows; a list has no members, so a condition about an object is not about them
            seen = reads.all_of(count) and not reads.members
        else:
            seen = not reads.items or reads.all_of(count)
        if not seen:
            return (
                f"the query gave {count} values and the condition reads {len(reads.items) or 1}: let it give one, as sum() does,"
                " or write all(result, {…})"
            )
    return None


def quoted(condition: str) -> str:
    """A condition for a message: on one line, and shortened."""
    text = " ".join(condition.split())
    return text if len(text) <= QUOTED_MAX else f"{text[: QUOTED_MAX - 1]}…"


def _judged(
    found: Numbers | Document,
    condition: MetricCondition,
    success: CompiledCondition | None,
    failure: CompiledCondition | None,
    now_s: float,
) -> tuple[AnalysisPhase, str]:
    truths: list[bool | None] = []
    for name, compiled in (("successCondition", success), ("failureCondition", failure)):
        try:
            truths.append(None if compiled is None else compiled.holds(found.result, now_s=now_s))
        except ExpressionFailed as error:
            return AnalysisPhase.ERROR, f"{name} cannot be told of {_kind(found)}: {error}"
    succeeds, fails = truths
    if fails:
        return AnalysisPhase.FAILED, f"the failure condition holds: {quoted(condition.failure)}"
    if succeeds or succeeds is None:
        given = [compiled for compiled in (success, failure) if compiled is not None]
        if any(compiled.is_vacuous(found.result, now_s=now_s) for compiled in given):
            return _NO_DATA[
                condition.no_data
            ], "it is good only because something that a condition asks about is missing"
        return AnalysisPhase.SUCCESSFUL, ""
    if fails is None:
        return AnalysisPhase.FAILED, f"the success condition does not hold: {quoted(condition.success)}"
    both = f"{quoted(condition.success)}; {quoted(condition.failure)}"
    return AnalysisPhase.INCONCLUSIVE, f"neither the success condition nor the failure condition holds: {both}"


def _count(found: MetricData) -> int:
    match found:
        case Numbers():
            return len(found.samples)
        case Document(counted=tuple() as counted):
            return len(counted)
        case Document(value):
            return sum(1 for _ in leaves(value))
        case NoEvidence():
            return 0


def _kind(found: Numbers | Document) -> str:
    """What `result` is, for the author."""
    if isinstance(found, Document):
        return _KINDS.get(type(found.value), "nothing")
    return _KINDS[float] if found.shape is ResultShape.SCALAR else f"a list of {len(found.samples)} numbers, result[0]"


def _value(found: MetricData) -> str:
    """Numbers alone: a text of a server never comes into a status."""
    match found:
        case NoEvidence():
            return ""
        case Numbers(shape=ResultShape.SCALAR) | Document(float()):
            return _number(found.numbers[0]) if found.numbers else ""
        case Numbers() | Document():
            numbers = found.numbers
            shown = ", ".join(map(_number, numbers[:VALUES_SHOWN]))
            more = f", … {len(numbers)} in all" if len(numbers) > VALUES_SHOWN else ""
            return f"[{shown}{more}]" if numbers or isinstance(found, Numbers) else ""


def _number(value: float) -> str:
    """As Prometheus writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
