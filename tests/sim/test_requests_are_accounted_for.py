"""Promise: the clients' losses are those that a real cluster would have: none with a drained end, some with a naive one."""

from __future__ import annotations

import asyncio
from collections import Counter

from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.traffic import NO_REVISION, Tally
from tests.sim.manifests import replica_set, service


def _roll(*, pre_stop_s: int, ready_first: bool = True) -> Tally:
    """Replaces two pods of revision r1 by two of r2 under 100 requests/s."""

    async def run() -> Tally:
        async with SimulatedCluster(seed=3) as cluster:
            cluster.apply(service("web"))
            cluster.apply(replica_set("one", replicas=2, app="web", revision="r1", pre_stop_s=pre_stop_s))
            await asyncio.sleep(10)
            clients = cluster.clients(namespace="default", service="web", rate_per_s=100)
            cluster.apply(replica_set("two", replicas=2, app="web", revision="r2", pre_stop_s=pre_stop_s))
            if ready_first:
                await asyncio.sleep(10)
            cluster.apply(replica_set("one", replicas=0, app="web", revision="r1", pre_stop_s=pre_stop_s))
            await asyncio.sleep(20)
            clients.stop()
            await asyncio.sleep(1)
            return clients.tally

    return run_virtual(run())


def test_a_drained_hand_over_loses_nothing() -> None:
    """Ready first, then a preStop sleep longer than every proxy's lag."""
    tally = _roll(pre_stop_s=5)

    assert sum(tally.lost.values()) == 0
    assert set(tally.sent) == {"r1", "r2"}
    assert 2_950 <= sum(tally.sent.values()) <= 3_000


def test_a_naive_end_loses_what_the_proxies_still_send() -> None:
    """Without a preStop sleep the pod is gone before the proxies know; the losses are the old revision's or nobody's.

    The tally by second, of which pictures are drawn, adds up to the same.
    """
    tally = _roll(pre_stop_s=0)
    by_revision: Counter[str] = Counter()
    for (_, revision), count in tally.sent_by_second.items():
        by_revision[revision] += count

    assert sum(tally.lost.values()) > 0
    assert set(tally.lost) <= {"r1", NO_REVISION}
    assert by_revision == tally.sent
    assert sum(tally.lost_by_second.values()) == sum(tally.lost.values())
    assert all(count <= 101 for count in Counter(s for s, _ in tally.sent_by_second.elements()).values())


def test_a_service_without_a_ready_pod_loses_everything() -> None:
    """The old pods go before the new ones are Ready: a whole second without an endpoint shows in the seconds."""
    tally = _roll(pre_stop_s=0, ready_first=False)

    assert tally.lost[NO_REVISION] > 20
