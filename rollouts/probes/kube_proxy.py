"""How long kube-proxies take to apply a change, learnt from their own histograms, if their metrics can be read.

`kubeproxy_network_programming_duration_seconds` counts from a pod's change to the rules of a node;
`kubeproxy_sync_proxy_rules_duration_seconds` counts one sync. A second change within `minSyncPeriod` waits for the next sync, so
the lag is at least that period and one sync, however fast the first changes were.

The first histogram counts from when a pod became ready, even if a Service changed: a Service that is switched to pods which have
been ready for an hour makes an observation of an hour. Measured: three of the 84 observations of four updates were such, of 16,
22 and 53 s. In an update of one pod it is one in three (the new pod is ready, the Service switched, the old pod gone), so only
the observations below that part show how quick proxies are; the slowest changes cannot be distinguished from switched Services.

kube-proxy binds its metrics to the node's loopback by default; `metricsBindAddress: 0.0.0.0` lets a Pod read them.
Source: kubernetes v1.36 `pkg/proxy/metrics`, `pkg/proxy/runner`; `k8s.io/endpointslice/trigger` for what a change counts from.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rollouts.errors import Unanswered

PROGRAMMING = "kubeproxy_network_programming_duration_seconds"
SYNC = "kubeproxy_sync_proxy_rules_duration_seconds"
_HISTOGRAMS = (PROGRAMMING.encode(), SYNC.encode())
METRICS_PATH = "/metrics"

METRICS_MAX_BYTES = 1 << 20  # of one node, which answers about 100 KiB
NODES_MAX = 32  # asked; more would add little, and each answers about 100 KiB
NODES_AT_ONCE = 4
NODE_SAMPLES_MIN = 50
SAMPLES_MIN = 200
"""Fewer changes may all be from one update."""

CHANGES_QUANTILE = 0.6
"""Below two thirds, because that part is changes of pods, even if each Rollout has one pod and its Services are switched."""
CHANGES_FACTOR = 2.0
"""On a kube-proxy with fifteen times the work that it could do, 60 of 100 changes took 4 s and 99 of 100 took 14 s; preStop,
which is twice the lag, covers those (tests/probes/recorded/kube-proxy.txt)."""
SYNCS_QUANTILE = 0.99

_BUCKET = re.compile(rb'^(\w+)_bucket\{(?:[^}]*,)?le="([^"]+)"[^}]*\} ([0-9.e+]+)')


@dataclass
class Histogram:
    """Cumulative observations by the upper bound of their bucket, in seconds."""

    buckets: dict[float, float] = field(default_factory=dict)

    @property
    def count(self) -> float:
        """The number of all observations."""
        return self.buckets.get(math.inf, 0.0)

    def add(self, other: Histogram) -> None:
        """Adds the observations of another histogram."""
        for bound_s, count in other.buckets.items():
            self.buckets[bound_s] = self.buckets.get(bound_s, 0.0) + count

    def quantile_s(self, quantile: float) -> float:
        """The upper bound of the quantile's bucket, so too long rather than too short; 0 without observations."""
        bounds = sorted(self.buckets)
        rank = quantile * self.count
        within = [bound for bound in bounds if self.buckets[bound] >= rank]
        if not self.count or not within:
            return 0.0
        finite = [bound for bound in bounds if bound != math.inf]
        return within[0] if within[0] != math.inf else max(finite, default=0.0)


def sync_lag_s(answers: Iterable[bytes], *, min_sync_period_s: float) -> float | None:
    """The time until changes take effect on the slowest node with enough of them, at least a period and a sync.

    Returns: None when there were too few changes.
    """
    every, syncs, slowest_s = Histogram(), Histogram(), 0.0  # seconds for most changes on the slowest node
    for answer in answers:
        found = {name: Histogram() for name in _HISTOGRAMS}  # of both address families together
        for line in answer.splitlines():
            if line.startswith(_HISTOGRAMS) and (bucket := _BUCKET.match(line)) is not None and bucket[1] in found:
                found[bucket[1]].add(Histogram({float(bucket[2]): float(bucket[3])}))
        programming, sync = found.values()
        every.add(programming)
        syncs.add(sync)
        if programming.count >= NODE_SAMPLES_MIN:
            slowest_s = max(slowest_s, programming.quantile_s(CHANGES_QUANTILE))
    if every.count < SAMPLES_MIN or not syncs.count:
        return None
    most_s = max(slowest_s, every.quantile_s(CHANGES_QUANTILE))
    return max(CHANGES_FACTOR * most_s, min_sync_period_s + syncs.quantile_s(SYNCS_QUANTILE))


async def learnt_lag_s(
    addresses: Sequence[str], *, port: int, min_sync_period_s: float, deadline_s: float
) -> float | None:
    """Asks the kube-proxies of nodes; None when one of them does not answer, or when nothing can be learnt from the answers.

    It asks at most NODES_MAX nodes, evenly chosen. Cancellation: safe. Raises: nothing that a node could cause.
    """
    from rollouts.probes.exchange import Asker  # noqa: PLC0415 - httpx costs 5 MiB, where somebody is to be asked

    chosen = addresses[:: math.ceil(len(addresses) / NODES_MAX)] if addresses else ()
    asker, room = Asker(tls=False), asyncio.Semaphore(NODES_AT_ONCE)

    async def metrics_of(address: str) -> bytes:
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        async with room:
            (replica,) = await asker.replicas(f"http://{host}", deadline_s=deadline_s)
            return await asker.get(replica, METRICS_PATH, deadline_s=deadline_s, most_bytes=METRICS_MAX_BYTES)

    try:
        answers = await asyncio.gather(*map(metrics_of, chosen), return_exceptions=True)
    finally:
        await asker.aclose()
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Unanswered):
            raise answer
    told = [answer for answer in answers if isinstance(answer, bytes)]
    if not told or len(told) < len(answers):
        return None
    return await asyncio.to_thread(sync_lag_s, told, min_sync_period_s=min_sync_period_s)
