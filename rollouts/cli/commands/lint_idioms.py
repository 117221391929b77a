"""What `lint` says of conditions that call missing or infinite numbers good or bad: no evidence is neither, unless they decide.

Argo Rollouts' users write `isNaN(result) || result < 0.05` and `default(result, 0) == 0` for services without requests. Here such
a measurement is what `noData` says, and an update that waits for it stands still until a person promotes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.metrics.conditions import condition_of

_PLACE = "{{"
_NOTHING: tuple[Any, ...] = (None, [], [math.nan], math.nan)
"""What a condition sees of an answer without evidence."""


def no_evidence_remarks(spec: Any) -> Iterator[tuple[str, str]]:
    """Path and message for conditions of a template that hold where nothing was measured, and are not asked then."""
    metrics = spec.get("metrics") if isinstance(spec, dict) else None
    for index, metric in enumerate(metrics if isinstance(metrics, list) else ()):
        if isinstance(metric, dict) and metric.get("minSamples") != 0:
            yield from _remarks(metric, f"spec.metrics[{index}]")


def _remarks(metric: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    then = metric.get("noData") or "inconclusive"
    helps = "with minSamples: 0 the condition decides"
    success, failure = metric.get("successCondition"), metric.get("failureCondition")
    if _holds_of_nothing(success, defaults=True):
        what = (
            "calls it a success when there is no number; that is no evidence, and the measurement is what noData says"
        )
        yield f"{path}.successCondition", f"{what} ({then}); {helps}"
    if _holds_of_nothing(failure, defaults=True) and not _holds_of_nothing(failure, defaults=False):
        what = "gives a missing number a value, and is not asked then: the measurement is what noData says"
        yield f"{path}.failureCondition", f"{what} ({then}); {helps}"


def _holds_of_nothing(source: Any, *, defaults: bool) -> bool:
    """Whether the condition is true of an answer without a number; False for one that cannot be told here."""
    if not isinstance(source, str) or not source.strip() or _PLACE in source:
        return False
    try:
        condition = condition_of(source, defaults=defaults)
    except ExpressionInvalid:  # a problem of its own
        return False
    if not (condition.reads.of_missing or condition.reads.of_finite):
        return False
    for value in _NOTHING:
        try:
            if condition.holds(value, now_s=0.0):
                return True
        except ExpressionFailed:
            continue
    return False
