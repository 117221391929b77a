"""Promise: StatefulSets and DaemonSets change no more pods at a time than they may, wait for them, and survive what others do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from rollouts.objects import DAEMON_SET, POD, STATEFUL_SET, Kind, Manifest
from rollouts.sim.actors.kubelet import GONE_NODE_S
from rollouts.sim.actors.volumes import UNBOUND
from rollouts.sim.apiserver.verbs import DeleteOptions, WriteOptions
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import CommittedWrite
from rollouts.sim.storage.registry import CLAIM, NODE
from tests import build
from tests.sim.manifests import stored

pytestmark = pytest.mark.virtual_time
NODES = 5  # of a simulated cluster


def workload(kind: Kind, version: int = 1, *, grace_s: int = 5, **spec: Any) -> Manifest:
    """A StatefulSet of three pods, or a DaemonSet."""
    template = build.pod_template("db", image=f"db:{version}", terminationGracePeriodSeconds=grace_s)
    usual: Manifest = {"selector": {"matchLabels": {"app": "db"}}, "template": template}
    if kind == STATEFUL_SET:
        usual["replicas"] = 3
    return build.manifest(kind, "db", "default", spec={**usual, **spec})


def rolling(**limits: int | str) -> Manifest:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


def is_ready(pod: Manifest) -> bool:
    conditions = pod["status"].get("conditions") or ()
    is_going = "deletionTimestamp" in pod["metadata"]
    return not is_going and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def versions(cluster: SimulatedCluster) -> list[str]:
    """Of the pods that stay, in the order of their names."""
    pods = (pod for pod in cluster.list(POD) if "deletionTimestamp" not in pod["metadata"])
    return [pod["spec"]["containers"][0]["image"].partition(":")[2] for pod in pods]


class Witness:
    """How many pods there were, and were ready, after every write of one."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.ready: list[int] = []
        self.pods: list[int] = []
        cluster.api.history.listen(POD, self._on_pod)

    def _on_pod(self, _: CommittedWrite) -> None:
        pods = self.cluster.list(POD)
        self.pods.append(len(pods))
        self.ready.append(sum(map(is_ready, pods)))


async def settled(cluster: SimulatedCluster, kind: Kind, expected: Iterable[str]) -> None:
    """Waits until these are the versions of all pods, and all are available."""
    wanted = list(expected)
    count = "availableReplicas" if kind == STATEFUL_SET else "numberAvailable"

    def holds(found: Manifest | None) -> bool:
        assert found is not None
        return bool(found["status"].get(count, 0) == len(wanted) and versions(cluster) == wanted)

    await cluster.until(holds, kind=kind, namespace="default", name="db", deadline_s=600)


async def test_an_ordered_set_grows_and_shrinks_one_pod_at_a_time(cluster: SimulatedCluster) -> None:
    """The next one comes when the last one is ready, and goes when the last one has gone."""
    seen: list[tuple[str, str]] = []

    def note(change: CommittedWrite) -> None:
        if change.event != "MODIFIED":
            seen.append((change.event, change.new.metadata["name"]))
        elif is_ready(change.new.manifest) and change.old is not None and not is_ready(change.old.manifest):
            seen.append(("READY", change.new.metadata["name"]))

    cluster.api.history.listen(POD, note)
    cluster.apply(workload(STATEFUL_SET))
    await settled(cluster, STATEFUL_SET, "111")
    grown, seen[:] = list(seen), []
    cluster.apply(workload(STATEFUL_SET, replicas=1))
    await settled(cluster, STATEFUL_SET, "1")

    assert grown == [(event, f"db-{ordinal}") for ordinal in range(3) for event in ("ADDED", "READY")]
    assert seen == [("DELETED", "db-2"), ("DELETED", "db-1")]


