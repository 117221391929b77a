"""Promise: a command is answered while a part of the world cannot be seen: it is put on record, and carried out when it can be.

Nothing is decided on half of the world. But what a person asks is bound to the published status, not to what is seen, and silence
is the worst answer to an abort.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rollouts.controller.wiring import EXIT_STOPPED
from rollouts.core.model.status import Verb
from rollouts.manifests.ownership import PREFIX
from rollouts.objects import REPLICA_SET, ROLLOUT, Manifest
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.test_the_process_outlives_what_objects_hold import (
    Running,
    Spoiling,
    healthy,
    rollout,
    served,
    until,
)

pytestmark = pytest.mark.virtual_time(limit_s=1_200)

BLINDED: dict[str, Callable[[Spoiling], None]] = {
    "ObjectUnreadable": lambda api: api.spoilt.add((REPLICA_SET.plural, "cart")),
    "WatchFailed": lambda api: api.refuse(REPLICA_SET),
}


def _commands(status: Manifest) -> list[tuple[str, str]]:
    return [(each["verb"], each["outcome"]) for each in status.get("commands") or ()]


@pytest.mark.parametrize("reason", BLINDED)
async def test_an_abort_is_put_on_record(reason: str, cluster: SimulatedCluster) -> None:
    """With the wait beside it that says what cannot be seen, and which object or right to mend."""
    api = Spoiling(cluster.api)
    running = Running(cluster, api)
    served(cluster, "cart")
    await until(cluster, "cart", healthy)
    BLINDED[reason](api)
    cluster.apply(rollout("cart", image="app:2"))
    await until(cluster, "cart", lambda each: (each.get("waitingFor") or {}).get("reason") == reason)
    sets = len(cluster.list(REPLICA_SET, "default"))

    noted = {"name": "cart", "namespace": "default", "annotations": {f"{PREFIX}{Verb.ABORT}": "true"}}
    cluster.apply({"apiVersion": ROLLOUT.api_version, "kind": ROLLOUT.kind, "metadata": noted}, manager="somebody")
    status = await until(cluster, "cart", lambda each: bool(_commands(each)))

    assert [verb for verb, _ in _commands(status)] == ["abort"]
    assert status["waitingFor"]["reason"] == reason
    await asyncio.sleep(30)
    assert len(cluster.list(REPLICA_SET, "default")) == sets
    assert await running.stopped() == EXIT_STOPPED
