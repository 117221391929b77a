"""Promise: a Deployment in place at rest takes no more of the controller's memory than a Rollout with pods of its own.

Python's objects are counted: they are the same in every run. What the process takes is measured by `python -m benchmarks --held`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

from rollouts.api.schema import crd_manifests
from rollouts.bounded.here import Here
from rollouts.controller.wiring import run_controller
from rollouts.objects import ROLLOUT, Manifest
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.behaviour.kept import kept_bytes
from tests.behaviour.scenarios import HALF
from tests.behaviour.stage import ALONE, KEY

FEW, MANY = 4, 12
REST_S = 600.0
STOPS = {"lifecycle": {"preStop": {"sleep": {"seconds": 20}}}}


def pods(name: str) -> Manifest:
    """They end gracefully: else one Rollout would see to it, and the other would tell that they do not."""
    return build.pod_template(name, image="web:1", container=STOPS, terminationGracePeriodSeconds=60)


def manifests(name: str, *, in_place: bool) -> Iterator[Manifest]:
    """A Rollout of two pods with one step; in place with its Deployment."""
    made = build.rollout(build.canary(HALF), name, KEY.namespace, template=pods(name))
    if in_place:
        yield build.deployment(name, KEY.namespace, replicas=2, template=pods(name))
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "mode": "InPlace"}
        made["spec"] = {"workloadRef": reference, "strategy": {"canary": {"steps": [HALF]}}}
    yield made


async def at_rest(count: int, *, in_place: bool) -> int:
    """Bytes of a controller that has just started on so many Rollouts, where nothing is to be done."""
    cluster = SimulatedCluster(seed=1, crds=crd_manifests(), hold_policies=True)
    names = [f"app-{number:05}" for number in range(count)]

    async def controlled() -> int:
        stop = asyncio.Event()
        rng = random.Random(1)  # noqa: S311 - jitter
        options: dict[str, Any] = {"metrics": cluster.metrics, "bounded": Here()}
        running = asyncio.create_task(
            run_controller(ALONE, api=cluster.api, clock=cluster.clock, rng=rng, stop=stop, **options)
        )
        await asyncio.sleep(REST_S)
        found = [cluster.get(ROLLOUT, KEY.namespace, name) or {} for name in names]
        assert {each["status"]["phase"] for each in found} == {"Healthy"}
        size = kept_bytes()
        stop.set()
        await running
        return size

    async with cluster:
        for name in names:
            for manifest in manifests(name, in_place=in_place):
                cluster.apply(manifest)
        await controlled()  # what its updates leave is not counted
        return await controlled()


def of_one(*, in_place: bool) -> float:
    """Bytes for one Rollout more."""
    few, many = (run_virtual(at_rest(count, in_place=in_place)) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def test_a_deployment_in_place_takes_no_more_than_a_rollout_with_its_own_pods() -> None:
    """The text of its template is there once, and of its ReplicaSets only what decisions read."""
    own, in_place = of_one(in_place=False), of_one(in_place=True)

    assert 4_000 < in_place <= own
