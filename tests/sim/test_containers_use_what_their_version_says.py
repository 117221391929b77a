"""Promise: metrics.k8s.io says what containers use, at rest and for requests, as late as metrics-server says it."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import POD
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.consumption import Consumption
from rollouts.sim.network.resource_metrics import (
    ContainerMissing,
    Down,
    MetricsFault,
    PartialList,
    ReplacedFigures,
    ScrapesFail,
    SimMetricsServer,
)
from rollouts.sim.storage.quantities import amount
from tests.sim.manifests import service, version
from tests.sim.measuring import POD_METRICS, asked, usage

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def metrics(cluster: SimulatedCluster) -> SimMetricsServer:
    """Its scrapes are at full quarters of a minute."""
    return cluster.metrics_server()


async def test_a_version_says_what_its_containers_use(cluster: SimulatedCluster) -> None:
    """By annotations: of one container, or of all; as the API writes quantities."""
    cluster.apply(version("web", use={"idle": "app=0.25,proxy=0.01", "memory": str(64 * 2**20)}))
    await asyncio.sleep(60)

    body = asked(cluster)[1]

    (item,) = body["items"]
    assert (body["kind"], body["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    assert (item["timestamp"], item["window"]) == ("2026-01-01T00:01:00Z", "15s")
    assert item["metadata"]["labels"]["app"] == "web"
    assert item["containers"] == [
        {"name": "app", "usage": {"cpu": "250m", "memory": "64Mi"}},
        {"name": "proxy", "usage": {"cpu": "10m", "memory": "64Mi"}},
    ]


async def test_requests_cost_cpu(cluster: SimulatedCluster) -> None:
    """20 ms for each of 10 requests a second are 0.2 cores."""
    cluster.apply(service("web"))
    cluster.apply(version("web", use={"idle": "0", "request": "app=0.02"}))
    await asyncio.sleep(10)
    cluster.clients(namespace="default", service="web", rate_per_s=10)
    await asyncio.sleep(60)

    used = usage(cluster)["web"]

    assert 0.19 < amount(used["app"]) < 0.21
    assert used["proxy"] == "0"


async def test_a_test_says_what_an_image_uses_from_now_on(cluster: SimulatedCluster) -> None:
    """A version that was modest begins to burn; what was before stays as it was. A limit of the CPU holds."""
    limited = version("limited", image="web:2")
    limited["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "500m"}
    for manifest in (version("stable"), version("canary", image="web:2"), limited):
        cluster.apply(manifest)
    await asyncio.sleep(66)
    cluster.consumptions.use(Consumption(idle_cores=3.0), image="web:2")
    await asyncio.sleep(10)

    at_first = usage(cluster)
    await asyncio.sleep(15)
    later = usage(cluster)

    assert 1.7 < amount(at_first["canary"]["app"]) < 1.9  # 9 of the 15 s
    assert later["canary"] == {"app": "3", "proxy": "1m"}
    assert later["stable"]["app"] == "1m"
    assert later["limited"]["app"] == "500m"


@pytest.mark.parametrize(
    ("created_at_s", "first_known_s"), [(31, 45), (36, 60), (44, 60)], ids=["in time", "too young", "just before"]
)
async def test_a_new_pod_appears_with_a_second_reading(
    cluster: SimulatedCluster, created_at_s: int, first_known_s: int
) -> None:
    """Or with the first one, when it has run for 10 s: its start is a reading of 0."""
    await asyncio.sleep(created_at_s)
    cluster.apply(version("web"))
    await asyncio.sleep(first_known_s - 0.5 - created_at_s)

    before = usage(cluster)
    await asyncio.sleep(1)

    assert (before, list(usage(cluster))) == ({}, ["web"])


async def test_a_pod_that_began_again_is_new(cluster: SimulatedCluster) -> None:
    """A sample never covers two processes."""
    cluster.apply(version("web", use={"idle": "0.5"}))
    await asyncio.sleep(68)
    (pod,) = cluster.list(POD)
    cluster.kubelets.crash(("default", pod["metadata"]["name"]))
    await asyncio.sleep(8)

    fresh = usage(cluster)
    await asyncio.sleep(15)

    assert fresh == {}
    assert usage(cluster)["web"]["app"] == "500m"


async def test_pods_are_selected_and_named(cluster: SimulatedCluster) -> None:
    """By labels, by name, in one namespace or in all; a pod without a sample is not found."""
    cluster.apply(version("stable"))
    cluster.apply(version("canary", revision="r2"))
    await asyncio.sleep(60)
    (name,) = (pod["metadata"]["name"] for pod in cluster.list(POD) if pod["metadata"]["labels"]["set"] == "canary")

    one = asked(cluster, f"{POD_METRICS}/{name}")
    everywhere = asked(cluster, "/apis/metrics.k8s.io/v1beta1/pods")
    nobody = asked(cluster, f"{POD_METRICS}/nobody")

    assert list(usage(cluster, labelSelector="rollouts.dev/revision=r2")) == ["canary"]
    assert usage(cluster, labelSelector="rollouts.dev/revision=r3") == {}
    assert (one[0], one[1]["kind"], one[1]["metadata"]["name"]) == (200, "PodMetrics", name)
    assert [item["metadata"]["name"].partition("-")[0] for item in everywhere[1]["items"]] == ["canary", "stable"]
    assert (nobody[0], nobody[1]["reason"]) == (404, "NotFound")


async def test_discovery_shows_the_group_while_it_is_registered(
    cluster: SimulatedCluster, metrics: SimMetricsServer
) -> None:
    """The doctor asks for it. A group that is down is still listed."""

    def listed() -> bool:
        return "metrics.k8s.io" in [group["name"] for group in asked(cluster, "/apis")[1]["groups"]]

    types = asked(cluster, "/apis/metrics.k8s.io/v1beta1")
    metrics.faults.begin(Down())
    down = listed(), asked(cluster), asked(cluster, "/apis/metrics.k8s.io")[0]
    metrics.remove()
    gone = listed(), asked(cluster)[0], asked(cluster, "/apis/metrics.k8s.io")[0]
    metrics.start()

    assert [each["name"] for each in types[1]["resources"]] == ["pods"]
    assert down == (True, (503, "service unavailable\n"), 200)
    assert gone == (False, 404, 404)
    assert listed()


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (PartialList(nth=2), {"a": {"app": "100m", "proxy": "100m"}}),
        (ContainerMissing("app"), {"a": {"proxy": "100m"}, "b": {"proxy": "100m"}}),
        (ReplacedFigures("cpu", "-5m"), {"a": {"app": "-5m", "proxy": "-5m"}, "b": {"app": "-5m", "proxy": "-5m"}}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_answers_can_be_wrong(
    cluster: SimulatedCluster, metrics: SimMetricsServer, fault: MetricsFault, seen: dict[str, dict[str, str]]
) -> None:
    """For a time, and without a word of it."""
    for name in ("a", "b"):
        cluster.apply(version(name, use={"idle": "0.1"}))
    await asyncio.sleep(60)
    right = usage(cluster)
    metrics.faults.begin(fault, for_s=10)

    wrong = usage(cluster)
    await asyncio.sleep(10)

    assert (wrong, usage(cluster)) == (seen, right)


async def test_samples_grow_old_while_nothing_is_scraped(cluster: SimulatedCluster, metrics: SimMetricsServer) -> None:
    """The list is as long as ever; only the timestamps tell."""
    cluster.apply(version("web"))
    await asyncio.sleep(61)
    metrics.faults.begin(ScrapesFail(), for_s=100)
    await asyncio.sleep(90)
    stale = asked(cluster)[1]["items"][0]
    await asyncio.sleep(30)

    fresh = asked(cluster)[1]["items"][0]

    assert (stale["timestamp"], stale["window"]) == ("2026-01-01T00:01:00Z", "15s")
    assert (fresh["timestamp"], fresh["window"]) == ("2026-01-01T00:03:00Z", "15s")
