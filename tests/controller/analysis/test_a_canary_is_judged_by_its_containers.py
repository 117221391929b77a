"""Promise: a canary that burns its CPU is given up although all pods look idle on average; without evidence it stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rollouts.objects import ANALYSIS_RUN, ROLLOUT, Manifest
from rollouts.sim.network.consumption import Consumption
from rollouts.sim.network.resource_metrics import (
    ContainerMissing,
    Down,
    PartialList,
    ReplacedFigures,
    ScrapesFail,
    SimMetricsServer,
)
from tests import build
from tests.controller.analysis.stage import BUSY, Stage

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

OF_APP = {"containerResource": {"container": "app", "resource": "cpu"}}
CPU = build.metric("cpu", condition="result.utilizationPercent <= 90", interval="30s", count=3, provider=OF_APP)
TEMPLATE = build.analysis_template(CPU, name="cpu", namespace=BUSY)


def rollout(image: str) -> Manifest:
    """Four pods, one of them the canary's while its CPU is looked at."""
    steps = [{"setWeight": 25}, {"analysis": {"templates": [{"templateName": "cpu"}]}}]
    container = {"resources": {"requests": {"cpu": "500m"}}}
    template = build.pod_template("web", image=image, container=container)
    return build.rollout({"canary": {"steps": steps}}, "web", BUSY, replicas=4, template=template)


async def phase_after(stage: Stage, seconds: float) -> str:
    """The Rollout's phase then."""
    await asyncio.sleep(seconds)
    phase: str = (stage.cluster.get(ROLLOUT, BUSY, "web") or {})["status"]["phase"]
    return phase


async def updated(
    stage: Stage, spoil: Callable[[SimMetricsServer], Any], *, canary_cores: float
) -> tuple[str, str, str]:
    """The phase of an update from web:1 to web:2 after ten minutes, that of its run, and what the run says."""
    server = stage.cluster.metrics_server()
    stage.cluster.consumptions.use(Consumption(idle_cores=0.05), image="web:1")
    stage.cluster.consumptions.use(Consumption(idle_cores=canary_cores), image="web:2")
    stage.cluster.apply(TEMPLATE)
    stage.cluster.apply(rollout("web:1"))
    async with stage.controller():
        assert await phase_after(stage, 60) == "Healthy"
        spoil(server)
        stage.cluster.apply(rollout("web:2"))
        phase = await phase_after(stage, 600)
    (run,) = stage.cluster.list(ANALYSIS_RUN, BUSY)
    return phase, run["status"]["phase"], run["status"].get("message", "")


@pytest.mark.parametrize(
    ("cores", "ends"), [(0.95, ("Aborted", "Failed")), (0.05, ("Healthy", "Successful"))], ids=["burns", "healthy"]
)
async def test_a_canary_that_burns_is_given_up(cores: float, ends: tuple[str, str], stage: Stage) -> None:
    """Three pods at 10 % and one at 190 % are 55 % on average, which an autoscaler with a target of 60 % calls idle."""
    phase, run, _ = await updated(stage, lambda _: None, canary_cores=cores)

    assert (phase, run) == ends


@pytest.mark.parametrize(
    "spoil",
    [
        lambda server: server.remove(),
        lambda server: server.faults.begin(Down()),
        lambda server: server.faults.begin(ScrapesFail()),
        lambda server: server.faults.begin(ContainerMissing("app")),
        lambda server: server.faults.begin(PartialList(nth=1)),
        lambda server: server.faults.begin(ReplacedFigures("cpu", "-5m")),
        lambda server: server.faults.begin(ReplacedFigures("cpu", "NaN")),
        lambda server: server.faults.begin(ReplacedFigures("cpu", "1e30")),
    ],
    ids=["absent", "down", "stale", "no container", "no pods", "negative", "NaN", "huge"],
)
async def test_without_evidence_the_update_stands_still(spoil: Callable[[SimMetricsServer], Any], stage: Stage) -> None:
    """Neither promoted nor aborted, however well the canary may be; a person decides."""
    phase, run, message = await updated(stage, spoil, canary_cores=0.05)

    assert run in ("Inconclusive", "Error")
    assert phase not in ("Healthy", "Aborted")
    assert message
