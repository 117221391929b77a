"""The whole controller on the simulated cluster: readiness, leadership, an orderly end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.controller.wiring import EXIT_STOPPED, run_controller
from rollouts.errors import SettingsInvalid
from rollouts.objects import ROLLOUT, SERVICE, Manifest
from rollouts.ports import Request
from rollouts.settings import Settings
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.gateway_types import HTTP_ROUTE, gateway_crds
from rollouts.telemetry import Telemetry
from tests import build
from tests.controller.test_the_process_outlives_what_objects_hold import Running, healthy, holder, served, until

pytestmark = pytest.mark.virtual_time(limit_s=1_200)


async def made(cluster: SimulatedCluster) -> None:
    """Rollout cart is made and Healthy."""
    served(cluster, "cart")
    await until(cluster, "cart", healthy)


async def test_an_idle_cluster_is_asked_for_nothing(cluster: SimulatedCluster) -> None:
    """No resync, no polling: after a rollout has settled no request is made for ten minutes."""
    running = Running(cluster)
    await made(cluster)
    await asyncio.sleep(120)  # virtual: counters, delays
    (telemetry,) = running.telemetry
    before = requests(telemetry)
    await asyncio.sleep(300)

    assert requests(telemetry) == before
    assert await running.stopped() == EXIT_STOPPED


def requests(telemetry: Telemetry) -> list[bytes]:
    """The request counters, as Prometheus would read them."""
    lines = telemetry.exposition().splitlines()
    return [line for line in lines if line.startswith(b"rollouts_api_requests_total")]


async def test_of_two_controllers_one_acts_and_the_other_takes_over_when_it_stops(cluster: SimulatedCluster) -> None:
    """A released lease is taken within the retry period; the standby's caches are warm."""
    first = Running(cluster, leader_elect=True, identity="first")
    await asyncio.sleep(1)
    second = Running(cluster, leader_elect=True, identity="second")
    await made(cluster)

    assert holder(cluster) == "first"
    assert b"rollouts_leader 0.0" in second.telemetry[0].exposition()
    (asked,) = requests(second.telemetry[0])  # how the cluster proxies: known before a takeover
    assert b'resource="configmaps"' in asked
    assert b'verb="get"' in asked
    assert await first.stopped() == EXIT_STOPPED

    await asyncio.sleep(3)

    assert holder(cluster) == "second"
    assert b"rollouts_leader 1.0" in second.telemetry[0].exposition()
    assert await second.stopped() == EXIT_STOPPED
    assert holder(cluster) == ""


async def test_the_leader_alone_sends_events_to_flux(cluster: SimulatedCluster) -> None:
    """To an address that nobody may be asked at: each try is counted."""
    flux: dict[str, Any] = {"leader_elect": True, "flux_events": "http://169.254.169.254/"}
    first = Running(cluster, identity="first", **flux)
    await asyncio.sleep(1)
    second = Running(cluster, identity="second", **flux)
    await made(cluster)

    tried = b'rollouts_flux_events_dropped_total{why="NotPermitted"}'
    assert holder(cluster) == "first"
    assert tried in first.telemetry[0].exposition()
    assert b"rollouts_flux_events_dropped_total{" not in second.telemetry[0].exposition()
    assert [await each.stopped() for each in (second, first)] == [EXIT_STOPPED, EXIT_STOPPED]


async def test_a_deleted_rollout_leaves_its_service_as_it_was(cluster: SimulatedCluster) -> None:
    """Nothing of ours stays on a user's object."""
    running = Running(cluster)
    await made(cluster)
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


async def test_each_write_names_its_manager(cluster: SimulatedCluster) -> None:
    """Who reads managedFields sees which fields are the controller's, whatever the connection calls itself."""
    running = Running(cluster)
    await made(cluster)
    for kind in (ROLLOUT, SERVICE):
        manifest = json.loads(cluster.api.answer(Request("GET", kind.path("default", "cart"))).body)
        assert "rollouts" in {entry["manager"] for entry in manifest["metadata"]["managedFields"]}
    await running.stopped()


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"routers": ("smi",)}, "--router"),
        ({"data_planes": ("public",)}, "--data-plane"),
        ({"data_planes": ("istio=prometheus:istio",)}, "--data-plane"),
        ({"prometheus_url": "http://p", "data_plane_ca": Path("/nowhere/ca.crt")}, "--data-plane-ca"),
        ({"settle_times": ("alb",)}, "--settle-time"),
        ({"flux_events": "notification-controller.flux-system"}, "--flux-events"),
    ],
)
async def test_a_router_or_data_plane_that_is_none_is_refused_at_the_start(
    settings: dict[str, Any], flag: str, cluster: SimulatedCluster
) -> None:
    """Not hours later, when the first Rollout needs it."""
    with pytest.raises(SettingsInvalid, match=f"^{flag}: "):
        await run_controller(Settings(leader_elect=False, **settings), api=cluster.api, clock=cluster.clock)


async def test_routes_of_a_rollout_that_went_while_nobody_ran_are_given_back() -> None:
    """A restart at any point ends in the same place; no Rollout names the route's kind any more."""
    backends = [build.backend("cart"), build.backend("cart-canary", 0)]
    marks = {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "gatewayAPI"}
    metadata = {"labels": {"rollouts.dev/managed": "true"}, "annotations": marks}
    spec = {"parentRefs": [{"name": "public"}], "rules": [build.http_rule(*backends)]}
    managed = build.manifest(HTTP_ROUTE, "cart", "default", metadata=metadata, spec=spec)
    async with SimulatedCluster(seed=3, crds=(*crd_manifests(), *gateway_crds())) as cluster:
        cluster.apply(managed)
        running = Running(cluster, routers=("gatewayAPI",))

        def released(seen: Manifest | None) -> bool:
            return seen is not None and not seen["metadata"].get("labels")

        await cluster.until(released, kind=HTTP_ROUTE, namespace="default", name="cart", deadline_s=30)
        assert await running.stopped() == EXIT_STOPPED
        left = cluster.get(HTTP_ROUTE, "default", "cart")
        assert left is not None
        assert not left["metadata"].get("annotations")
