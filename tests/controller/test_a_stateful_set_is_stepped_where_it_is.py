"""Promise: a StatefulSet keeps its pods' names, its claims and its fields while a Rollout updates it in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from rollouts.manifests.ownership import PREFIX
from rollouts.objects import EVENT, POD, ROLLOUT, STATEFUL_SET, Kind, Manifest
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.registry import CLAIM
from tests import build
from tests.controller.test_a_deployment_is_stepped_where_it_is import Dying
from tests.controller.test_the_controller_starts_leads_and_stops import requests
from tests.controller.test_the_process_outlives_what_objects_hold import Running, until

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

NAME, SPACE = "db", "default"
LABELS = {"app": NAME}
STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
STEPS = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}]
MOST = 2_147_483_647
CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


def stateful_set(tag: str = "1", **more: Any) -> Manifest:
    """The user's manifest."""
    spec = {
        "replicas": 4,
        "serviceName": NAME,
        "selector": {"matchLabels": LABELS},
        "template": build.pod_template(NAME, image=f"db:{tag}"),
        "volumeClaimTemplates": CLAIMS,
        "updateStrategy": STRATEGY,
    }
    return build.manifest(STATEFUL_SET, NAME, SPACE, metadata={"labels": LABELS}, spec={**spec, **more})


def rollout(**reference: Any) -> Manifest:
    """A Rollout that steps it."""
    made = build.rollout({"canary": {"steps": STEPS}}, NAME, SPACE)
    named = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME, "mode": "InPlace", **reference}
    kept = {name: value for name, value in made["spec"].items() if name not in ("template", "selector", "replicas")}
    return {**made, "spec": {**kept, "workloadRef": named}}


def found(cluster: SimulatedCluster, kind: Kind) -> Manifest:
    seen = cluster.get(kind, SPACE, NAME)
    assert seen is not None
    return seen


def pods(cluster: SimulatedCluster) -> str:
    """The image of each pod that stays, from ordinal 0 on."""
    there = [each for each in cluster.list(POD, SPACE) if not each["metadata"].get("deletionTimestamp")]
    there.sort(key=lambda each: int(each["metadata"]["name"].rpartition("-")[2]))
    return "".join(each["spec"]["containers"][0]["image"].removeprefix("db:") for each in there)


def released(cluster: SimulatedCluster) -> list[str]:
    """What Warning Events say of a workload that was left in its update."""
    found = [each for each in cluster.list(EVENT, SPACE) if each["reason"] == "WorkloadReleased"]
    return [each["note"] for each in found if each["type"] == "Warning"]


def claims(cluster: SimulatedCluster) -> dict[str, str]:
    """The uid of each claim."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in cluster.list(CLAIM, SPACE)}


def told(cluster: SimulatedCluster, verb: str, value: str) -> None:
    """A person's command."""
    noted = build.manifest(ROLLOUT, NAME, SPACE, metadata={"annotations": {f"{PREFIX}{verb}": value}})
    cluster.apply(noted, manager="a person")


async def at(cluster: SimulatedCluster, phase: str, expected: str) -> None:
    """Waits until the Rollout is in that phase with pods of these images."""
    await until(cluster, NAME, lambda status: status.get("phase") == phase and pods(cluster) == expected)


@pytest.fixture(params=[True, False], ids=["with the policy", "held at rest"])
async def held(request: pytest.FixtureRequest, crds: Sequence[Manifest]) -> Any:
    """A cluster with a StatefulSet and its Rollout, at rest."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=request.param) as cluster:
        cluster.apply(stateful_set())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", "1111")
        await asyncio.sleep(5)
        partition = found(cluster, STATEFUL_SET)["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
        assert partition == (0 if request.param else MOST)
        yield cluster
        await running.stopped()


def at_rest(cluster: SimulatedCluster) -> bool:
    """Whether the StatefulSet has its user's fields, or is held between updates with a note of them."""
    seen = found(cluster, STATEFUL_SET)
    note = seen["metadata"].get("annotations", {}).get(f"{PREFIX}held")
    strategy = seen["spec"]["updateStrategy"]
    if note is None:
        return bool(strategy == STRATEGY)
    return '"own":{"partition":0}' in note and strategy["rollingUpdate"] == {"partition": MOST}


