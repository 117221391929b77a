"""Promise: a DaemonSet keeps its pods and its fields while a Rollout updates it in batches of nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from rollouts.manifests.ownership import PREFIX
from rollouts.objects import DAEMON_SET, POD, ROLLOUT, Manifest
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.registry import NODE
from tests import build
from tests.controller.test_a_deployment_is_stepped_where_it_is import Dying, found, told
from tests.controller.test_a_stateful_set_is_stepped_where_it_is import released
from tests.controller.test_the_controller_starts_leads_and_stops import requests
from tests.controller.test_the_process_outlives_what_objects_hold import Running, until

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

NAME, SPACE = "cart", "default"
LABELS = {"app": NAME}
LIMITS = {"maxSurge": 0, "maxUnavailable": 1}
OWN = {"type": "RollingUpdate", "rollingUpdate": LIMITS}
STEPS = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}]
HOME = {"daemons": "here"}


def node(number: int) -> Manifest:
    """A node that only the DaemonSet of the tests selects."""
    return build.manifest(NODE, f"d{number}", None, metadata={"labels": {**HOME, "zone": str(number % 2)}})


def daemon_set(tag: str = "1", **more: Any) -> Manifest:
    """The user's manifest, which leaves the type out."""
    template = build.pod_template(NAME, image=f"web:{tag}", nodeSelector=HOME)
    spec = {"selector": {"matchLabels": LABELS}, "template": template, "updateStrategy": {"rollingUpdate": LIMITS}}
    return build.manifest(DAEMON_SET, NAME, SPACE, metadata={"labels": LABELS}, spec={**spec, **more})


def rollout(**reference: Any) -> Manifest:
    """A Rollout that steps it."""
    made = build.rollout({"canary": {"steps": STEPS}}, NAME, SPACE)
    named = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": NAME, "mode": "InPlace", **reference}
    kept = {name: value for name, value in made["spec"].items() if name not in ("template", "selector", "replicas")}
    return {**made, "spec": {**kept, "workloadRef": named}}


def pods(cluster: SimulatedCluster) -> dict[str, Manifest]:
    """Its pods that are not ending, by node."""
    mine = [each for each in cluster.list(POD, SPACE) if "deletionTimestamp" not in each["metadata"]]
    return {each["spec"].get("nodeName", ""): each for each in mine}


def runs(cluster: SimulatedCluster) -> dict[str, int]:
    """How many nodes run each image."""
    images = [each["spec"]["containers"][0]["image"].removeprefix("web:") for each in pods(cluster).values()]
    return dict(Counter(images))


async def at(cluster: SimulatedCluster, phase: str, **expected: int) -> None:
    """Waits until the Rollout is in that phase with so many nodes of each image."""
    wanted = {tag.removeprefix("v"): size for tag, size in expected.items()}
    await until(cluster, NAME, lambda status: status.get("phase") == phase and runs(cluster) == wanted)


@pytest.fixture(params=[True, False], ids=["with the policy", "on delete at rest"])
async def held(request: pytest.FixtureRequest, crds: Sequence[Manifest]) -> Any:
    """A cluster with a DaemonSet on four nodes and its Rollout, at rest."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=request.param) as cluster:
        for number in range(4):
            cluster.apply(node(number))
        cluster.apply(daemon_set())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", v1=4)
        await asyncio.sleep(5)
        stopped = found(cluster, DAEMON_SET)["spec"]["updateStrategy"]["type"] == "OnDelete"
        assert stopped is not request.param
        yield cluster
        await running.stopped()


def strategy(cluster: SimulatedCluster) -> Manifest:
    """`updateStrategy` as it stands."""
    stands: Manifest = found(cluster, DAEMON_SET)["spec"]["updateStrategy"]
    return stands


async def test_an_update_stops_at_its_steps_and_gives_the_type_back(held: SimulatedCluster) -> None:
    """Three of the four first pods stay at 25 %."""
    own = strategy(held)
    before = {each["metadata"]["uid"] for each in held.list(POD, SPACE)}
    held.apply(daemon_set("2"))
    await at(held, "Paused", v1=3, v2=1)
    assert len(before & {each["metadata"]["uid"] for each in held.list(POD, SPACE)}) == 3
    assert strategy(held) == {**OWN, "type": "OnDelete"}
    told(held, "promote", "true")
    await at(held, "Paused", v1=2, v2=2)
    told(held, "promote", "true")
    await at(held, "Healthy", v2=4)
    await asyncio.sleep(5)

    assert strategy(held) == own
    assert f"{PREFIX}held" not in found(held, DAEMON_SET)["metadata"].get("annotations", {})


async def test_an_abort_leaves_the_nodes_until_the_stable_template_is_back(held: SimulatedCluster) -> None:
    """Git goes on applying the aborted template, and nothing moves."""
    own = strategy(held)
    held.apply(daemon_set("2"))
    await at(held, "Paused", v1=3, v2=1)
    told(held, "abort", "true")
    await at(held, "Aborted", v1=3, v2=1)
    held.apply(daemon_set("2"))
    await asyncio.sleep(30)
    assert runs(held) == {"1": 3, "2": 1}
    held.apply(daemon_set("1"))
    await at(held, "Healthy", v1=4)
    await asyncio.sleep(5)

    assert strategy(held) == own


async def test_chosen_nodes_are_first(held: SimulatedCluster) -> None:
    """Those with a label, before others whose names come first."""
    held.apply(rollout(canaryNodes={"matchLabels": {"zone": "1"}}))
    held.apply(daemon_set("2"))
    for old, zones in ((3, {"1"}), (2, {"1"})):
        await at(held, "Paused", v1=old, v2=4 - old)
        new = [name for name, pod in pods(held).items() if pod["spec"]["containers"][0]["image"] == "web:2"]
        assert {str(int(name.removeprefix("d")) % 2) for name in new} == zones
        told(held, "promote", "true")
    await at(held, "Healthy", v2=4)


async def test_an_abort_that_reverts_the_template_brings_the_stable_pods_back(held: SimulatedCluster) -> None:
    """The whole template of the stable revision, which a ControllerRevision keeps."""
    own, template = strategy(held), found(held, DAEMON_SET)["spec"]["template"]
    held.apply(rollout(onAbort="RevertTemplate"))
    held.apply(daemon_set("2", minReadySeconds=1))
    await at(held, "Paused", v1=3, v2=1)
    told(held, "abort", "true")
    await at(held, "Healthy", v1=4)
    await asyncio.sleep(5)

    assert found(held, DAEMON_SET)["spec"]["template"] == template
    assert strategy(held) == own


async def test_a_manifest_that_is_applied_again_and_again_changes_nothing_of_an_update(held: SimulatedCluster) -> None:
    """A GitOps tool, every three seconds through all steps; it names the type."""

    async def applies() -> None:
        while True:
            held.apply(daemon_set("2", updateStrategy=OWN), manager="gitops")
            await asyncio.sleep(3)

    own, tool = strategy(held), asyncio.create_task(applies())
    for old in (3, 2):
        await at(held, "Paused", v1=old, v2=4 - old)
        told(held, "promote", "true")
    await at(held, "Healthy", v2=4)
    tool.cancel()
    await asyncio.sleep(30)

    assert runs(held) == {"2": 4}
    assert strategy(held) == own


async def test_a_daemon_set_with_a_surge_is_refused_by_name(held: SimulatedCluster) -> None:
    """Nothing of it moves."""
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    held.apply(daemon_set(updateStrategy=surge))
    refused = await until(held, NAME, lambda status: status.get("phase") == "Degraded")

    assert "maxSurge" in refused["message"]
    assert "set maxUnavailable instead" in refused["message"]
    assert runs(held) == {"1": 4}


async def test_a_rollout_that_is_deleted_in_a_step_leaves_the_daemon_set_stopped(held: SimulatedCluster) -> None:
    """Nobody asked for the rest of the update. Its limits are its user's, no mark is left, and an Event tells it."""
    held.apply(daemon_set("2"))
    await at(held, "Paused", v1=3, v2=1)
    gone = await held.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    assert gone.status == 200
    await asyncio.sleep(60)

    metadata = found(held, DAEMON_SET)["metadata"]
    marks = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
    assert [mark for mark in marks if mark.startswith(PREFIX)] == []
    assert strategy(held) == {**OWN, "type": "OnDelete"}
    assert runs(held) == {"1": 3, "2": 1}
    assert ["kubectl patch daemonset cart" in each for each in released(held)] == [True]


