"""What the control plane itself takes for an abort: the same writes, made at once by a client that decides and records nothing.

A Rollout gets the annotation; the stable ReplicaSet gets its second pod; when that pod is available, the canary's ReplicaSet is
scaled to 0. No controller that keeps the pods wanted available can be faster on the same machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

from benchmarks.api import MERGE_PATCH, Api
from benchmarks.latency import REST_S, ROUND_LIMIT_S
from benchmarks.workloads import ROLLOUTS, Object

_ANNOTATE: Object = {"metadata": {"annotations": {"rollouts.dev/abort": "true"}}}


async def measure(api: Api, namespace: str, *, rounds: int, on_done: Callable[[int], object]) -> list[float]:
    """Seconds of each round. No controller of Rollouts may run meanwhile. Raises: TimeoutError."""
    sets = _Sets(api, f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    rollouts = ROLLOUTS.collection(namespace)
    await api.request("POST", rollouts, ROLLOUTS.manifest("floor", image="app:1"))
    since = await api.version_of(sets.path)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(sets.follow(since))
        for name in ("stable", "canary"):
            await sets.create(name)
        taken_s = []
        for number in range(1, rounds + 1):
            await sets.until(lambda: sets.available == {"stable": 1, "canary": 1})
            await asyncio.sleep(REST_S)
            began_s = time.monotonic()
            await api.request("PATCH", f"{rollouts}/floor", _ANNOTATE, content_type=MERGE_PATCH)
            await sets.scale("stable", 2)
            await sets.until(lambda: sets.available["stable"] == 2)
            await sets.scale("canary", 0)
            await sets.until(lambda: sets.wanted["canary"] == 0)
            taken_s.append(time.monotonic() - began_s)
            on_done(number)
            await api.request("PATCH", f"{rollouts}/floor", _without(_ANNOTATE), content_type=MERGE_PATCH)
            await sets.scale("stable", 1)
            await sets.scale("canary", 1)
        following.cancel()
    return taken_s


def _without(patch: Object) -> Object:
    return {"metadata": {"annotations": dict.fromkeys(patch["metadata"]["annotations"])}}


class _Sets:
    """Two ReplicaSets as their watch shows them."""

    def __init__(self, api: Api, path: str) -> None:
        self.path = path
        self.available: dict[str, int] = {}
        self.wanted: dict[str, int] = {}
        self._api = api
        self._changed = asyncio.Event()

    async def create(self, name: str) -> None:
        """One with a pod like those of the Rollouts."""
        spec = ROLLOUTS.manifest(name, image="app:1")["spec"]
        wanted = {part: spec[part] for part in ("selector", "template")} | {"replicas": 1}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": wanted}
        await self._api.request("POST", self.path, body)

    async def scale(self, name: str, replicas: int) -> None:
        """The same PATCH as a controller's."""
        await self._api.request(
            "PATCH", f"{self.path}/{name}", {"spec": {"replicas": replicas}}, content_type=MERGE_PATCH
        )

    async def follow(self, since: str) -> None:
        """Keeps the counts like the server's, until cancelled."""
        async with aclosing(self._api.watch(self.path, since=since)) as lines:
            async for line in lines:
                name = line.object["metadata"]["name"]
                self.available[name] = line.object["status"].get("availableReplicas", 0)
                self.wanted[name] = line.object["spec"]["replicas"]
                self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until the watch has shown it. Raises: TimeoutError."""
        async with asyncio.timeout(ROUND_LIMIT_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()
