"""The phases of the benchmark on one control plane, in order; each adds its figures to the results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from rich.progress import Progress

from benchmarks import floor, latency, startup, workloads
from benchmarks.api import Api, connected, for_each
from benchmarks.audit import Audit
from benchmarks.figures import Results, percentile
from benchmarks.process import Controller, cpu_s, running, running_argo
from benchmarks.workloads import ARGO_ROLLOUTS, DEPLOYMENTS, ROLLOUTS, Course, Workload
from tests.lab.chart import CONTROLLER_USER, install_chart, wait_established
from tests.lab.control_plane import ControlPlane

QUIET_S = 7.0  # counters in status are written at most 5 s late
QUIET_WITHIN_S = 300.0
IDLE_S = 30.0
STARTS = 5
START_LIMIT_S = 300.0

_Bar: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Argo:
    """Where Argo Rollouts is.

    Args:
        program: its controller, built.
        crds: folder with its CRDs, `manifests/crds` of its module.
    """

    program: Path
    crds: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What every phase needs.

    Args:
        kubeconfig: of the chart's ServiceAccount: the controller has no other rights.
    """

    plane: ControlPlane
    api: Api
    audit: Audit
    kubeconfig: Path
    results: Results
    progress: Progress

    @property
    def logs(self) -> Path:
        """Folder of the programs' logs."""
        return Path(self.plane.folder, "logs")

    def control_plane_cpu_s(self) -> float:
        """CPU of etcd, kube-apiserver, kube-controller-manager, kwok and the idle scheduler since they started."""
        return sum(cpu_s(each) for each in self.plane.process_ids.values())

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[_Bar]:
        """A progress bar, or a line at the end where there is no terminal; what it yields takes the number that is done."""
        task = self.progress.add_task(title, total=total)
        began_s = time.monotonic()
        yield lambda done: self.progress.update(task, completed=done)
        self.progress.update(task, completed=total)
        if not self.progress.console.is_terminal:
            print(f"{title}: {total} in {time.monotonic() - began_s:.1f} s", flush=True)


async def compare(
    plane: ControlPlane, results: Results, progress: Progress, *, count: int, samples: int, argo: Argo | None
) -> None:
    """N Deployments, then N Rollouts, then how fast the controller reacts on the quiet cluster; then how fast Argo does."""
    async with connected(plane) as api:
        scene = await _scene(plane, api, results, progress)
        await _start_ups(scene)
        deployments = await _floor(scene, count=count)
        with running(scene.kubeconfig, log_folder=scene.logs) as controller:
            await controller.wait_until_ready(deadline_s=START_LIMIT_S)
            async with controller.staying_alive():
                await _updates(scene, controller, floor=deployments, count=count)
                await _idle(scene, controller)
                await _reactions(scene, controller, samples=samples)
        await _abort_floor(scene, samples=samples)
        if argo is not None:
            await _argo(scene, argo, count=count, samples=samples)


async def idle(plane: ControlPlane, results: Results, progress: Progress, *, count: int) -> None:
    """N idle Rollouts: what they cost a running controller, and what a new one needs to be ready."""
    async with connected(plane) as api:
        scene = await _scene(plane, api, results, progress)
        with running(scene.kubeconfig, log_folder=scene.logs) as controller:
            await controller.wait_until_ready(deadline_s=START_LIMIT_S)
            empty_mib = controller.rss_mib()
            async with controller.staying_alive():
                course = await _create(scene, ROLLOUTS, "bench-rollouts", count=count)
                await _quiet(scene, "quiet", within_s=3 * QUIET_WITHIN_S)
            results.add(f"creating {count:,} Rollouts", course.wall_s, "s")
            results.add("RSS of the controller that created them", controller.rss_mib(), "MiB", limit=600)
            results.add("memory an idle Rollout", (controller.rss_mib() - empty_mib) * 1024 / count, "KiB")
        mark = scene.audit.mark()
        with running(scene.kubeconfig, log_folder=scene.logs) as controller, scene.bar("starting again", 1):
            ready_s = await controller.wait_until_ready(deadline_s=START_LIMIT_S)
            # Ready is when everything is listed; after it every Rollout is looked at once.
            await _quiet(scene, "looking at each once", within_s=QUIET_WITHIN_S)
            results.add(f"start to ready with {count:,} Rollouts", ready_s, "s", limit=60)
            results.add("CPU of start and a look at each", controller.cpu_s(), "s")
            results.add(f"RSS with {count:,} idle Rollouts", controller.rss_mib(), "MiB", limit=600, peer="11-14 GB")
            results.add("peak RSS", controller.peak_rss_mib(), "MiB", limit=600)
            load = scene.audit.load(since=mark)
            results.add("writes of a start", load.writes + load.events, "writes", limit=0)
            results.requests["start"] = dict(load.kinds)
            await _idle(scene, controller)


