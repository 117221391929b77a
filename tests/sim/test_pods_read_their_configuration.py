"""Promise: containers read ConfigMaps as on a real node: variables at their start, volumes later, subPaths never again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from rollouts.objects import CONFIG_MAP, POD, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.actors.pod_configuration import PodConfiguration
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.sim.manifests import replica_set

SETTINGS = KubeletSettings(startup_s=(0.1, 0.2), mount_s=5.0, configured_again_s=2.0)


def _config_map(value: str, name: str = "conf") -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}


def _pods(*, optional: bool = False) -> Manifest:
    """One pod that reads `conf` in every way."""
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


def _edit(cluster: SimulatedCluster, value: str) -> None:
    body = msgspec.json.encode({"data": {"key": value}})
    answer = cluster.api.answer(Request("PATCH", CONFIG_MAP.path("default", "conf"), {}, body, MERGE_PATCH))
    assert answer.status == 200


def _read(cluster: SimulatedCluster) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, str]]:
    (pod,) = cluster.list(POD)
    read: PodConfiguration = cluster.kubelets.configuration(pod["metadata"]["uid"])
    return dict(read.variables), {name: dict(files) for name, files in read.volumes.items()}, dict(read.sub_paths)


def _waiting(cluster: SimulatedCluster) -> Any:
    (pod,) = cluster.list(POD)
    return pod["status"]["containerStatuses"][0]["state"].get("waiting")


def _play(script: Callable[[SimulatedCluster], Any]) -> Any:
    async def run() -> Any:
        async with SimulatedCluster(kubelet=SETTINGS) as cluster:
            return await script(cluster)

    return run_virtual(run())


def test_an_edit_reaches_volumes_late_and_nothing_else() -> None:
    """So pods of one revision disagree with each other, and with themselves, after an edit."""

    async def script(cluster: SimulatedCluster) -> Any:
        cluster.apply(_config_map("old"))
        cluster.apply(_pods())
        await asyncio.sleep(10)
        _edit(cluster, "new")
        await asyncio.sleep(4)
        before = _read(cluster)
        await asyncio.sleep(2)
        return before, _read(cluster)

    before, after = _play(script)

    frozen = ({"ONE": "old", "ALL_key": "old"}, {"/etc/one": "old"})
    assert before == (frozen[0], {"files": {"key": "old"}, "both": {"a/b": "old"}}, frozen[1])
    assert after == (frozen[0], {"files": {"key": "new"}, "both": {"a/b": "new"}}, frozen[1])


def test_a_container_that_restarts_reads_everything_again() -> None:
    """That is why a crash may bring an edit to one pod alone."""

    async def script(cluster: SimulatedCluster) -> Any:
        cluster.apply(_config_map("old"))
        cluster.apply(_pods())
        await asyncio.sleep(10)
        _edit(cluster, "new")
        (pod,) = cluster.list(POD)
        cluster.kubelets.crash(("default", pod["metadata"]["name"]))
        await asyncio.sleep(3)
        return _read(cluster)

    variables, _, sub_paths = _play(script)

    assert (variables["ONE"], sub_paths) == ("new", {"/etc/one": "new"})


def test_a_pod_whose_config_map_is_missing_waits_for_it() -> None:
    """And says which; it starts as soon as the ConfigMap is there."""

    async def script(cluster: SimulatedCluster) -> Any:
        cluster.apply(_pods())
        await asyncio.sleep(5)
        waiting = _waiting(cluster)
        cluster.apply(_config_map("late"))
        await asyncio.sleep(5)
        return waiting, _waiting(cluster), _read(cluster)[0]["ONE"]

    waiting, after, value = _play(script)

    assert waiting == {"reason": "ContainerCreating", "message": 'configmap "conf" not found'}
    assert (after, value) == (None, "late")


def test_what_is_optional_is_left_out_while_it_is_missing() -> None:
    """The container runs without it."""

    async def script(cluster: SimulatedCluster) -> Any:
        cluster.apply(_pods(optional=True))
        await asyncio.sleep(5)
        return _waiting(cluster), _read(cluster)

    waiting, read = _play(script)

    assert waiting is None
    assert read == ({}, {"files": {}, "both": {}}, {})


def test_a_container_that_restarts_without_its_config_map_waits() -> None:
    """The pod ran; what it needs has gone meanwhile."""

    async def script(cluster: SimulatedCluster) -> Any:
        cluster.apply(_config_map("old"))
        cluster.apply(_pods())
        await asyncio.sleep(10)
        assert cluster.api.answer(Request("DELETE", CONFIG_MAP.path("default", "conf"))).status == 200
        (pod,) = cluster.list(POD)
        cluster.kubelets.crash(("default", pod["metadata"]["name"]))
        await asyncio.sleep(20)
        return cluster.kubelets.serves(pod["metadata"]["uid"])

    assert _play(script) is False
