"""Analyses: what background runs cost the controller, and whether anybody waits for them or for a Prometheus that hangs.

The reaction times of one Rollout are taken in the same run: alone, beside the runs, and beside queries without an answer. On two
cores the writes of the runs take time from everybody, whoever sends them. So the times are also taken beside the same writes from
a plain client (`same_writes.py`), and that is what the controller is compared with.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks import latency, same_writes
from benchmarks.api import MERGE_PATCH, for_each
from benchmarks.figures import percentile
from benchmarks.metric_server import HANGING, MetricServer
from benchmarks.process import Controller
from benchmarks.scene import QUIET_S, QUIET_WITHIN_S, Scene
from benchmarks.workloads import ROLLOUTS, Object

INTERVAL_S = 30
MEASURED_S = 90.0
HANGING_ROLLOUTS = 50
SETTLED_S = 3.0
NAMESPACE = "bench-analyses"
FLOOR = "beside the same writes"
TEMPLATES = "/apis/rollouts.dev/v1alpha1/namespaces/{namespace}/analysistemplates"
RUNS = "/apis/rollouts.dev/v1alpha1/namespaces/{namespace}/analysisruns"

_ANALYSED: Object = {
    "canary": {
        "maxSurge": "25%",
        "maxUnavailable": "25%",
        "steps": [{"setWeight": 50}, {"pause": {}}],
        "analysis": {"templates": [{"templateName": "measured"}]},
    }
}


async def measure(scene: Scene, controller: Controller, metrics: MetricServer, *, count: int, samples: int) -> None:
    """All three, in order.

    Args:
        count: Rollouts with a background run each.
        samples: rounds of the reaction times.
    """
    alone = await _reactions(scene, "alone", samples=samples)
    async with same_writes.sent(scene.plane, scene.api, count=count, interval_s=INTERVAL_S):
        floor = await _reactions(scene, FLOOR, samples=samples)
    idle_mib = controller.rss_mib()
    await _begun(scene, NAMESPACE, count=count, query="1")
    await _cost(scene, controller, metrics, count=count, idle_mib=idle_mib)
    beside = await _reactions(scene, "beside background runs", samples=samples)
    hanging = f"{NAMESPACE}-that-hang"
    await _begun(scene, hanging, count=HANGING_ROLLOUTS, query=HANGING)
    scene.results.add("queries that hang at once", await _all_that_hang(metrics), "")
    beside_hanging = await _reactions(scene, "beside queries that hang", samples=samples)
    for name in ("step", "abort"):
        _compare(scene, name, alone, floor, beside, beside_hanging)


def _compare(scene: Scene, name: str, *all_of: latency.Reactions) -> None:
    """The figures, and what a pass of another Rollout loses by analyses: the last two to the second."""
    titles = ("alone", FLOOR, "beside background runs", "beside queries that hang")
    p99_ms = [percentile(getattr(each, f"{name}_s"), 99) * 1000 for each in all_of]
    medians_ms = [percentile(getattr(each, f"{name}_s"), 50) * 1000 for each in all_of]
    for title, median, p99 in zip(titles, medians_ms, p99_ms, strict=True):
        scene.results.add(f"{name} {title}, median", median, "ms")
        scene.results.add(f"{name} {title}, p99", p99, "ms")
    for title, median in zip(titles[2:], medians_ms[2:], strict=True):
        scene.results.add(f"{name} {title} to {FLOOR}, median", median / medians_ms[1], "x", limit=1.25)
        scene.results.add(f"{name} {title} to alone, median", median / medians_ms[0], "x")


async def _cost(scene: Scene, controller: Controller, metrics: MetricServer, *, count: int, idle_mib: float) -> None:
    # Counters of the updates are written at most 5 s late, and Events have a rate of their own.
    await scene.audit.quiet(for_s=QUIET_S, deadline_s=QUIET_WITHIN_S, counted=lambda load: load.events)
    with scene.bar(f"{count:,} background runs", int(MEASURED_S)) as done:
        mark, own_s, answered = scene.audit.mark(), controller.cpu_s(), metrics.answered
        for second in range(int(MEASURED_S)):
            await asyncio.sleep(1)
            done(second + 1)
        load = scene.audit.load(since=mark)
    taken = metrics.answered - answered
    used_s = controller.cpu_s() - own_s
    add = scene.results.add
    add("measurements expected", count * MEASURED_S / INTERVAL_S, "")
    add("measurements taken", taken, "")
    add("API writes a measurement", load.writes / max(taken, 1), "", limit=1.2)
    add("controller CPU a measurement", used_s / max(taken, 1) * 1000, "ms")
    add("cores while they run", used_s / MEASURED_S, "")
    add("memory a background run", (controller.rss_mib() - idle_mib) * 1024 / count, "KiB")
    add(f"RSS with {count:,} background runs", controller.rss_mib(), "MiB")
    scene.results.requests["background runs"] = dict(load.kinds)


async def _reactions(scene: Scene, title: str, *, samples: int) -> latency.Reactions:
    namespace = f"bench-{title.replace(' ', '-')}"
    await scene.add_namespace(namespace)
    with scene.bar(f"one Rollout {title}", samples) as done:
        return await latency.measure(scene.api, namespace, rounds=samples, on_done=done)


async def _begun(scene: Scene, namespace: str, *, count: int, query: str) -> None:
    """Creates Rollouts, updates them, and waits until each has its run."""
    await scene.add_namespace(namespace)
    await scene.api.request("POST", TEMPLATES.format(namespace=namespace), _template(query))
    collection = ROLLOUTS.collection(namespace)
    names = [f"app-{number:05}" for number in range(count)]

    async def create(name: str) -> None:
        await scene.api.request("POST", collection, ROLLOUTS.manifest(name, image="app:1", strategy=_ANALYSED))

    async def update(name: str) -> None:
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}}
        await scene.api.request("PATCH", f"{collection}/{name}", patch, content_type=MERGE_PATCH)

    with scene.bar(f"{namespace}: Rollouts", count) as done:
        await for_each(names, create)
        await scene.until_counted(collection, count, lambda one: one.get("status", {}).get("phase") == "Healthy", done)
    with scene.bar(f"{namespace}: runs", count) as done:
        await for_each(names, update)
        runs = RUNS.format(namespace=namespace)
        await scene.until_counted(runs, count, lambda one: one.get("status", {}).get("phase") == "Running", done)


async def _all_that_hang(metrics: MetricServer) -> int:
    """How many queries wait, once there are no more of them: the controller takes so many measurements of a namespace at once."""
    most, since_s = 0, time.monotonic()
    while time.monotonic() - since_s < SETTLED_S or most == 0:
        if metrics.hanging > most:
            most, since_s = metrics.hanging, time.monotonic()
        await asyncio.sleep(0.2)
    return most


def _template(query: str) -> Object:
    measured = {
        "name": "rate",
        "interval": f"{INTERVAL_S}s",
        "successCondition": "result[0] >= 0.5",
        "provider": {"prometheus": {"query": query, "timeout": 300}},
    }
    return {
        "apiVersion": "rollouts.dev/v1alpha1",
        "kind": "AnalysisTemplate",
        "metadata": {"name": "measured"},
        "spec": {"metrics": [measured]},
    }
