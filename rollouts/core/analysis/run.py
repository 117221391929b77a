"""An AnalysisRun at one instant: what to measure now, its new status, and when to look again. Pure; no provider is known here.

A run ends early when it is told to, or when a metric that counts has ended badly. Then nothing new is measured, and what is in
flight is stopped. It is over when all its metrics are. A phase that is over stays.

Source: Argo Rollouts' analysis controller. One rule is ours: no evidence is never success, so a metric without a single
successful measurement does not succeed, whatever its limits bear and whoever ends it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace

TERMINATED = "Run Terminated"
"""Why a run ends that somebody told to end, in Argo Rollouts' words."""

RETRY_S = 10.0
"""After an error, and wherever a metric without an interval is measured again. Source: Argo's DefaultErrorRetryInterval."""


class Task(StrEnum):
    """What is done with a metric."""

    TAKE = "take"
    RESUME = "resume"
    STOP = "stop"  # answered by a finished measurement: the truth, if there is one by now, else Pending


class Due(Struct, frozen=True, kw_only=True):
    """One metric that is measured now.

    Args:
        number: of the measurement, from 1; one that was not recorded is taken again under its number.
        measurement: the one in flight, which is resumed or stopped.
        carried: what earlier measurements have left for it.
    """

    metric: str
    task: Task
    number: int
    measurement: Measurement | None = None
    carried: tuple[tuple[str, str], ...] = ()


_Verdict: TypeAlias = tuple[AnalysisPhase, str]
"""A phase, and why it is that one; "" where the phase says it all."""


class RunDecision(Struct, frozen=True, kw_only=True):
    """What follows for a run. The status is recorded before anything of `due` is done.

    Args:
        wake_at_s: when to look again even though nothing was answered.
    """

    due: tuple[Due, ...]
    status: RunStatus
    wake_at_s: float | None


def decide_run(
    rules: tuple[MetricRules, ...],
    status: RunStatus,
    *,
    measured: Mapping[str, Measurement],
    asked: Collection[str],
    terminate: str,
    now_s: float,
) -> RunDecision:
    """One look at a run.

    Args:
        rules: of the run's metrics; their names differ.
        status: as it was recorded last.
        measured: by metric: what was measured and is not recorded yet.
        asked: metrics whose measurement is being taken, resumed or stopped; nobody asks them twice.
        terminate: why the run is to end, such as `TERMINATED`; "" while it goes on.
    """
    if status.phase.over:
        return RunDecision(due=(), status=status, wake_at_s=None)
    started_at_s = now_s if status.started_at_s is None else status.started_at_s
    results = _measured(rules, status.results, measured, now_s=now_s)
    ending = bool(terminate) or any(result.phase.bad and not result.dry_run for result in results)
    if ending:
        results = tuple(
            [
                # What is in flight is waited for, so that nothing stays behind.
                result
                if result.phase.over or result.in_flight is not None or result.name in asked
                else _judged(result, _with_evidence(result))
                for result in results
            ]
        )
    running = replace(status, results=results, started_at_s=started_at_s, phase=AnalysisPhase.RUNNING)
    if all(result.phase.over for result in results):
        phase, why = _run_verdict(results, terminate)
        over = replace(running, phase=phase, message=why, completed_at_s=now_s)
        return RunDecision(due=(), status=over, wake_at_s=None)
    due, wake_at_s = _next(rules, results, asked, started_at_s=started_at_s, ending=ending, now_s=now_s)
    return RunDecision(due=due, status=running, wake_at_s=wake_at_s)


def next_number(result: MetricResult) -> int:
    """Number of the metric's measurement that is in flight or comes next, from 1: those that were counted have lower ones."""
    return result.count + result.error + 1


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


def with_measurement(rules: MetricRules, result: MetricResult, measurement: Measurement) -> MetricResult:
    """The result with one more measurement, or with the next state of the one in flight.

    Only finished ones change the counts. One without a verdict makes room for what follows it.
    """
    last, phase = result.last, measurement.phase
    replaced = last is not None and (not last.finished or last.phase is AnalysisPhase.PENDING)
    before = result.measurements[:-1] if replaced else result.measurements
    carried = measurement.carried or result.carried
    kept = (*before, replace(measurement, carried=()))[-max(rules.kept, 1) :]
    result = replace(result, measurements=kept, message=measurement.message, carried=carried)
    if not measurement.finished or not phase.over:
        return result
    return replace(
        result,
        count=result.count + (phase is not AnalysisPhase.ERROR),
        successful=result.successful + (phase is AnalysisPhase.SUCCESSFUL),
        failed=result.failed + (phase is AnalysisPhase.FAILED),
        inconclusive=result.inconclusive + (phase is AnalysisPhase.INCONCLUSIVE),
        error=result.error + (phase is AnalysisPhase.ERROR),
        consecutive_success=result.consecutive_success + 1 if phase is AnalysisPhase.SUCCESSFUL else 0,
        consecutive_error=result.consecutive_error + 1 if phase is AnalysisPhase.ERROR else 0,
    )


