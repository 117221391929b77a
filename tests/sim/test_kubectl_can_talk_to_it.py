"""Promise: the simulated cluster can be served on a loopback port, kubectl works on it, and no connection stays open."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from rollouts.clock import SystemClock
from rollouts.objects import DAEMON_SET, POD, REPLICA_SET, SERVICE, STATEFUL_SET, Kind
from rollouts.ports import METADATA
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.patience import PATIENCE_S
from tests.sim.manifests import replica_set, service, stored


async def test_requests_and_watches_go_over_http() -> None:
    """A controller in another process sees the same cluster; metadata alone, whole objects for who names no type, or 406."""
    async with (
        SimulatedCluster(clock=SystemClock()) as cluster,
        SimHttp(cluster.api) as http,
        aiohttp.ClientSession(base_url=http.url) as client,
    ):
        path = REPLICA_SET.path("default")
        made = await client.post(path, json=replica_set("web", replicas=1), headers={"User-Agent": "tester/1"})
        body = await made.json()
        missing = await client.get(f"{path}/none")
        refused = await client.get(f"{path}/web", headers={"Accept": "text/html"})
        kinds = [
            (await (await client.get(f"{path}/web", headers=headers)).json())["kind"]
            for headers in ({"Accept": METADATA}, {"Accept": "application/json"}, {})
        ]
        query = {"watch": "1", "resourceVersion": body["metadata"]["resourceVersion"]}
        watch = await client.get(path, params=query, headers={"Accept": METADATA})
        async with asyncio.timeout(PATIENCE_S):
            event = json.loads(await watch.content.readline())
        watch.close()

    assert (made.status, missing.status, refused.status) == (201, 404, 406)
    assert body["metadata"]["managedFields"][0]["manager"] == "tester"
    assert kinds == ["PartialObjectMetadata", "ReplicaSet", "ReplicaSet"]
    assert (event["type"], event["object"]["kind"]) == ("MODIFIED", "PartialObjectMetadata")


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig of the simulated cluster."""

    programs: Path
    folder: Path
    kubeconfig: Path

    async def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """What it prints, errors included where it is to end with another code."""
        process = await asyncio.create_subprocess_exec(
            self.programs / "kubectl",
            *("--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.folder / "cache"), *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE_S):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode == code, (arguments, err.decode())
        return (out if code == 0 else out + err).decode()


@asynccontextmanager
async def _served(cluster: SimulatedCluster, programs: Path, folder: Path) -> AsyncIterator[Kubectl]:
    async with cluster, SimHttp(cluster.api) as http:
        yield Kubectl(programs, folder, http.write_kubeconfig(folder / "kubeconfig"))


@pytest.mark.controlplane
async def test_kubectl_applies_scales_annotates_and_deletes(tmp_path: Path, lab_programs: Path) -> None:
    """What users do to a real cluster, they do to the demo's."""
    cluster = SimulatedCluster(clock=SystemClock())
    async with _served(cluster, lab_programs, tmp_path) as kubectl:
        first, text = (
            json.dumps(
                {"apiVersion": "v1", "kind": "List", "items": [service("web"), replica_set("web", replicas=1, image=i)]}
            )
            for i in ("app:1", "app:2")
        )
        await kubectl("apply", "--validate=false", "-f", "-", stdin=first)
        again = await kubectl("apply", "--validate=false", "-f", "-", stdin=text)
        await kubectl("apply", "--server-side", "--validate=false", "--force-conflicts", "-f", "-", stdin=text)
        await kubectl("annotate", "rs", "web", "note=yes")
        await kubectl("label", "svc", "web", "tier=front")
        await kubectl("scale", "rs", "web", "--replicas=3")
        await kubectl("patch", "rs", "web", "--type=merge", "-p", '{"spec":{"minReadySeconds":1}}')
        await kubectl("wait", "rs/web", "--for=jsonpath={.status.readyReplicas}=3", f"--timeout={PATIENCE_S:g}s")
        pods = await kubectl("get", "pods", "-o", "name", "-l", "app=web")
        found, front = (stored(cluster, kind, "web") for kind in (REPLICA_SET, SERVICE))
        await kubectl("delete", "rs", "web", "--wait=false")
        await kubectl("get", "all")

    assert "service/web unchanged" in again
    assert "replicaset.apps/web configured" in again
    assert len(pods.split()) == 3
    assert found["metadata"]["annotations"]["note"] == "yes"
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"
    assert front["metadata"]["labels"]["tier"] == "front"
    assert cluster.get(REPLICA_SET, "default", "web") is None


@pytest.mark.controlplane
async def test_kubectl_rolls_a_deployment_out_and_back(tmp_path: Path, lab_programs: Path) -> None:
    """What a native Deployment answers to each command of `kubectl rollout`."""
    cluster = SimulatedCluster(clock=SystemClock(), kubelet=KubeletSettings(startup_s=(0.0, 0.1)))
    async with _served(cluster, lab_programs, tmp_path) as kubectl:

        async def rollout(*arguments: str, code: int = 0) -> str:
            return await kubectl("rollout", arguments[0], "deployment/web", *arguments[1:], code=code)

        def images() -> dict[str, int]:
            found = [one for one in cluster.list(REPLICA_SET) if one["spec"]["replicas"]]
            return {one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"] for one in found}

        manifest = json.dumps(build.deployment("web", replicas=4))
        await kubectl("apply", "--validate=false", "-f", "-", stdin=manifest)
        first = await rollout("status", f"--timeout={PATIENCE_S:g}s")
        await kubectl("set", "image", "deployment/web", "app=app:2")
        second = await rollout("status", f"--timeout={PATIENCE_S:g}s")
        after_two = images()
        history = await rollout("history")
        details = await rollout("history", "--revision=1")
        await rollout("undo")
        await rollout("status", f"--timeout={PATIENCE_S:g}s")
        undone = images()
        await rollout("undo", "--to-revision=2")
        await rollout("pause")
        paused = await rollout("undo", code=1)
        refused = await rollout("restart", code=1)
        await kubectl("scale", "deployment/web", "--replicas=6")
        await rollout("resume")
        await rollout("status", f"--timeout={PATIENCE_S:g}s")
        again = images()
        await rollout("restart")
        await rollout("status", f"--timeout={PATIENCE_S:g}s")
        restarted = len(cluster.list(REPLICA_SET))
        await kubectl("apply", "--validate=false", "-f", "-", stdin=manifest)
        await rollout("status", f"--timeout={PATIENCE_S:g}s")
        applied = images()
        await kubectl("wait", "deployment/web", "--for=condition=Available", f"--timeout={PATIENCE_S:g}s")
        await kubectl("delete", "deployment", "web", "--wait=false")
        await kubectl("wait", "rs", "--all", "--for=delete", f"--timeout={PATIENCE_S:g}s")

    assert "successfully rolled out" in first
    assert "successfully rolled out" in second
    assert after_two == {"app:2": 4}
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert "app:1" in details
    assert undone == {"app:1": 4}
    assert "cannot rollback a paused deployment" in paused
    assert "can't restart paused deployment" in refused
    assert again == {"app:2": 6}
    assert (restarted, applied) == (3, {"app:1": 4})
    assert cluster.list(REPLICA_SET) == []


def workload(kind: Kind, image: str, **spec: Any) -> str:
    """A StatefulSet or a DaemonSet `db` whose pods are ready at once."""
    metadata = {"labels": {"app": "db"}, "annotations": {"sim.rollouts.dev/startup-seconds": "0"}}
    usual = {
        "selector": {"matchLabels": {"app": "db"}},
        "template": build.pod_template("db", image=image, metadata=metadata),
    }
    return json.dumps(build.manifest(kind, "db", "default", spec={**usual, **spec}))


@pytest.mark.controlplane
@pytest.mark.parametrize("kind", [STATEFUL_SET, DAEMON_SET], ids=["sts", "ds"])
async def test_kubectl_rolls_out(tmp_path: Path, lab_programs: Path, kind: Kind) -> None:
    """Status waits, history lists, undo takes a template of before, restart makes a revision, pods follow."""
    name = f"{kind.kind.lower()}/db"
    cluster = SimulatedCluster(clock=SystemClock())
    async with _served(cluster, lab_programs, tmp_path) as kubectl:

        def images() -> set[str]:
            pods = [pod for pod in cluster.list(POD) if "deletionTimestamp" not in pod["metadata"]]
            return {pod["spec"]["containers"][0]["image"] for pod in pods}

        await kubectl("apply", "--validate=false", "-f", "-", stdin=workload(kind, "db:1"))
        await kubectl("rollout", "status", name, f"--timeout={PATIENCE_S:g}s")
        await kubectl("set", "image", name, "app=db:2")
        done = await kubectl("rollout", "status", name, f"--timeout={PATIENCE_S:g}s")
        second, history = images(), await kubectl("rollout", "history", name)
        await kubectl("rollout", "undo", name)
        await kubectl("rollout", "status", name, f"--timeout={PATIENCE_S:g}s")
        first, undone = images(), await kubectl("rollout", "history", name)
        await kubectl("rollout", "restart", name)
        await kubectl("rollout", "status", name, f"--timeout={PATIENCE_S:g}s")
        restarted = await kubectl("rollout", "history", name, "--revision=4")
        listed = await kubectl("get", "all")

    assert ("partitioned roll out complete" if kind == STATEFUL_SET else "successfully rolled out") in done
    assert (second, first) == ({"db:2"}, {"db:1"})
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert [line.split()[0] for line in undone.splitlines()[2:] if line] == ["2", "3"]
    assert "kubectl.kubernetes.io/restartedAt" in restarted
    assert f"{kind.kind.lower()}.apps/db" in listed


@pytest.mark.controlplane
async def test_kubectl_says_how_far_a_partition_and_a_deletion_come(tmp_path: Path, lab_programs: Path) -> None:
    """A partitioned update is complete for kubectl; it can say nothing of OnDelete; scale is a subresource."""
    partition = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
    cluster = SimulatedCluster(clock=SystemClock())
    async with _served(cluster, lab_programs, tmp_path) as kubectl:
        await kubectl(
            "apply", "--validate=false", "-f", "-", stdin=workload(STATEFUL_SET, "db:1", replicas=3, **partition)
        )
        await kubectl("rollout", "status", "sts/db", f"--timeout={PATIENCE_S:g}s")
        await kubectl("set", "image", "sts/db", "app=db:2")
        partitioned = await kubectl("rollout", "status", "sts/db", f"--timeout={PATIENCE_S:g}s")
        await kubectl("scale", "sts/db", "--replicas=1")
        await kubectl("wait", "sts/db", "--for=jsonpath={.status.replicas}=1", f"--timeout={PATIENCE_S:g}s")
        await kubectl(
            "patch",
            "sts",
            "db",
            "--type=merge",
            "-p",
            '{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}',
        )
        refused = await kubectl("rollout", "status", "sts/db", f"--timeout={PATIENCE_S:g}s", code=1)

    assert "partitioned roll out complete: 1 new pods have been updated" in partitioned
    assert "only available for RollingUpdate" in refused
    assert [pod["metadata"]["name"] for pod in cluster.list(POD)] == ["db-0"]


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_is_closed_however_far_it_has_come(turns: int) -> None:
    """Accepting takes a few turns of the event loop; a connection in the middle of it was forgotten, and its socket left open."""
    cluster = SimulatedCluster()
    async with SimHttp(cluster.api) as http:
        address = urlsplit(http.url)
        client = socket.create_connection((address.hostname, address.port), timeout=1.0)
        for _ in range(turns):
            await asyncio.sleep(0)

    with client:
        try:
            rest = await asyncio.to_thread(client.recv, 1)
        except ConnectionResetError:  # it was not accepted at all
            rest = b""
    assert rest == b""
