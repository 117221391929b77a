"""`.status` of an AnalysisRun to and from the wire, without loss.

Reading never raises. A metric that cannot be read is left out, so that it is measured again: half a record is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from rollouts.api.status.reader import FieldMissing, Reader
from rollouts.api.times import time_or_none
from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.metric import KEPT_MAX, METRICS_MAX
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.objects import Manifest

MESSAGE_MAX = 1_024
"""Characters of each message: there are up to 1,000 of a metric, and an object of the API server holds 1.5 MB."""

STATUS_VALUES_MAX = 30_000
"""Fields and entries of lists: the controller writes no status with more, so one is somebody else's, and is not read."""

_COUNTS = (
    *("count", "successful", "failed", "inconclusive", "error"),
    *("consecutiveError", "consecutiveSuccess"),
)


def run_status_to_wire(status: RunStatus) -> Manifest:
    """The status as JSON; what is unset is left out."""
    return _said(
        {
            "phase": status.phase.value,
            "message": status.message[:MESSAGE_MAX],
            "metricResults": [_result_to_wire(result) for result in status.results],
            "runSummary": _summary(result for result in status.results if not result.dry_run),
            "dryRunSummary": _summary(result for result in status.results if result.dry_run),
            "startedAt": time_or_none(status.started_at_s),
            "completedAt": time_or_none(status.completed_at_s),
        }
    )


def read_run_status(wire: Mapping[str, Any] | None, *, latest: int | None = None) -> tuple[RunStatus, tuple[str, ...]]:
    """The status, and what could not be read: one sentence with a path for each. None and {} are a new run's.

    No run has more results than METRICS_MAX, or more measurements of one than KEPT_MAX: what is more is not looked at.

    Args:
        latest: so many measurements of each metric are enough; None for all.
    """
    problems: list[str] = []
    status = Reader(wire if isinstance(wire, Mapping) else {}, "status", problems)
    read = RunStatus(
        phase=status.word("phase", AnalysisPhase, AnalysisPhase.PENDING),
        message=status.text("message"),
        results=status.parts("metricResults", partial(_result_from_wire, latest=latest), most=METRICS_MAX),
        started_at_s=status.time("startedAt"),
        completed_at_s=status.time("completedAt"),
    )
    return read, tuple(problems)


def _result_to_wire(result: MetricResult) -> Manifest:
    counts = (result.count, result.successful, result.failed, result.inconclusive, result.error)
    in_a_row = (result.consecutive_error, result.consecutive_success)
    return _said(
        {
            "name": result.name,
            "phase": result.phase.value,
            "message": result.message[:MESSAGE_MAX],
            "measurements": [_measurement_to_wire(measurement) for measurement in result.measurements],
            **dict(zip(_COUNTS, (*counts, *in_a_row), strict=True)),
            "dryRun": result.dry_run,
            "metadata": dict(result.carried),
        }
    )


def _measurement_to_wire(measurement: Measurement) -> Manifest:
    return _said(
        {
            "phase": measurement.phase.value,
            "startedAt": time_or_none(measurement.started_at_s),
            "finishedAt": time_or_none(measurement.finished_at_s),
            "resumeAt": time_or_none(measurement.resume_at_s),
            "value": measurement.value,
            "message": measurement.message[:MESSAGE_MAX],
            "samples": measurement.samples,
            "metadata": dict(measurement.metadata),
        }
    )


def _summary(results: Iterable[MetricResult]) -> Manifest:
    """How many metrics ended in which way; `count` is of all of them."""
    phases = [result.phase for result in results]
    over = (AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE, AnalysisPhase.ERROR)
    return _said({"count": len(phases), **{phase.value.lower(): phases.count(phase) for phase in over}})


def _result_from_wire(result: Reader, *, latest: int | None) -> MetricResult:
    measurements = result.parts("measurements", _measurement_from_wire, latest=KEPT_MAX if latest is None else latest)
    if not result.absent("measurements") and not measurements:
        raise FieldMissing("measurements")
    return MetricResult(
        name=result.need_text("name"),
        phase=result.need_word("phase", AnalysisPhase),
        message=result.text("message"),
        measurements=measurements,
        count=result.number("count"),
        successful=result.number("successful"),
        failed=result.number("failed"),
        inconclusive=result.number("inconclusive"),
        error=result.number("error"),
        consecutive_error=result.number("consecutiveError"),
        consecutive_success=result.number("consecutiveSuccess"),
        dry_run=result.flag("dryRun"),
        carried=_texts(result),
    )


def _measurement_from_wire(measurement: Reader) -> Measurement:
    return Measurement(
        phase=measurement.need_word("phase", AnalysisPhase),
        started_at_s=measurement.need_time("startedAt"),
        finished_at_s=measurement.time("finishedAt"),
        resume_at_s=measurement.time("resumeAt"),
        value=measurement.text("value"),
        message=measurement.text("message"),
        samples=measurement.number("samples"),
        metadata=_texts(measurement),
    )


def _texts(part: Reader) -> tuple[tuple[str, str], ...]:
    metadata = part.child("metadata").fields
    return tuple((name, value) for name, value in metadata.items() if isinstance(value, str))


def _said(wire: Manifest) -> Manifest:
    """Without what says nothing: a phase is always there."""
    return {name: part for name, part in wire.items() if part not in (None, "", 0, [], {})}
