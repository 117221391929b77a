"""Promise: ReplicaSets, kubelets, EndpointSlices and the garbage collector act in the order that the real ones do."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import ENDPOINT_SLICE, POD, REPLICA_SET
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.cluster import SimulatedCluster
from tests.sim.manifests import replica_set, service, stored

pytestmark = pytest.mark.virtual_time


async def test_pods_become_ready_and_are_counted(cluster: SimulatedCluster) -> None:
    """Every count that the controller gates on is there."""
    cluster.apply(replica_set("web", replicas=3))
    await asyncio.sleep(10)

    assert stored(cluster, REPLICA_SET, "web")["status"] == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


async def test_a_pod_that_was_deleted_is_counted_until_its_deletion_was_heard_of(cluster: SimulatedCluster) -> None:
    """Told 3, 2, 3 in a moment, a set says that it has three available pods of its newest generation, and has two."""
    cluster.replica_sets.pods_lag_s = 0.5
    cluster.apply(replica_set("web", replicas=3))
    await asyncio.sleep(10)
    for size in (2, 3):
        cluster.apply(replica_set("web", replicas=size))
        await asyncio.sleep(0.1)
    lie = stored(cluster, REPLICA_SET, "web")["status"]
    left = sum("deletionTimestamp" not in pod["metadata"] for pod in cluster.list(POD))
    await asyncio.sleep(10)

    in_the_end = stored(cluster, REPLICA_SET, "web")["status"]
    assert (lie["availableReplicas"], lie["observedGeneration"], left) == (3, 3, 2)
    assert (in_the_end["availableReplicas"], in_the_end["terminatingReplicas"]) == (3, 0)


async def test_a_pod_is_available_only_after_min_ready_seconds(cluster: SimulatedCluster) -> None:
    """Ready and available are different gates."""
    cluster.apply(replica_set("web", replicas=2, startup_s=1, min_ready_s=30))
    seen = []
    for _ in range(2):
        await asyncio.sleep(20)
        seen.append(stored(cluster, REPLICA_SET, "web")["status"].get("availableReplicas", 0))

    assert seen == [0, 2]


@pytest.mark.parametrize(("image", "phase", "reason"), [
    ("app:bad", "Running", "CrashLoopBackOff"),
    ("app:missing", "Pending", "ImagePullBackOff"),
])  # fmt: skip
async def test_a_bad_image_never_becomes_ready_and_says_why(
    cluster: SimulatedCluster, image: str, phase: str, reason: str
) -> None:
    """Abort tests and the demo need a revision that fails."""
    cluster.apply(replica_set("web", replicas=1, image=image))
    await asyncio.sleep(600)

    counts, status = stored(cluster, REPLICA_SET, "web")["status"], cluster.list(POD)[0]["status"]
    assert "readyReplicas" not in counts
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason


async def test_pods_that_are_not_ready_go_first() -> None:
    """A scale-down must not take a pod that serves while there is one that does not."""
    async with SimulatedCluster(kubelet=KubeletSettings(startup_s=(1, 1))) as cluster:
        cluster.apply(replica_set("web", replicas=2))
        await asyncio.sleep(5)
        ready = {pod["metadata"]["name"] for pod in cluster.list(POD)}
        cluster.apply(replica_set("web", replicas=5))
        await asyncio.sleep(0.5)
        cluster.apply(replica_set("web", replicas=2))
        await asyncio.sleep(60)
        assert ready

        assert {pod["metadata"]["name"] for pod in cluster.list(POD)} ^ ready == set()


async def test_an_ending_pod_serves_through_its_pre_stop_sleep(cluster: SimulatedCluster) -> None:
    """Its endpoint is terminating, not ready, still serving; it is gone when sleep and shut-down are over."""
    cluster.apply(service("web"))
    cluster.apply(replica_set("web", replicas=1, startup_s=1, pre_stop_s=5))
    await asyncio.sleep(5)
    uid = cluster.list(POD)[0]["metadata"]["uid"]
    cluster.apply(replica_set("web", replicas=0, startup_s=1, pre_stop_s=5))
    await asyncio.sleep(1)
    (found,) = cluster.list(ENDPOINT_SLICE)
    (entry,) = found["endpoints"]
    counts = stored(cluster, REPLICA_SET, "web")["status"]
    serves = [cluster.kubelets.serves(uid)]
    await asyncio.sleep(4.05)
    serves.append(cluster.kubelets.serves(uid))
    await asyncio.sleep(1)

    assert entry["conditions"] == {"ready": False, "serving": True, "terminating": True}
    assert serves == [True, False]
    assert not cluster.list(POD)
    assert (counts["replicas"], counts["terminatingReplicas"]) == (0, 1)


async def test_slices_inherit_the_services_labels_and_follow_its_selector(cluster: SimulatedCluster) -> None:
    """Label-filtered watches of slices rely on the first; blue-green on the second."""
    cluster.apply(service("web", set="blue"))
    cluster.apply(replica_set("blue", replicas=1, app="web"))
    cluster.apply(replica_set("green", replicas=1, app="web"))
    await asyncio.sleep(10)
    (before,) = cluster.list(ENDPOINT_SLICE)
    cluster.apply(service("web", set="green"))
    await asyncio.sleep(1)
    (after,) = cluster.list(ENDPOINT_SLICE)

    assert before["metadata"]["labels"] == {
        "rollouts.dev/managed": "true",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    names = [[entry["targetRef"]["name"].partition("-")[0] for entry in each["endpoints"]] for each in (before, after)]
    assert names == [["blue"], ["green"]]


async def test_a_deleted_namespace_takes_everything_with_it(cluster: SimulatedCluster) -> None:
    """Nothing is left behind, pods with a grace period included."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    manifest = replica_set("web", replicas=2)
    manifest["metadata"]["namespace"] = "shop"
    cluster.apply(manifest)
    await asyncio.sleep(5)
    cluster.api.answer(Request("DELETE", "/api/v1/namespaces/shop"))
    await asyncio.sleep(60)
    answer = cluster.api.answer(Request("GET", "/api/v1/namespaces/shop"))

    assert (*cluster.list(POD, "shop"), *cluster.list(REPLICA_SET, "shop")) == ()
    assert answer.status == 404


async def test_a_replica_set_that_is_at_rest_writes_nothing(cluster: SimulatedCluster) -> None:
    """An idle cluster is silent: no write, so no event."""
    cluster.apply(service("web"))
    cluster.apply(replica_set("web", replicas=3))
    await asyncio.sleep(30)
    before = cluster.api.history.version
    path = "/apis/apps/v1/namespaces/default/replicasets/web"
    cluster.api.answer(Request("PATCH", path, {}, b'{"spec":{"replicas":3}}', MERGE_PATCH))
    await asyncio.sleep(3_600)

    assert cluster.api.history.version == before
