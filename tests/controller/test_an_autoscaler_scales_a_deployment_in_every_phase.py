"""Promise: an autoscaler of a Deployment scales it in every phase of an update in place, by its load alone; the share stays.

The load is requests: each pod uses CPU for those that it answers. Judged by pods and their Ready conditions.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from rollouts.objects import AUTOSCALER, DEPLOYMENT, POD, ROLLOUT, Manifest
from rollouts.sim.actors.kubelet import STARTUP_SECONDS
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.consumption import Consumption
from rollouts.sim.storage.history import CommittedWrite
from tests import build
from tests.controller.test_a_deployment_is_stepped_where_it_is import (
    NAME,
    SPACE,
    deployment,
    found,
    rollout,
    sizes,
    told,
)
from tests.controller.test_the_process_outlives_what_objects_hold import Running, until
from tests.lab.control_plane import is_true

pytestmark = pytest.mark.virtual_time(limit_s=8_000)

FEW, MANY = 4, 8
"""Pods that the load needs, and that twice the load needs."""
REQUESTS_PER_S = 8.0
POD_CORES = 0.1
"""What each pod requests: the autoscaler's target is all of it."""
UNAVAILABLE = 4
"""The Deployment's `maxUnavailable` of 25 %: one pod of four."""
LOOKS_S = 240.0
"""Many looks of an autoscaler."""
SCALED_WITHIN_S = 400.0
"""An autoscaler waits for 300 s before it takes pods away."""
TOLERANCE = 1.1
"""Within a tenth of its target an autoscaler does nothing."""
STARTS_IN_S = 40.0
IMAGES = ("web:1", "web:2", "web:2-bad")


