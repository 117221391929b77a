"""Memory over many updates: 50 Rollouts with a ConfigMap and an analysis are updated again and again.

Once the histories are full, what the controller needs must not depend on how many updates there have been.
"""

from __future__ import annotations

from benchmarks.analyses import TEMPLATES
from benchmarks.api import MERGE_PATCH, for_each
from benchmarks.configs import CONFIG_MAPS
from benchmarks.process import Controller
from benchmarks.scene import Scene
from benchmarks.workloads import ROLLOUTS, Object

COUNT = 50
FULL_AFTER = 60
"""Updates of each Rollout, until its ReplicaSets, its history and the caches of the process are full.

Every second one brings a content of the ConfigMap, of which caches keep 1,024; deletions are remembered for 15 minutes.
"""

NAMESPACE = "bench-level"
_STEPS = [{"setWeight": 50}, {"analysis": {"templates": [{"templateName": "measured"}]}}]
_TEMPLATE: Object = {
    "apiVersion": "rollouts.dev/v1alpha1",
    "kind": "AnalysisTemplate",
    "metadata": {"name": "measured"},
    "spec": {
        "metrics": [
            {
                "name": "rate",
                "interval": "1s",
                "count": 2,
                "successCondition": "result[0] >= 0.5",
                "provider": {"prometheus": {"query": "1"}},
            }
        ]
    },
}


async def measure(scene: Scene, controller: Controller, *, updates: int) -> None:
    """The memory when histories are full, and after so many updates of all Rollouts together."""
    await scene.add_namespace(NAMESPACE)
    collection, names = ROLLOUTS.collection(NAMESPACE), [f"app-{number:05}" for number in range(COUNT)]
    await scene.api.request("POST", TEMPLATES.format(namespace=NAMESPACE), _TEMPLATE)
    source = {"metadata": {"name": "conf"}, "data": {"value": "0"}}
    await scene.api.request("POST", CONFIG_MAPS.format(namespace=NAMESPACE), source)

    async def create(name: str) -> None:
        manifest = ROLLOUTS.manifest(name, image="app:1", strategy={"canary": {"maxSurge": 1, "steps": _STEPS}})
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        container["envFrom"] = [{"configMapRef": {"name": "conf"}}]
        manifest["spec"]["revisionHistoryLimit"] = 2
        await scene.api.request("POST", collection, manifest)

    await for_each(names, create)
    before: dict[str, str] = {}
    with scene.bar("created", COUNT) as done:
        await scene.until_counted(collection, COUNT, lambda one: _is_updated(one, before), done)
    sizes_mib: list[float] = []
    rounds = updates // COUNT
    for number in range(1, rounds + 1):
        listed = await scene.api.request("GET", collection)
        before = {one["metadata"]["name"]: one["status"]["currentRevision"] for one in listed["items"]}
        with scene.bar(f"round {number} of {rounds}, {controller.rss_mib():.1f} MiB", COUNT) as done:
            await _update(scene, collection, names, number)
            await scene.until_counted(collection, COUNT, lambda one: _is_updated(one, before), done)  # noqa: B023
        sizes_mib.append(controller.rss_mib())
    full_mib, end_mib = sizes_mib[min(FULL_AFTER, rounds) - 1], sizes_mib[-1]
    add = scene.results.add
    add("RSS when histories are full", full_mib, "MiB")
    add(f"RSS after {rounds * COUNT:,} updates", end_mib, "MiB")
    further = max(1, (rounds - FULL_AFTER) * COUNT)
    add("memory that a further update leaves", (end_mib - full_mib) * 1024 / further, "KiB", limit=0.5)


async def _update(scene: Scene, collection: str, names: list[str], number: int) -> None:
    """In even rounds the ConfigMap of all of them is edited, in odd ones each template."""
    if number % 2 == 0:
        path, patch = f"{CONFIG_MAPS.format(namespace=NAMESPACE)}/conf", {"data": {"value": str(number)}}
        await scene.api.request("PATCH", path, patch, content_type=MERGE_PATCH)
        return
    annotated = {"spec": {"template": {"metadata": {"annotations": {"round": str(number)}}}}}

    async def update(name: str) -> None:
        await scene.api.request("PATCH", f"{collection}/{name}", annotated, content_type=MERGE_PATCH)

    await for_each(names, update)


def _is_updated(one: Object, before: dict[str, str]) -> bool:
    """Whether it has rolled out another revision than before."""
    status = one.get("status", {})
    return bool(status.get("phase") == "Healthy" and status["currentRevision"] != before.get(one["metadata"]["name"]))
