"""The phases of the benchmark on one control plane, in order; each adds its figures to the results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from rich.progress import Progress

from benchmarks import analyses, configs, dashboards, floor, held, latency, level, metric_server, startup, workloads
from benchmarks.api import connected
from benchmarks.audit import Audit
from benchmarks.figures import Results, percentile
from benchmarks.process import Controller, running, running_argo
from benchmarks.scene import QUIET_S, QUIET_WITHIN_S, Scene, scene_of
from benchmarks.workloads import ARGO_ROLLOUTS, DEPLOYMENTS, ROLLOUTS, Course, Workload
from rollouts.objects import Kind
from tests.build import ROLE, manifest
from tests.lab import argo_rollouts
from tests.lab.control_plane import ControlPlane

IDLE_S = 30.0
STARTS = 5
START_LIMIT_S = 300.0

_SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
_CLUSTER_ROLE_BINDING = Kind(ROLE.group, "v1", "ClusterRoleBinding", "clusterrolebindings")


async def compare(
    plane: ControlPlane, results: Results, progress: Progress, *, count: int, samples: int, argo: bool
) -> None:
    """N Deployments, then N Rollouts, then how fast the controller reacts on the quiet cluster; then how fast Argo does."""
    async with connected(plane) as api:
        scene = await scene_of(plane, api, results, progress)
        await _start_ups(scene)
        deployments = await _floor(scene, count=count)
        with running(scene.kubeconfig, log_folder=scene.logs) as controller:
            await controller.wait_until_ready(deadline_s=START_LIMIT_S)
            async with controller.staying_alive():
                await _updates(scene, controller, ROLLOUTS, floor=deployments, count=count)
                await _idle(scene, controller)
                await _reactions(scene, controller, samples=samples)
        await _abort_floor(scene, samples=samples)
        if argo:
            await _argo(scene, deployments, count=count, samples=samples)


async def analyse(plane: ControlPlane, results: Results, progress: Progress, *, count: int, samples: int) -> None:
    """N Rollouts with a background analysis each, and a Prometheus on loopback."""
    async with _measuring(plane, results, progress) as (scene, controller, metrics):
        await analyses.measure(scene, controller, metrics, count=count, samples=samples)


async def configure(plane: ControlPlane, results: Results, progress: Progress, *, count: int) -> None:
    """N idle Rollouts without configuration, then N with three ConfigMaps each; then one ConfigMap is edited."""
    async with connected(plane) as api:
        scene = await scene_of(plane, api, results, progress)
        await configs.measure(scene, count=count)


async def hold(plane: ControlPlane, results: Results, progress: Progress, *, count: int) -> None:
    """N Rollouts with pods of their own at rest, then N that update a Deployment in place."""
    async with connected(plane) as api:
        scene = await scene_of(plane, api, results, progress, *held.WORKLOADS)
        await held.measure(scene, count=count)


async def look(plane: ControlPlane, results: Results, progress: Progress, *, count: int) -> None:
    """N Rollouts in the dashboard, with one viewer and with 200."""
    async with connected(plane) as api:
        scene = await scene_of(plane, api, results, progress)
        await dashboards.measure(scene, count=count)


async def stay_level(plane: ControlPlane, results: Results, progress: Progress, *, updates: int) -> None:
    """Rollouts that are updated again and again, and a Prometheus on loopback."""
    async with _measuring(plane, results, progress) as (scene, controller, _):
        await level.measure(scene, controller, updates=updates)


@asynccontextmanager
async def _measuring(
    plane: ControlPlane, results: Results, progress: Progress
) -> AsyncIterator[tuple[Scene, Controller, metric_server.MetricServer]]:
    """A controller that is ready and asks a Prometheus on loopback."""
    async with connected(plane) as api, metric_server.serving() as metrics:
        scene = await scene_of(plane, api, results, progress)
        flags = (f"--prometheus-url={metrics.url}",)
        with running(scene.kubeconfig, log_folder=scene.logs, arguments=flags) as controller:
            await controller.wait_until_ready(deadline_s=START_LIMIT_S)
            async with controller.staying_alive():
                yield scene, controller, metrics


async def idle(plane: ControlPlane, results: Results, progress: Progress, *, count: int) -> None:
    """N idle Rollouts: what they cost a running controller, and what a new one needs to be ready."""
    async with connected(plane) as api:
        scene = await scene_of(plane, api, results, progress)
        with running(scene.kubeconfig, log_folder=scene.logs) as controller:
            await controller.wait_until_ready(deadline_s=START_LIMIT_S)
            empty_mib = controller.rss_mib()
            async with controller.staying_alive():
                course = await _create(scene, ROLLOUTS, "bench-rollouts", count=count)
                await scene.quiet("quiet", within_s=3 * QUIET_WITHIN_S)
            results.add(f"creating {count:,} Rollouts", course.wall_s, "s")
            results.add("RSS of the controller that created them", controller.rss_mib(), "MiB", limit=600)
            results.add("memory an idle Rollout", (controller.rss_mib() - empty_mib) * 1024 / count, "KiB")
        mark = scene.audit.mark()
        with running(scene.kubeconfig, log_folder=scene.logs) as controller, scene.bar("starting again", 1):
            ready_s = await controller.wait_until_ready(deadline_s=START_LIMIT_S)
            # Ready is when everything is listed; after it every Rollout is looked at once.
            await scene.quiet("looking at each once", within_s=QUIET_WITHIN_S)
            results.add(f"start to ready with {count:,} Rollouts", ready_s, "s", limit=60)
            results.add("CPU of start and a look at each", controller.cpu_s(), "s")
            results.add(f"RSS with {count:,} idle Rollouts", controller.rss_mib(), "MiB", limit=600)
            results.add("peak RSS", controller.peak_rss_mib(), "MiB", limit=600)
            load = scene.audit.load(since=mark)
            results.add("writes of a start", load.writes + load.events, "writes", limit=0)
            results.requests["start"] = dict(load.kinds)
            await _idle(scene, controller)


async def _start_ups(scene: Scene) -> None:
    with scene.bar("starting the controller", STARTS) as done:
        starts = await startup.measure(scene.kubeconfig, scene.audit, log_folder=scene.logs, times=STARTS, on_done=done)
    scene.results.add("start to first watch, median", percentile(starts.first_watch_s, 50), "s", limit=1.0)
    scene.results.add("RSS at the first watch, most", max(starts.rss_mib), "MiB", limit=70)
    scene.results.add("start to ready, median", percentile(starts.ready_s, 50), "s")
    scene.results.series["start to first watch"] = starts.first_watch_s


async def _floor(scene: Scene, *, count: int) -> Course:
    await _create(scene, DEPLOYMENTS, "bench-deployments", count=count)
    before_s = scene.control_plane_cpu_s()
    course = await _update(scene, DEPLOYMENTS, "bench-deployments", count=count)
    scene.results.add("wall time, Deployments", course.wall_s, "s")
    used_ms = (scene.control_plane_cpu_s() - before_s) * 1000
    scene.results.add("control plane's CPU a Deployment", used_ms / count, "ms")
    scene.results.series["Deployments"] = course.done_s
    return course


async def _updates(scene: Scene, controller: Controller, workload: Workload, *, floor: Course, count: int) -> None:
    empty_mib = controller.rss_mib()
    namespace = f"bench-{workload.title.lower().replace(' ', '-')}"
    await _create(scene, workload, namespace, count=count)
    await _settled(scene, workload)
    created_mib = controller.rss_mib()
    mark, own_s, before_s = scene.audit.mark(), controller.cpu_s(), scene.control_plane_cpu_s()
    course = await _update(scene, workload, namespace, count=count)
    used_ms = (scene.control_plane_cpu_s() - before_s) * 1000
    await _settled(scene, workload)
    own_s = controller.cpu_s() - own_s
    load = scene.audit.load(since=mark)
    add = scene.results.add
    add("wall time, Rollouts", course.wall_s, "s")
    add("wall time, Rollouts to Deployments", course.wall_s / floor.wall_s, "x", limit=1.2)
    add("control plane's CPU a Rollout", used_ms / count, "ms")
    add("API writes a Rollout besides Events", load.writes / count, "", limit=8)
    add("API writes a Rollout with Events", (load.writes + load.events) / count, "", limit=11)
    add("API requests a Rollout", load.requests / count, "")
    add("requests refused (conflicts and others)", load.failed, "")
    add("controller CPU a Rollout", own_s / count * 1000, "ms", limit=20)
    add("peak RSS", controller.peak_rss_mib(), "MiB", limit=130)
    add("memory an idle Rollout", (created_mib - empty_mib) * 1024 / count, "KiB")
    add("memory an update leaves", (controller.rss_mib() - created_mib) * 1024 / count, "KiB")
    scene.results.series[workload.title] = course.done_s
    scene.results.requests["update"] = dict(load.kinds)


async def _settled(scene: Scene, workload: Workload) -> None:
    """Argo Rollouts asks something now and then while nothing happens; it gets as much time as counters may be late."""
    if workload is ARGO_ROLLOUTS:
        await asyncio.sleep(QUIET_S)
    else:
        await scene.quiet("quiet")


async def _idle(scene: Scene, controller: Controller) -> None:
    with scene.bar(f"idle for {IDLE_S:g} s", int(IDLE_S)) as done:
        mark, own_s = scene.audit.mark(), controller.cpu_s()
        for second in range(int(IDLE_S)):
            await asyncio.sleep(1)
            done(second + 1)
        load = scene.audit.load(since=mark)
    add = scene.results.add
    add(f"{IDLE_S:g} s idle: requests besides the Lease", load.requests, "", limit=0)
    add(f"{IDLE_S:g} s idle: CPU", (controller.cpu_s() - own_s) * 1000, "ms")
    add(f"{IDLE_S:g} s idle: RSS", controller.rss_mib(), "MiB")
    scene.results.requests["idle"] = dict(load.kinds)


async def _reactions(
    scene: Scene, controller: Controller, *, samples: int, subject: latency.Subject = latency.OURS
) -> None:
    before_mib, mark = controller.rss_mib(), scene.audit.mark()
    namespace = f"bench-latency-of-{subject.workload.title.lower().replace(' ', '-')}"
    await scene.add_namespace(namespace)
    with scene.bar(f"one of {subject.workload.title} in motion", samples) as done:
        times = await latency.measure(scene.api, namespace, rounds=samples, on_done=done, subject=subject)
    add = scene.results.add
    for title, values_s, median_ms, most_ms in (
        ("available to next step", times.step_s, 12, 30),
        ("abort to canary at 0", times.abort_s, 36, None),
    ):
        values_ms = [value * 1000 for value in values_s]
        add(f"{title}, median", percentile(values_ms, 50), "ms", limit=median_ms)
        add(f"{title}, p99", percentile(values_ms, 99), "ms")
        add(f"{title}, most of {len(values_ms)}", max(values_ms), "ms", limit=most_ms)
    # How busy the machine was: on a quiet one of two cores it is 6 to 8 ms.
    written_s = [
        each.took_s for each in scene.audit.asked(since=mark) if each.resource == "rollouts/status" and each.writes
    ]
    if written_s:
        add("API server's part of a status write, median", percentile(written_s, 50) * 1000, "ms")
    add("memory a round leaves", (controller.rss_mib() - before_mib) * 1024 / samples, "KiB")
    scene.results.series["step"] = times.step_s
    scene.results.series["abort"] = times.abort_s


async def _abort_floor(scene: Scene, *, samples: int) -> None:
    await scene.add_namespace("bench-floor")
    with scene.bar("the same without a controller", samples) as done:
        taken_s = await floor.measure(scene.api, "bench-floor", rounds=samples, on_done=done)
    floor_ms, ours_ms = (percentile(each, 50) * 1000 for each in (taken_s, scene.results.series["abort"]))
    scene.results.add("the control plane's own part of an abort, median", floor_ms, "ms")
    scene.results.add("abort to that", ours_ms / floor_ms, "x")


async def _argo(scene: Scene, deployments: Course, *, count: int, samples: int) -> None:
    """The same with Argo Rollouts: under an account of its own, so that its requests are counted, and may do everything."""
    account = await asyncio.to_thread(_prepare_argo, scene.plane)
    results = Results(title=ARGO_ROLLOUTS.title, settings={})
    kubeconfig = await asyncio.to_thread(scene.plane.service_account_kubeconfig, "default", argo_rollouts.NAME)
    theirs = replace(scene, results=results, audit=Audit(scene.plane, user=account), kubeconfig=kubeconfig)
    with running_argo(kubeconfig, log_folder=scene.logs) as controller:
        async with controller.staying_alive():
            await _updates(theirs, controller, ARGO_ROLLOUTS, floor=deployments, count=count)
            await _idle(theirs, controller)
            await _reactions(theirs, controller, samples=samples, subject=latency.ARGO)
    scene.results.argo = {each.name: each.value for each in results.figures}
    scene.results.series |= {
        name if name == results.title else f"{results.title}: {name}": times_s
        for name, times_s in results.series.items()
    }
    scene.results.requests |= {f"{results.title}: {name}": kinds for name, kinds in results.requests.items()}


def _prepare_argo(plane: ControlPlane) -> str:
    """Its CRDs and its account; the account's name as a user."""
    argo_rollouts.install(plane)
    account = {"kind": "ServiceAccount", "name": argo_rollouts.NAME, "namespace": "default"}
    role = {"apiGroup": ROLE.group, "kind": "ClusterRole", "name": "cluster-admin"}
    plane.apply(
        manifest(_SERVICE_ACCOUNT, argo_rollouts.NAME, "default"),
        manifest(_CLUSTER_ROLE_BINDING, argo_rollouts.NAME, roleRef=role, subjects=[account]),
    )
    return f"system:serviceaccount:default:{argo_rollouts.NAME}"


async def _create(scene: Scene, workload: Workload, namespace: str, *, count: int) -> Course:
    await scene.add_namespace(namespace)
    with scene.bar(f"creating {workload.title}", count) as done:
        return await workloads.create(scene.api, workload, namespace, count=count, on_done=done)


async def _update(scene: Scene, workload: Workload, namespace: str, *, count: int) -> Course:
    with scene.bar(f"updating {workload.title}", count) as done:
        return await workloads.update(
            scene.api, workload, namespace, count=count, image="app:2", generation=2, on_done=done
        )
