"""Promise: a Deployment keeps its pods, its ReplicaSets and its fields while a Rollout updates it in steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from rollouts.manifests.ownership import PREFIX
from rollouts.objects import DEPLOYMENT, POD, REPLICA_SET, ROLLOUT, Kind, Manifest
from rollouts.ports import JSON_PATCH, ApiServer, Request, Response, WatchStream
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.controller.test_the_process_outlives_what_objects_hold import (
    FORBIDDEN,
    Running,
    Spoiling,
    annotate,
    until,
    waits_for,
)

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

NAME, SPACE = "cart", "default"
LABELS = {"app": NAME}
LIMITS = {"maxSurge": "25%", "maxUnavailable": "25%"}
STEPS = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}]


def deployment(tag: str = "1", **more: Any) -> Manifest:
    """The user's manifest."""
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": LABELS},
        "template": build.pod_template(NAME, image=f"web:{tag}"),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": LIMITS},
    }
    return build.manifest(DEPLOYMENT, NAME, SPACE, metadata={"labels": LABELS}, spec={**spec, **more})


def rollout(**reference: Any) -> Manifest:
    """A Rollout that steps it."""
    made = build.rollout({"canary": {"steps": STEPS}}, NAME, SPACE)
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "mode": "InPlace", **reference}
    kept = {name: value for name, value in made["spec"].items() if name not in ("template", "selector", "replicas")}
    return {**made, "spec": {**kept, "workloadRef": named}}


def found(cluster: SimulatedCluster, kind: Kind) -> Manifest:
    seen = cluster.get(kind, SPACE, NAME)
    assert seen is not None
    return seen


