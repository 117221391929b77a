"""Promise: what is recorded of an AnalysisRun is read back as it was, and a record that was edited never becomes a success."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from rollouts.api.status.analysis_run import read_run_status, run_status_schema, run_status_to_wire
from rollouts.core.analysis.measurement import RUN_MESSAGE_MAX, Measurement, MetricResult, RunStatus
from rollouts.core.model.analysis import AnalysisPhase
from tests.api.declared import unknown, values_of
from tests.api.specs import put


@given(status=values_of(RunStatus))
def test_a_status_is_read_back_as_it_was(status: RunStatus) -> None:
    """The only memory of a run is its status. The schema knows every field of it."""
    wire = json.loads(json.dumps(run_status_to_wire(status)))

    assert read_run_status(wire) == (status, ())
    assert unknown(wire, run_status_schema()) == []


@pytest.mark.parametrize("wire", [None, {}])
def test_nothing_is_a_new_run(wire: Any) -> None:
    """The API server gives an object that was just created without a status."""
    assert read_run_status(wire) == (RunStatus(), ())


def test_metrics_are_counted_by_how_they_ended() -> None:
    """Those of a dry run apart, as in Argo Rollouts."""
    ends = (AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE, AnalysisPhase.ERROR)
    results = [MetricResult(name=phase, phase=phase) for phase in (*ends, AnalysisPhase.RUNNING)]
    dry = [MetricResult(name="x", phase=AnalysisPhase.FAILED, dry_run=True)]

    wire = run_status_to_wire(RunStatus(results=(*results, *dry)))

    assert wire["runSummary"] == {"count": 5, "successful": 1, "failed": 1, "inconclusive": 1, "error": 1}
    assert wire["dryRunSummary"] == {"count": 1, "failed": 1}


def test_a_long_message_is_cut() -> None:
    """A status that the API server refuses would lose the measurement, and the run would never end."""
    long = "x" * 5000
    measurement = Measurement(phase=AnalysisPhase.ERROR, started_at_s=0.0, message=long)
    result = MetricResult(name="m", message=long, measurements=(measurement,))

    wire = run_status_to_wire(RunStatus(message=long, results=(result,)))

    (told,) = wire["metricResults"]
    assert len(wire["message"]) == len(told["message"]) == len(told["measurements"][0]["message"]) == RUN_MESSAGE_MAX


GOOD = run_status_to_wire(
    RunStatus(
        phase=AnalysisPhase.RUNNING, started_at_s=0.0,
        results=(
            MetricResult(
                name="m", phase=AnalysisPhase.RUNNING, count=1, successful=1,
                measurements=(
                    Measurement(phase=AnalysisPhase.SUCCESSFUL, started_at_s=0.0, finished_at_s=1.0, samples=1),
                ),
            ),
        ),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("phase",), "Great"), (("phase",), 5), (("metricResults",), "x"), (("metricResults", 0), None),
        (("metricResults", 0, "name"), None), (("metricResults", 0, "phase"), "Great"),
        (("metricResults", 0, "measurements"), "x"), (("metricResults", 0, "measurements", 0), 5),
        (("metricResults", 0, "measurements", 0, "phase"), "Great"),
        (("metricResults", 0, "measurements", 0, "startedAt"), "yesterday"),
        (("metricResults", 0, "measurements", 0, "metadata"), []), (("metricResults", 0, "count"), -1),
        (("startedAt",), "soon"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_and_is_no_success(path: tuple[str | int, ...], value: Any) -> None:
    """Somebody edits a status, or an older controller reads a newer one's."""
    wire = json.loads(json.dumps(GOOD))
    put(wire, path, value)

    status, problems = read_run_status(wire)

    assert len(problems) >= 1
    assert problems[0].startswith("status")
    assert status.phase is not AnalysisPhase.SUCCESSFUL
