"""Promise: the lag of kube-proxies is that of the slowest node, or not known; switched Services do not make it longer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from rollouts.probes.kube_proxy import METRICS_MAX_BYTES, NODES_MAX, PROGRAMMING, SYNC, learnt_lag_s, sync_lag_s
from tests.hostile.work import lines_of
from tests.probes.servers import raw, refused_port, serving

BOUNDS = ("0.25", "0.5", "1", "2", "5", "60", "+Inf")


def _metrics(changes: Mapping[str, int], syncs: Mapping[str, int] | None = None, family: str = "IPv4") -> bytes:
    """As kube-proxy 1.36 writes them; so many observations in each bucket."""
    lines = ["# HELP kubeproxy_sync_proxy_rules_duration_seconds [ALPHA] SyncProxyRules latency in seconds"]
    for name, counts in ((PROGRAMMING, changes), (SYNC, syncs or {"0.25": 100})):
        total = 0
        for bound in BOUNDS:
            total += counts.get(bound, 0)
            lines.append(f'{name}_bucket{{ip_family="{family}",le="{bound}"}} {total}')
        lines += [f'{name}_sum{{ip_family="{family}"}} 1.5e+01', f'{name}_count{{ip_family="{family}"}} {total}']
    return "\n".join([*lines, 'kubeproxy_sync_full_proxy_rules_duration_seconds_bucket{le="+Inf"} 9', ""]).encode()


@pytest.mark.parametrize("switched", [3, 100], ids=["as measured", "every Rollout has one pod"])
def test_a_service_that_is_switched_to_pods_long_ready_is_no_slow_proxy(switched: int) -> None:
    """Its change is counted from when they became ready: of 84 changes of four updates three took "16, 22 and 53 s".

    Of one pod's update it is one change in three: the new pod is ready, the Service switched, the old one gone. Pods slept for
    twice that number before they ended, longer with every update. Here the slowest real change took 2 s.
    """
    learnt_s = sync_lag_s([_metrics({"1": 150, "2": 50, "60": switched})], min_sync_period_s=1.0)

    assert learnt_s is not None
    assert learnt_s <= 4.0


RECORDED = (Path(__file__).parent / "recorded" / "kube-proxy.txt").read_bytes()
"""From kube-proxy 1.36 on a machine with fifteen times the work that it could do: 449 of 452 changes within 14 s. preStop is
twice the lag, so it covers them."""
AT_ONCE = _metrics({"0.25": 1000}, {"0.5": 100})  # each change came alone; the next may come in twos
FAST, SLOW = _metrics({"0.25": 10_000}), _metrics({"5": 60})


@pytest.mark.parametrize(
    ("answers", "period_s", "lag_s"),
    [
        pytest.param([_metrics({"0.25": 250, "2": 350, "5": 400})], 1.0, 4.0, id="twice what six of ten changes took"),
        pytest.param([_metrics({"0.25": 250, "2": 340, "5": 410})], 1.0, 10.0, id="too long rather than too short"),
        pytest.param([RECORDED], 1.0, 8.0, id="a real kube-proxy"),
        pytest.param([RECORDED], 20.0, 20.256, id="a real kube-proxy, by its period"),
        pytest.param([AT_ONCE], 1.0, 1.5, id="what a second change within the period waits"),
        pytest.param([AT_ONCE], 10.0, 10.5, id="and within a longer one"),
        pytest.param([*[FAST] * 10, SLOW], 1.0, 10.0, id="the slowest node counts"),
        pytest.param([_metrics({"+Inf": 300})], 1.0, 120.0, id="beyond the last bucket: at least that"),
        pytest.param([_metrics({"0.25": 150}) + _metrics({"2": 150}, family="IPv6")], 0.0, 4.0, id="both families"),
        *(
            pytest.param(answers, 1.0, None, id="too few changes teach nothing")
            for answers in ([], [b""], [b"<html>"], [_metrics({"0.25": 199})], [_metrics({})], [PROGRAMMING.encode()])
        ),
    ],
)
def test_the_lag_is_known_from_metrics(answers: list[bytes], period_s: float, lag_s: float | None) -> None:
    """Of a cluster that has just started it is not: the safe number stays."""
    assert sync_lag_s(answers, min_sync_period_s=period_s) == lag_s


async def test_nodes_are_asked_at_their_metrics_address() -> None:
    """Each of them, on the port that the configuration names."""
    async with (
        serving({"/metrics": raw(_metrics({"0.5": 300}))}) as one,
        serving({"/metrics": raw(_metrics({"2": 300}))}, host="127.0.0.2", port=one.port) as two,
    ):
        addresses = ["127.0.0.1", "127.0.0.2"]
        learnt_s = await learnt_lag_s(addresses, port=one.port, min_sync_period_s=1.0, deadline_s=5.0)

    assert learnt_s == 4.0
    assert (one.asked, two.asked) == (["/metrics"], ["/metrics"])


async def test_a_node_that_does_not_answer_may_be_the_slowest() -> None:
    """Nothing is learnt then, and the safe number stays."""
    async with serving({"/metrics": raw(_metrics({"0.5": 300}))}) as one:
        both = ["127.0.0.1", "127.0.0.3"]
        assert await learnt_lag_s(both, port=one.port, min_sync_period_s=1.0, deadline_s=5.0) is None
    assert await learnt_lag_s(["127.0.0.1"], port=await refused_port(), min_sync_period_s=1.0, deadline_s=5.0) is None
    assert await learnt_lag_s([], port=1, min_sync_period_s=1.0, deadline_s=5.0) is None


async def test_of_many_nodes_some_are_asked() -> None:
    """A thousand nodes are not scraped by every controller, every hour."""
    async with serving({"/metrics": raw(_metrics({"0.5": 300}))}) as one:
        addresses = ["127.0.0.1"] * (10 * NODES_MAX + 1)
        assert await learnt_lag_s(addresses, port=one.port, min_sync_period_s=1.0, deadline_s=5.0) == 1.25

    assert 20 <= len(one.asked) <= NODES_MAX


def test_what_nodes_answer_holds_up_nobody() -> None:
    """32 nodes answer 100 KiB each, all at once; and one may answer what it likes."""
    many = _metrics({"1": 1_000}) + b"other_metric 1\n" * 40_000

    async def learnt_s(answer: bytes) -> float | None:
        async with serving({"/metrics": raw(answer)}) as one:
            return await learnt_lag_s(["127.0.0.1"], port=one.port, min_sync_period_s=1.0, deadline_s=60.0)

    found: list[float | None] = []

    assert lines_of(lambda: found.append(asyncio.run(learnt_s(many)))) < 2_000
    found.append(asyncio.run(learnt_s(many + b"\n" * METRICS_MAX_BYTES)))
    assert found == [2.0, None]
