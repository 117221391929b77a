"""The whole controller on the simulated cluster: readiness, leadership, an orderly end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollouts.api.schema import crd_manifests
from rollouts.controller.health.server import HealthServer
from rollouts.controller.wiring import EXIT_LEASE_LOST, EXIT_STOPPED, run_controller
from rollouts.errors import SettingsInvalid
from rollouts.objects import LEASE, ROLLOUT, SERVICE, Manifest
from rollouts.ports import JSON, Request
from rollouts.settings import Address, Settings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.gateway_types import HTTP_ROUTE, gateway_crds
from rollouts.telemetry import Telemetry

SPEC = {
    "replicas": 2,
    "selector": {"matchLabels": {"app": "cart"}},
    "strategy": {"blueGreen": {"activeService": "cart"}},
    "template": {"metadata": {"labels": {"app": "cart"}}, "spec": {"containers": [{"name": "app", "image": "cart:1"}]}},
}
CART: Manifest = {
    "apiVersion": "rollouts.dev/v1alpha1",
    "kind": "Rollout",
    "metadata": {"name": "cart", "namespace": "default"},
    "spec": SPEC,
}
WEB: Manifest = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "cart", "namespace": "default"},
    "spec": {"selector": {"app": "cart"}, "ports": [{"port": 80}]},
}


class Running:
    """A controller in a task."""

    def __init__(self, cluster: SimulatedCluster, **settings: Any) -> None:
        self.stop = asyncio.Event()
        self.ready: list[Telemetry] = []
        self.task = asyncio.create_task(
            run_controller(
                Settings(**settings),
                api=cluster.api,
                clock=cluster.clock,
                rng=random.Random(1),  # noqa: S311 - jitter
                stop=self.stop,
                on_ready=self.ready.append,
            )
        )

    async def stopped(self) -> int:
        """Stops it in order; the exit code."""
        self.stop.set()
        return await self.task


def on_a_cluster(scenario: Callable[[SimulatedCluster], Awaitable[None]]) -> None:
    """Plays a scenario in virtual time."""

    async def main() -> None:
        async with SimulatedCluster(seed=3, crds=crd_manifests()) as cluster:
            await scenario(cluster)

    run_virtual(main(), limit_s=600)


async def healthy(cluster: SimulatedCluster) -> None:
    """Waits until Rollout cart is Healthy."""

    def holds(seen: Manifest | None) -> bool:
        return seen is not None and seen.get("status", {}).get("phase") == "Healthy"

    await cluster.until(holds, kind=ROLLOUT, namespace="default", name="cart", deadline_s=60)


def holder(cluster: SimulatedCluster) -> str | None:
    """Who holds the Lease."""
    lease = cluster.get(LEASE, "default", "rollouts-controller")
    return lease["spec"]["holderIdentity"] if lease else None


def test_an_idle_cluster_is_asked_for_nothing() -> None:
    """No resync, no polling: after a rollout has settled no request is made for ten minutes."""

    async def scenario(cluster: SimulatedCluster) -> None:
        running = Running(cluster, leader_elect=False)
        cluster.apply(WEB)
        cluster.apply(CART)
        await healthy(cluster)
        await asyncio.sleep(120)  # virtual: counters, delays
        (telemetry,) = running.ready
        before = requests(telemetry)
        await asyncio.sleep(300)

        assert requests(telemetry) == before
        assert await running.stopped() == EXIT_STOPPED

    on_a_cluster(scenario)


def requests(telemetry: Telemetry) -> list[bytes]:
    """The request counters, as Prometheus would read them."""
    lines = telemetry.exposition().splitlines()
    return [line for line in lines if line.startswith(b"rollouts_api_requests_total")]


def test_of_two_controllers_one_acts_and_the_other_takes_over_when_it_stops() -> None:
    """A released lease is taken within the retry period; the standby's caches are warm."""

    async def scenario(cluster: SimulatedCluster) -> None:
        first = Running(cluster, identity="first")
        await asyncio.sleep(1)
        second = Running(cluster, identity="second")
        cluster.apply(WEB)
        cluster.apply(CART)
        await healthy(cluster)

        assert holder(cluster) == "first"
        assert b"rollouts_leader 0.0" in second.ready[0].exposition()
        (asked,) = requests(second.ready[0])  # how the cluster proxies: known before a takeover
        assert b'resource="configmaps"' in asked
        assert b'verb="get"' in asked
        assert await first.stopped() == EXIT_STOPPED

        await asyncio.sleep(3)

        assert holder(cluster) == "second"
        assert b"rollouts_leader 1.0" in second.ready[0].exposition()
        assert await second.stopped() == EXIT_STOPPED
        assert holder(cluster) == ""

    on_a_cluster(scenario)


