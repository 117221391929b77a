"""Promise: what the simulated Prometheus says is what clients met: errors and latencies of each version, scraped now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rollouts.core.model.analysis import AnalysisPhase
from rollouts.objects import POD
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.applications import ERROR_PERCENT, LATENCY_SECONDS, Behaviour
from rollouts.sim.network.gateway_types import gateway_crds
from rollouts.sim.network.prometheus.faults import ScrapesStop
from tests.sim.manifests import GATEWAY_NAME, replica_set, service, split
from tests.sim.measuring import good_share, measure, value_of

pytestmark = pytest.mark.virtual_time
P95 = 'histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket{service="%s"}[1m])))'


@asynccontextmanager
async def a_shop(**canary: str) -> AsyncIterator[SimulatedCluster]:
    """Two versions with a Service each, one pod each; the canary's pods have these annotations. A Prometheus watches both."""
    async with SimulatedCluster(seed=5, crds=gateway_crds()) as cluster:
        for name, revision, annotations in (("stable", "r1", {}), ("canary", "r2", canary)):
            cluster.apply(service(name))
            image = f"web:{revision}"
            cluster.apply(replica_set(name, replicas=1, image=image, revision=revision, annotations=annotations))
        await asyncio.sleep(10)
        cluster.prometheus()
        yield cluster


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Both versions are good."""
    async with a_shop() as found:
        yield found


async def test_errors_of_a_version_are_counted_and_no_request_is_lost() -> None:
    """5 % errors: the application fails, the network does not, and the other version is as good as ever."""
    async with a_shop(**{ERROR_PERCENT: "5"}) as cluster:
        canary = cluster.clients(namespace="default", service="canary", rate_per_s=50)
        stable = cluster.clients(namespace="default", service="stable", rate_per_s=50)
        await asyncio.sleep(300)

        (bad,) = await value_of(cluster, good_share(service="canary"))
        good = await measure(cluster, good_share(service="stable"), "result[0] >= 0.99")

        share = canary.tally.failed["r2"] / canary.tally.sent["r2"]
        assert 0.04 < share < 0.06
        assert 0.93 < bad < 0.97
        assert (good.phase, good.value) == (AnalysisPhase.SUCCESSFUL, "[1]")
        assert (canary.tally.lost.total(), stable.tally.failed.total()) == (0, 0)


async def test_every_answer_is_counted_once() -> None:
    """When clients have stopped, the last scrape says exactly what they saw, by status."""
    async with a_shop(**{ERROR_PERCENT: "10"}) as cluster:
        clients = cluster.clients(namespace="default", service="canary", rate_per_s=50)
        await asyncio.sleep(60)
        clients.stop()
        await asyncio.sleep(30)

        sent, failed = clients.tally.sent["r2"], clients.tally.failed["r2"]
        assert await value_of(cluster, 'sum(http_requests_total{code="500"})') == [failed]
        assert await value_of(cluster, "sum(http_requests_total)") == [sent]
        assert await value_of(cluster, "sum(http_request_duration_seconds_count)") == [sent]
        assert await value_of(cluster, 'http_request_duration_seconds_bucket{service="canary",le="+Inf"}') == [sent]


async def test_a_version_has_its_own_latency() -> None:
    """Clients wait as long as the version takes, and its histogram says so."""
    async with a_shop(**{LATENCY_SECONDS: "0.3-0.4"}) as cluster:
        cluster.clients(namespace="default", service="canary", rate_per_s=20)
        cluster.clients(namespace="default", service="stable", rate_per_s=20)
        await asyncio.sleep(120)

        (slow,), (quick,) = [await value_of(cluster, P95 % name) for name in ("canary", "stable")]
        (mean,) = await value_of(
            cluster,
            'rate(http_request_duration_seconds_sum{service="canary"}[1m])'
            ' / rate(http_request_duration_seconds_count{service="canary"}[1m])',
        )

        assert 0.25 < slow <= 0.5
        assert quick <= 0.025
        assert 0.33 < mean < 0.37


async def test_a_version_may_become_bad_while_it_runs(cluster: SimulatedCluster) -> None:
    """By image, by revision and by label; what was said last counts."""
    clients = cluster.clients(namespace="default", service="canary", rate_per_s=20)
    seen = []
    for names in ({"image": "web:r1"}, {"image": "web:r2"}, {"revision": "r2"}, {"labels": {"set": "canary"}}):
        ratio = 1.0 if names != {"revision": "r2"} else 0.0
        cluster.applications.behave(Behaviour(error_ratio=ratio), **names)
        before = clients.tally.failed.total()
        await asyncio.sleep(10)
        seen.append(clients.tally.failed.total() > before)

    assert seen == [False, True, False, True]


async def test_requests_through_a_gateway_count_for_the_pod_that_answered() -> None:
    """A canary with a quarter of the traffic has a quarter of the counted requests."""
    async with a_shop(**{ERROR_PERCENT: "100"}) as cluster:
        gateway = cluster.gateway(namespace="default", name=GATEWAY_NAME)
        cluster.apply(split(stable=75, canary=25))
        await asyncio.sleep(1)
        clients = cluster.gateway_clients(gateway, rate_per_s=40)
        await asyncio.sleep(100)
        clients.stop()
        await asyncio.sleep(20)

        (canary,) = await value_of(cluster, 'sum(http_requests_total{rollouts_dev_revision="r2"})')
        (both,) = await value_of(cluster, "sum(http_requests_total)")
        assert both == clients.tally.sent.total()
        assert canary / both == pytest.approx(0.25, abs=0.01)
        assert clients.tally.failed["r2"] == canary


async def test_a_target_is_scraped_once_in_each_interval(cluster: SimulatedCluster) -> None:
    """Four samples in a minute, so a window shorter than two intervals has no rate: a mistake that people make."""
    cluster.clients(namespace="default", service="canary", rate_per_s=5)
    await asyncio.sleep(120)
    counted = 'count_over_time(http_requests_total{service="canary"}[1m])'

    assert await value_of(cluster, counted) == [4]
    assert await value_of(cluster, 'rate(http_requests_total{service="canary"}[15s])') == []
    assert await value_of(cluster, 'up{service="canary"}') == [1]


async def test_series_of_a_pod_that_has_gone_end(cluster: SimulatedCluster) -> None:
    """Not at once: it might come back. Then they are stale, five minutes before the lookback would forget them."""
    clients = cluster.clients(namespace="default", service="canary", rate_per_s=5)
    await asyncio.sleep(60)
    clients.stop()
    cluster.apply(replica_set("canary", replicas=0, image="web:r2", revision="r2"))
    seen = []
    for _ in range(5):
        seen.append(len(await value_of(cluster, 'http_requests_total{service="canary"}')))
        await asyncio.sleep(15)

    assert seen[0] == 1
    assert seen[-1] == 0
    assert len(await value_of(cluster, 'last_over_time(http_requests_total{service="canary"}[5m])')) == 1


async def test_a_pod_that_cannot_be_scraped_is_down_and_its_series_end_at_once(cluster: SimulatedCluster) -> None:
    """A target that is still there and does not answer: `up` says 0."""
    cluster.clients(namespace="default", service="canary", rate_per_s=5)
    await asyncio.sleep(60)
    (pod,) = [each for each in cluster.list(POD) if each["metadata"]["labels"]["set"] == "canary"]
    for wait_s in (5, 15, 16):  # the third time the kubelet waits for longer than a scrape's interval
        cluster.kubelets.crash(("default", pod["metadata"]["name"]))
        await asyncio.sleep(wait_s)

    assert await value_of(cluster, 'up{service="canary"}') == [0]
    assert await value_of(cluster, 'http_requests_total{service="canary"}') == []


async def test_a_process_that_begins_again_counts_from_zero(cluster: SimulatedCluster) -> None:
    """A rate must not fall below 0 for it, and an increase must not jump."""
    clients = cluster.clients(namespace="default", service="canary", rate_per_s=10)
    await asyncio.sleep(120)
    (pod,) = [each for each in cluster.list(POD) if each["metadata"]["labels"]["set"] == "canary"]
    (before,) = await value_of(cluster, 'sum(http_requests_total{service="canary"})')
    cluster.kubelets.crash(("default", pod["metadata"]["name"]))
    await asyncio.sleep(40)

    (after,) = await value_of(cluster, 'sum(http_requests_total{service="canary"})')
    (rate,) = await value_of(cluster, 'sum(rate(http_requests_total{service="canary"}[2m]))')
    assert after < before
    assert 7 < rate <= 11
    assert clients.tally.sent.total() > before


async def test_values_are_remembered_for_five_minutes_when_nothing_is_scraped(cluster: SimulatedCluster) -> None:
    """An instant query goes on to answer, with numbers of the past; a rate over a short window has none soon."""
    cluster.clients(namespace="default", service="canary", rate_per_s=5)
    (server,) = cluster.metrics.servers
    await asyncio.sleep(60)
    server.faults.begin(ScrapesStop())
    await asyncio.sleep(61)
    count = 'sum(http_requests_total{service="canary"})'
    remembered, rate = await value_of(cluster, count), await value_of(cluster, good_share(service="canary"))
    await asyncio.sleep(240)

    assert (len(remembered), rate) == (1, [])
    assert await value_of(cluster, count) == []

    server.faults.end()
    await asyncio.sleep(31)
    assert len(await value_of(cluster, count)) == 1


def test_the_same_seed_gives_the_same_numbers() -> None:
    """A failure that was seen once must be seen again."""

    async def measured() -> list[float]:
        async with a_shop(**{ERROR_PERCENT: "30"}) as cluster:
            cluster.clients(namespace="default", service="canary", rate_per_s=20)
            await asyncio.sleep(90)
            return await value_of(cluster, good_share(service="canary"))

    first, second = (run_virtual(measured()) for _ in range(2))

    assert first == second
    assert 0.5 < first[0] < 0.9
