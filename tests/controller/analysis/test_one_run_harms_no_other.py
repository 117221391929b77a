"""Promise: a run that hangs, is deleted, is edited by strangers, or cannot be read harms no other run and no Rollout."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rollouts.controller.wiring import EXIT_LEASE_LOST
from rollouts.core.model.frozen import replace
from rollouts.objects import LEASE, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.settings import MetricSettings
from tests import build
from tests.controller.analysis.stage import BUSY, CONTROLLER, HANGS, NAMESPACE, Stage, analysis_run, metric, staged
from tests.controller.test_the_process_outlives_what_objects_hold import Spoiling

pytestmark = pytest.mark.virtual_time(limit_s=20_000)


async def healthy_after_s(stage: Stage) -> float:
    """Virtual seconds from a Rollout's creation until it is Healthy."""
    began_s = stage.now_s()
    stage.cluster.apply(build.rollout({"canary": {"steps": [{"setWeight": 50}]}}, "web", BUSY))

    def healthy(found: Manifest | None) -> bool:
        return ((found or {}).get("status") or {}).get("phase") == "Healthy"

    await stage.cluster.until(healthy, kind=ROLLOUT, namespace=BUSY, name="web", deadline_s=300)
    return stage.now_s() - began_s


async def test_hanging_queries_delay_neither_rollouts_nor_other_runs() -> None:
    """A server that is dead takes the turns of those who ask it, and not all turns: one namespace never holds them all."""
    took_s: list[float] = []
    for hanging in (0, 100):
        async with staged({"stuck": [HANGS]}) as stage:
            for number in range(hanging):
                stage.cluster.apply(analysis_run(f"hangs-{number}", metric("stuck"), namespace=BUSY))
            async with stage.controller():
                await asyncio.sleep(1)
                assert stage.metrics.open == (43 if hanging else 0), "of 64 turns, one namespace may have two thirds"
                stage.cluster.apply(analysis_run())
                assert await stage.until_over(within_s=0.5) == "Successful"
                took_s.append(await healthy_after_s(stage))
            assert stage.metrics.open == 0, "a controller that stops waits for no answer"
            assert stage.metrics.most_open <= MetricSettings().at_once
    assert took_s[1] == pytest.approx(took_s[0], abs=0.2)


async def _passes_s(stage: Stage, images: str) -> list[float]:
    """How long after a new template each of twenty Rollouts has taken it up, five times."""
    took_s: list[float] = []
    for turn in range(5):
        began_s = stage.now_s()
        for number in range(20):
            stage.cluster.apply(build.rollout(build.canary(), f"web-{number}", NAMESPACE, image=f"{images}:{turn}"))
        waiting = {f"web-{number}" for number in range(20)}
        while waiting:
            await asyncio.sleep(0.01)
            for name in tuple(waiting):
                found = stage.cluster.get(ROLLOUT, NAMESPACE, name) or {}
                if (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]:
                    waiting.remove(name)
                    took_s.append(stage.now_s() - began_s)
        await asyncio.sleep(5)
    return sorted(took_s)


@pytest.mark.long
async def test_two_hundred_hanging_measurements_make_no_pass_later() -> None:
    """The slowest passes of a hundred beside them, and without them, in one run."""
    settings = replace(CONTROLLER, metrics=replace(CONTROLLER.metrics, at_once=300))
    async with staged({"stuck": [HANGS]}) as stage, stage.controller(settings=settings):
        without = await _passes_s(stage, "without")
        for number in range(200):
            stage.cluster.apply(
                analysis_run(
                    f"hangs-{number}", metric("stuck", interval="1s", consecutiveErrorLimit=1_000), namespace=BUSY
                )
            )
        await asyncio.sleep(1)
        assert stage.metrics.open == 200

        beside = await _passes_s(stage, "beside")

        assert stage.metrics.open >= 150, "they hang on"
    assert len(without) == len(beside) == 100
    assert beside[98] <= without[98] + 0.01


async def test_all_hanging_queries_get_their_turn(stage: Stage) -> None:
    """Whoever waits behind others is measured as soon as one of them has given up."""
    stage.metrics.says({"stuck": [HANGS]})
    for number in range(60):
        stage.cluster.apply(analysis_run(f"hangs-{number}", metric("stuck", consecutiveErrorLimit=0)))
    async with stage.controller():
        for number in range(60):
            assert await stage.until_over(f"hangs-{number}", within_s=65) == "Error"
    assert len(stage.metrics.asked) == 60


async def test_a_run_that_is_deleted_is_measured_no_more(stage: Stage) -> None:
    """Its query is ended, and a later run of the same name begins from nothing."""
    stage.metrics.says({"stuck": [HANGS]})
    stage.cluster.apply(analysis_run("run", metric("stuck")))
    stage.cluster.apply(analysis_run("other", metric(count=2, interval="20s")))
    async with stage.controller():
        await asyncio.sleep(5)
        assert stage.metrics.open == 1
        stage.delete()
        await asyncio.sleep(0.1)
        assert stage.metrics.open == 0
        stage.metrics.now_says("stuck", 1.0)
        stage.cluster.apply(analysis_run("run", metric("stuck")))
        assert await stage.until_over() == "Successful"
        assert await stage.until_over("other") == "Successful"
    assert stage.result("stuck")["count"] == 1


async def test_a_run_that_waits_for_its_finalizers_is_measured_no_more(stage: Stage) -> None:
    """Somebody has decided that it ends; it only cannot go yet."""
    stage.cluster.apply(analysis_run("run", metric(interval="10s")))
    async with stage.controller():
        await asyncio.sleep(5)
        stage.edit({"metadata": {"finalizers": ["example.com/mine"]}})
        stage.delete()
        await asyncio.sleep(60)
        assert stage.run() is not None
    assert len(stage.metrics.asked) == 1