async def _scene(plane: ControlPlane, api: Api, results: Results, progress: Progress) -> Scene:
    kubeconfig = await asyncio.to_thread(install_chart, plane)
    audit = Audit(plane, user=CONTROLLER_USER)
    return Scene(plane=plane, api=api, audit=audit, kubeconfig=kubeconfig, results=results, progress=progress)


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


async def _updates(scene: Scene, controller: Controller, *, floor: Course, count: int) -> None:
    empty_mib = controller.rss_mib()
    await _create(scene, ROLLOUTS, "bench-rollouts", count=count)
    await _quiet(scene, "quiet")
    created_mib = controller.rss_mib()
    mark, own_s, before_s = scene.audit.mark(), controller.cpu_s(), scene.control_plane_cpu_s()
    course = await _update(scene, ROLLOUTS, "bench-rollouts", count=count)
    used_ms = (scene.control_plane_cpu_s() - before_s) * 1000
    await _quiet(scene, "quiet")
    own_s = controller.cpu_s() - own_s
    load = scene.audit.load(since=mark)
    add = scene.results.add
    add("wall time, Rollouts", course.wall_s, "s")
    add("wall time, Rollouts to Deployments", course.wall_s / floor.wall_s, "x", limit=1.2, peer="1.5")
    add("control plane's CPU a Rollout", used_ms / count, "ms")
    add("API writes a Rollout besides Events", load.writes / count, "", limit=8, peer="14-15 with Events")
    add("API writes a Rollout with Events", (load.writes + load.events) / count, "", limit=11, peer="14-15")
    add("API requests a Rollout", load.requests / count, "")
    add("requests refused (conflicts and others)", load.failed, "")
    add("controller CPU a Rollout", own_s / count * 1000, "ms", limit=20, peer="27")
    add("peak RSS", controller.peak_rss_mib(), "MiB", limit=130, peer="170")
    add("memory an idle Rollout", (created_mib - empty_mib) * 1024 / count, "KiB")
    add("memory an update leaves", (controller.rss_mib() - created_mib) * 1024 / count, "KiB")
    scene.results.series["Rollouts"] = course.done_s
    scene.results.requests["update"] = dict(load.kinds)


async def _idle(scene: Scene, controller: Controller) -> None:
    with scene.bar(f"idle for {IDLE_S:g} s", int(IDLE_S)) as done:
        mark, own_s = scene.audit.mark(), controller.cpu_s()
        for second in range(int(IDLE_S)):
            await asyncio.sleep(1)
            done(second + 1)
        load = scene.audit.load(since=mark)
    add = scene.results.add
    add(f"{IDLE_S:g} s idle: requests besides the Lease", load.requests, "", limit=0, peer="79")
    add(f"{IDLE_S:g} s idle: CPU", (controller.cpu_s() - own_s) * 1000, "ms")
    add(f"{IDLE_S:g} s idle: RSS", controller.rss_mib(), "MiB")
    scene.results.requests["idle"] = dict(load.kinds)


async def _reactions(scene: Scene, controller: Controller, *, samples: int) -> None:
    before_mib, mark = controller.rss_mib(), scene.audit.mark()
    await _add_namespace(scene, "bench-latency")
    with scene.bar("one Rollout in motion", samples) as done:
        times = await latency.measure(scene.api, "bench-latency", rounds=samples, on_done=done)
    _add_reactions(scene, times, limits={"step": (12, 30), "abort": (36, None)}, peers={"step": "12", "abort": "36"})
    # How busy the machine was: on a quiet one of two cores it is 6 to 8 ms.
    server_s = [each.took_s for each in scene.audit.asked(since=mark) if each.kind == "patch rollouts/status"]
    scene.results.add("API server's part of a status write, median", percentile(server_s, 50) * 1000, "ms")
    scene.results.add("memory a round leaves", (controller.rss_mib() - before_mib) * 1024 / samples, "KiB")
    scene.results.series["step"] = times.step_s
    scene.results.series["abort"] = times.abort_s