async def test_the_status_counts_pods_as_they_were_before_the_writes(cluster: SimulatedCluster) -> None:
    """But for the one that it replaces: that is no current one any more, while it still is a ready one."""
    cluster.apply(workload(STATEFUL_SET))
    await settled(cluster, STATEFUL_SET, "111")
    seen: list[tuple[int, ...]] = []

    def note(change: CommittedWrite) -> None:
        status = change.new.manifest["status"]
        if status["observedGeneration"] == 2:
            seen.append(tuple(status.get(f"{name}Replicas", 0) for name in ("ready", "current", "updated")))

    cluster.api.history.listen(STATEFUL_SET, note)
    cluster.apply(workload(STATEFUL_SET, 2))
    await settled(cluster, STATEFUL_SET, "222")

    assert (seen[0], seen[-1]) == ((3, 2, 0), (3, 3, 3))


async def test_a_parallel_set_grows_at_once_and_updates_one_pod_at_a_time(cluster: SimulatedCluster) -> None:
    """`maxUnavailable` is dropped where the feature gate is off, as by default."""
    witness = Witness(cluster)
    cluster.apply(workload(STATEFUL_SET, podManagementPolicy="Parallel", **rolling(maxUnavailable=3)))
    await asyncio.sleep(0.01)
    at_once = len(cluster.list(POD))
    await settled(cluster, STATEFUL_SET, "111")
    witness.ready.clear()
    cluster.apply(workload(STATEFUL_SET, 2, podManagementPolicy="Parallel"))
    await settled(cluster, STATEFUL_SET, "222")

    assert at_once == 3
    assert min(witness.ready) == 2


@pytest.mark.parametrize("kind", [STATEFUL_SET, DAEMON_SET], ids=["StatefulSet", "DaemonSet"])
async def test_the_next_pod_waits_for_min_ready_seconds(cluster: SimulatedCluster, kind: Kind) -> None:
    """Ready is not enough: it must have been ready for so long."""
    count = 3 if kind == STATEFUL_SET else NODES
    cluster.apply(workload(kind, minReadySeconds=20))
    await settled(cluster, kind, "1" * count)
    began = asyncio.get_running_loop().time()
    cluster.apply(workload(kind, 2, minReadySeconds=20))
    await settled(cluster, kind, "2" * count)

    assert asyncio.get_running_loop().time() - began >= 20 * count


@pytest.mark.parametrize(
    ("limits", "least_ready", "most_pods"),
    [
        ({"maxUnavailable": 1}, NODES - 1, NODES),
        ({"maxUnavailable": 3}, NODES - 3, NODES),
        ({"maxUnavailable": "21%"}, NODES - 2, NODES),
        ({"maxSurge": 2, "maxUnavailable": 0}, NODES, NODES + 4),
    ],
    ids=["1", "3", "21 %", "surge"],
)
async def test_a_daemon_set_keeps_its_limits(
    cluster: SimulatedCluster, limits: dict[str, int | str], least_ready: int, most_pods: int
) -> None:
    """With a surge no node is ever without a ready pod. The old pods that still end do not count as a surge."""
    cluster.apply(workload(DAEMON_SET, **rolling(**limits)))
    await settled(cluster, DAEMON_SET, "1" * NODES)
    witness = Witness(cluster)
    cluster.apply(workload(DAEMON_SET, 2, **rolling(**limits)))
    await settled(cluster, DAEMON_SET, "2" * NODES)

    assert min(witness.ready) == least_ready
    assert NODES <= max(witness.pods) <= most_pods
    assert {pod["spec"]["nodeName"] for pod in cluster.list(POD)} == set(cluster.kubelets.nodes)


