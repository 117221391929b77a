"""Promise: slices, counts, gateways, watches and clocks may each be late by minutes, apart from each other: no request is lost.

Each seed draws the lag of each part between 0 and 3 minutes, and the clock of the controller up to 3 minutes before or behind.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Mapping

import pytest

from rollouts.objects import Manifest
from rollouts.ports import ApiServer
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.clock import EPOCH_S, SimClock, run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.faults import FaultyWatches, WatchFaults
from rollouts.sim.network.data_planes import SimDataPlanes
from rollouts.sim.network.gateway import GatewaySettings
from rollouts.sim.network.gateway_types import gateway_crds
from tests.behaviour.routed import STAY, http_route, routed, weight
from tests.behaviour.scenarios import (
    ACTIVE_AND_PREVIEW,
    HALF,
    SHORT,
    STABLE_AND_CANARY,
    blue_green,
    canary,
    rollout,
    service,
)
from tests.behaviour.stage import Behind, Stage, crds

MOST_S = 180.0
RATE_PER_S = 2.0
WITHIN_S = 7_200.0
WATCHED = ("replicasets", "services", "endpointslices", "rollouts")
OF_CLOCKS = re.compile("S9|S24")
"""Rules that compare the times of status with the witness's clock: they are void where the controller has another one."""

BY_RATIO = ("canary", "canary with services")
SLEPT_S = 0.3
"""By the ratio of pods a pod leaves its Service only by going: slices are in time for its `preStop` sleep, or requests are lost,
as with every ReplicaSet that shrinks. Where traffic leaves pods by a switch, slices may be late by minutes."""

STRATEGIES: Mapping[str, tuple[Manifest, str]] = {
    "canary": (canary(HALF, SHORT), "web"),
    "canary with services": (canary(HALF, SHORT, services=True), "stable"),
    "canary with a route": (routed(weight(50), STAY, replicas=2)["spec"]["strategy"], ""),
    "blue-green": (blue_green(autoPromotionSeconds=1), "active"),
}


@pytest.mark.parametrize("seed", range(1, 9 if os.environ.get("ROLLOUTS_DEEP") == "1" else 3))
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_request_is_lost_and_nothing_is_promoted_early(name: str, seed: int) -> None:
    """Nor does any write break an invariant: the witness knows what is there, whatever the controller was shown."""
    strategy, users_call = STRATEGIES[name]
    rng = random.Random(seed)  # noqa: S311
    drawn = {kind: rng.choice((0.0, rng.uniform(0.0, MOST_S))) for kind in ("slices", "counts", "gateway", *WATCHED)}
    if name in BY_RATIO:
        drawn["slices"] = min(drawn["slices"], SLEPT_S)
    skew_s = rng.choice((0.0, rng.uniform(-MOST_S, MOST_S)))

    async def main() -> tuple[int, int, list[str]]:
        loop = asyncio.get_running_loop()
        async with SimulatedCluster(
            seed=seed,
            crds=(*crds(), *gateway_crds()),
            kubelet=KubeletSettings(startup_s=(0.3, 0.9)),
            slice_lag_s=drawn["slices"] + 0.02,
        ) as cluster:
            cluster.replica_sets.pods_lag_s = drawn["counts"] + 0.001
            behind = Behind(settings=GatewaySettings(route_lag_s=(0.0, drawn["gateway"] + 0.01)))
            stage = Stage(cluster, grace_s=2 * MOST_S, behind=None if users_call else behind)
            clock = SimClock(loop, epoch_s=EPOCH_S + skew_s)
            if not users_call:
                stage.planes = SimDataPlanes([stage.gateway], clock=clock)  # what it is told has times of its own clock

            def late(api: ApiServer) -> ApiServer:
                return FaultyWatches(api, WatchFaults(lag_s={each: drawn[each] for each in WATCHED}), rng)

            controller = asyncio.create_task(stage.control(late(stage.witness.door("first")), seed=seed, clock=clock))
            for manifest in (service("web"), *STABLE_AND_CANARY, *ACTIVE_AND_PREVIEW, http_route(), rollout(strategy)):
                cluster.apply(manifest)
            try:
                await stage.until(lambda: stage.status.get("phase") == "Healthy", within_s=WITHIN_S)
                await asyncio.sleep(2 * MOST_S)
                clients = (
                    cluster.clients(namespace="default", service=users_call, rate_per_s=RATE_PER_S)
                    if users_call
                    else cluster.gateway_clients(stage.gateway, rate_per_s=RATE_PER_S)
                )
                stage.image("2")
                await stage.until(lambda: stage.sizes() == {"1": 0, "2": 2}, within_s=WITHIN_S)
                await stage.until(lambda: stage.status.get("phase") == "Healthy", within_s=WITHIN_S)
                await asyncio.sleep(2 * MOST_S)
                clients.stop()
            finally:
                stage.stop()
                await controller
            return clients.tally.sent.total(), clients.tally.lost.total(), stage.witness.violations

    sent, lost, violations = run_virtual(main())

    assert lost == 0, drawn
    assert sent > RATE_PER_S * MOST_S
    assert [each for each in violations if not skew_s or not OF_CLOCKS.search(each)] == [], drawn
