"""Promise: containers read ConfigMaps as on a real node: variables at their start, volumes later, subPaths never again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rollouts.objects import CONFIG_MAP, POD, Manifest
from rollouts.ports import Request
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.actors.pod_configuration import PodConfiguration
from rollouts.sim.cluster import SimulatedCluster
from tests.build import config_map
from tests.sim.manifests import replica_set

pytestmark = pytest.mark.virtual_time
SETTINGS = KubeletSettings(startup_s=(0.1, 0.2), mount_s=5.0, configured_again_s=2.0)


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Its kubelets are slow to mount and quick to look again."""
    async with SimulatedCluster(kubelet=SETTINGS) as found:
        yield found


def _config_map(value: str) -> Manifest:
    return config_map("conf", "default", data={"key": value})


def _pods(*, optional: bool = False) -> Manifest:
    manifest = replica_set("web", replicas=1)
    spec = manifest["spec"]["template"]["spec"]
    ref = {"name": "conf", "optional": optional}
    spec["volumes"] = [
        {"name": "files", "configMap": ref},
        {"name": "both", "projected": {"sources": [{"configMap": {**ref, "items": [{"key": "key", "path": "a/b"}]}}]}},
    ]
    spec["containers"][0] |= {
        "env": [{"name": "ONE", "valueFrom": {"configMapKeyRef": {**ref, "key": "key"}}}],
        "envFrom": [{"configMapRef": ref, "prefix": "ALL_"}],
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/files"},
            {"name": "files", "mountPath": "/etc/one", "subPath": "key"},
        ],
    }
    return manifest


def _read(cluster: SimulatedCluster) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, str]]:
    (pod,) = cluster.list(POD)
    read: PodConfiguration = cluster.kubelets.configuration(pod["metadata"]["uid"])
    return dict(read.variables), {name: dict(files) for name, files in read.volumes.items()}, dict(read.sub_paths)


def _waiting(cluster: SimulatedCluster) -> Any:
    (pod,) = cluster.list(POD)
    return pod["status"]["containerStatuses"][0]["state"].get("waiting")


async def test_an_edit_reaches_volumes_late_and_nothing_else(cluster: SimulatedCluster) -> None:
    """So pods of one revision disagree with each other, and with themselves, after an edit."""
    cluster.apply(_config_map("old"))
    cluster.apply(_pods())
    await asyncio.sleep(10)
    cluster.apply(_config_map("new"))
    await asyncio.sleep(4)
    before = _read(cluster)
    await asyncio.sleep(2)

    frozen = ({"ONE": "old", "ALL_key": "old"}, {"/etc/one": "old"})
    assert before == (frozen[0], {"files": {"key": "old"}, "both": {"a/b": "old"}}, frozen[1])
    assert _read(cluster) == (frozen[0], {"files": {"key": "new"}, "both": {"a/b": "new"}}, frozen[1])


async def test_a_container_that_restarts_reads_everything_again(cluster: SimulatedCluster) -> None:
    """That is why a crash may bring an edit to one pod alone."""
    cluster.apply(_config_map("old"))
    cluster.apply(_pods())
    await asyncio.sleep(10)
    cluster.apply(_config_map("new"))
    (pod,) = cluster.list(POD)
    cluster.kubelets.crash(("default", pod["metadata"]["name"]))
    await asyncio.sleep(3)

    variables, _, sub_paths = _read(cluster)

    assert (variables["ONE"], sub_paths) == ("new", {"/etc/one": "new"})


async def test_a_pod_whose_config_map_is_missing_waits_for_it(cluster: SimulatedCluster) -> None:
    """And says which; it starts as soon as the ConfigMap is there."""
    cluster.apply(_pods())
    await asyncio.sleep(5)
    waiting = _waiting(cluster)
    cluster.apply(_config_map("late"))
    await asyncio.sleep(5)

    assert waiting == {"reason": "ContainerCreating", "message": 'configmap "conf" not found'}
    assert (_waiting(cluster), _read(cluster)[0]["ONE"]) == (None, "late")


async def test_what_is_optional_is_left_out_while_it_is_missing(cluster: SimulatedCluster) -> None:
    """The container runs without it."""
    cluster.apply(_pods(optional=True))
    await asyncio.sleep(5)

    waiting, read = _waiting(cluster), _read(cluster)

    assert waiting is None
    assert read == ({}, {"files": {}, "both": {}}, {})


async def test_a_container_that_restarts_without_its_config_map_waits(cluster: SimulatedCluster) -> None:
    """The pod ran; what it needs has gone meanwhile."""
    cluster.apply(_config_map("old"))
    cluster.apply(_pods())
    await asyncio.sleep(10)
    assert cluster.api.answer(Request("DELETE", CONFIG_MAP.path("default", "conf"))).status == 200
    (pod,) = cluster.list(POD)
    cluster.kubelets.crash(("default", pod["metadata"]["name"]))
    await asyncio.sleep(20)

    assert cluster.kubelets.serves(pod["metadata"]["uid"]) is False
