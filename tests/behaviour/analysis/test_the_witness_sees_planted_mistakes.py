"""Promise: what a controller might do wrong with AnalysisRuns is seen at the door of the API server: each mistake is planted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from rollouts.manifests.ownership import REVISION
from rollouts.objects import ANALYSIS_RUN, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request
from tests.behaviour.analysed import Analysed, analysis, runs
from tests.behaviour.scenarios import HALF, canary
from tests.behaviour.stage import KEY, Run, Stage

Mistake = Callable[[Stage], Awaitable[None]]


async def _send(stage: Stage, method: str, path: str, body: Any) -> None:
    """As a controller would: through its door."""
    request = Request(
        method, path, {}, msgspec.json.encode(body), MERGE_PATCH if method == "PATCH" else "application/json"
    )
    response = await stage.witness.door("mistaken").request(request, deadline_s=5.0)
    assert response.status < 300, response.body


def _ours(stage: Stage) -> Manifest:
    (run,) = runs(stage)
    return run


async def another_revision(stage: Stage) -> None:
    """A run says that it is about the stable revision."""
    run = _ours(stage)
    kept = {name: run["metadata"][name] for name in ("namespace", "annotations", "ownerReferences")}
    labels = {**run["metadata"]["labels"], REVISION: stage.status["stableRevision"]}
    body = {**run, "metadata": {**kept, "labels": labels, "name": "mistaken"}}
    await _send(
        stage, "POST", ANALYSIS_RUN.path(KEY.namespace), {each: body[each] for each in body if each != "status"}
    )


async def no_verdict_yet(stage: Stage) -> None:
    """A run that measures still is recorded as a success."""
    records = [{**each, "phase": "Successful"} for each in stage.status["analyses"]]
    path = ROLLOUT.path(KEY.namespace, KEY.name, "status")
    await _send(stage, "PATCH", path, {"status": {"analyses": records}})


async def without_a_verdict(stage: Stage) -> None:
    """The step of the analysis is taken for done."""
    path = ROLLOUT.path(KEY.namespace, KEY.name, "status")
    await _send(stage, "PATCH", path, {"status": {"currentStepIndex": 2}})


async def deleted_while_it_measures(stage: Stage) -> None:
    """A run goes before it is over."""
    metadata = _ours(stage)["metadata"]
    seen = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    path = ANALYSIS_RUN.path(KEY.namespace, metadata["name"])
    await _send(stage, "DELETE", path, {"preconditions": seen})


async def another_verdict(stage: Stage) -> None:
    """What was judged is judged once more."""
    await stage.until(lambda: "completedAt" in _ours(stage)["status"])
    path = ANALYSIS_RUN.path(KEY.namespace, _ours(stage)["metadata"]["name"], "status")
    await _send(stage, "PATCH", path, {"status": {"phase": "Failed"}})


MISTAKES: dict[Mistake, str] = {
    another_revision: "S13",
    no_verdict_yet: "S7",
    without_a_verdict: "S7",
    deleted_while_it_measures: "S13",
    another_verdict: "S7",
}


def _with(mistake: Mistake | None) -> Run:
    async def script(stage: Stage) -> None:
        stage.image("2")
        await stage.until(lambda: len(stage.prometheus.questions) == 1)
        if mistake is not None:
            await mistake(stage)

    return Analysed(canary(HALF, {"analysis": analysis()}), script, ("web",), ()).play()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.__name__)
def test_a_planted_mistake_is_seen(mistake: Mistake) -> None:
    """The rule is named; without the mistake nothing is told."""
    told = [each.partition(": ")[2] for each in _with(mistake).violations]

    assert told
    assert told[0].startswith(MISTAKES[mistake])


def test_without_a_mistake_nothing_is_told() -> None:
    """The same update, left alone."""
    assert _with(None).violations == []
