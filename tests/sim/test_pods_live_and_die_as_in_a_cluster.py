"""Promise: ReplicaSets, kubelets, EndpointSlices and the garbage collector act in the order that the real ones do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.objects import ENDPOINT_SLICE, POD, REPLICA_SET, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.actors.autoscaler import ScaleAt
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.sim.manifests import replica_set, service


def status_of(cluster: SimulatedCluster, name: str) -> Manifest:
    """A ReplicaSet's status."""
    found = cluster.get(REPLICA_SET, "default", name)
    assert found is not None
    return dict(found["status"])


def conditions_of(cluster: SimulatedCluster) -> list[tuple[bool, bool, bool]]:
    """ready, serving, terminating of every endpoint of the only slice."""
    (found,) = cluster.list(ENDPOINT_SLICE)
    entries = [entry["conditions"] for entry in found["endpoints"]]
    return sorted((entry["ready"], entry["serving"], entry["terminating"]) for entry in entries)


def test_pods_become_ready_and_are_counted() -> None:
    """Every count that the controller gates on is there."""

    async def run() -> Manifest:
        async with SimulatedCluster() as cluster:
            cluster.apply(replica_set("web", replicas=3))
            await asyncio.sleep(10)
            return status_of(cluster, "web")

    assert run_virtual(run()) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


def test_a_pod_that_was_deleted_is_counted_until_its_deletion_was_heard_of() -> None:
    """Told 3, 2, 3 in a moment, a set says that it has three available pods of its newest generation, and has two."""

    async def run() -> tuple[Manifest, int, Manifest]:
        async with SimulatedCluster() as cluster:
            cluster.replica_sets.pods_lag_s = 0.5
            cluster.apply(replica_set("web", replicas=3))
            await asyncio.sleep(10)
            for size in (2, 3):
                cluster.apply(replica_set("web", replicas=size))
                await asyncio.sleep(0.1)
            lie = status_of(cluster, "web")
            left = sum("deletionTimestamp" not in pod["metadata"] for pod in cluster.list(POD))
            await asyncio.sleep(10)
            return lie, left, status_of(cluster, "web")

    lie, left, in_the_end = run_virtual(run())
    assert (lie["availableReplicas"], lie["observedGeneration"], left) == (3, 3, 2)
    assert (in_the_end["availableReplicas"], in_the_end["terminatingReplicas"]) == (3, 0)


def test_a_pod_is_available_only_after_min_ready_seconds() -> None:
    """Ready and available are different gates."""

    async def run() -> list[int]:
        async with SimulatedCluster() as cluster:
            cluster.apply(replica_set("web", replicas=2, startup_s=1, min_ready_s=30))
            seen = []
            for _ in range(2):
                await asyncio.sleep(20)
                seen.append(status_of(cluster, "web").get("availableReplicas", 0))
            return seen

    assert run_virtual(run()) == [0, 2]


@pytest.mark.parametrize(("image", "phase", "reason"), [
    ("app:bad", "Running", "CrashLoopBackOff"),
    ("app:missing", "Pending", "ImagePullBackOff"),
])  # fmt: skip
def test_a_bad_image_never_becomes_ready_and_says_why(image: str, phase: str, reason: str) -> None:
    """Abort tests and the demo need a revision that fails."""

    async def run() -> tuple[Manifest, Any]:
        async with SimulatedCluster() as cluster:
            cluster.apply(replica_set("web", replicas=1, image=image))
            await asyncio.sleep(600)
            return status_of(cluster, "web"), cluster.list(POD)[0]["status"]

    counts, status = run_virtual(run())
    assert "readyReplicas" not in counts
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason


def test_pods_that_are_not_ready_go_first() -> None:
    """A scale-down must not take a pod that serves while there is one that does not."""

    async def run() -> set[str]:
        async with SimulatedCluster(kubelet=KubeletSettings(startup_s=(1, 1))) as cluster:
            cluster.apply(replica_set("web", replicas=2))
            await asyncio.sleep(5)
            ready = {pod["metadata"]["name"] for pod in cluster.list(POD)}
            cluster.apply(replica_set("web", replicas=5))
            await asyncio.sleep(0.5)
            cluster.apply(replica_set("web", replicas=2))
            await asyncio.sleep(60)
            assert ready
            return {pod["metadata"]["name"] for pod in cluster.list(POD)} ^ ready

    assert run_virtual(run()) == set()


