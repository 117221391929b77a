"""Promise: the simulated cluster can be served on a loopback port, kubectl works on it, and no connection stays open."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from rollouts.clock import SystemClock
from rollouts.objects import REPLICA_SET, SERVICE
from rollouts.ports import METADATA
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.cluster import SimulatedCluster
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
        async with asyncio.timeout(5):
            event = json.loads(await watch.content.readline())
        watch.close()

    assert (made.status, missing.status, refused.status) == (201, 404, 406)
    assert body["metadata"]["managedFields"][0]["manager"] == "tester"
    assert kinds == ["PartialObjectMetadata", "ReplicaSet", "ReplicaSet"]
    assert (event["type"], event["object"]["kind"]) == ("MODIFIED", "PartialObjectMetadata")


@pytest.mark.controlplane
async def test_kubectl_applies_scales_annotates_and_deletes(tmp_path: Path, lab_programs: Path) -> None:
    """What users do to a real cluster, they do to the demo's."""
    async with SimulatedCluster(clock=SystemClock()) as cluster, SimHttp(cluster.api) as http:
        kubeconfig = http.write_kubeconfig(tmp_path / "kubeconfig")

        async def kubectl(*arguments: str, stdin: str = "") -> str:
            process = await asyncio.create_subprocess_exec(
                lab_programs / "kubectl",
                *("--kubeconfig", str(kubeconfig), "--cache-dir", str(tmp_path / "cache"), *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(30):
                out, err = await process.communicate(stdin.encode())
            assert process.returncode == 0, (arguments, err.decode())
            return out.decode()

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
        await kubectl("wait", "rs/web", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=20s")
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
