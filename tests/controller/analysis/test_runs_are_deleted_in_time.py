"""Promise: a run that is over stays as long as its `ttlStrategy` says, and not longer; without one it stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controller.analysis.stage import Stage, analysis_run, metric

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

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
