"""Promise: an update costs the API server few writes; each is 5 to 8 ms of its CPU, far more than a whole pass of ours."""

from __future__ import annotations

from collections import Counter

from tests.behaviour.scenarios import HALF, canary, rollout, updated
from tests.behaviour.stage import Stage, play

WRITES = 8
WITH_EVENTS = 11


def test_an_update_of_two_replicas_by_one_step_takes_eight_writes() -> None:
    """`setWeight: 50` with 2 replicas: what the benchmark measures on a real API server, told to the write."""
    before: Counter[str] = Counter()

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await stage.until_quiet()
        before.update(stage.witness.effects())
        await updated(stage)

    run = play((rollout(canary(HALF)),), script)

    cost = run.effects - before
    assert cost["POST replicasets"] == 1
    assert cost.total() - cost["POST events"] <= WRITES, cost
    assert cost.total() <= WITH_EVENTS, cost