async def test_an_update_stops_at_its_steps_and_gives_the_fields_back(held: SimulatedCluster) -> None:
    """From the top ordinal down; each claim stays with its ordinal."""
    before = claims(held)
    held.apply(stateful_set("2"))
    await at(held, "Paused", "1112")
    told(held, "promote", "true")
    await at(held, "Paused", "1122")
    told(held, "promote", "true")
    await at(held, "Healthy", "2222")
    await asyncio.sleep(5)

    assert at_rest(held)
    status = found(held, STATEFUL_SET)["status"]
    assert (status["updatedReplicas"], status["currentRevision"]) == (4, status["updateRevision"])
    assert claims(held) == before


async def test_an_abort_brings_the_stable_pods_back_and_fights_no_manifest(held: SimulatedCluster) -> None:
    """Git goes on applying the aborted template; only the stable one again ends it. The claims stay."""
    before = claims(held)
    held.apply(stateful_set("2"))
    await at(held, "Paused", "1112")
    told(held, "promote", "true")
    await at(held, "Paused", "1122")
    told(held, "abort", "true")
    await at(held, "Aborted", "1111")
    held.apply(stateful_set("2"))
    await asyncio.sleep(30)
    assert pods(held) == "1111"
    held.apply(stateful_set("1"))
    await at(held, "Healthy", "1111")
    await asyncio.sleep(5)

    assert at_rest(held)
    assert claims(held) == before


async def test_a_newer_template_and_the_old_one_in_a_step(held: SimulatedCluster) -> None:
    """The newer one begins with the first step, the old one ends the update."""
    held.apply(stateful_set("2"))
    await at(held, "Paused", "1112")
    held.apply(stateful_set("3"))
    await at(held, "Paused", "1113")
    held.apply(stateful_set("1"))
    await at(held, "Healthy", "1111")
    await asyncio.sleep(5)

    assert at_rest(held)


