"""Promise: an autoscaler scales a workload in every phase of an update in place, by its load alone; the share stays.

Pods of a StatefulSet that a scale-up makes may be new before the Rollout has moved the partition: they stay, and the condition
says how many. A broken pod keeps its controller from making others (OrderedReady).

The load is requests: each pod uses CPU for those that it answers. Judged by pods and their Ready conditions.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from rollouts.objects import AUTOSCALER, DEPLOYMENT, POD, ROLLOUT, STATEFUL_SET, Kind, Manifest
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
STARTS_IN_S = {DEPLOYMENT: 40.0, STATEFUL_SET: 10.0}
"""A StatefulSet starts one pod after another."""
IMAGES = ("web:1", "web:2", "web:2-bad")
HELD = ((DEPLOYMENT, "with the policy"), (DEPLOYMENT, "paused at rest"), (STATEFUL_SET, "with the policy"))
"""Of a StatefulSet an autoscaler changes nothing that holds it between updates."""


class Autoscaled:
    """A workload in its phases, with clients and an autoscaler; every change of its pods is looked at."""

    def __init__(self, cluster: SimulatedCluster, kind: Kind) -> None:
        self.cluster = cluster
        self.kind = kind
        self.running = Running(cluster)
        self.replicas: list[int] = []
        """Every size that the workload has had."""
        self.fewest = math.inf
        """Ready pods beyond those that the workload promises at its smallest size so far, at the worst moment."""
        cluster.api.history.listen(kind, self._on_workload)
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
        made = manifest(self.kind, tag)
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
        """Waits until the autoscaler has scaled the workload, and everything has followed; the size."""
        before = 0
        while before != len(self.replicas):
            before = len(self.replicas)
            await asyncio.sleep(SCALED_WITHIN_S)
        return self.replicas[-1]

    def _on_workload(self, change: CommittedWrite) -> None:
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


def manifest(kind: Kind, tag: str) -> Manifest:
    """The user's."""
    made = deployment(tag)
    if kind == DEPLOYMENT:
        return made
    spec = {name: value for name, value in made["spec"].items() if name != "strategy"}
    return {
        **made,
        "kind": kind.kind,
        "spec": {**spec, "serviceName": NAME, "updateStrategy": {"type": "RollingUpdate"}},
    }


@pytest.fixture(params=HELD, ids=[f"a {kind.kind} {how}" for kind, how in HELD])
async def stage(request: pytest.FixtureRequest, crds: Sequence[Manifest]) -> AsyncIterator[Autoscaled]:
    """Four pods at rest, loaded for four; an autoscaler that may take one, and looks every 15 s."""
    kind, how = request.param
    async with SimulatedCluster(seed=5, crds=crds, hold_policies=how == "with the policy") as cluster:
        cluster.apply(build.service(NAME, SPACE))
        made = Autoscaled(cluster, kind)
        made.template("1")
        cluster.apply(manifest(kind, "1") | {"spec": {"replicas": FEW}}, manager="first install")
        cluster.apply(rollout(kind=kind.kind))
        made.load(FEW)
        cluster.clients(namespace=SPACE, service=NAME, rate_per_s=REQUESTS_PER_S)
        cluster.metrics_server()
        await made.at("Healthy")
        await asyncio.sleep(60)
        made.fewest = math.inf
        cluster.autoscalers()
        target = {"type": "AverageValue", "averageValue": str(POD_CORES)}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        cluster.apply(build.autoscaler(NAME, SPACE, metric, target=kind, most=20, minReplicas=1))
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
    stage.template("2", startup_s=STARTS_IN_S[stage.kind])
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
        if (stage.kind, phase) == (STATEFUL_SET, "in a step"):
            assert there == {"1": FEW - 1, "2-bad": 1}, (replicas, there)
            continue
        old, more = there["1"], more_than_asked(stage)
        new = there.total() - old
        off = new - more - replicas * share, old + more - replicas * (1 - share)
        assert all(0 <= each < 1 for each in off), (replicas, there, more)
        followed = (there.total() >= MANY / TOLERANCE) is (pods == MANY)
        assert followed, (stage.replicas, there)
    await goes_on(stage)
    told(stage.cluster, "promote", f"{status(stage)['currentRevision']}@full")
    await stage.at("Healthy")
    await stage.rested()

    assert (min(stage.replicas), stage.replicas[-1]) == (FEW, FEW) and max(stage.replicas) <= MANY, stage.replicas
    assert stage.pods() == {"2": FEW}
    assert stage.fewest >= 0


def more_than_asked(stage: Autoscaled) -> int:
    """New pods that the condition counts beyond the share; 0 for none."""
    messages = [each["message"] for each in status(stage)["conditions"] if each["type"] == "ScaledInStep"]
    return sum(int(message.split()[3]) for message in messages)


def status(stage: Autoscaled) -> Manifest:
    """The Rollout's."""
    one: Manifest = found(stage.cluster, ROLLOUT)["status"]
    return one


async def test_a_load_in_the_promotion_is_followed(stage: Autoscaled) -> None:
    """While the last pods start the workload grows to twice its size; all of its pods are new in the end."""
    stage.template("2", startup_s=STARTS_IN_S[stage.kind])
    await stage.at("Paused", 1)
    stage.load(MANY)
    told(stage.cluster, "promote", f"{status(stage)['currentRevision']}@full")
    await stage.at("Healthy")
    assert await stage.rested() == MANY

    assert max(stage.replicas) == MANY, stage.replicas
    assert stage.pods() == {"2": MANY}
    assert stage.fewest >= 0