class Autoscaled:
    """A Deployment in its phases, with clients and an autoscaler; every change of its pods is looked at."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.running = Running(cluster)
        self.replicas: list[int] = []
        """Every size that the Deployment has had."""
        self.fewest = math.inf
        """Ready pods beyond those that the Deployment promises at its smallest size so far, at the worst moment."""
        cluster.api.history.listen(DEPLOYMENT, self._on_deployment)
        cluster.api.history.listen(POD, self._on_pod)

    def load(self, pods: int) -> None:
        """What the requests cost, told in pods that are at their target with them."""
        each = Consumption(idle_cores=0.0, core_s_per_request=pods * POD_CORES / REQUESTS_PER_S)
        for image in IMAGES:
            self.cluster.consumptions.use(each, image=image)

    def pods(self) -> Counter[str]:
        """Pods by the image of their container; those on their way out do not count."""
        staying = [each for each in self.cluster.list(POD, SPACE) if "deletionTimestamp" not in each["metadata"]]
        return Counter(each["spec"]["containers"][0]["image"].removeprefix("web:") for each in staying)

    def template(self, tag: str, *, startup_s: float | None = None) -> None:
        """The user applies another template; `replicas` are the autoscaler's."""
        made = deployment(tag)
        del made["spec"]["replicas"]
        container = made["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": str(POD_CORES)}}
        if startup_s is not None:
            made["spec"]["template"]["metadata"]["annotations"] = {STARTUP_SECONDS: str(startup_s)}
        self.cluster.apply(made)

    async def at(self, phase: str, step: int | None = None) -> None:
        """Waits until the Rollout is in that phase, and at that step."""
        await until(
            self.cluster,
            NAME,
            lambda one: one.get("phase") == phase and step in (None, one.get("currentStepIndex")),
        )

    async def rested(self) -> int:
        """Waits until the autoscaler has scaled the Deployment, and everything has followed; the size."""
        before = 0
        while before != len(self.replicas):
            before = len(self.replicas)
            await asyncio.sleep(SCALED_WITHIN_S)
        return self.replicas[-1]

    def _on_deployment(self, change: CommittedWrite) -> None:
        replicas = change.new.manifest["spec"]["replicas"]
        if self.replicas[-1:] != [replicas]:
            self.replicas.append(replicas)

    def _on_pod(self, _: CommittedWrite) -> None:
        ready = sum(
            is_true(each, "Ready") and "deletionTimestamp" not in each["metadata"]
            for each in self.cluster.list(POD, SPACE)
        )
        least = min(self.replicas)
        self.fewest = min(self.fewest, ready - (least - least // UNAVAILABLE))


@pytest.fixture(params=[True, False], ids=["with the policy", "paused at rest"])
async def stage(request: pytest.FixtureRequest, crds: Sequence[Manifest]) -> AsyncIterator[Autoscaled]:
    """Four pods at rest, loaded for four; an autoscaler that may take one, and looks every 15 s."""
    async with SimulatedCluster(seed=5, crds=crds, hold_policies=request.param) as cluster:
        cluster.apply(build.service(NAME, SPACE))
        made = Autoscaled(cluster)
        made.template("1")
        cluster.apply(deployment("1") | {"spec": {"replicas": FEW}}, manager="first install")
        cluster.apply(rollout())
        made.load(FEW)
        cluster.clients(namespace=SPACE, service=NAME, rate_per_s=REQUESTS_PER_S)
        cluster.metrics_server()
        await made.at("Healthy")
        await asyncio.sleep(60)
        made.fewest = math.inf
        cluster.autoscalers()
        target = {"type": "AverageValue", "averageValue": str(POD_CORES)}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        cluster.apply(build.autoscaler(NAME, SPACE, metric, target=DEPLOYMENT, most=20, minReplicas=1))
        await asyncio.sleep(LOOKS_S)
        made.replicas[:] = [FEW]
        yield made
        await made.running.stopped()


def condition(cluster: SimulatedCluster, kind: str) -> Any:
    """Status of a condition of the autoscaler."""
    conditions = found(cluster, AUTOSCALER)["status"]["conditions"]
    return next(each["status"] for each in conditions if each["type"] == kind)


async def test_no_phase_asks_for_pods_that_the_load_does_not_need(stage: Autoscaled) -> None:
    """A pod more in a step, pods that start, and the old pods beside the new ones in an abort: none of them is load."""
    stage.template("2", startup_s=STARTS_IN_S)
    for phase, step in (("Progressing", 0), ("Paused", 1)):
        await stage.at(phase, step)
        await asyncio.sleep(LOOKS_S if phase == "Paused" else 0)
    told(stage.cluster, "abort", "true")
    await stage.at("Aborted")
    await asyncio.sleep(LOOKS_S)
    told(stage.cluster, "retry", "true")
    for step in (1, 3):
        await stage.at("Paused", step)
        await asyncio.sleep(LOOKS_S)
        told(stage.cluster, "promote", "true")
    await stage.at("Healthy")
    await asyncio.sleep(LOOKS_S)

    assert condition(stage.cluster, "ScalingActive") == "True"
    assert stage.replicas == [FEW]
    assert stage.pods() == {"2": FEW}
    assert stage.fewest >= 0


async def held(stage: Autoscaled) -> None:
    """A new template, and nobody who begins with it."""
    await stage.running.stopped()
    stage.template("2")
    await asyncio.sleep(5)


async def ended(stage: Autoscaled) -> None:
    """A controller, which goes on to the first pause."""
    stage.running = Running(stage.cluster)
    await stage.at("Paused", 1)


async def in_a_step(stage: Autoscaled) -> None:
    """The first canary pod never becomes ready."""
    stage.template("2-bad")
    await stage.at("Progressing", 0)
    await asyncio.sleep(5)


async def repaired(stage: Autoscaled) -> None:
    """The user applies one that works."""
    stage.template("2")
    await stage.at("Paused", 1)


async def at_a_quarter(stage: Autoscaled) -> None:
    """The first pause."""
    stage.template("2")
    await stage.at("Paused", 1)


async def at_a_half(stage: Autoscaled) -> None:
    """The second pause."""
    await at_a_quarter(stage)
    told(stage.cluster, "promote", "true")
    await stage.at("Paused", 3)


async def aborted(stage: Autoscaled) -> None:
    """Back at the stable revision."""
    await at_a_quarter(stage)
    told(stage.cluster, "abort", "true")
    await stage.at("Aborted")


async def retried(stage: Autoscaled) -> None:
    """Once more."""
    told(stage.cluster, "retry", "true")
    await stage.at("Paused", 1)


async def nothing(_: Autoscaled) -> None:
    """It goes on by itself."""


Way = Callable[[Autoscaled], Coroutine[Any, Any, None]]
PHASES: dict[str, tuple[Way, Way, float]] = {
    "held": (held, ended, 0.0),
    "in a step": (in_a_step, repaired, 0.25),
    "at a quarter": (at_a_quarter, nothing, 0.25),
    "at a half": (at_a_half, nothing, 0.5),
    "aborted": (aborted, retried, 0.0),
}
"""How it comes there, how it goes on from there, and the share of new pods."""


@pytest.mark.parametrize("phase", PHASES)
async def test_a_load_is_followed_and_the_share_stays(stage: Autoscaled, phase: str) -> None:
    """Twice the load, and the old one again; the update then ends as ever."""
    comes, goes_on, share = PHASES[phase]
    await comes(stage)
    await asyncio.sleep(LOOKS_S)
    assert stage.replicas == [FEW]
    for pods in (MANY, FEW):
        stage.load(pods)
        replicas, there = await stage.rested(), stage.pods()
        old = there["1"]
        new = there.total() - old
        assert 0 <= new - replicas * share < 1 and 0 <= old - replicas * (1 - share) < 1, (replicas, there)
        followed = (there.total() >= MANY / TOLERANCE) is (pods == MANY)
        assert followed, (stage.replicas, there)
    await goes_on(stage)
    told(stage.cluster, "promote", f"{status(stage)['currentRevision']}@full")
    await stage.at("Healthy")
    await stage.rested()

    assert (min(stage.replicas), stage.replicas[-1]) == (FEW, FEW) and max(stage.replicas) <= MANY, stage.replicas
    assert sizes(stage.cluster) == {"2": FEW}
    assert stage.fewest >= 0


def status(stage: Autoscaled) -> Manifest:
    """The Rollout's."""
    one: Manifest = found(stage.cluster, ROLLOUT)["status"]
    return one


async def test_a_load_in_the_promotion_is_followed(stage: Autoscaled) -> None:
    """While the last pods start the Deployment grows to twice its size; all of its pods are new in the end."""
    stage.template("2", startup_s=STARTS_IN_S)
    await stage.at("Paused", 1)
    stage.load(MANY)
    told(stage.cluster, "promote", f"{status(stage)['currentRevision']}@full")
    await stage.at("Healthy")
    assert await stage.rested() == MANY

    assert max(stage.replicas) == MANY, stage.replicas
    assert stage.pods() == {"2": MANY}
    assert stage.fewest >= 0