async def test_nodes_join_leave_and_are_marked(cluster: SimulatedCluster) -> None:
    """A cordoned node keeps its pod, a NoExecute taint takes it, a label that the template wants brings one."""

    def places() -> list[str]:
        return sorted(
            pod["spec"]["nodeName"] for pod in cluster.list(POD) if "deletionTimestamp" not in pod["metadata"]
        )

    async def counts() -> tuple[int, int]:
        await asyncio.sleep(10)
        status = stored(cluster, DAEMON_SET, "db")["status"]
        return status["desiredNumberScheduled"], status["numberMisscheduled"]

    pinned = workload(DAEMON_SET)
    pinned["spec"]["template"]["spec"]["nodeSelector"] = {"tier": "db"}
    cluster.apply(pinned)
    none = await counts(), places()
    for name in ("a", "b", "c"):
        cluster.apply(build.manifest(NODE, name, metadata={"labels": {"tier": "db"}}))
    three = await counts(), places()
    cluster.apply(build.manifest(NODE, "a", spec={"unschedulable": True}, metadata={"labels": {"tier": "db"}}))
    taint = {"key": "disk", "effect": "NoExecute"}
    cluster.apply(build.manifest(NODE, "b", spec={"taints": [taint]}, metadata={"labels": {"tier": "db"}}))
    two = await counts(), places()
    cluster.api.verbs.delete(cluster.api.registry.of(NODE), "", "c", DeleteOptions())
    await asyncio.sleep(GONE_NODE_S)
    one = await counts(), places()

    assert (none, three) == (((0, 0), []), ((3, 0), ["a", "b", "c"]))
    assert (two, one) == (((2, 0), ["a", "c"]), ((1, 0), ["a"]))


async def test_a_taken_pod_name_is_tried_again(cluster: SimulatedCluster) -> None:
    """Another tenant's pod has the name: the StatefulSet waits, and goes on when it has gone."""
    stranger = build.manifest(POD, "db-1", "default", spec=build.pod_template("x", image="x:1")["spec"])
    cluster.apply(stranger)
    cluster.apply(workload(STATEFUL_SET))
    await asyncio.sleep(20)
    waiting = stored(cluster, STATEFUL_SET, "db")["status"]["replicas"]
    cluster.api.verbs.delete(cluster.api.registry.of(POD), "default", "db-1", DeleteOptions())
    await settled(cluster, STATEFUL_SET, "111")

    assert waiting == 1


async def test_a_new_pod_waits_until_the_claim_of_the_former_has_gone(cluster: SimulatedCluster) -> None:
    """Scaled down and up again at once: the claim of before is being deleted, and must not be used again."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims: Manifest = {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
    }
    cluster.apply(workload(STATEFUL_SET, grace_s=0, replicas=2, **claims))
    await settled(cluster, STATEFUL_SET, "11")
    before = stored(cluster, CLAIM, "data-db-1")["metadata"]["uid"]
    cluster.apply(workload(STATEFUL_SET, grace_s=0, replicas=1, **claims))
    await cluster.until(lambda pod: pod is None, kind=POD, namespace="default", name="db-1", deadline_s=5)
    cluster.apply(workload(STATEFUL_SET, grace_s=0, replicas=2, **claims))
    await settled(cluster, STATEFUL_SET, "11")

    after = stored(cluster, CLAIM, "data-db-1")["metadata"]
    assert after["uid"] != before
    assert "deletionTimestamp" not in after


async def test_a_pod_starts_when_its_claim_is_bound(cluster: SimulatedCluster) -> None:
    """A scenario says by an annotation that there is no volume; when it takes it away, there is one."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data", "annotations": {UNBOUND: "true"}}, "spec": spec}
    cluster.apply(workload(STATEFUL_SET, volumeClaimTemplates=[claim], replicas=1))
    await asyncio.sleep(20)
    waiting = stored(cluster, POD, "db-0")["status"]
    unbound = stored(cluster, CLAIM, "data-db-0")
    bound = {**unbound, "metadata": {**unbound["metadata"], "annotations": {}}}
    old = cluster.api.history.get(CLAIM, "default", "data-db-0")
    assert old is not None
    cluster.api.verbs.update(cluster.api.registry.of(CLAIM), old, bound, WriteOptions())
    await settled(cluster, STATEFUL_SET, "1")

    assert (waiting["phase"], waiting["conditions"][0]["reason"]) == ("Pending", "Unschedulable")
    assert stored(cluster, CLAIM, "data-db-0")["status"]["phase"] == "Bound"