def test_a_controller_that_loses_its_lease_ends_with_an_error() -> None:
    """Kubernetes starts it again with fresh caches; going on would be a second leader."""

    async def scenario(cluster: SimulatedCluster) -> None:
        running = Running(cluster, identity="first")
        await asyncio.sleep(5)
        lease = cluster.get(LEASE, "default", "rollouts-controller")
        assert lease is not None
        stolen = lease | {"spec": lease["spec"] | {"holderIdentity": "thief"}}
        body = msgspec.json.encode(stolen)
        path = LEASE.path("default", "rollouts-controller")
        assert cluster.api.answer(Request("PUT", path, {}, body, JSON)).status == 200

        async with asyncio.timeout(20):
            assert await running.task == EXIT_LEASE_LOST

    on_a_cluster(scenario)


def test_a_deleted_rollout_leaves_its_service_as_it_was() -> None:
    """Nothing of ours stays on a user's object."""

    async def scenario(cluster: SimulatedCluster) -> None:
        running = Running(cluster, leader_elect=False)
        cluster.apply(WEB)
        cluster.apply(CART)
        await healthy(cluster)
        managed = cluster.get(SERVICE, "default", "cart")
        assert managed is not None
        assert "rollouts.dev/revision" in managed["spec"]["selector"]

        cluster.api.answer(Request("DELETE", ROLLOUT.path("default", "cart")))
        await asyncio.sleep(5)
        given_back = cluster.get(SERVICE, "default", "cart")
        assert given_back is not None
        assert given_back["spec"]["selector"] == {"app": "cart"}
        assert "rollouts.dev/managed" not in given_back["metadata"].get("labels", {})
        await running.stopped()

    on_a_cluster(scenario)


def test_health_is_served_over_http() -> None:
    """What the kubelet and Prometheus ask for, over a real socket."""
    asyncio.run(_health_is_served())


async def _health_is_served() -> None:
    reasons = ["not listed yet: rollouts"]
    server = HealthServer(not_ready=lambda: reasons[0], exposition=Telemetry().exposition)

    async def get(port: int, line: str) -> bytes:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    async with server.listening(Address("127.0.0.1", 0)) as port:
        assert (await get(port, "GET /healthz")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"503" in (await get(port, "GET /readyz")).split(b"\r\n")[0]
        reasons[0] = ""
        assert (await get(port, "GET /readyz?verbose")).endswith(b"\r\n\r\nok\n")
        assert b"rollouts_leader" in await get(port, "GET /metrics")
        assert b"404" in (await get(port, "GET /secret")).split(b"\r\n")[0]
        assert b"405" in (await get(port, "POST /metrics")).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"routers": ("smi",)}, "--router"),
        ({"data_planes": ("public",)}, "--data-plane"),
        ({"data_planes": ("istio=prometheus:istio",)}, "--data-plane"),
        ({"prometheus_url": "http://p", "data_plane_ca": Path("/nowhere/ca.crt")}, "--data-plane-ca"),
        ({"settle_times": ("alb",)}, "--settle-time"),
    ],
)
def test_a_router_or_data_plane_that_is_none_is_refused_at_the_start(settings: dict[str, Any], flag: str) -> None:
    """Not hours later, when the first Rollout needs it."""

    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(SettingsInvalid, match=f"^{flag}: "):
            await run_controller(Settings(leader_elect=False, **settings), api=cluster.api, clock=cluster.clock)

    on_a_cluster(scenario)


def test_routes_of_a_rollout_that_went_while_nobody_ran_are_given_back() -> None:
    """A restart at any point ends in the same place; no Rollout names the route's kind any more."""
    backends = [{"name": "cart", "port": 80}, {"name": "cart-canary", "port": 80, "weight": 0}]
    users: Manifest = {
        "apiVersion": HTTP_ROUTE.api_version,
        "kind": HTTP_ROUTE.kind,
        "metadata": {"name": "cart", "namespace": "default"},
        "spec": {"parentRefs": [{"name": "public"}], "rules": [{"backendRefs": backends}]},
    }
    marks = {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "gatewayAPI"}
    managed = {
        **users,
        "metadata": {**users["metadata"], "labels": {"rollouts.dev/managed": "true"}, "annotations": marks},
    }

    async def main() -> None:
        async with SimulatedCluster(seed=3, crds=(*crd_manifests(), *gateway_crds())) as cluster:
            cluster.apply(managed)
            running = Running(cluster, leader_elect=False, routers=("gatewayAPI",))

            def released(seen: Manifest | None) -> bool:
                return seen is not None and not seen["metadata"].get("labels")

            await cluster.until(released, kind=HTTP_ROUTE, namespace="default", name="cart", deadline_s=30)
            assert await running.stopped() == EXIT_STOPPED
            left = cluster.get(HTTP_ROUTE, "default", "cart")
            assert left is not None
            assert not left["metadata"].get("annotations")

    run_virtual(main(), limit_s=600)
