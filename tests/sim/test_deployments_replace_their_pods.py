"""Promise: on its way to the end a simulated Deployment keeps its limits; a cluster without Deployments pays nothing for them.

What it comes to in the end is compared with a real control plane: tests/contract/test_deployments_act_as_the_real_ones.py.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from rollouts.objects import DEPLOYMENT, POD, REPLICA_SET, Manifest
from rollouts.sim.actors.deployments import controller
from rollouts.sim.actors.deployments.replica_sets import REVISION, REVISION_HISTORY, new_annotations
from rollouts.sim.actors.pods import is_active, is_ready
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.sim.manifests import replica_set, stored

pytestmark = pytest.mark.virtual_time
FINISH_S = 60.0


def web(image: str = "app:1", *, replicas: int = 10, **spec: Any) -> Manifest:
    return build.deployment("web", "default", replicas=replicas, image=image, **spec)


def _images(cluster: SimulatedCluster) -> Counter[str]:
    pods = [one for one in cluster.api.history.select(POD) if is_active(one)]
    return Counter(pod.manifest["spec"]["containers"][0]["image"] for pod in pods)


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"), [(1, 0, 11, 10), (0, 1, 10, 9), ("25%", "25%", 13, 8), (10, 0, 20, 10)]
)
async def test_an_update_keeps_its_limits_at_every_moment(
    cluster: SimulatedCluster, surge: int | str, unavailable: int | str, most: int, least: int
) -> None:
    """Never more pods wanted than the surge allows, never fewer ready than may lack."""
    limits = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    cluster.apply(web(strategy=limits))
    await asyncio.sleep(FINISH_S)
    wanted, ready = [], []

    def look(_change: object) -> None:
        wanted.append(sum(one["spec"]["replicas"] for one in cluster.list(REPLICA_SET)))
        ready.append(sum(map(is_ready, filter(is_active, cluster.api.history.select(POD)))))

    cluster.api.history.listen(None, look)
    cluster.apply(web("app:2", strategy=limits))
    await asyncio.sleep(FINISH_S)

    assert _images(cluster) == {"app:2": 10}
    assert (max(wanted), min(ready)) == (most, least)


async def test_pods_that_are_recreated_never_meet(cluster: SimulatedCluster) -> None:
    """Also while the old ones still terminate."""
    recreate = {"type": "Recreate"}
    cluster.apply(web(replicas=3, strategy=recreate, template=_slow("app:1")))
    await asyncio.sleep(FINISH_S)
    together = []

    def look(_change: object) -> None:
        pods = cluster.list(POD)
        together.append(len({pod["spec"]["containers"][0]["image"] for pod in pods}))

    cluster.api.history.listen(None, look)
    cluster.apply(web(replicas=3, strategy=recreate, template=_slow("app:2")))
    await asyncio.sleep(FINISH_S)

    assert _images(cluster) == {"app:2": 3}
    assert max(together) == 1


def _slow(image: str) -> Manifest:
    """Pods that need seconds to terminate."""
    return build.pod_template("web", image=image, container={"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}})


async def test_each_pod_must_stay_ready_for_a_while(cluster: SimulatedCluster) -> None:
    """With one more pod at a time and 10 s each, 4 pods need 40 s and not much more."""
    spec: Manifest = {"minReadySeconds": 10, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
    cluster.apply(web(replicas=4, **spec))
    await asyncio.sleep(FINISH_S)
    cluster.apply(web("app:2", replicas=4, **spec))

    await asyncio.sleep(39)
    assert _images(cluster)["app:1"] >= 1
    await asyncio.sleep(13)
    assert _images(cluster) == {"app:2": 4}


async def test_what_a_deployment_made_goes_with_it_unless_it_is_orphaned(cluster: SimulatedCluster) -> None:
    """A Deployment that comes back adopts what was left, and starts no pod again."""
    cluster.apply(web(replicas=3))
    await asyncio.sleep(FINISH_S)
    before = {pod["metadata"]["uid"] for pod in cluster.list(POD)}
    _delete(cluster, "Orphan")
    await asyncio.sleep(FINISH_S)
    alone = stored(cluster, REPLICA_SET, cluster.list(REPLICA_SET)[0]["metadata"]["name"])
    cluster.apply(web(replicas=3))
    await asyncio.sleep(FINISH_S)
    (adopted,) = cluster.list(REPLICA_SET)
    after = {pod["metadata"]["uid"] for pod in cluster.list(POD)}
    _delete(cluster, "Background")
    await asyncio.sleep(FINISH_S)

    assert not alone["metadata"].get("ownerReferences")
    assert [owner["kind"] for owner in adopted["metadata"]["ownerReferences"]] == ["Deployment"]
    assert after == before
    assert cluster.list(REPLICA_SET) == cluster.list(POD) == []


def _delete(cluster: SimulatedCluster, propagation: str) -> None:
    resource = cluster.api.registry.of(DEPLOYMENT)
    cluster.api.verbs.delete(resource, "default", "web", DeleteOptions(propagation=propagation))


async def test_the_history_of_revisions_is_bounded() -> None:
    """Who rolls back and forth for years gets no annotation that is too large to be written: the oldest numbers go."""
    noted = {REVISION: "1"}
    for number in range(2, 2_000):
        noted = new_annotations({}, noted, number)
    history = noted[REVISION_HISTORY].split(",")

    assert len(noted[REVISION_HISTORY]) <= 2_000
    assert history == [str(number) for number in range(2_000 - len(history) - 1, 1_999)]
    assert len(history) == 400


async def test_without_deployments_their_controller_is_never_called(cluster: SimulatedCluster) -> None:
    """Most worlds have none, and thousands of them are played."""
    called: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == controller.__file__:
            called[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        cluster.apply(replica_set("web", replicas=5))
        await asyncio.sleep(FINISH_S)
        cluster.apply(replica_set("web", replicas=0))
        await asyncio.sleep(FINISH_S)
        without = dict(called)
        cluster.apply(web(replicas=1))
        await asyncio.sleep(FINISH_S)
    finally:
        sys.setprofile(None)

    assert without == {}
    assert called["sync"] > 0