async def _abort_floor(scene: Scene, *, samples: int) -> None:
    await _add_namespace(scene, "bench-floor")
    with scene.bar("the same without a controller", samples) as done:
        taken_s = await floor.measure(scene.api, "bench-floor", rounds=samples, on_done=done)
    floor_ms, ours_ms = (percentile(each, 50) * 1000 for each in (taken_s, scene.results.series["abort"]))
    scene.results.add("the control plane's own part of an abort, median", floor_ms, "ms")
    scene.results.add("abort to that", ours_ms / floor_ms, "x")


async def _argo(scene: Scene, argo: Argo, *, count: int, samples: int) -> None:
    """The same updates and the same rounds with Argo Rollouts, its own limit on requests out of the way."""
    add, title = scene.results.add, "Argo Rollouts here: "
    await asyncio.to_thread(scene.plane.kubectl, "apply", "--server-side", "-k", str(argo.crds))
    await asyncio.to_thread(wait_established, scene.plane, "rollouts.argoproj.io")
    with running_argo(argo.program, scene.plane.kubeconfig_admin, log_folder=scene.logs) as controller:
        await _create(scene, ARGO_ROLLOUTS, "bench-argo", count=count)
        await asyncio.sleep(QUIET_S)
        own_s = controller.cpu_s()
        course = await _update(scene, ARGO_ROLLOUTS, "bench-argo", count=count)
        await asyncio.sleep(QUIET_S)
        add(f"{title}wall time", course.wall_s, "s")
        add(f"{title}controller CPU a Rollout", (controller.cpu_s() - own_s) / count * 1000, "ms")
        add(f"{title}peak RSS", controller.peak_rss_mib(), "MiB")
        await _add_namespace(scene, "bench-argo-latency")
        with scene.bar("one Rollout of Argo's in motion", samples) as done:
            times = await latency.measure(
                scene.api, "bench-argo-latency", rounds=samples, on_done=done, subject=latency.ARGO
            )
    _add_reactions(scene, times, prefix=title)


def _add_reactions(
    scene: Scene,
    times: latency.Reactions,
    *,
    limits: Mapping[str, tuple[float, float | None]] = MappingProxyType({}),
    peers: Mapping[str, str] = MappingProxyType({}),
    prefix: str = "",
) -> None:
    for name, title, values_s in (
        ("step", "available to next step", times.step_s),
        ("abort", "abort to canary at 0", times.abort_s),
    ):
        values_ms = [value * 1000 for value in values_s]
        median_ms, most_ms = limits.get(name, (None, None))
        add = scene.results.add
        add(f"{prefix}{title}, median", percentile(values_ms, 50), "ms", limit=median_ms, peer=peers.get(name, ""))
        add(f"{prefix}{title}, p99", percentile(values_ms, 99), "ms")
        add(f"{prefix}{title}, most of {len(values_ms)}", max(values_ms), "ms", limit=most_ms)


async def _create(scene: Scene, workload: Workload, namespace: str, *, count: int) -> Course:
    await _add_namespace(scene, namespace)
    with scene.bar(f"creating {workload.title}", count) as done:
        return await workloads.create(scene.api, workload, namespace, count=count, on_done=done)


async def _update(scene: Scene, workload: Workload, namespace: str, *, count: int) -> Course:
    with scene.bar(f"updating {workload.title}", count) as done:
        return await workloads.update(
            scene.api, workload, namespace, count=count, image="app:2", generation=2, on_done=done
        )


async def _add_namespace(scene: Scene, name: str) -> None:
    await for_each([name], lambda one: scene.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": one}}))
    await asyncio.to_thread(scene.plane.wait_for_default_account, name)


async def _quiet(scene: Scene, title: str, *, within_s: float = QUIET_WITHIN_S) -> None:
    with scene.bar(title, 1):
        await scene.audit.quiet(for_s=QUIET_S, deadline_s=within_s)
