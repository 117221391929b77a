"""Configuration: what Rollouts whose templates name ConfigMaps cost the controller more than others, and what one edit asks."""

from __future__ import annotations

import asyncio

from benchmarks.api import MERGE_PATCH, for_each
from benchmarks.at_rest import READY_WITHIN_S, REPLICA_SETS, deleted, is_healthy, started
from benchmarks.process import running
from benchmarks.scene import QUIET_S, QUIET_WITHIN_S, Scene
from benchmarks.workloads import ROLLOUTS, Object

EACH = 3
"""ConfigMaps of a Rollout."""

VALUE = "x" * 4096
CONFIG_MAPS = "/api/v1/namespaces/{namespace}/configmaps"


async def measure(scene: Scene, *, count: int) -> None:
    """Both, one after the other in the same cluster, and the edit."""
    plain, named = "bench-plain", "bench-config"
    await _created(scene, plain, count=count, configured=False)
    without = await started(scene, "without", count=count)
    await deleted(scene, ROLLOUTS.collection(plain), until_none_in=REPLICA_SETS.format(namespace=plain))
    await _created(scene, named, count=count, configured=True)
    beside = await started(scene, "with", count=count)
    add = scene.results.add
    add("RSS with to without", beside.rss_mib / without.rss_mib, "x", limit=1.25)
    add("start to ready, with to without", beside.ready_s / without.ready_s, "x", limit=2)
    add("CPU of start and a look at each, with to without", beside.looked_s / without.looked_s, "x", limit=2)
    await _edited(scene, named)


async def _created(scene: Scene, namespace: str, *, count: int, configured: bool) -> None:
    await scene.add_namespace(namespace)
    collection = ROLLOUTS.collection(namespace)

    async def create(number: int) -> None:
        name = f"app-{number:05}"
        manifest = ROLLOUTS.manifest(name, image="app:1")
        if configured:
            await _with_sources(scene, namespace, name, manifest)
        await scene.api.request("POST", collection, manifest)

    with (
        running(scene.kubeconfig, log_folder=scene.logs) as controller,
        scene.bar(f"{namespace}: Rollouts", count) as done,
    ):
        await controller.wait_until_ready(deadline_s=READY_WITHIN_S)
        await for_each(range(count), create)
        await scene.until_counted(collection, count, is_healthy, done)
        await scene.quiet(f"{namespace}: quiet", within_s=QUIET_WITHIN_S)


async def _with_sources(scene: Scene, namespace: str, name: str, rollout: Object) -> None:
    """Creates the Rollout's ConfigMaps and names them in its template."""
    sources = [f"{name}-{number}" for number in range(EACH)]
    for each in sources:
        source = {"metadata": {"name": each}, "data": {"value": VALUE}}
        await scene.api.request("POST", CONFIG_MAPS.format(namespace=namespace), source)
    (container,) = rollout["spec"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"configMapRef": {"name": each}} for each in sources]


async def _edited(scene: Scene, namespace: str) -> None:
    """One ConfigMap of one Rollout is edited: what the controller asks until the update is done."""
    name = "app-00000"
    collection = ROLLOUTS.collection(namespace)
    before = (await scene.api.request("GET", f"{collection}/{name}"))["status"]["stableRevision"]

    def is_updated(rollout: Object) -> bool:
        updated = rollout["metadata"]["name"] == name and rollout["status"]["stableRevision"] != before
        return updated and is_healthy(rollout)

    path = f"{CONFIG_MAPS.format(namespace=namespace)}/{name}-0"
    with running(scene.kubeconfig, log_folder=scene.logs) as controller, scene.bar("an edit", 1) as done:
        await controller.wait_until_ready(deadline_s=READY_WITHIN_S)
        await scene.quiet("looking at each once", within_s=QUIET_WITHIN_S)
        mark = scene.audit.mark()
        await scene.api.request("PATCH", path, {"data": {"value": "edited"}}, content_type=MERGE_PATCH)
        await scene.until_counted(collection, 1, is_updated, done)
        await asyncio.sleep(QUIET_S)  # counters are written at most 5 s late
        load = scene.audit.load(since=mark)
    scene.results.add("requests for an edit of one ConfigMap", load.requests, "")
    scene.results.add("of them on ConfigMaps", sum(n for kind, n in load.kinds.items() if "configmaps" in kind), "")
    scene.results.requests["edit"] = dict(load.kinds)
