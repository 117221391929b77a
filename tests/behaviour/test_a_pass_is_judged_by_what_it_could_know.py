"""Promise: the oracle holds a write to the pods that a pass could know of: one that was taken away this very moment still counts.

What we take away ourselves counts no more at once, and neither does what a ReplicaSet's controller takes because we told it to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from rollouts.objects import POD, REPLICA_SET, Kind
from tests.behaviour.scenarios import HALF, canary, rollout
from tests.behaviour.stage import KEY, Stage, play
from tests.behaviour.standing import UNSEEN_S

REPLICAS = 3


def _first(stage: Stage, kind: Kind) -> str:
    return str(stage.cluster.list(kind, KEY.namespace)[0]["metadata"]["name"])


def _deleted_by_somebody(stage: Stage) -> None:
    stage.remove(POD, _first(stage, POD))


def _evicted_by_us(stage: Stage) -> None:
    stage.witness.sender = "first"
    _deleted_by_somebody(stage)
    stage.witness.sender = ""


def _shrunk(stage: Stage) -> None:
    stage.merge(REPLICA_SET, _first(stage, REPLICA_SET), {"spec": {"replicas": 2}})


@pytest.mark.parametrize(
    ("taken", "known_of"),
    [(_deleted_by_somebody, [3, 2]), (_evicted_by_us, [2]), (_shrunk, [2])],
    ids=["somebody deletes a pod", "we evict it", "its ReplicaSet shrinks"],
)
def test_a_pod_counts_until_a_pass_could_know_better(taken: Callable[[Stage], None], known_of: list[int]) -> None:
    """A violation is one in every world that a pass could have seen; where there are two, the later one goes after a moment."""
    at_once: set[int] = set()
    later: set[int] = set()

    def available(stage: Stage) -> set[int]:
        seen = stage.witness.truth.snapshots(KEY, grace_s=0.0)
        return {sum(each.available for each in world.replica_sets) for world in seen}

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        taken(stage)
        pods = partial(stage.cluster.list, POD, KEY.namespace)
        await stage.until(lambda: any("deletionTimestamp" in each["metadata"] for each in pods()))
        at_once.update(available(stage))
        await asyncio.sleep(2 * UNSEEN_S)
        later.update(available(stage))

    play((rollout(canary(HALF), replicas=REPLICAS),), script)

    assert (at_once, later) == (set(known_of), {2})
