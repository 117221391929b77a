"""When a metric is measured. Pure. Source: Argo Rollouts' analysis controller."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rollouts.core.analysis.measurement import MetricResult
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.model.analysis import AnalysisPhase

RETRY_S = 10.0
"""After an error, and wherever a metric without an interval is measured again. Source: Argo's DefaultErrorRetryInterval."""


def due_at_s(rules: MetricRules, result: MetricResult, *, started_at_s: float) -> float:
    """When the metric is measured next, or its measurement in flight is looked at again; in seconds since 1970.

    Args:
        result: of a metric that is not over.
        started_at_s: when the run began.
    """
    last = result.last
    if last is None:
        return started_at_s + rules.initial_delay_s
    if last.finished_at_s is None:
        return last.started_at_s if last.resume_at_s is None else last.resume_at_s
    return last.finished_at_s + (RETRY_S if last.phase is AnalysisPhase.ERROR else retry_interval_s(rules))


def retry_interval_s(rules: MetricRules) -> float:
    """From one look at the metric to the next."""
    return RETRY_S if rules.interval_s is None else rules.interval_s


def shortest_s(rules: Iterable[MetricRules]) -> float:
    """From the start of a run to its earliest success; infinity when one of its metrics goes on until somebody ends it."""
    longest_s = 0.0
    for metric in rules:
        if not metric.dry_run:
            fewest = min(metric.effective_count or math.inf, metric.consecutive_success_limit or math.inf)
            between_s = (fewest - 1) * retry_interval_s(metric) if fewest > 1 else 0.0
            longest_s = max(longest_s, metric.initial_delay_s + between_s)
    return longest_s
