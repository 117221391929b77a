"""Promise: a cluster without the CRD of AnalysisRuns, or without the right to watch them, is served as it was before them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from rollouts.api.schema import crd_manifests
from rollouts.errors import APPLY_CRDS
from rollouts.objects import ANALYSIS_RUN
from tests.controller.analysis.stage import Stage, analysis_run, metric
from tests.controller.analysis.test_one_run_harms_no_other import healthy_after_s
from tests.controller.test_the_process_outlives_what_objects_hold import Spoiling

pytestmark = pytest.mark.virtual_time(limit_s=20_000)


@pytest.mark.parametrize("crds", [()], ids=["without"])
async def test_without_the_crd_rollouts_go_on_and_it_is_told_once(stage: Stage) -> None:
    """The CRD may come later: it is looked for again, at most every ten minutes, and runs are carried out from then on."""
    of_rollouts, *others = crd_manifests()
    stage.cluster.apply(of_rollouts)
    with capture_logs() as logs:
        async with stage.controller():
            assert await healthy_after_s(stage) < 60
            await asyncio.sleep(600)
            (told,) = _told(logs)
            assert told["remedy"] == APPLY_CRDS
            for crd in others:
                stage.cluster.apply(crd)
            stage.cluster.apply(analysis_run())
            assert await stage.until_over(within_s=602) == "Successful"


async def test_without_the_right_to_watch_runs_nothing_is_measured(stage: Stage) -> None:
    """A right that is taken away ends measurements: what the controller knew is old. A right that is given brings them back."""
    door = Spoiling(stage.cluster.api)
    stage.cluster.apply(analysis_run("run", metric(interval="30s")))
    with capture_logs() as logs:
        async with stage.controller(api=door):
            await asyncio.sleep(100)
            asked = len(stage.metrics.asked)
            assert asked == 4
            door.refuse(ANALYSIS_RUN)
            await asyncio.sleep(600)
            assert len(stage.metrics.asked) == asked
            assert len(_told(logs)) == 1
            assert await healthy_after_s(stage) < 60
            door.refused.clear()
            await asyncio.sleep(600)
            assert len(stage.metrics.asked) > asked
            stage.edit({"spec": {"terminate": True}})
            assert await stage.until_over(within_s=5) == "Successful"


def _told(logs: list[Any]) -> list[Any]:
    return [each for each in logs if each["event"] == "kind_not_seen" and each["kind"] == "AnalysisRun"]
