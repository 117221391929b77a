"""An AnalysisRun at one instant: what to measure now, its new status, and when to look again. Pure; no provider is known here.

A run ends early when it is told to, or when a metric that counts has ended badly. Then nothing new is measured, and what is in
flight is stopped. It is over when all its metrics are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.schedule import due_at_s, earliest, retry_interval_s
from rollouts.core.analysis.verdict import Assessment, ended_verdict, metric_verdict, with_measurement
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace

TERMINATED = "Run Terminated"
"""Why a run ends that somebody told to end, in Argo Rollouts' words."""


class Task(StrEnum):
    """What is done with a metric."""

    TAKE = "take"
    RESUME = "resume"
    STOP = "stop"  # answered by a finished measurement: the truth, if there is one by now, else Pending


class Due(Struct, frozen=True, kw_only=True):
    """One metric that is measured now.

    Args:
        number: of the measurement, from 1; one that was not recorded is taken again under its number.
        measurement: the one in flight, which is resumed or stopped; None for a new one.
        carried: what earlier measurements have left for it.
    """

    metric: str
    task: Task
    number: int
    measurement: Measurement | None = None
    carried: tuple[tuple[str, str], ...] = ()


class RunDecision(Struct, frozen=True, kw_only=True):
    """What follows for a run. The status is recorded before anything of `due` is done.

    Args:
        wake_at_s: when to look again even though nothing was answered; None when there is nothing to wait for.
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
        now_s: seconds since 1970.
    """
    if status.phase.over:
        return RunDecision(due=(), status=status, wake_at_s=None)
    started_at_s = now_s if status.started_at_s is None else status.started_at_s
    results = _measured(rules, status.results, measured, now_s=now_s)
    ending = bool(terminate) or any(result.phase.bad and not result.dry_run for result in results)
    if ending:
        results = tuple(_ended(result, asked) for result in results)
    running = replace(status, results=results, started_at_s=started_at_s, phase=AnalysisPhase.RUNNING)
    if all(result.phase.over for result in results):
        verdict = _run_verdict(results, terminate)
        over = replace(running, phase=verdict.phase, message=verdict.why, completed_at_s=now_s)
        return RunDecision(due=(), status=over, wake_at_s=None)
    due, wake_at_s = _next(rules, running, asked, ending=ending, now_s=now_s)
    return RunDecision(due=due, status=running, wake_at_s=wake_at_s)


def next_number(result: MetricResult) -> int:
    """Number of the metric's measurement that is in flight or comes next, from 1: those that were counted have lower ones."""
    return result.count + result.error + 1


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
    for each in rules:
        result = known.get(each.name) or MetricResult(name=each.name, dry_run=each.dry_run)
        measurement = measured.get(each.name)
        if measurement is not None and not result.phase.over:
            if not measurement.finished and measurement.resume_at_s is None:
                measurement = replace(measurement, resume_at_s=now_s + retry_interval_s(each))
            result = with_measurement(each, result, measurement)
        results.append(_judged(result, metric_verdict(each, result)))
    return tuple(results)


def _ended(result: MetricResult, asked: Collection[str]) -> MetricResult:
    """A metric of a run that ends early. What is in flight is waited for, so that nothing stays behind."""
    if result.phase.over or result.in_flight is not None or result.name in asked:
        return result
    return _judged(result, ended_verdict(result))


def _judged(result: MetricResult, verdict: Assessment) -> MetricResult:
    if result.phase is verdict.phase:
        return result
    message = verdict.why
    if verdict.phase.bad and result.last is not None and result.last.message:
        message = f"{verdict.why}: {result.last.message}"
    return replace(result, phase=verdict.phase, message=message)


def _run_verdict(results: tuple[MetricResult, ...], terminate: str) -> Assessment:
    """The worst of the metrics that count, the first of equals; a run of dry-run metrics alone is Successful."""
    if not results:
        return Assessment(AnalysisPhase.ERROR, "no metrics specified")
    worst: MetricResult | None = None
    for result in results:
        if not result.dry_run and (worst is None or result.phase.worse_than(worst.phase)):
            worst = result
    phase = AnalysisPhase.SUCCESSFUL if worst is None else worst.phase
    said = [terminate] if terminate else []
    if worst is not None and phase.bad:
        said.append(f'Metric "{worst.name}" assessed {phase} due to {worst.message}')
    return Assessment(phase, "; ".join(said))


def _next(
    rules: tuple[MetricRules, ...], status: RunStatus, asked: Collection[str], *, ending: bool, now_s: float
) -> tuple[tuple[Due, ...], float | None]:
    """What to measure now, and when the rest is due."""
    due: list[Due] = []
    later_s: list[float] = []
    for each, result in zip(rules, status.results, strict=True):
        if result.phase.over or each.name in asked:
            continue
        at_s = due_at_s(each, result, started_at_s=now_s if status.started_at_s is None else status.started_at_s)
        if not ending and at_s > now_s:
            later_s.append(at_s)
            continue
        task = Task.TAKE if result.in_flight is None else Task.STOP if ending else Task.RESUME
        number, in_flight = next_number(result), result.in_flight
        due.append(Due(metric=each.name, task=task, number=number, measurement=in_flight, carried=result.carried))
    return tuple(due), earliest(later_s)