RUNNING = {"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"}
FORGED: list[dict[str, Any]] = [
    {},
    RUNNING,
    RUNNING | {"metricResults": [{"name": "nobody", "phase": "Successful", "count": 9}]},
    {"metricResults": [{"name": "good", "phase": "Pending"}, {"name": "good", "phase": "Running"}]},
    {"phase": "Running", "message": "x" * 5_000, "runSummary": {"count": 3, "successful": 3}},
    RUNNING | {"metricResults": [{"name": "good", "phase": "Running", "measurements": [{"phase": "Running"}]}]},
    RUNNING | {"metricResults": [{"name": "good", "phase": "Running", "count": 1, "measurements": [RUNNING]}]},
]  # fmt: skip


@pytest.mark.parametrize("forged", FORGED)
async def test_what_a_stranger_writes_into_a_status_promotes_nothing(forged: dict[str, Any], stage: Stage) -> None:
    """Half a record is no evidence: the metric fails as it would have failed."""
    stage.metrics.says({"good": [0.5]})
    stage.cluster.apply(analysis_run("run", metric(count=3, interval="30s", failureLimit=1)))
    stage.cluster.apply(analysis_run("other", metric("fine", count=3, interval="30s")))
    async with stage.controller():
        await asyncio.sleep(10)
        assert stage.edit({"status": None}, subresource="status") == 200
        assert stage.edit({"status": forged}, subresource="status") == 200
        assert await stage.until_over() == "Failed"
        assert await stage.until_over("other") == "Successful"


async def test_a_spec_that_is_nested_too_deeply_ends_its_run_alone(stage: Stage) -> None:
    """Whatever a tenant writes into the free part of a spec, it is told, and others are measured."""
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"a": [deep]}
    job = {"name": "deep", "consecutiveErrorLimit": 0, "provider": {"job": {"spec": deep}}}
    stage.cluster.apply(analysis_run("run", job))
    stage.cluster.apply(analysis_run("other"))
    async with stage.controller():
        assert await stage.until_over("other", within_s=5) == "Successful"
        assert await stage.until_over(within_s=5) == "Error"
        assert stage.status()["message"]


async def test_a_run_that_cannot_be_read_is_left_alone_until_it_can(stage: Stage) -> None:
    """It is not absent: nothing is decided about it, and its measurements end."""
    door = Spoiling(stage.cluster.api)
    stage.cluster.apply(analysis_run("run", metric(interval="10s", count=5)))
    stage.cluster.apply(analysis_run("other", metric(interval="10s", count=5)))
    async with stage.controller(api=door):
        await asyncio.sleep(15)
        door.spoilt.add(("analysisruns", "run"))
        stage.edit({"metadata": {"labels": {"seen": "badly"}}})
        await asyncio.sleep(120)
        assert stage.status()["phase"] == "Running"
        assert stage.result()["count"] == 2
        assert stage.status("other")["phase"] == "Successful"
        door.spoilt.clear()
        stage.edit({"metadata": {"labels": {"seen": "well"}}})
        assert await stage.until_over() == "Successful"


async def test_a_leader_that_loses_its_lease_measures_and_writes_nothing_more(stage: Stage) -> None:
    """The next leader may already measure: two verdicts for one run would be one too many."""
    stage.metrics.says({"stuck": [HANGS]})
    settings = replace(CONTROLLER, leader_elect=True)
    stage.cluster.apply(analysis_run("run", metric("stuck")))
    running = asyncio.create_task(stage.control(asyncio.Event(), settings=settings))
    await asyncio.sleep(20)
    assert stage.metrics.open == 1
    patch = msgspec.json.encode({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3_600}})
    path = LEASE.path(NAMESPACE, settings.lease_name)
    assert stage.cluster.api.answer(Request("PATCH", path, {}, patch, MERGE_PATCH)).status == 200
    assert await running == EXIT_LEASE_LOST
    assert stage.metrics.open == 0
    before = stage.run()
    await asyncio.sleep(120)
    assert stage.run() == before


async def test_a_standby_measures_nothing_and_takes_over(stage: Stage) -> None:
    """Only the leader asks; whoever leads next goes on where the status ends."""
    first, second = (replace(CONTROLLER, leader_elect=True, identity=name) for name in ("one", "two"))
    stage.cluster.apply(analysis_run("run", metric(interval="60s", count=3)))
    async with stage.controller(settings=first):
        await asyncio.sleep(5)
        async with stage.controller(settings=second, seed=2):
            await asyncio.sleep(30)
            assert len(stage.metrics.asked) == 1
    async with stage.controller(settings=second, seed=2):
        assert await stage.until_over() == "Successful"
    assert len(stage.metrics.asked) == 3


async def test_measurements_are_told_without_names(stage: Stage) -> None:
    """The number of series must not grow with the cluster."""
    stage.metrics.says({"stuck": [HANGS]})
    stage.cluster.apply(analysis_run("a-run", metric("a-metric", query="a-query")))
    stage.cluster.apply(analysis_run("waits", metric("stuck")))
    async with stage.controller():
        await stage.until_over("a-run")
        await asyncio.sleep(1)
        told = stage.telemetry[0].exposition().decode()
    assert 'rollouts_measurements_total{phase="Successful",source="prometheus"} 1.0' in told
    assert 'rollouts_measurement_seconds_count{source="prometheus"} 1.0' in told
    assert 'rollouts_analysis_runs_total{phase="Successful"} 1.0' in told
    assert "rollouts_analysis_runs_active 1.0" in told
    assert "rollouts_measurements_active 1.0" in told
    assert not any(name in told for name in ("a-run", "a-metric", "a-query", "stuck"))
