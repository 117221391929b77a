"""`.status` of an AnalysisRun to and from the wire, without loss: by the fields that `core/analysis/measurement.py` declares.

A metric that cannot be read is left out, so that it is measured again: half a record is no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.status.codec import SHAPES, Derived, FieldMissing, JsonShape, from_json, schema_of, to_json
from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.metric import METRICS_MAX
from rollouts.objects import Manifest

STATUS_VALUES_MAX = 30_000
"""Fields and entries of lists: the controller writes no status with more, so one is somebody else's, and is not read."""

_COUNTED = {
    "count": "All of them.",
    "successful": "Those that succeeded.",
    "failed": "Those that failed.",
    "inconclusive": "Those that did neither.",
    "error": "Those that could not be measured.",
}


def run_status_to_wire(status: RunStatus) -> Manifest:
    """The status as JSON; what is unset is left out."""
    return to_json(status)


def read_run_status(wire: Mapping[str, Any] | None, *, latest: int | None = None) -> tuple[RunStatus, tuple[str, ...]]:
    """The status, and what could not be read: one sentence with a path for each. None and {} are a new run's.

    No run has more results than METRICS_MAX, or more measurements of one than KEPT_MAX: what is more is not looked at.

    Args:
        latest: so many measurements of each metric are enough; None for all.
    """
    if not isinstance(wire, Mapping):
        wire = {}
    if latest is not None and isinstance(results := wire.get("metricResults"), list):
        wire = {**wire, "metricResults": [_with_latest(result, latest) for result in results[:METRICS_MAX]]}
    problems: list[str] = []
    return from_json(RunStatus, wire, "status", problems), tuple(problems)


def run_status_schema() -> Manifest:
    """The schema of `.status` for the CRD."""
    return schema_of(RunStatus)


def _with_latest(result: Any, latest: int) -> Any:
    if not isinstance(result, Mapping) or not isinstance(measurements := result.get("measurements"), list):
        return result
    return {**result, "measurements": measurements[-latest:]}


def _summary(status: RunStatus, *, dry_run: bool) -> Manifest | None:
    """How many metrics ended in which way; `count` is of all of them."""
    phases = [result.phase.value.lower() for result in status.results if result.dry_run is dry_run]
    counts = {"count": len(phases), **{name: phases.count(name) for name in _COUNTED if name != "count"}}
    return {name: count for name, count in counts.items() if count} or None


def _read_result(values: dict[str, Any], wire: Mapping[str, Any]) -> None:
    if wire.get("measurements") is not None and not values.get("measurements"):
        raise FieldMissing("measurements")


_COUNTS = {
    "description": "",
    "properties": {name: {"type": "integer", "description": text} for name, text in _COUNTED.items()},
    "type": "object",
}
_SUMMARIES = (
    Derived("runSummary", "The metrics that count.", lambda run: _summary(run, dry_run=False), "startedAt", _COUNTS),
    Derived("dryRunSummary", "The others.", lambda run: _summary(run, dry_run=True), "startedAt", _COUNTS),
)
SHAPES.update(
    {
        Measurement: JsonShape(required=("phase",)),
        MetricResult: JsonShape(required=("name", "phase"), read=_read_result),
        RunStatus: JsonShape(derived=_SUMMARIES),
    }
)