def _measured(
    rules: tuple[MetricRules, ...],
    before: tuple[MetricResult, ...],
    measured: Mapping[str, Measurement],
    *,
    now_s: float,
) -> tuple[MetricResult, ...]:
    """One result for each metric, with what was measured. A metric that is over takes nothing more."""
    known = {result.name: result for result in before}
    results = []
    for metric in rules:
        result = known.get(metric.name) or MetricResult(name=metric.name, dry_run=metric.dry_run)
        measurement = measured.get(metric.name)
        if measurement is not None and not result.phase.over:
            if not measurement.finished and measurement.resume_at_s is None:
                measurement = replace(measurement, resume_at_s=now_s + retry_interval_s(metric))
            result = with_measurement(metric, result, measurement)
        results.append(_judged(result, _metric_verdict(metric, result)))
    return tuple(results)


def _judged(result: MetricResult, verdict: _Verdict) -> MetricResult:
    phase, why = verdict
    if result.phase is phase:
        return result
    if phase.bad and result.last is not None and result.last.message:
        why = f"{why}: {result.last.message}"
    return replace(result, phase=phase, message=why)


def _metric_verdict(rules: MetricRules, result: MetricResult) -> _Verdict:
    """The phase of a metric after what was measured so far. Of several limits that were passed the order is Argo Rollouts'."""
    if result.phase.over:
        return result.phase, result.message
    if not result.measurements:
        return AnalysisPhase.PENDING, ""
    if result.in_flight is not None:
        return AnalysisPhase.RUNNING, result.message
    errors, error_limit = result.consecutive_error, rules.consecutive_error_limit
    if errors > error_limit:
        return AnalysisPhase.ERROR, f"consecutiveErrors ({errors}) > consecutiveErrorLimit ({error_limit})"
    if result.inconclusive > rules.inconclusive_limit:
        why = f"inconclusive ({result.inconclusive}) > inconclusiveLimit ({rules.inconclusive_limit})"
        return AnalysisPhase.INCONCLUSIVE, why
    if 0 <= rules.failure_limit < result.failed:
        return AnalysisPhase.FAILED, f"failed ({result.failed}) > failureLimit ({rules.failure_limit})"
    successes, limit = result.consecutive_success, rules.consecutive_success_limit
    if 0 < limit <= successes:
        return AnalysisPhase.SUCCESSFUL, ""
    count = rules.effective_count
    if count is None or result.count < count:
        return AnalysisPhase.RUNNING, result.message
    if limit > 0:
        phase = AnalysisPhase.FAILED if rules.failure_limit < 0 else AnalysisPhase.INCONCLUSIVE
        return phase, f"consecutiveSuccess ({successes}) < consecutiveSuccessLimit ({limit})"
    return _with_evidence(result)


def _with_evidence(result: MetricResult) -> _Verdict:
    """Successful if anything was; else the worst of what was measured, Inconclusive when that is nothing."""
    none = "no successful measurement"
    if result.successful:
        return AnalysisPhase.SUCCESSFUL, ""
    if result.failed:
        return AnalysisPhase.FAILED, f"{none}: failed ({result.failed})"
    if result.error:
        return AnalysisPhase.ERROR, f"{none}: errors ({result.error})"
    if result.inconclusive:
        return AnalysisPhase.INCONCLUSIVE, f"{none}: inconclusive ({result.inconclusive})"
    return AnalysisPhase.INCONCLUSIVE, "no measurement with evidence"


def _run_verdict(results: tuple[MetricResult, ...], terminate: str) -> _Verdict:
    """The worst of the metrics that count, the first of equals; a run of dry-run metrics alone is Successful."""
    if not results:
        return AnalysisPhase.ERROR, "no metrics specified"
    worst: MetricResult | None = None
    for result in results:
        if not result.dry_run and (worst is None or result.phase.worse_than(worst.phase)):
            worst = result
    phase = AnalysisPhase.SUCCESSFUL if worst is None else worst.phase
    said = [terminate] if terminate else []
    if worst is not None and phase.bad:
        said.append(assessed(worst.name, phase, worst.message))
    return phase, "; ".join(said)


def assessed(metric: str, phase: AnalysisPhase, why: str) -> str:
    """How a run says which of its metrics made its verdict, and why."""
    return f'Metric "{metric}" assessed {phase} due to {why}'


def _next(
    rules: tuple[MetricRules, ...],
    results: tuple[MetricResult, ...],
    asked: Collection[str],
    *,
    started_at_s: float,
    ending: bool,
    now_s: float,
) -> tuple[tuple[Due, ...], float | None]:
    """What to measure now, and when the rest is due."""
    due: list[Due] = []
    later_s: list[float] = []
    for metric, result in zip(rules, results, strict=True):
        if result.phase.over or metric.name in asked:
            continue
        at_s = due_at_s(metric, result, started_at_s=started_at_s)
        if not ending and at_s > now_s:
            later_s.append(at_s)
            continue
        task = Task.TAKE if result.in_flight is None else Task.STOP if ending else Task.RESUME
        number, in_flight = next_number(result), result.in_flight
        due.append(Due(metric=metric.name, task=task, number=number, measurement=in_flight, carried=result.carried))
    return tuple(due), min(later_s, default=None)