def test_an_ending_pod_serves_through_its_pre_stop_sleep() -> None:
    """Its endpoint is terminating, not ready, still serving; it is gone when sleep and shut-down are over."""

    async def run() -> tuple[Any, list[bool], int, Manifest]:
        async with SimulatedCluster() as cluster:
            cluster.apply(service("web"))
            cluster.apply(replica_set("web", replicas=1, startup_s=1, pre_stop_s=5))
            await asyncio.sleep(5)
            uid = cluster.list(POD)[0]["metadata"]["uid"]
            cluster.apply(replica_set("web", replicas=0, startup_s=1, pre_stop_s=5))
            await asyncio.sleep(1)
            conditions, counts = conditions_of(cluster), status_of(cluster, "web")
            serves = [cluster.kubelets.serves(uid)]
            await asyncio.sleep(4.05)
            serves.append(cluster.kubelets.serves(uid))
            await asyncio.sleep(1)
            return conditions, serves, len(cluster.list(POD)), counts

    conditions, serves, left, counts = run_virtual(run())
    assert conditions == [(False, True, True)]
    assert serves == [True, False]
    assert left == 0
    assert (counts["replicas"], counts["terminatingReplicas"]) == (0, 1)


def test_the_grace_period_cuts_the_pre_stop_sleep_short() -> None:
    """A sleep that does not fit into terminationGracePeriodSeconds does not protect anybody."""

    async def run() -> int:
        async with SimulatedCluster() as cluster:
            cluster.apply(replica_set("web", replicas=1, startup_s=1, pre_stop_s=60, grace_s=3))
            await asyncio.sleep(5)
            cluster.apply(replica_set("web", replicas=0, startup_s=1, pre_stop_s=60, grace_s=3))
            await asyncio.sleep(3.2)
            return len(cluster.list(POD))

    assert run_virtual(run()) == 0


def test_slices_inherit_the_services_labels_and_follow_its_selector() -> None:
    """Label-filtered watches of slices rely on the first; blue-green on the second."""

    async def run() -> tuple[dict[str, str], list[str], list[str]]:
        async with SimulatedCluster() as cluster:
            cluster.apply(service("web", set="blue"))
            cluster.apply(replica_set("blue", replicas=1, app="web"))
            cluster.apply(replica_set("green", replicas=1, app="web"))
            await asyncio.sleep(10)
            (before,) = cluster.list(ENDPOINT_SLICE)
            cluster.apply(service("web", set="green"))
            await asyncio.sleep(1)
            (after,) = cluster.list(ENDPOINT_SLICE)
            return before["metadata"]["labels"], *(
                [entry["targetRef"]["name"].partition("-")[0] for entry in found["endpoints"]]
                for found in (before, after)
            )

    labels, before, after = run_virtual(run())
    assert labels == {
        "rollouts.dev/managed": "true",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert (before, after) == (["blue"], ["green"])


def test_a_deleted_namespace_takes_everything_with_it() -> None:
    """Nothing is left behind, pods with a grace period included."""

    async def run() -> tuple[int, Any]:
        async with SimulatedCluster() as cluster:
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
            manifest = replica_set("web", replicas=2)
            manifest["metadata"]["namespace"] = "shop"
            cluster.apply(manifest)
            await asyncio.sleep(5)
            cluster.api.answer(Request("DELETE", "/api/v1/namespaces/shop"))
            await asyncio.sleep(60)
            answer = cluster.api.answer(Request("GET", "/api/v1/namespaces/shop"))
            return len(cluster.list(POD, "shop")) + len(cluster.list(REPLICA_SET, "shop")), answer.status

    assert run_virtual(run()) == (0, 404)


def test_the_autoscaler_follows_its_script() -> None:
    """HPA changes come in the middle of a rollout."""

    async def run() -> list[int]:
        script = tuple(ScaleAt(at_s, REPLICA_SET, "default", "web", n) for at_s, n in ((10, 4), (20, 2)))
        async with SimulatedCluster(autoscaling=script) as cluster:
            cluster.apply(replica_set("web", replicas=1))
            seen = []
            for _ in range(3):
                await asyncio.sleep(9)
                seen.append(status_of(cluster, "web")["replicas"])
            return seen

    assert run_virtual(run()) == [1, 4, 2]


def test_a_replica_set_that_is_at_rest_writes_nothing() -> None:
    """An idle cluster is silent: no write, so no event."""

    async def run() -> int:
        async with SimulatedCluster() as cluster:
            cluster.apply(service("web"))
            cluster.apply(replica_set("web", replicas=3))
            await asyncio.sleep(30)
            before = cluster.api.history.version
            path = "/apis/apps/v1/namespaces/default/replicasets/web"
            cluster.api.answer(Request("PATCH", path, {}, b'{"spec":{"replicas":3}}', MERGE_PATCH))
            await asyncio.sleep(3_600)
            return cluster.api.history.version - before

    assert run_virtual(run()) == 0
