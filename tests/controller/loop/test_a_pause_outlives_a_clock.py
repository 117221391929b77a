"""A pause of an hour takes an hour, also on a machine whose clock is set meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.clock import SystemClock
from rollouts.controller.wiring import EXIT_STOPPED
from rollouts.objects import ROLLOUT, Manifest
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.controller.test_the_process_outlives_what_objects_hold import Running

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0


def canary(image: str) -> Manifest:
    """A Rollout with a pause of an hour."""
    steps = [{"setWeight": 50}, {"pause": {"duration": "1h"}}]
    return build.rollout({"canary": {"steps": steps}}, "cart", "default", image=image)


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
async def test_a_clock_that_is_set_neither_ends_nor_lengthens_a_pause(jump_s: float, cluster: SimulatedCluster) -> None:
    """A clock set forward by an hour ended the pause at the next look, 280 s later: half the pods, unwatched."""
    jumped_s = 0.0
    loop = asyncio.get_running_loop()
    clock = SystemClock(wall_s=lambda: cluster.clock.now_s() + jumped_s, elapsed_s=loop.time)
    running = Running(cluster, clock=clock)

    def phase() -> str:
        found = cluster.get(ROLLOUT, "default", "cart")
        assert found is not None
        return str(found["status"]["phase"])

    cluster.apply(canary("cart:1"))
    await asyncio.sleep(60)
    assert phase() == "Healthy"
    cluster.apply(canary("cart:2"))
    await asyncio.sleep(60)
    assert phase() == "Paused"
    jumped_s = jump_s
    await asyncio.sleep(HOUR_S - 120)
    assert phase() == "Paused"
    await asyncio.sleep(600)
    assert phase() == "Healthy"
    assert await running.stopped() == EXIT_STOPPED
