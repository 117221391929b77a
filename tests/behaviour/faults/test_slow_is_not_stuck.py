"""Promise: the progress deadline is counted from the last pod that came up, though status is written seldom."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import Manifest
from rollouts.sim.actors.kubelet import STARTUP_SECONDS
from tests.behaviour.scenarios import ACTIVE_AND_PREVIEW, blue_green, canary, rollout
from tests.behaviour.stage import Stage, play

DEADLINE_S = 5
IMPATIENT = {"replicas": 8, "progressDeadlineSeconds": DEADLINE_S, "progressDeadlineAbort": True}
TEMPLATE = {"spec": {"template": {"metadata": {"annotations": {STARTUP_SECONDS: "2"}}}}}


@pytest.mark.parametrize(
    "options",
    [{"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}],
    ids=["surge", "unavailable"],
)
def test_a_pod_every_two_seconds_is_progress_for_a_deadline_of_five(options: Manifest) -> None:
    """Each pod that becomes ready lets an old one go, so the total is always as before; status is written every 5 s at most."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.edit(TEMPLATE)
        stage.image("2")
        await stage.until(lambda: stage.status.get("abort") is not None or stage.sizes() == {"1": 0, "2": 8})
        assert "abort" not in stage.status, stage.status["abort"]
        await stage.until_phase("Healthy", "2")

    play((rollout(canary(**options), **IMPATIENT),), script).assert_clean()


@pytest.mark.parametrize("strategy", [canary(), blue_green(previewReplicaCount=8)], ids=["canary", "blueGreen"])
def test_an_update_that_gets_stuck_is_aborted_when_the_deadline_is_over(strategy: Manifest) -> None:
    """From the last thing that moved; holding counts back does not lengthen it."""
    took_s: list[float] = []

    async def script(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        await stage.until_phase("Healthy", "1")
        stage.image("bad")
        await stage.until(lambda: stage.sizes().get("bad", 0) > 0)
        began_s = loop.time()
        await stage.until(lambda: stage.status.get("abort") is not None)
        took_s.append(loop.time() - began_s)
        await stage.until_phase("Aborted", "bad")

    run = play((rollout(strategy, **IMPATIENT), *ACTIVE_AND_PREVIEW), script)

    run.assert_clean()
    assert DEADLINE_S <= took_s[0] <= DEADLINE_S + 1
