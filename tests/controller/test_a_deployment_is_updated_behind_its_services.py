"""Promise: a Deployment behind Services and routers loses no request while a Rollout updates it, and no new pod starts twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from rollouts.manifests.ownership import PREFIX
from rollouts.objects import DEPLOYMENT, POD, REPLICA_SET, ROLLOUT, SERVICE, Manifest
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.gateway import Gateway
from rollouts.sim.network.gateway_types import HTTP_ROUTE, gateway_crds
from tests import build
from tests.controller.test_a_deployment_is_stepped_where_it_is import (
    LIMITS,
    NAME,
    SPACE,
    Dying,
    found,
    sizes,
)
from tests.controller.test_a_deployment_is_stepped_where_it_is import deployment as stepped
from tests.controller.test_the_process_outlives_what_objects_hold import Running, until

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

PREVIEWED = {
    "blueGreen": {
        "activeService": NAME,
        "previewService": "preview",
        "autoPromotionEnabled": False,
        "scaleDownDelaySeconds": 20,
    }
}
ROUTED = {
    "canary": {
        "stableService": NAME,
        "canaryService": "preview",
        "scaleDownDelaySeconds": 20,
        "abortScaleDownDelaySeconds": 20,
        "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": NAME}]}},
        "steps": [{"setWeight": 50}, {"pause": {}}],
    }
}
STRATEGIES = {"blue-green": PREVIEWED, "routed": ROUTED}
BEGUN = {"blue-green": 4, "routed": 2}
"""New pods beside the four, while the update waits for its promotion."""


def deployment(tag: str = "1") -> Manifest:
    """The user's manifest. Its pods stop a moment after they are told to, as proxies learn of it later."""
    sleeps = {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
    return stepped(tag, template=build.pod_template(NAME, image=f"web:{tag}", container=sleeps))


def rollout(strategy: Manifest) -> Manifest:
    """A Rollout that updates the Deployment in place."""
    made = build.rollout(strategy, NAME, SPACE)
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "mode": "InPlace"}
    return {**made, "spec": {"strategy": strategy, "workloadRef": named}}


def applied(cluster: SimulatedCluster, strategy: Manifest) -> Gateway:
    """The Deployment, its Services and route, and the Rollout; the gateway of the route."""
    gateway = cluster.gateway(namespace=SPACE, name="gate")
    cluster.apply(deployment())
    for name in (NAME, "preview"):
        cluster.apply(build.service(name, SPACE, app=NAME))
    rule = build.http_rule(build.backend(NAME, 100), build.backend("preview", 0))
    cluster.apply(build.manifest(HTTP_ROUTE, NAME, SPACE, spec={"parentRefs": [{"name": "gate"}], "rules": [rule]}))
    cluster.apply(rollout(strategy))
    return gateway


class Played:
    """A cluster at rest with requests at both ways in."""

    def __init__(self, cluster: SimulatedCluster, gateway: Gateway, name: str) -> None:
        self.cluster, self.name = cluster, name
        self._clients = [
            cluster.clients(namespace=SPACE, service=NAME, rate_per_s=20.0),
            cluster.gateway_clients(gateway, rate_per_s=20.0),
        ]

    async def at(self, phase: str, **expected: int) -> None:
        """Waits until the Rollout is in that phase with pods of these sizes by image."""
        wanted = {tag.removeprefix("v"): size for tag, size in expected.items()}
        await until(self.cluster, NAME, lambda status: status.get("phase") == phase and sizes(self.cluster) == wanted)

    def told(self, verb: str, value: str) -> None:
        """A person's command."""
        noted = build.manifest(ROLLOUT, NAME, SPACE, metadata={"annotations": {f"{PREFIX}{verb}": value}})
        self.cluster.apply(noted, manager="a person")

    def uids(self, tag: str) -> set[str]:
        """The pods of an image."""
        pods = self.cluster.list(POD, SPACE)
        return {each["metadata"]["uid"] for each in pods if each["spec"]["containers"][0]["image"] == f"web:{tag}"}

    def inside(self) -> set[str]:
        """The images of the ReplicaSets with pods that the Deployment controls."""
        return {
            each["spec"]["template"]["spec"]["containers"][0]["image"].removeprefix("web:")
            for each in self.cluster.list(REPLICA_SET, SPACE)
            if each["metadata"]["ownerReferences"][0]["kind"] == "Deployment" and each["spec"]["replicas"]
        }

    def selectors(self) -> list[dict[str, str]]:
        """Those of the two Services."""
        return [each["spec"]["selector"] for each in self.cluster.list(SERVICE, SPACE)]

    def lost(self) -> int:
        """Requests so far."""
        return sum(each.tally.lost.total() for each in self._clients)


@pytest.fixture(params=[True, False], ids=["with the policy", "paused at rest"])
async def cluster(request: pytest.FixtureRequest, crds: Sequence[Manifest]) -> AsyncIterator[SimulatedCluster]:
    """Without a controller."""
    async with SimulatedCluster(seed=3, crds=[*crds, *gateway_crds()], hold_policies=request.param) as found:
        yield found


