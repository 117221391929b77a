"""Promise: an update costs the API server few writes; each is 5 to 8 ms of its CPU, far more than a whole pass of ours."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from rollouts.objects import Manifest
from tests.behaviour.routed import Users, play_routed, stored_share, weight, world
from tests.behaviour.scenarios import (
    ACTIVE_AND_PREVIEW,
    HALF,
    MANUAL,
    STABLE_AND_CANARY,
    blue_green,
    canary,
    rollout,
    updated,
)
from tests.behaviour.stage import Stage, play

WRITES = 8
WITH_EVENTS = 11


def cost_of_an_update(*manifests: Manifest) -> Counter[str]:
    """Writes from the change of the image to rest, by verb and kind."""
    before: Counter[str] = Counter()

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await stage.until_quiet()
        before.update(stage.witness.effects())
        await updated(stage)

    return play(manifests, script).effects - before


def test_an_update_of_two_replicas_by_one_step_takes_eight_writes() -> None:
    """`setWeight: 50` with 2 replicas: what the benchmark measures on a real API server, told to the write."""
    cost = cost_of_an_update(rollout(canary(HALF)))

    assert cost["POST replicasets"] == 1
    assert cost.total() - cost["POST events"] <= WRITES, cost
    assert cost.total() <= WITH_EVENTS, cost


MORE: dict[str, tuple[Manifest, int]] = {
    "canary": (canary(HALF), 0),
    "blue-green": (blue_green(autoPromotionSeconds=1, scaleDownDelaySeconds=30), 0),
    "routed canary": (canary(HALF, services=True, trafficRouting={}), 0),
    "canary with services": (canary(HALF, services=True), 1),
}


@pytest.mark.parametrize(("strategy", "more"), MORE.values(), ids=MORE)
def test_a_drain_costs_a_write_only_where_its_clock_has_no_other_to_go_with(strategy: Manifest, more: int) -> None:
    """The start of a wait must be in status before anything relies on it; mostly it goes with a promotion."""
    services = (*STABLE_AND_CANARY, *ACTIVE_AND_PREVIEW)
    auto = cost_of_an_update(*services, rollout(strategy))
    off = cost_of_an_update(*services, rollout(strategy, drain={"mode": "Off"}))

    assert auto.total() - off.total() <= more, auto - off


@pytest.mark.parametrize(("replicas", "most"), [(5, 4), (20, 7), (50, 8)])
def test_an_abort_writes_the_route_fewer_times_than_stable_gets_pods(replicas: int, most: int) -> None:
    """With `dynamicStableScale` traffic comes back as stable's pods do: a quarter of the rest at a time, or all of it.

    One for each pod that came was 4, 12 and 19 writes here (pods that start within the same 20 ms come together), and the last
    one came no sooner.
    """
    shares: list[float] = []

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        await stage.until(lambda: stage.sizes()["1"] == replicas // 5)
        await asyncio.sleep(10.0)
        before = len(stage.plane.weights)
        stage.annotate("abort", "true")
        await stage.until(lambda: stored_share(stage) == 0)
        shares.extend(canary / (stable + canary) for _, stable, canary in stage.plane.weights[before:])
        await stage.until_phase("Aborted", "2")

    strategy = {"dynamicStableScale": True}
    outcome = play_routed(world(weight(80), MANUAL, replicas=replicas, strategy=strategy), script)

    assert (outcome.run.violations, outcome.users.causes) == ([], {})
    assert shares == sorted(shares, reverse=True)
    assert 1 < len(shares) <= most, shares
