"""Promise: with a metrics-server and an autoscaler, a workload grows with its traffic, and shrinks later."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import AUTOSCALER, REPLICA_SET
from rollouts.sim.actors.autoscaling.spec import AutoscalerFlags
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.resource_metrics import Down
from tests.sim.manifests import autoscaler, service, stored, version

pytestmark = pytest.mark.virtual_time
BUSY = {"idle": "0", "request": "app=0.01"}
QUICK = AutoscalerFlags(cpu_initialization_s=30.0, downscale_stabilization_s=60.0)


def reasons(cluster: SimulatedCluster) -> dict[str, str]:
    return {
        each["type"]: f"{each['status']} {each['reason']}"
        for each in stored(cluster, AUTOSCALER, "web")["status"]["conditions"]
    }


async def test_it_grows_to_what_the_traffic_needs_and_shrinks_after_the_window(cluster: SimulatedCluster) -> None:
    """At 50 % of 0.1 cores 30 requests a second need six pods; then the traffic ends, and one is enough, but not at once."""
    cluster.metrics_server()
    cluster.autoscalers(QUICK)
    for each in (service("web"), version("web", use=BUSY), autoscaler("web")):
        cluster.apply(each)
    await asyncio.sleep(5)
    clients = cluster.clients(namespace="default", service="web", rate_per_s=30)
    await asyncio.sleep(300)

    assert stored(cluster, REPLICA_SET, "web")["spec"]["replicas"] == 6
    assert stored(cluster, AUTOSCALER, "web")["status"]["desiredReplicas"] == 6
    assert reasons(cluster)["ScalingActive"] == "True ValidMetricFound"
    assert clients.tally.lost.total() == 0

    clients.stop()
    await asyncio.sleep(45)
    assert stored(cluster, REPLICA_SET, "web")["spec"]["replicas"] == 6
    assert reasons(cluster)["AbleToScale"] == "True ScaleDownStabilized"
    await asyncio.sleep(90)
    assert stored(cluster, REPLICA_SET, "web")["spec"]["replicas"] == 1
    assert reasons(cluster)["ScalingLimited"] == "True TooFewReplicas"


async def test_without_metrics_nothing_is_scaled_and_the_reason_is_told(cluster: SimulatedCluster) -> None:
    """Down for a while: the size stays, and the autoscaler goes on when the API is back."""
    cluster.autoscalers(QUICK)
    metrics = cluster.metrics_server()
    metrics.faults.begin(Down(), for_s=200)
    cluster.apply(version("web", replicas=2, use={"idle": "app=0.1"}))
    cluster.apply(autoscaler("web", most=4))
    await asyncio.sleep(190)
    down = stored(cluster, REPLICA_SET, "web")["spec"]["replicas"], reasons(cluster)
    await asyncio.sleep(60)

    assert down == (
        2,
        {"AbleToScale": "True SucceededGetScale", "ScalingActive": "False FailedGetContainerResourceMetric"},
    )
    assert stored(cluster, REPLICA_SET, "web")["spec"]["replicas"] == 4


async def test_nobody_asks_for_metrics_without_an_autoscaler(cluster: SimulatedCluster) -> None:
    """Other worlds pay nothing for the controller."""
    cluster.autoscalers(QUICK)
    metrics = cluster.metrics_server()
    cluster.apply(version("web"))
    await asyncio.sleep(120)
    before = len(metrics.requests)
    cluster.apply(autoscaler("web"))
    await asyncio.sleep(61)

    assert (before, len(metrics.requests)) == (0, 4)