async def test_a_spec_that_is_refused_keeps_the_counts_of_pods(held: SimulatedCluster) -> None:
    """The pods are there, and nobody is told that there were none."""
    strategy = {"canary": {"steps": [{"setWeight": 25}], "stableService": "db"}}
    made = rollout()
    held.apply({**made, "spec": {**made["spec"], "strategy": strategy}})
    await until(held, NAME, lambda status: (status.get("waitingFor") or {}).get("reason") == "InvalidSpec")

    status = found(held, ROLLOUT)["status"]
    assert [status[name] for name in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")] == [4] * 4


async def test_a_rollout_that_is_deleted_in_a_step_starts_nothing(held: SimulatedCluster) -> None:
    """The partition stays: nobody asked for the rest of the update. An Event has the command that goes on with it."""
    held.apply(stateful_set("2"))
    await at(held, "Paused", "1112")
    gone = await held.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    assert gone.status == 200
    await asyncio.sleep(60)

    seen = found(held, STATEFUL_SET)
    marks = [*seen["metadata"].get("labels", {}), *seen["metadata"].get("annotations", {})]
    assert [mark for mark in marks if mark.startswith(PREFIX)] == []
    assert pods(held) == "1112"
    assert ["kubectl patch statefulset db" in each for each in released(held)] == [True]


async def test_a_rollout_that_is_deleted_at_rest_leaves_nothing(held: SimulatedCluster) -> None:
    """The user's fields stand."""
    gone = await held.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    assert gone.status == 200
    await asyncio.sleep(60)

    seen = found(held, STATEFUL_SET)
    marks = [*seen["metadata"].get("labels", {}), *seen["metadata"].get("annotations", {})]
    assert [mark for mark in marks if mark.startswith(PREFIX)] == []
    assert seen["spec"]["updateStrategy"] == STRATEGY
    assert released(held) == []


async def test_a_template_that_is_taken_back_before_its_update_leaves_the_users_fields(held: SimulatedCluster) -> None:
    """A policy has set the partition and keeps it, but for a write that takes a note away: so one is written first."""
    for _ in range(2):
        held.apply(stateful_set("2"))
        held.apply(stateful_set("1"))
        await asyncio.sleep(60)
        assert at_rest(held)
    held.apply(stateful_set("2"))
    held.apply(stateful_set("1"))
    gone = await held.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    assert gone.status == 200
    await asyncio.sleep(60)

    seen = found(held, STATEFUL_SET)
    assert seen["spec"]["updateStrategy"] == STRATEGY
    assert [mark for mark in seen["metadata"].get("annotations", {}) if mark.startswith(PREFIX)] == []


async def _dies_after(cluster: SimulatedCluster, writes: int, cause: Callable[[], object]) -> None:
    """A controller that dies after so many writes which `cause` leads to, or has nothing more to write."""
    dying = Dying(cluster.api, writes)
    first = Running(cluster, dying)
    cause()
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            await dying.dead.wait()
    first.task.cancel()
    await asyncio.wait({first.task})


@pytest.mark.parametrize("writes", range(1, 10))
@pytest.mark.parametrize("policies", [True, False], ids=["with the policy", "held at rest"])
async def test_a_controller_that_dies_after_any_write_changes_nothing_about_the_end(
    crds: Sequence[Manifest], writes: int, policies: bool
) -> None:
    """Another one goes on: to the first step, and, when the next one has died in the way back, back."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=policies) as cluster:
        cluster.apply(stateful_set())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", "1111")
        await asyncio.sleep(5)
        await running.stopped()
        await _dies_after(cluster, writes, lambda: cluster.apply(stateful_set("2")))
        second = Running(cluster)
        await at(cluster, "Paused", "1112")
        told(cluster, "promote", "true")
        await at(cluster, "Paused", "1122")
        await second.stopped()
        await _dies_after(cluster, writes, lambda: told(cluster, "abort", "true"))
        third = Running(cluster)
        await at(cluster, "Aborted", "1111")
        cluster.apply(stateful_set("1"))
        await at(cluster, "Healthy", "1111")
        await asyncio.sleep(5)

        assert at_rest(cluster)
        await third.stopped()


@pytest.mark.parametrize("writes", range(1, 12))
async def test_a_controller_that_dies_in_a_promotion_gives_the_fields_back_later(
    crds: Sequence[Manifest], writes: int
) -> None:
    """After any write."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=True) as cluster:
        cluster.apply(stateful_set())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", "1111")
        await asyncio.sleep(5)
        cluster.apply(stateful_set("2"))
        await at(cluster, "Paused", "1112")
        await running.stopped()
        revision = found(cluster, ROLLOUT)["status"]["currentRevision"]
        await _dies_after(cluster, writes, lambda: told(cluster, "promote", f"{revision}@full"))
        second = Running(cluster)
        await at(cluster, "Healthy", "2222")
        await asyncio.sleep(5)

        assert at_rest(cluster)
        await second.stopped()


async def test_between_updates_nothing_is_asked(crds: Sequence[Manifest]) -> None:
    """Not one request, also after an update. (Watches are no requests here: `test_pods_of_an_update_are_watched…` has them.)"""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=True) as cluster:
        cluster.apply(stateful_set())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", "1111")
        cluster.apply(stateful_set("2"))
        for expected in ("1112", "1122"):
            await at(cluster, "Paused", expected)
            told(cluster, "promote", "true")
        await at(cluster, "Healthy", "2222")
        await asyncio.sleep(120)
        (telemetry,) = running.telemetry
        before = requests(telemetry)
        assert any(b'resource="statefulsets",verb="patch"' in line for line in before)
        await asyncio.sleep(300)

        assert requests(telemetry) == before
        await running.stopped()
