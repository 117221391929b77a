"""Promise: an AnalysisRun that somebody creates is measured and judged by Argo Rollouts' rules, and its status tells it all.

One that is over stays as long as its `ttlStrategy` says, and not longer; without one it stays.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controller.analysis.stage import HANGS, Outcome, Stage, analysis_run, metric

pytestmark = pytest.mark.virtual_time(limit_s=20_000)


async def test_a_metric_without_an_interval_is_measured_once(stage: Stage) -> None:
    """The simplest run: one question, one verdict."""
    stage.cluster.apply(analysis_run())
    async with stage.controller():
        assert await stage.until_over() == "Successful"
        await asyncio.sleep(600)

    assert len(stage.metrics.asked) == 1
    told = {**stage.result()}
    (measured,) = told.pop("measurements")
    assert told == {"name": "good", "phase": "Successful", "count": 1, "successful": 1, "consecutiveSuccess": 1}
    assert (measured["phase"], measured["value"], measured["samples"]) == ("Successful", "[1]", 1)
    assert stage.status()["runSummary"] == {"count": 1, "successful": 1}
    assert stage.events() == [("Normal", "AnalysisRunSuccessful", "all its metrics are Successful")]


RULES: list[tuple[dict[str, Any], list[Outcome], str, list[str]]] = [
    ({"count": 3, "interval": "30s"}, [1.0], "Successful", ["Successful"] * 3),
    ({"count": 3, "interval": "30s"}, [1.0, 0.5], "Failed", ["Successful", "Failed"]),
    ({"count": 3, "interval": "30s", "failureLimit": 1}, [0.5, 1.0], "Successful", ["Failed", "Successful", "Successful"]),
    ({"count": 3, "interval": "30s", "failureLimit": 1}, [0.5], "Failed", ["Failed", "Failed"]),
    ({}, ["NaN"], "Inconclusive", ["Inconclusive"]),
    ({"noData": "fail"}, ["NaN"], "Failed", ["Failed"]),
    ({"consecutiveErrorLimit": 1}, [None], "Error", ["Error", "Error"]),
    ({}, [None, None, None, None, 1.0], "Successful", ["Error", "Error", "Error", "Error", "Successful"]),
    ({}, [HANGS, 1.0], "Successful", ["Error", "Successful"]),
    ({"consecutiveSuccessLimit": 2, "interval": "9s", "failureLimit": -1}, [0.5, 1.0], "Successful",
     ["Failed", "Successful", "Successful"]),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "outcomes", "phase", "measurements"), RULES)
async def test_measurements_are_judged_by_argos_rules(
    rules: dict[str, Any], outcomes: list[Outcome], phase: str, measurements: list[str], stage: Stage
) -> None:
    """What the pure rules promise must hold for real runs: nothing is lost or counted twice on the way into the status."""
    stage.metrics.says({"good": outcomes})
    stage.cluster.apply(analysis_run("run", metric(**rules)))
    async with stage.controller():
        assert await stage.until_over() == phase
    assert stage.phases() == measurements
    assert len(stage.metrics.asked) == len(measurements)


async def test_measurements_keep_their_interval_and_their_delay(stage: Stage) -> None:
    """An interval is from the end of one measurement to the next; a delay is from the start of the run."""
    stage.cluster.apply(analysis_run("run", metric(count=4, interval="2m", initialDelay="10m")))
    async with stage.controller():
        began_s = stage.now_s()
        assert await stage.until_over() == "Successful"
    after_s = [round(at_s - began_s) for at_s in stage.metrics.times_s("good")]
    assert after_s == [600, 720, 840, 960]


async def test_a_run_without_an_end_goes_on_until_it_is_told_to_end(stage: Stage) -> None:
    """A background analysis lasts as long as the update; its end is no failure."""
    stage.cluster.apply(analysis_run("run", metric(interval="1m")))
    async with stage.controller():
        await asyncio.sleep(3_600)
        assert stage.status()["phase"] == "Running"
        assert stage.result()["count"] == 60
        assert len(stage.phases()) == 10, "the latest ten are kept"
        assert stage.edit({"spec": {"terminate": True}}) == 200
        assert await stage.until_over(within_s=1) == "Successful"
        asked = len(stage.metrics.asked)
        await asyncio.sleep(600)
    assert stage.status()["message"] == "Run Terminated"
    assert len(stage.metrics.asked) == asked


async def test_a_run_ends_at_once_when_it_is_told_to_while_its_server_hangs(stage: Stage) -> None:
    """An abort by hand must not wait for a dead Prometheus. What it did not measure is no success."""
    stage.metrics.says({"good": [HANGS]})
    stage.cluster.apply(analysis_run())
    async with stage.controller():
        await asyncio.sleep(5)
        assert stage.metrics.open == 1
        stage.edit({"spec": {"terminate": True}})
        assert await stage.until_over(within_s=1) == "Inconclusive"
        assert stage.metrics.open == 0
        assert "no measurement with evidence" in stage.status()["message"]


async def test_the_worst_metric_decides_and_a_dry_run_does_not(stage: Stage) -> None:
    """A dry run is measured for people."""
    stage.metrics.says({"bad": [0.1], "tried": [0.2]})
    metrics = [metric("good"), metric("bad"), metric("tried")]
    stage.cluster.apply(analysis_run("run", *metrics, dryRun=[{"metricName": "tried"}]))
    stage.cluster.apply(analysis_run("tried", metric("tried"), dryRun=[{"metricName": "tried"}]))
    async with stage.controller():
        assert await stage.until_over() == "Failed"
        assert await stage.until_over("tried") == "Successful"
    assert stage.status()["message"].startswith('Metric "bad" assessed Failed')
    assert stage.status()["runSummary"] == {"count": 2, "successful": 1, "failed": 1}
    assert stage.status()["dryRunSummary"] == {"count": 1, "failed": 1}
    ((kind, reason, note),) = stage.events()
    assert (kind, reason) == ("Warning", "AnalysisRunFailed")
    assert note == stage.status()["message"]


async def test_a_run_whose_spec_is_wrong_ends_with_all_its_problems(stage: Stage) -> None:
    """Nobody watches a run that cannot begin: it must say at once what to write."""
    wrong = metric("one", interval="5m", count=1, query="up{{args.nobody}}")
    stage.cluster.apply(analysis_run("run", wrong, metric("two", failureLimit=-5)))
    async with stage.controller():
        assert await stage.until_over(within_s=5) == "Error"
        message = stage.status()["message"]
        assert "{{args.nobody}}" in message
        assert "spec.metrics[1].failureLimit" in message
        await asyncio.sleep(60)
        assert [each[:2] for each in stage.events()] == [("Warning", "AnalysisRunError")]
    assert not stage.metrics.asked


async def test_an_idle_run_costs_nothing(stage: Stage) -> None:
    """Thousands of runs that are over lie in a cluster: nothing is asked for them, and nothing written."""
    stage.cluster.apply(analysis_run())
    async with stage.controller():
        await stage.until_over()
        await asyncio.sleep(1)
    before = stage.run()
    async with stage.controller():
        await asyncio.sleep(3_600)
    assert stage.run() == before
    assert len(stage.metrics.asked) == 1


KEPT: list[tuple[dict[str, int], float, int | None]] = [
    ({"secondsAfterCompletion": 300}, 1.0, 300),
    ({"secondsAfterCompletion": 300, "secondsAfterSuccess": 60}, 1.0, 60),
    ({"secondsAfterCompletion": 300, "secondsAfterSuccess": 60}, 0.5, 300),
    ({"secondsAfterFailure": 30}, 0.5, 30),
    ({"secondsAfterFailure": 30}, 1.0, None),
    ({"secondsAfterSuccess": 0}, 1.0, 0),
    ({"secondsAfterSuccess": 864_000}, 1.0, None),
]


@pytest.mark.parametrize(("strategy", "value", "after_s"), KEPT)
async def test_a_run_is_deleted_when_its_time_is_over(
    strategy: dict[str, int], value: float, after_s: int | None, stage: Stage
) -> None:
    """The more special rule comes before the general one, as with Argo Rollouts."""
    stage.metrics.says({"good": [value]})
    stage.cluster.apply(analysis_run("run", metric(), ttlStrategy=strategy))
    async with stage.controller():
        await stage.until_over()
        if after_s is None or after_s:
            await asyncio.sleep(3_600 if after_s is None else after_s - 1)
            assert stage.run() is not None
        if after_s is not None:
            await asyncio.sleep(2)
            assert stage.run() is None


async def test_a_run_with_a_wrong_spec_is_deleted_in_time_too(stage: Stage) -> None:
    """It has a time of its own, whatever is wrong with the rest."""
    wrong: dict[str, Any] = metric(count=5)
    stage.cluster.apply(analysis_run("run", wrong, ttlStrategy={"secondsAfterCompletion": 60}))
    async with stage.controller():
        assert await stage.until_over() == "Error"
        await asyncio.sleep(62)
        assert stage.run() is None


async def test_a_controller_that_was_away_deletes_what_is_overdue(stage: Stage) -> None:
    """Time goes on while nobody leads."""
    stage.cluster.apply(analysis_run("run", metric(), ttlStrategy={"secondsAfterCompletion": 600}))
    async with stage.controller():
        await stage.until_over()
    await asyncio.sleep(1_000)
    assert stage.run() is not None
    async with stage.controller():
        await asyncio.sleep(2)
        assert stage.run() is None
