"""Configuration: what Rollouts whose templates name ConfigMaps cost the controller more than others, and what one edit asks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmarks.api import MERGE_PATCH, for_each
from benchmarks.process import running
from benchmarks.scene import QUIET_S, QUIET_WITHIN_S, Scene
from benchmarks.workloads import ROLLOUTS, Object

EACH = 3
"""ConfigMaps of a Rollout."""

VALUE = "x" * 4096
IDLE_S = 30
READY_WITHIN_S = 300.0
CONFIG_MAPS = "/api/v1/namespaces/{namespace}/configmaps"
REPLICA_SETS = "/apis/apps/v1/namespaces/{namespace}/replicasets"


@dataclass(frozen=True, slots=True)
class _Standing:
    """A controller that has just started and looked at each Rollout.

    Args:
        ready_s: from the start of its process until /readyz says 200.
        looked_s: CPU until it had looked at each Rollout.
    """

    ready_s: float
    looked_s: float
    rss_mib: float


async def measure(scene: Scene, *, count: int) -> None:
    """Both, one after the other in the same cluster, and the edit."""
    plain, named = "bench-plain", "bench-config"
    await _created(scene, plain, count=count, configured=False)
    without = await _started(scene, "without", count=count)
    await _deleted(scene, plain)
    await _created(scene, named, count=count, configured=True)
    beside = await _started(scene, "with", count=count)
    add = scene.results.add
    add("RSS with to without", beside.rss_mib / without.rss_mib, "x", limit=1.25)
    add("start to ready, with to without", beside.ready_s / without.ready_s, "x", limit=2)
    add("CPU of start and a look at each, with to without", beside.looked_s / without.looked_s, "x", limit=2)
    await _edited(scene, named)


async def _started(scene: Scene, title: str, *, count: int) -> _Standing:
    mark = scene.audit.mark()
    with running(scene.kubeconfig, log_folder=scene.logs) as controller, scene.bar(f"starting, {title}", 1):
        ready_s = await controller.wait_until_ready(deadline_s=READY_WITHIN_S)
        await scene.quiet(f"looking at each once, {title}", within_s=QUIET_WITHIN_S)
        looked_s, load = controller.cpu_s(), scene.audit.load(since=mark)
        mark = scene.audit.mark()
        await asyncio.sleep(IDLE_S)
        idle = scene.audit.load(since=mark)
        standing = _Standing(ready_s, looked_s, controller.rss_mib())
    add = scene.results.add
    add(f"{title}: start to ready", ready_s, "s")
    add(f"{title}: CPU of start and a look at each", looked_s, "s")
    add(f"{title}: RSS with {count:,} idle Rollouts", standing.rss_mib, "MiB")
    add(f"{title}: writes of a start", load.writes + load.events, "", limit=0)
    add(f"{title}: {IDLE_S} s idle: requests besides the Lease", idle.requests, "", limit=0)
    scene.results.requests[f"start, {title}"] = dict(load.kinds)
    return standing


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
        await scene.until_counted(collection, count, _is_healthy, done)
        await scene.quiet(f"{namespace}: quiet", within_s=QUIET_WITHIN_S)


async def _with_sources(scene: Scene, namespace: str, name: str, rollout: Object) -> None:
    """Creates the Rollout's ConfigMaps and names them in its template."""
    sources = [f"{name}-{number}" for number in range(EACH)]
    for each in sources:
        source = {"metadata": {"name": each}, "data": {"value": VALUE}}
        await scene.api.request("POST", CONFIG_MAPS.format(namespace=namespace), source)
    (container,) = rollout["spec"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"configMapRef": {"name": each}} for each in sources]


async def _deleted(scene: Scene, namespace: str) -> None:
    with scene.bar(f"{namespace}: deleted", 1):
        await scene.api.request("DELETE", ROLLOUTS.collection(namespace))
        async with asyncio.timeout(QUIET_WITHIN_S):
            while True:
                if not (await scene.api.request("GET", f"{REPLICA_SETS.format(namespace=namespace)}?limit=1"))["items"]:
                    return
                await asyncio.sleep(1)


async def _edited(scene: Scene, namespace: str) -> None:
    """One ConfigMap of one Rollout is edited: what the controller asks until the update is done."""
    name = "app-00000"
    collection = ROLLOUTS.collection(namespace)
    before = (await scene.api.request("GET", f"{collection}/{name}"))["status"]["stableRevision"]

    def is_updated(rollout: Object) -> bool:
        updated = rollout["metadata"]["name"] == name and rollout["status"]["stableRevision"] != before
        return updated and _is_healthy(rollout)

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


def _is_healthy(rollout: Object) -> bool:
    return bool(rollout.get("status", {}).get("phase") == "Healthy")
