"""Promise: however many Rollouts stand at a gate of autoscaling, each list of a namespace is read once in an interval.

Usage is that of the simulated metrics-server, and the autoscalers act as the real one was recorded to.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from rollouts.controller.loop.deferred import CROWDED_MAX_S, HELD_WRITES_PER_S
from rollouts.objects import AUTOSCALER, ROLLOUT, Manifest
from rollouts.sim.network.consumption import Consumption
from tests import build
from tests.controller.analysis.stage import BUSY, NAMESPACE, Stage, staged

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

MANY = 500 if os.environ.get("ROLLOUTS_DEEP") == "1" else 25
CROWDED_S = min(CROWDED_MAX_S, MANY / HELD_WRITES_PER_S)
"""How long the status of so many at once may leave unwritten that the wait has changed."""
NAMESPACES = (NAMESPACE, BUSY)
MINUTES = 3
LISTS = (AUTOSCALER.plural, "pods.metrics.k8s.io")


def rollout(namespace: str, name: str, image: str = "web:1") -> Manifest:
    """Two pods; the gate asks for an autoscaler with room and for sparing pods."""
    limit = {"container": "app", "resource": "cpu", "maxUtilizationPercent": 90}
    autoscaling = {"minHeadroomPercent": 20, "containerResource": limit}
    container = {"resources": {"requests": {"cpu": "500m"}}}
    template = build.pod_template(name, image=image, container=container)
    strategy = {"canary": {"steps": [{"setWeight": 50}]}}
    return build.rollout(strategy, name, namespace, autoscaling=autoscaling, template=template)


def autoscaler(namespace: str, name: str) -> Manifest:
    """At its maximum already."""
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    return build.autoscaler(name, namespace, {"type": "Resource", "resource": cpu}, most=2, minReplicas=2)


def waits_for(stage: Stage) -> Counter[str]:
    """How many Rollouts wait for what."""
    statuses = [each.get("status") or {} for space in NAMESPACES for each in stage.cluster.list(ROLLOUT, space)]
    return Counter((each.get("waitingFor") or {}).get("reason", "") for each in statuses)


def lists(stage: Stage) -> dict[str, int]:
    """How often each list was read so far."""
    counts = stage.cluster.api.counts
    return {each: sum(n for (verb, kind, *_), n in counts.items() if (verb, kind) == ("GET", each)) for each in LISTS}


async def test_many_gates_share_their_lists() -> None:
    """Four times a minute for each namespace, not for each Rollout; before the updates never."""
    names = [(space, f"web-{number}") for space in NAMESPACES for number in range(MANY // len(NAMESPACES))]
    async with staged() as stage:
        stage.cluster.metrics_server()
        stage.cluster.autoscalers()
        stage.cluster.consumptions.use(Consumption(idle_cores=0.05), image="web:1")
        stage.cluster.consumptions.use(Consumption(idle_cores=0.05), image="web:2")
        for space, name in names:
            stage.cluster.apply(rollout(space, name))
            stage.cluster.apply(autoscaler(space, name))
        async with stage.controller():
            await asyncio.sleep(120)
            assert waits_for(stage) == {"": len(names)}
            idle = lists(stage)
            for space, name in names:
                stage.cluster.apply(rollout(space, name, "web:2"))
            await asyncio.sleep(120 + CROWDED_S)
            assert waits_for(stage) == {"NoHeadroom": len(names)}
            before = lists(stage)
            await asyncio.sleep(60 * MINUTES)
            held = {each: times - before[each] for each, times in lists(stage).items()}
        assert waits_for(stage) == {"NoHeadroom": len(names)}

    assert idle == dict.fromkeys(LISTS, 0)
    for each, times in held.items():
        assert 2 * MINUTES <= times <= len(NAMESPACES) * 4 * MINUTES + len(NAMESPACES), (each, times)
