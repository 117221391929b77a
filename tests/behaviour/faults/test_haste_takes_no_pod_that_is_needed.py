"""Promise: aborts, retries, restarts and new templates in the middle of a move leave as many pods as promised.

The test counts pods and does not read the counts of ReplicaSets: their controller is late here, as in a large cluster, and counts
a deleted pod for a while. Every pod becomes ready and stays ready. So a missing pod was taken away by our controller.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from rollouts.objects import POD, Manifest
from rollouts.sim.actors import pods as pod_facts
from tests.behaviour.scenarios import ACTIVE_AND_PREVIEW, STABLE_AND_CANARY, blue_green, canary, rollout
from tests.behaviour.stage import Run, Stage, play

REPLICAS = 5
LATE_S = 0.4
RUNS = 100 if os.environ.get("ROLLOUTS_DEEP") == "1" else 6
STEPS: tuple[Manifest, ...] = ({"setWeight": 20}, {"setWeight": 60}, {"pause": {"duration": "1s"}}, {"setWeight": 80})
WORLDS: dict[str, tuple[Manifest, ...]] = {
    "ratio": (rollout(canary(*STEPS), replicas=REPLICAS),),
    "surge": (rollout(canary(*STEPS, maxSurge="100%"), replicas=REPLICAS),),
    "one may be missing": (rollout(canary(*STEPS, maxSurge=1, maxUnavailable=1), replicas=REPLICAS),),
    "services": (*STABLE_AND_CANARY, rollout(canary(*STEPS, services=True), replicas=REPLICAS)),
    "blue-green": (
        *ACTIVE_AND_PREVIEW,
        rollout(blue_green(scaleDownDelaySeconds=0, maxUnavailable=0), replicas=REPLICAS),
    ),
}


def _hasty(seed: int) -> Run:
    """Somebody who changes their mind six times within seconds."""
    rng = random.Random(seed)  # noqa: S311 - a test's seed
    name = list(WORLDS)[seed % len(WORLDS)]
    promised = REPLICAS - (name == "one may be missing")

    async def script(stage: Stage) -> None:
        stage.cluster.replica_sets.pods_lag_s = LATE_S
        await stage.until_phase("Healthy", "1")
        fewest = REPLICAS

        def count(_: object) -> None:
            nonlocal fewest
            pods = stage.cluster.api.history.select(POD)
            ready = sum(pod_facts.is_active(each) and pod_facts.is_ready(each) for each in pods)
            fewest = min(fewest, ready)

        unlisten = stage.cluster.api.history.listen(POD, count)
        stage.image("2")
        for _ in range(6):
            await asyncio.sleep(rng.uniform(0.2, 2.5))
            match rng.choice(("abort", "retry", "restart", "1", "2", "3")):
                case "abort" | "retry" | "restart" as verb:
                    stage.annotate(verb, "true")
                case tag:
                    stage.image(tag)
        stage.annotate("abort", None)
        stage.annotate("restart", None)
        await stage.update("4", "Healthy")
        await stage.until(lambda: sorted(stage.sizes().values())[-2:] in ([0, REPLICAS], [REPLICAS]))
        unlisten()
        assert fewest >= promised, f"{fewest} ready pods of {REPLICAS} (seed {seed})"

    return play(WORLDS[name], script, seed=seed)


@pytest.mark.parametrize("seed", range(RUNS * len(WORLDS)))
def test_ready_pods_are_never_fewer_than_promised(seed: int) -> None:
    """`maxUnavailable` is 0, but for one world: one pod fewer than it allows, for a moment, is a promise broken."""
    _hasty(seed).assert_clean()