@pytest.fixture(params=STRATEGIES)
async def begun(request: pytest.FixtureRequest, cluster: SimulatedCluster) -> AsyncIterator[Played]:
    """A second image waits for its promotion, beside all pods of the first."""
    gateway = applied(cluster, STRATEGIES[request.param])
    running = Running(cluster, routers=("gatewayAPI",))
    await until(cluster, NAME, lambda status: status.get("phase") == "Healthy")
    await asyncio.sleep(10)
    played = Played(cluster, gateway, request.param)
    cluster.apply(deployment("2"))
    await played.at("Paused", v1=4, v2=BEGUN[request.param])
    assert played.inside() == {"1"}
    await asyncio.sleep(10)
    yield played
    assert played.lost() == 0
    await running.stopped()


def is_as_its_user_wrote_it(cluster: SimulatedCluster) -> bool:
    """The Deployment's fields that an update changes."""
    spec = found(cluster, DEPLOYMENT)["spec"]
    return (spec["strategy"]["rollingUpdate"], spec.get("minReadySeconds", 0)) == (LIMITS, 0)


async def test_a_promotion_hands_the_new_pods_over_and_loses_no_request(begun: Played) -> None:
    """The old ones stay beside the Deployment for their delay."""
    before = begun.uids("2")
    begun.told("promote", "true")
    await begun.at("Healthy", v1=4, v2=4)
    await asyncio.sleep(5)
    assert begun.inside() == {"2"}
    assert is_as_its_user_wrote_it(begun.cluster)
    assert all("pod-template-hash" in each for each in begun.selectors())
    assert found(begun.cluster, DEPLOYMENT)["status"]["availableReplicas"] == 4
    await begun.at("Healthy", v2=4)
    await asyncio.sleep(60)

    assert before <= begun.uids("2")
    assert begun.selectors() == [{"app": NAME}, {"app": NAME}]
    owners = [each["metadata"]["ownerReferences"][0]["kind"] for each in begun.cluster.list(REPLICA_SET, SPACE)]
    assert owners == ["Deployment", "Deployment"]


async def test_an_abort_takes_the_new_pods_away_and_leaves_the_deployment_alone(begun: Played) -> None:
    """Until Git has the stable template again."""
    begun.told("abort", "true")
    await begun.at("Aborted", v1=4)
    begun.cluster.apply(deployment("1"))
    await begun.at("Healthy", v1=4)
    await asyncio.sleep(5)

    assert is_as_its_user_wrote_it(begun.cluster)
    assert begun.inside() == {"1"}


async def test_a_newer_template_takes_the_place_of_the_one_beside(begun: Played) -> None:
    """And is promoted in its turn."""
    begun.cluster.apply(deployment("3"))
    await begun.at("Paused", v1=4, v3=BEGUN[begun.name])
    begun.told("promote", "true")
    await begun.at("Healthy", v3=4)
    await asyncio.sleep(5)

    assert begun.inside() == {"3"}
    assert is_as_its_user_wrote_it(begun.cluster)


async def test_an_undo_after_the_promotion_uses_the_pods_that_are_still_there(begun: Played) -> None:
    """The ReplicaSet of the Deployment's first template is the Rollout's now."""
    before = begun.uids("1")
    begun.told("promote", "true")
    await begun.at("Healthy", v1=4, v2=4)
    await asyncio.sleep(5)
    begun.cluster.apply(deployment("1"))
    if begun.name == "routed":  # a preview that was active a moment ago needs no promotion
        await begun.at("Paused", v1=2, v2=4)
        begun.told("promote", "true")
    await begun.at("Healthy", v1=4)
    await asyncio.sleep(5)

    assert len(before & begun.uids("1")) >= BEGUN[begun.name]
    assert begun.inside() == {"1"}
    assert is_as_its_user_wrote_it(begun.cluster)


async def test_services_of_a_deleted_rollout_lead_to_the_deployments_pods(begun: Played) -> None:
    """No key of ours is left in their selectors; the Deployment is left paused."""
    begun.told("abort", "true")
    await begun.at("Aborted", v1=4)
    gone = await begun.cluster.api.request(Request("DELETE", ROLLOUT.path(SPACE, NAME)), deadline_s=5)
    assert gone.status == 200
    await asyncio.sleep(30)

    assert begun.selectors() == [{"app": NAME}, {"app": NAME}]
    assert is_as_its_user_wrote_it(begun.cluster)
    assert len(begun.uids("1")) == 4


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("writes", range(1, 19))
async def test_a_controller_that_dies_after_any_write_changes_nothing_about_the_end(
    cluster: SimulatedCluster, name: str, writes: int
) -> None:
    """Another one goes on a moment later. No request is lost, and no new pod starts twice."""
    gateway = applied(cluster, STRATEGIES[name])
    running = Running(cluster, routers=("gatewayAPI",))
    await until(cluster, NAME, lambda status: status.get("phase") == "Healthy")
    await asyncio.sleep(10)
    played = Played(cluster, gateway, name)
    cluster.apply(deployment("2"))
    await played.at("Paused", v1=4, v2=BEGUN[name])
    await asyncio.sleep(10)
    before = played.uids("2")
    await running.stopped()
    dying = Dying(cluster.api, writes)
    first = Running(cluster, dying, routers=("gatewayAPI",))
    played.told("promote", "true")
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            await dying.dead.wait()
    first.task.cancel()
    await asyncio.wait({first.task})
    second = Running(cluster, routers=("gatewayAPI",))
    await played.at("Healthy", v2=4)
    await asyncio.sleep(5)

    assert played.inside() == {"2"}
    assert is_as_its_user_wrote_it(cluster)
    assert before <= played.uids("2")
    assert played.lost() == 0
    await second.stopped()
