"""Deployments in place, between updates: what they cost the controller, beside Rollouts with pods of their own."""

from __future__ import annotations

from benchmarks.api import for_each
from benchmarks.at_rest import READY_WITHIN_S, REPLICA_SETS, deleted, is_healthy, started
from benchmarks.process import running
from benchmarks.scene import Scene
from benchmarks.workloads import DEPLOYMENTS, ROLLOUTS, Object

WORKLOADS = ("--set", "workloads={deployments}")
"""What the chart needs for them, in Helm's words."""

STARTS = 3
"""Of each controller; one alone may differ by 2 MiB."""


async def measure(scene: Scene, *, count: int) -> None:
    """Both, one after the other in the same cluster; before them a controller that has nothing."""
    nothing = await started(scene, "nothing", count=0, starts=STARTS)
    own, held = "bench-own", "bench-held"
    await _created(scene, own, count=count, in_place=False)
    beside = await started(scene, "own pods", count=count, starts=STARTS)
    await deleted(scene, ROLLOUTS.collection(own), until_none_in=REPLICA_SETS.format(namespace=own))
    await _created(scene, held, count=count, in_place=True)
    # Whether the policy holds them is asked about one Deployment of the namespace, and again where a start takes over 10 s.
    standing = await started(scene, "in place", count=count, dry_runs=3, starts=STARTS)
    add, of_each = scene.results.add, 1024 / count
    add("memory a Rollout with pods of its own", (beside.rss_mib - nothing.rss_mib) * of_each, "KiB")
    add("memory a Rollout of a Deployment in place", (standing.rss_mib - nothing.rss_mib) * of_each, "KiB")
    add("RSS, in place to own pods", standing.rss_mib / beside.rss_mib, "x", limit=1)
    add("start to ready, in place to own pods", standing.ready_s / beside.ready_s, "x")
    add("CPU of start and a look at each, in place to own pods", standing.looked_s / beside.looked_s, "x")


async def _created(scene: Scene, namespace: str, *, count: int, in_place: bool) -> None:
    await scene.add_namespace(namespace)
    deployments, rollouts = DEPLOYMENTS.collection(namespace), ROLLOUTS.collection(namespace)

    async def create(number: int) -> None:
        name = f"app-{number:05}"
        rollout = _ending_gracefully(ROLLOUTS.manifest(name, image="app:1"))
        if in_place:
            deployment = _ending_gracefully(DEPLOYMENTS.manifest(name, image="app:1"))
            await scene.api.request("POST", deployments, deployment)
            rollout["spec"] = _in_place(name)
        await scene.api.request("POST", rollouts, rollout)

    with (
        running(scene.kubeconfig, log_folder=scene.logs, arguments=("--no-leader-elect",)) as controller,
        scene.bar(f"{namespace}: Rollouts", count) as done,
    ):
        await controller.wait_until_ready(deadline_s=READY_WITHIN_S)
        async with controller.staying_alive():
            await for_each(range(count), create)
            await scene.until_counted(rollouts, count, is_healthy, done)
            await scene.quiet(f"{namespace}: quiet")


def _in_place(name: str) -> Object:
    """The spec of a Rollout with the same steps, of the Deployment of that name."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "mode": "InPlace"}
    return {"workloadRef": reference, "strategy": {"canary": {"steps": ROLLOUTS.strategy["canary"]["steps"]}}}


def _ending_gracefully(manifest: Object) -> Object:
    """The manifest with a preStop in its template: else one Rollout would add it, and the other would tell that it is missing."""
    pod = manifest["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = 60
    for container in pod["containers"]:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": 20}}}
    return manifest
