"""Promise: a pass sees each AnalysisRun that its Rollout owns, with its verdict, and takes nothing else for one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.cluster.decoding import UnreadableObject
from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, RunSeen, run_spec_hash
from rollouts.core.model.frozen import replace
from tests.controller.observe.analysed import BACKGROUND, STEP_0, analysing, snapshot, under_way, updating
from tests.controller.world import CART, World, analysis_run, owned, rollout, template

pytestmark = pytest.mark.virtual_time


def measured(name: str, phase: AnalysisPhase, *, value: str = "", message: str = "", **more: Any) -> MetricResult:
    """A metric with one measurement."""
    one = Measurement(phase=phase, started_at_s=1.0, finished_at_s=2.0, value=value, message=message)
    return MetricResult(name=name, phase=AnalysisPhase.RUNNING, measurements=(one,), **more)


def runs_with(world: World, *statuses: RunStatus | dict[str, Any], **more: Any) -> list[RunSeen]:
    """The run of Rollout cart as it is seen with each of these statuses, one after the other."""
    under_way(world)
    observer, seen = world.observer(), list[RunSeen]()
    for version, status in enumerate(statuses, 1):
        wire = run_status_to_wire(status) if isinstance(status, RunStatus) else status
        world.runs.put("", analysis_run(status=wire, version=version, **more))
        seen += snapshot(world, observer).runs
    return seen


async def test_a_run_is_seen_with_its_place_and_its_verdict(world: World) -> None:
    """The verdict counts for the revision and the step that its labels name, and for no other."""
    over = RunStatus(phase=AnalysisPhase.FAILED, message="too many errors", started_at_s=1.0, completed_at_s=9.0)

    (run,) = runs_with(world, over, creationTimestamp="1970-01-01T00:00:05Z", deletionTimestamp="1970-01-01T00:00:10Z")

    assert run == RunSeen(
        name="cart-run",
        uid="cart-run-uid",
        resource_version="1",
        gate=STEP_0,
        revision="v2",
        created_at_s=5.0,
        phase=AnalysisPhase.FAILED,
        message="too many errors",
        deleting=True,
        completed_at_s=9.0,
        spec_hash=run_spec_hash(b"{}"),
    )


@pytest.mark.parametrize(
    ("labels", "gate"),
    [
        ({"rollouts.dev/analysis": "background"}, BACKGROUND),
        ({"rollouts.dev/analysis": "post-promotion"}, AnalysisGate(AnalysisKind.POST_PROMOTION)),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "12"}, AnalysisGate(AnalysisKind.STEP, 12)),
        ({"rollouts.dev/analysis": "step"}, None),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "-1"}, None),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "9" * 10}, None),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "²"}, None),
        ({"rollouts.dev/analysis": "tea"}, None),
        ({}, None),
    ],
)
async def test_a_run_whose_labels_cannot_be_read_is_of_no_gate(
    labels: dict[str, str], gate: AnalysisGate | None, world: World
) -> None:
    """Somebody may edit labels; such a run passes nothing."""
    (run,) = runs_with(world, {}, labels=labels)

    assert run.gate == gate


async def test_a_run_is_measured_once_every_metric_that_counts_has_a_verdict(world: World) -> None:
    """An update that ends waits for that much evidence of the analysis beside its steps. Errors and dry runs are none."""
    good = measured("a", AnalysisPhase.SUCCESSFUL, count=1)
    broken = measured("b", AnalysisPhase.ERROR, error=1)
    fine = measured("b", AnalysisPhase.FAILED, count=1)
    unmeasured = MetricResult(name="c", dry_run=True)
    running = RunStatus(phase=AnalysisPhase.RUNNING, started_at_s=1.0)

    results = ((good, each, unmeasured) for each in (MetricResult(name="b"), broken, fine))
    seen = runs_with(world, {}, running, *(replace(running, results=each) for each in results))

    assert [each.measured for each in seen] == [False, False, False, False, True]


async def test_a_run_that_goes_on_has_no_end(world: World) -> None:
    """Whatever somebody has written into its status."""
    (run,) = runs_with(world, RunStatus(phase=AnalysisPhase.RUNNING, started_at_s=1.0, completed_at_s=9.0))

    assert run.completed_at_s is None


async def test_a_run_that_goes_on_says_what_it_measured_last(world: World) -> None:
    """People who wait for it read this in the status of the Rollout. Numbers of good ones change each time; the run has them."""
    results = (
        measured("success-rate", AnalysisPhase.SUCCESSFUL, value="0.99", count=1),
        measured("latency", AnalysisPhase.ERROR, message="connection refused", error=1),
        measured("cpu", AnalysisPhase.FAILED, value="9", count=1, dry_run=True),
        MetricResult(name="memory"),
    )

    (run,) = runs_with(world, RunStatus(phase=AnalysisPhase.RUNNING, results=results, started_at_s=1.0))

    assert run.message == "success-rate Successful, latency Error (connection refused)"


@pytest.mark.parametrize(
    ("metrics", "shortest_s"),
    [
        ([{}], 0.0),
        ([{"initialDelay": "1m"}], 60.0),
        ([{"interval": "30s", "count": 5, "initialDelay": "10s"}, {"interval": "1m", "count": 2}], 130.0),
        ([{"interval": "1m", "count": 9, "consecutiveSuccessLimit": 3}], 120.0),
        ([{"interval": "1m", "consecutiveSuccessLimit": 3}], 120.0),
        ([{"interval": "1m"}], math.inf),
        ([{"interval": "nonsense"}], None),
    ],
)
async def test_it_is_known_how_long_a_run_takes_at_least(
    metrics: list[dict[str, Any]], shortest_s: float | None, world: World
) -> None:
    """From its start to the last measurement that it needs; a metric without a count goes on until somebody ends it."""
    named = {"name": "rate", "successCondition": "true", "provider": {"prometheus": {"query": "1"}}}
    spec = {"metrics": [{**named, "name": f"m{at}", **each} for at, each in enumerate(metrics)]}

    assert [each.shortest_s for each in runs_with(world, {}, spec=spec)] == [shortest_s]


async def test_how_long_an_analysis_beside_the_steps_takes_is_not_said(world: World) -> None:
    """It ends with the update."""
    labels = {"rollouts.dev/name": "cart", "rollouts.dev/revision": "v2", "rollouts.dev/analysis": "background"}
    metric = {"name": "rate", "interval": "1m", "provider": {"prometheus": {"query": "1"}}}

    assert [each.shortest_s for each in runs_with(world, {}, spec={"metrics": [metric]}, labels=labels)] == [None]


async def test_errors_in_a_row_are_counted_of_metrics_that_count_and_go_on(world: World) -> None:
    """More than a few need a person; those of a dry run, or of a metric that is over, need none."""
    results = (
        MetricResult(name="a", phase=AnalysisPhase.RUNNING, error=9, consecutive_error=2),
        MetricResult(name="b", phase=AnalysisPhase.RUNNING, error=5, consecutive_error=5),
        MetricResult(name="c", phase=AnalysisPhase.RUNNING, error=7, consecutive_error=7, dry_run=True),
        MetricResult(name="d", phase=AnalysisPhase.SUCCESSFUL, error=8, consecutive_error=8),
    )

    (run,) = runs_with(world, RunStatus(phase=AnalysisPhase.RUNNING, results=results, started_at_s=1.0))

    assert run.errors_in_a_row == 5


@pytest.mark.parametrize(
    ("spec", "told"), [({"terminate": True}, True), ({"terminate": False}, False), ({"terminate": "yes"}, False)]
)
async def test_a_run_that_is_told_to_end_is_seen_so(spec: dict[str, Any], told: bool, world: World) -> None:
    """It is told once."""
    assert [each.terminate for each in runs_with(world, {}, spec=spec)] == [told]


@pytest.mark.parametrize("junk", [{"phase": "Splendid"}, {"phase": 5, "metricResults": "x"}, {"metricResults": [7]}])
async def test_a_status_that_somebody_has_spoilt_is_no_verdict(junk: dict[str, Any], world: World) -> None:
    """Whoever may write anything into it must not pass a gate by a mistake."""
    (run,) = runs_with(world, junk)

    assert (run.phase, run.measured) == (AnalysisPhase.PENDING, False)


@pytest.mark.parametrize("lie", [{"name": "other"}, {"kind": "Job"}, {"controller": False}, {"uid": "someone's"}])
async def test_a_run_whose_owner_reference_lies_is_nobodys(lie: dict[str, Any], world: World) -> None:
    """As for ReplicaSets: all of a reference has to be true."""
    assert runs_with(world, {}, ownerReferences=[{**owned()[0], **lie}]) == []


async def test_the_oldest_run_comes_first(world: World) -> None:
    """Decisions do not depend on the order in which a watch brings objects."""
    under_way(world)
    for name, at in (("b", "07"), ("c", "05"), ("a", "07")):
        world.runs.put("", analysis_run(name, creationTimestamp=f"2026-01-01T00:00:{at}Z"))
    assert [run.name for run in snapshot(world).runs] == ["c", "a", "b"]


async def test_a_run_that_cannot_be_read_has_no_verdict_and_is_there(world: World) -> None:
    """No other run takes its place, nothing is promoted, and everything else goes on: an abort by hand, for one."""
    under_way(world)
    world.runs.put("", analysis_run(status={"phase": "Successful"}))
    world.runs.put_unreadable("", UnreadableObject(analysis_run(version=2).metadata, "it has more than 8 MiB"))
    (run,) = snapshot(world).runs

    assert (run.name, run.gate, run.phase, run.measured) == ("cart-run", STEP_0, AnalysisPhase.PENDING, False)
    assert "more than 8 MiB" in run.message


async def test_a_name_that_somebody_else_has_is_seen(world: World) -> None:
    """Status names the run, and the object of that name is a stranger's: its verdict says nothing about this Rollout.

    The Rollout depends on it all the same: it waits until somebody deletes it.
    """
    of_step = {"kind": "step", "step": 0, "number": 1}
    record = {**of_step, "run": "cart-run", "phase": "Running", "at": "2026-01-01T00:00:00Z"}
    spec = analysing()
    world.rollouts.put("", rollout(spec=spec, status=updating(spec, analyses=[record])))
    world.runs.put("", analysis_run(ownerReferences=[]))
    world.templates.put("", template())
    seen = snapshot(world)

    assert (seen.runs, seen.taken_runs) == ((), frozenset({"cart-run"}))
    assert world.analyses.askers.of(("shop", "cart-run")) == {CART}
