"""Promise: the status of a run that somebody else wrote holds up nobody: it is read as far as a status of ours may go."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from rollouts.api.status.analysis_run import STATUS_VALUES_MAX, run_status_to_wire
from rollouts.cluster.structs import AnalysisRunObject, Metadata
from rollouts.controller.analysis.reading import needs_a_look, status_of, within_limits
from rollouts.controller.workqueue.runs_seen import RunsSeen
from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.objects import has_more_values
from tests.hostile.work import lines_of

MEASURED = {"phase": "Successful", "startedAt": "2026-01-01T00:00:00Z"}

FORGED: dict[str, Any] = {
    "results": {"metricResults": [{"name": f"m{each}", "phase": "Running"} for each in range(9_000)]},
    "nameless results": {"metricResults": [{}] * 12_000},
    "measurements": {"metricResults": [{"name": "m", "phase": "Running", "measurements": [MEASURED] * 9_000}]},
    "bare measurements": {"metricResults": [{"name": "m", "phase": "Running", "measurements": [{}] * 12_000}]},
    "all that 1 MiB holds": {"metricResults": [{}] * 330_000},
}


def run(status: dict[str, Any]) -> AnalysisRunObject:
    """A run with that status."""
    metadata = Metadata(name="r", namespace="shop", uid="u", resource_version="7")
    return AnalysisRunObject(metadata, spec=msgspec.Raw(b"{}"), status=msgspec.Raw(msgspec.json.encode(status)))


@pytest.mark.parametrize("name", FORGED)
def test_what_no_run_has_is_not_looked_at(name: str) -> None:
    """A run has 64 metrics, and 1,000 measurements of one."""
    seen = run({"phase": "Running", **FORGED[name]})

    assert lines_of(partial(status_of, seen)) < 120_000
    assert lines_of(partial(RunsSeen().seen, seen)) < 20_000


def test_a_status_with_more_values_than_ours_is_as_if_it_were_not_there() -> None:
    """And the run says why it begins again."""
    read = status_of(run({"phase": "Successful", **FORGED["all that 1 MiB holds"]}))

    assert read.status == RunStatus()
    assert read.problems == ("status: has more than 30,000 fields and entries of lists",)


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b'"text"', "status: is not an object"), (b'{"phase":', "cannot be read"), (b"[" * 5_000, "cannot be read")],
)
def test_a_status_that_is_none_is_as_if_it_were_not_there(raw: bytes, why: str) -> None:
    """And somebody looks: the run is not taken for one that is over."""
    seen = msgspec.structs.replace(run({}), status=msgspec.Raw(raw))
    read = status_of(seen)

    assert needs_a_look(seen)
    assert read.status == RunStatus()
    assert why in read.problems[0]


@pytest.mark.parametrize("metrics", [1, 64])
@pytest.mark.parametrize("each", [1, 1_000])
@pytest.mark.parametrize("text", ["", "x" * 200])
def test_no_status_of_ours_is_refused(metrics: int, each: int, text: str) -> None:
    """With as many metrics, and measurements of each, as there may be, all with every field."""
    one = Measurement(
        phase=AnalysisPhase.FAILED,
        started_at_s=1.0,
        finished_at_s=2.0,
        resume_at_s=3.0,
        value="1",
        message=text or "m",
        samples=9,
        metadata=(("job", "a"), ("uid", "b")),
    )
    result = MetricResult(name="m", phase=AnalysisPhase.RUNNING, message="m", measurements=(one,) * each, count=each)
    status = RunStatus(
        phase=AnalysisPhase.RUNNING,
        message="m",
        results=tuple(msgspec.structs.replace(result, name=f"m{number}") for number in range(metrics)),
        started_at_s=1.0,
    )

    kept = within_limits(status)
    seen = run(run_status_to_wire(kept))

    assert not has_more_values(bytes(seen.status), most=STATUS_VALUES_MAX)
    assert status_of(seen).status == kept