def sizes(cluster: SimulatedCluster) -> dict[str, int]:
    """The size of each ReplicaSet with pods, by image."""
    sets = cluster.list(REPLICA_SET, SPACE)
    images = {each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"] for each in sets}
    return {image.removeprefix("web:"): size for image, size in images.items() if size}


def told(cluster: SimulatedCluster, verb: str, value: str) -> None:
    """A person's command."""
    noted = build.manifest(ROLLOUT, NAME, SPACE, metadata={"annotations": {f"{PREFIX}{verb}": value}})
    cluster.apply(noted, manager="a person")


async def at(cluster: SimulatedCluster, phase: str, **expected: int) -> None:
    """Waits until the Rollout is in that phase with pods of these sizes by image."""
    wanted = {tag.removeprefix("v"): size for tag, size in expected.items()}
    await until(cluster, NAME, lambda status: status.get("phase") == phase and sizes(cluster) == wanted)


@pytest.fixture(params=[True, False], ids=["with the policy", "paused at rest"])
async def held(request: pytest.FixtureRequest, crds: Sequence[Manifest]) -> Any:
    """A cluster with a Deployment and its Rollout, at rest."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=request.param) as cluster:
        cluster.apply(deployment())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", v1=4)
        await asyncio.sleep(5)
        assert bool(found(cluster, DEPLOYMENT)["spec"].get("paused")) is not request.param
        yield cluster
        await running.stopped()


async def test_an_update_stops_at_its_steps_and_gives_the_fields_back(held: SimulatedCluster) -> None:
    """Three of the four first pods stay at 25 %."""
    before = {each["metadata"]["uid"] for each in held.list(POD, SPACE)}
    held.apply(deployment("2"))
    await at(held, "Paused", v1=3, v2=1)
    assert len(before & {each["metadata"]["uid"] for each in held.list(POD, SPACE)}) == 3
    told(held, "promote", "true")
    await at(held, "Paused", v1=2, v2=2)
    told(held, "promote", "true")
    await at(held, "Healthy", v2=4)
    await asyncio.sleep(5)

    spec = found(held, DEPLOYMENT)["spec"]
    assert (spec["strategy"]["rollingUpdate"], spec.get("minReadySeconds", 0)) == (LIMITS, 0)
    assert found(held, DEPLOYMENT)["status"]["updatedReplicas"] == 4


async def test_an_abort_brings_the_stable_pods_back_and_fights_no_manifest(held: SimulatedCluster) -> None:
    """Git goes on applying the aborted template; only the stable one again ends it."""
    held.apply(deployment("2"))
    await at(held, "Paused", v1=3, v2=1)
    told(held, "abort", "true")
    await at(held, "Aborted", v1=4)
    held.apply(deployment("2"))
    await asyncio.sleep(30)
    assert sizes(held) == {"1": 4}
    held.apply(deployment("1"))
    await at(held, "Healthy", v1=4)


async def test_a_rollout_that_is_deleted_in_a_step_gives_the_fields_back_and_starts_nothing(
    held: SimulatedCluster,
) -> None:
    """The Deployment stays paused: nobody asked for the rest of the update."""
    held.apply(deployment("2"))
    await at(held, "Paused", v1=3, v2=1)
    gone = await held.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    assert gone.status == 200
    await asyncio.sleep(60)

    seen = found(held, DEPLOYMENT)
    marks = [*seen["metadata"].get("labels", {}), *seen["metadata"].get("annotations", {})]
    assert [mark for mark in marks if mark.startswith(PREFIX)] == []
    assert (seen["spec"]["strategy"]["rollingUpdate"], seen["spec"].get("minReadySeconds", 0)) == (LIMITS, 0)
    assert seen["spec"]["paused"]
    assert sum(sizes(held).values()) >= 4


class Dying:
    """An API server that loses its client after so many of its writes."""

    def __init__(self, api: ApiServer, writes: int) -> None:
        self.api, self.left, self.dead = api, writes, asyncio.Event()

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if self.dead.is_set():
            await asyncio.sleep(3_600)
        answer = await self.api.request(request, deadline_s=deadline_s)
        if request.method != "GET":
            self.left -= 1
            if self.left <= 0:
                self.dead.set()
                await asyncio.sleep(3_600)
        return answer

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        return await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """The cluster closes its own."""


@pytest.mark.parametrize("writes", range(1, 16))
@pytest.mark.parametrize("policies", [True, False], ids=["with the policy", "paused at rest"])
async def test_a_controller_that_dies_after_any_write_changes_nothing_about_the_end(
    crds: Sequence[Manifest], writes: int, policies: bool
) -> None:
    """Another one goes on. No step is passed without its promotion, and no ready pod is taken that is needed."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=policies) as cluster:
        cluster.apply(deployment())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", v1=4)
        await asyncio.sleep(5)
        await running.stopped()
        dying = Dying(cluster.api, writes)
        first = Running(cluster, dying)
        cluster.apply(deployment("2"))
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                await dying.dead.wait()
        first.task.cancel()
        await asyncio.wait({first.task})
        second = Running(cluster)
        await at(cluster, "Paused", v1=3, v2=1)
        told(cluster, "abort", "true")
        await at(cluster, "Aborted", v1=4)
        cluster.apply(deployment("1"))
        await at(cluster, "Healthy", v1=4)
        await asyncio.sleep(5)

        assert found(cluster, DEPLOYMENT)["spec"]["strategy"]["rollingUpdate"] == LIMITS
        await second.stopped()


@pytest.mark.parametrize("share", [1, 2], ids=["in the first step", "in the second step"])
async def test_the_stable_template_in_a_step_ends_the_update(held: SimulatedCluster, share: int) -> None:
    """A revert in Git. The Deployment is paused again only when its own controller is done."""
    held.apply(deployment("2"))
    await at(held, "Paused", v1=3, v2=1)
    if share == 2:
        told(held, "promote", "true")
        await at(held, "Paused", v1=2, v2=2)
    held.apply(deployment("1"))
    await at(held, "Healthy", v1=4)
    await asyncio.sleep(5)

    spec = found(held, DEPLOYMENT)["spec"]
    assert (spec["strategy"]["rollingUpdate"], spec.get("minReadySeconds", 0)) == (LIMITS, 0)


async def undone(cluster: SimulatedCluster, tag: str) -> None:
    """What `kubectl rollout undo` writes: the template of a ReplicaSet, and its annotations in place of the Deployment's.

    Source: k8s.io/kubectl pkg/polymorphichelpers/rollback.go, without the annotations that it leaves out.
    """
    target = next(
        each
        for each in cluster.list(REPLICA_SET, SPACE)
        if each["spec"]["template"]["spec"]["containers"][0]["image"] == f"web:{tag}"
    )
    noted = target["metadata"].get("annotations", {})
    annotations = {name: value for name, value in noted.items() if not name.startswith("deployment.kubernetes.io/")}
    template = target["spec"]["template"]
    labels = {name: value for name, value in template["metadata"]["labels"].items() if name != "pod-template-hash"}
    template = {**template, "metadata": {**template["metadata"], "labels": labels}}
    change = [
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]
    written = Request("PATCH", DEPLOYMENT.path(SPACE, NAME), {}, json.dumps(change).encode(), JSON_PATCH)
    answer = await cluster.api.request(written, deadline_s=5)
    assert answer.status == 200, answer.body


async def test_an_undo_in_a_step_ends_the_update_and_gives_the_fields_back(held: SimulatedCluster) -> None:
    """It takes the note of the user's fields off, as the stable ReplicaSet has none."""
    held.apply(deployment("2"))
    await at(held, "Paused", v1=3, v2=1)
    await undone(held, "1")
    await at(held, "Healthy", v1=4)
    await asyncio.sleep(5)

    spec = found(held, DEPLOYMENT)["spec"]
    assert (spec["strategy"]["rollingUpdate"], spec.get("minReadySeconds", 0)) == (LIMITS, 0)
    assert spec["progressDeadlineSeconds"] == 600


async def test_a_newer_template_in_a_step_begins_with_the_first_step(held: SimulatedCluster) -> None:
    """The stable revision keeps three pods for the newer one, too."""
    held.apply(deployment("2"))
    await at(held, "Paused", v1=3, v2=1)
    held.apply(deployment("3"))
    await at(held, "Paused", v1=3, v3=1)


async def test_a_replica_set_of_the_deployment_that_cannot_be_read_is_not_taken_for_absent(
    crds: Sequence[Manifest],
) -> None:
    """Its pods are there. The Rollout waits, says which one it is, and goes on when it can read it."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=True) as cluster:
        api = Spoiling(cluster.api)
        cluster.apply(deployment())
        cluster.apply(rollout())
        running = Running(cluster, api)
        await at(cluster, "Healthy", v1=4)
        cluster.apply(deployment("2"))
        await at(cluster, "Paused", v1=3, v2=1)
        api.spoilt.add((REPLICA_SET.plural, NAME))
        for each in cluster.list(REPLICA_SET, SPACE):
            annotate(cluster, REPLICA_SET, each["metadata"]["name"], "seen", "again")
        told(cluster, "promote", "true")
        status = await until(cluster, NAME, lambda each: waits_for(each) == "ObjectUnreadable")
        await asyncio.sleep(100)
        assert f"ReplicaSet {SPACE}/{NAME}-" in status["message"]
        assert sizes(cluster) == {"1": 3, "2": 1}

        api.spoilt.clear()
        for each in cluster.list(REPLICA_SET, SPACE):
            annotate(cluster, REPLICA_SET, each["metadata"]["name"], "seen", "once more")
        await at(cluster, "Paused", v1=2, v2=2)
        await running.stopped()


class Forbidding(Spoiling):
    """An API server that forbids every write of Deployments, while it is told to."""

    forbids, writes = False, 0

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if self.forbids and request.method == "PATCH" and request.path == DEPLOYMENT.path(SPACE, NAME):
            self.writes += 1
            return Response(403, FORBIDDEN)
        return await super().request(request, deadline_s=deadline_s)


async def test_a_deployment_that_may_not_be_written_is_tried_again_ever_later_and_told(
    crds: Sequence[Manifest],
) -> None:
    """Somebody has taken the right away in a step. Nobody's write wakes the Rollout when it is granted again."""
    async with SimulatedCluster(seed=3, crds=crds) as cluster:
        api = Forbidding(cluster.api)
        cluster.apply(deployment())
        cluster.apply(rollout(hold="AtRest"))
        running = Running(cluster, api)
        await at(cluster, "Healthy", v1=4)
        cluster.apply(deployment("2"))
        await at(cluster, "Paused", v1=3, v2=1)
        api.forbids = True
        told(cluster, "promote", "true")
        status = await until(cluster, NAME, lambda each: "workloads: [deployments]" in each.get("message", ""))
        await asyncio.sleep(600)
        assert (status["phase"], sizes(cluster)) == ("Degraded", {"1": 3, "2": 1})
        assert api.writes < 30

        api.forbids = False
        await cluster.until(
            lambda _: sizes(cluster) == {"1": 2, "2": 2}, kind=DEPLOYMENT, namespace=SPACE, name=NAME, deadline_s=700
        )
        await running.stopped()
