"""A controller that has just been started on a cluster where nothing is to be done: what it asks, and its memory."""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
from dataclasses import dataclass

from benchmarks.api import for_each
from benchmarks.process import running
from benchmarks.scene import QUIET_WITHIN_S, Scene
from benchmarks.workloads import Object

IDLE_S = 30
READY_WITHIN_S = 300.0
REPLICA_SETS = "/apis/apps/v1/namespaces/{namespace}/replicasets"


@dataclass(frozen=True, slots=True)
class Standing:
    """A controller that has just started and looked at each Rollout.

    Args:
        ready_s: from the start of its process until /readyz says 200.
        looked_s: CPU until it had looked at each Rollout.
    """

    ready_s: float
    looked_s: float
    rss_mib: float


async def started(scene: Scene, title: str, *, count: int, dry_runs: int = 0, starts: int = 1) -> Standing:
    """Starts a controller, waits until it asks nothing any more, and looks at it for half a minute; the median of so many starts.

    Args:
        dry_runs: writes of its start that store nothing.
    """
    each = [await _started_once(scene, title) for _ in range(starts)]
    standing = Standing(
        *(statistics.median(getattr(one, name.name) for one, _, _ in each) for name in dataclasses.fields(Standing))
    )
    writes, idle = max(writes for _, writes, _ in each), max(requests for _, _, requests in each)
    add = scene.results.add
    add(f"{title}: start to ready", standing.ready_s, "s")
    add(f"{title}: CPU of start and a look at each", standing.looked_s, "s")
    add(f"{title}: RSS with {count:,} idle Rollouts", standing.rss_mib, "MiB")
    if starts > 1:
        scene.results.series[f"{title}: RSS, MiB"] = [one.rss_mib for one, _, _ in each]
    add(f"{title}: writes of a start", writes, "", limit=dry_runs)
    add(f"{title}: {IDLE_S} s idle: requests besides the Lease", idle, "", limit=0)
    return standing


async def _started_once(scene: Scene, title: str) -> tuple[Standing, int, int]:
    """One start: what it took, how many writes it made, and how many requests followed at rest."""
    mark = scene.audit.mark()
    with running(scene.kubeconfig, log_folder=scene.logs) as controller, scene.bar(f"starting, {title}", 1):
        ready_s = await controller.wait_until_ready(deadline_s=READY_WITHIN_S)
        await scene.quiet(f"looking at each once, {title}", within_s=QUIET_WITHIN_S)
        looked_s, load = controller.cpu_s(), scene.audit.load(since=mark)
        mark = scene.audit.mark()
        await asyncio.sleep(IDLE_S)
        idle = scene.audit.load(since=mark)
        standing = Standing(ready_s, looked_s, controller.rss_mib())
    scene.results.requests[f"start, {title}"] = dict(load.kinds)
    return standing, load.writes + load.events, idle.requests


async def deleted(scene: Scene, collection: str, *, until_none_in: str) -> None:
    """Deletes the objects of a collection, and waits until another one is empty, too.

    One by one: a busy API server ends a request for a thousand of them after a minute.
    """
    names = [each["metadata"]["name"] for each in (await scene.api.request("GET", collection))["items"]]
    with scene.bar(f"deleting {collection}", len(names)):
        await for_each(names, lambda name: scene.api.request("DELETE", f"{collection}/{name}"))
        async with asyncio.timeout(QUIET_WITHIN_S):
            while True:
                if not (await scene.api.request("GET", f"{until_none_in}?limit=1"))["items"]:
                    return
                await asyncio.sleep(1)


def is_healthy(rollout: Object) -> bool:
    """Whether a Rollout's update is over."""
    return bool(rollout.get("status", {}).get("phase") == "Healthy")
