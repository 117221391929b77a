"""Promise: who may make, edit and delete AnalysisRuns, as the role `edit` may, promotes nothing with them.

The attacker deletes the controller's run and makes one of its name, with its labels and its owner reference; makes one before the
controller does; or edits the labels by which people find the pods of a run. None of it becomes a verdict, and status says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rollouts.manifests.ownership import ANALYSIS, REVISION
from rollouts.objects import ANALYSIS_RUN, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.network.consumption import Consumption
from tests import build
from tests.controller.analysis import test_a_canary_is_judged_by_its_containers as burning
from tests.controller.analysis.stage import BUSY, Stage, metric

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

EASY = metric("easy")
HARD = build.analysis_template(metric("hard", initialDelay="1m"), name="cpu", namespace=BUSY)


def _status(stage: Stage) -> Manifest:
    return (stage.cluster.get(ROLLOUT, BUSY, "web") or {}).get("status") or {}


async def _until(holds: Callable[[], Any]) -> None:
    for _ in range(20_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


def _delete(stage: Stage, name: str) -> None:
    assert stage.cluster.api.answer(Request("DELETE", ANALYSIS_RUN.path(BUSY, name))).status == 200


def _copied(run: Manifest, name: str, *metrics: Manifest) -> Manifest:
    """A run with the metadata that the controller gives its own."""
    kept = {part: run["metadata"][part] for part in ("namespace", "labels", "annotations", "ownerReferences")}
    return build.manifest(ANALYSIS_RUN, name, metadata=kept, spec={"metrics": list(metrics)})


@asynccontextmanager
async def updating(stage: Stage, template: Manifest = HARD) -> AsyncIterator[Manifest]:
    """An update to web:2 that waits for its run, which is there."""
    stage.metrics.says({"hard": [0.5]})
    stage.cluster.apply(template)
    stage.cluster.apply(burning.rollout("web:1"))
    async with stage.controller():
        await _until(lambda: _status(stage).get("phase") == "Healthy")
        await asyncio.sleep(60.0)
        stage.cluster.apply(burning.rollout("web:2"))
        await _until(lambda: stage.cluster.list(ANALYSIS_RUN, BUSY))
        (run,) = stage.cluster.list(ANALYSIS_RUN, BUSY)
        yield run


async def test_a_run_made_in_place_of_the_controllers_is_no_verdict(stage: Stage) -> None:
    """It was promoted in a second; now status names the run and what helps, and then the real metric decides."""
    async with updating(stage) as run:
        name = run["metadata"]["name"]
        await asyncio.sleep(1.0)
        _delete(stage, name)
        stage.cluster.apply(_copied(run, name, EASY))
        await asyncio.sleep(300.0)

        status = _status(stage)
        assert status["currentRevision"] != status["stableRevision"]
        assert status["waitingFor"]["reason"] == "AnalysisInvalid"
        assert f"kubectl delete analysisrun {name} -n {BUSY}" in status["waitingFor"]["message"]
        stalled = [each for each in status["conditions"] if each["type"] == "Stalled"]
        assert [each["status"] for each in stalled] == ["True"]

        _delete(stage, name)
        await _until(lambda: _status(stage).get("phase") == "Aborted")


async def test_a_run_that_its_rollout_has_not_asked_for_measures_nothing_and_says_so(stage: Stage) -> None:
    """Made early, under a name that will be needed, it would measure before the revision has the traffic to be judged on."""
    async with updating(stage) as run:
        early = _copied(run, "early", EASY)
        del early["metadata"]["labels"][ANALYSIS]  # one with it would be told to end
        stage.cluster.apply(early)
        await asyncio.sleep(30.0)

        status = stage.status("early", namespace=BUSY)
        assert "has not asked for it" in status.get("message", "")
        assert "metricResults" not in status


async def test_a_label_of_a_run_does_not_say_which_pods_are_measured(stage: Stage) -> None:
    """Labels may be edited. The canary burns its CPU, and a label that names the stable revision hid that."""
    stage.cluster.metrics_server()
    stage.cluster.consumptions.use(Consumption(idle_cores=0.05), image="web:1")
    stage.cluster.consumptions.use(Consumption(idle_cores=0.95), image="web:2")
    async with updating(stage, burning.TEMPLATE) as run:
        body = {"metadata": {"labels": {REVISION: _status(stage)["stableRevision"]}}}
        path = ANALYSIS_RUN.path(BUSY, run["metadata"]["name"])
        patched = stage.cluster.api.answer(Request("PATCH", path, {}, msgspec.json.encode(body), MERGE_PATCH))
        assert patched.status == 200
        await _until(lambda: _status(stage).get("phase") in ("Aborted", "Healthy"))
        assert _status(stage)["phase"] == "Aborted"