async def test_a_rollout_that_is_deleted_between_updates_leaves_the_users_type(held: SimulatedCluster) -> None:
    """Every node runs the template, so nothing moves."""
    before = {each["metadata"]["uid"] for each in held.list(POD, SPACE)}
    await held.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    await asyncio.sleep(60)

    assert strategy(held) == OWN
    assert {each["metadata"]["uid"] for each in held.list(POD, SPACE)} == before
    assert released(held) == []


async def test_a_newer_template_and_a_node_that_joins_in_a_step(held: SimulatedCluster) -> None:
    """The node that had the one before gets the newer one; so does the node that joins."""
    held.apply(daemon_set("2"))
    await at(held, "Paused", v1=3, v2=1)
    held.apply(daemon_set("3"))
    await at(held, "Paused", v1=3, v3=1)
    held.apply(node(4))
    await at(held, "Paused", v1=3, v3=2)


async def test_between_updates_nothing_is_asked(crds: Sequence[Manifest]) -> None:
    """No pod is watched, and no revision listed, also after an update."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=True) as cluster:
        for number in range(4):
            cluster.apply(node(number))
        cluster.apply(daemon_set())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", v1=4)
        cluster.apply(daemon_set("2"))
        for old in (3, 2):
            await at(cluster, "Paused", v1=old, v2=4 - old)
            told(cluster, "promote", "true")
        await at(cluster, "Healthy", v2=4)
        await asyncio.sleep(120)
        (telemetry,) = running.telemetry
        before = requests(telemetry)
        assert any(b'resource="controllerrevisions"' in line for line in before)
        await asyncio.sleep(300)

        assert requests(telemetry) == before
        await running.stopped()


@pytest.mark.parametrize("writes", range(1, 14))
@pytest.mark.parametrize("policies", [True, False], ids=["with the policy", "on delete at rest"])
async def test_a_controller_that_dies_after_any_write_changes_nothing_about_the_end(
    crds: Sequence[Manifest], writes: int, policies: bool
) -> None:
    """Another one goes on. No node is taken beyond the step, and never two at once."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=policies) as cluster:
        for number in range(4):
            cluster.apply(node(number))
        cluster.apply(daemon_set())
        cluster.apply(rollout())
        running = Running(cluster)
        await at(cluster, "Healthy", v1=4)
        await asyncio.sleep(5)
        own = strategy(cluster)
        await running.stopped()
        dying = Dying(cluster.api, writes)
        first = Running(cluster, dying)
        cluster.apply(daemon_set("2"))
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                await dying.dead.wait()
        first.task.cancel()
        await asyncio.wait({first.task})
        second = Running(cluster)
        await at(cluster, "Paused", v1=3, v2=1)
        told(cluster, "abort", "true")
        await at(cluster, "Aborted", v1=3, v2=1)
        cluster.apply(daemon_set("1"))
        await at(cluster, "Healthy", v1=4)
        await asyncio.sleep(5)

        assert strategy(cluster) == own
        await second.stopped()
