"""A pause of an hour takes an hour, also on a machine whose clock is set meanwhile."""

from __future__ import annotations

import asyncio
import random

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.clock import SystemClock
from rollouts.controller.wiring import EXIT_STOPPED, run_controller
from rollouts.objects import ROLLOUT, Manifest
from rollouts.settings import Settings
from rollouts.sim.cluster import SimulatedCluster

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0


def canary(image: str) -> Manifest:
    """A Rollout with a pause of an hour."""
    labels = {"app": "cart"}
    steps = [{"setWeight": 50}, {"pause": {"duration": "1h"}}]
    return {
        "apiVersion": "rollouts.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "cart", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "strategy": {"canary": {"steps": steps}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": image}]}},
        },
    }


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
async def test_a_clock_that_is_set_neither_ends_nor_lengthens_a_pause(jump_s: float) -> None:
    """A clock set forward by an hour ended the pause at the next look, 280 s later: half the pods, unwatched."""
    jumped_s = 0.0
    async with SimulatedCluster(seed=3, crds=crd_manifests()) as cluster:
        loop = asyncio.get_running_loop()
        clock = SystemClock(wall_s=lambda: cluster.clock.now_s() + jumped_s, elapsed_s=loop.time)
        stop = asyncio.Event()
        rng = random.Random(1)  # noqa: S311 - jitter
        settings = Settings(leader_elect=False)
        running = asyncio.create_task(run_controller(settings, api=cluster.api, clock=clock, rng=rng, stop=stop))

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
        stop.set()
        assert await running == EXIT_STOPPED
