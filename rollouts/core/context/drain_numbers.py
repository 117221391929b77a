"""How long the controller waits for pods that lose their traffic: numbers from the known facts about proxies, with reasons.

There are two waits, and neither replaces the other. A deleted pod sleeps before its SIGTERM (`preStop`), because its deletion and
its removal from the proxies start at the same time, in no fixed order. This covers node drains and evictions too, which happen
without us. A revision that a Service no longer selects keeps its pods until no proxy sends new connections to them and the
requests in flight are over. No pod is deleted until then, so no `preStop` runs.

Sources: KEP-1672 and KEP-1669 (terminating endpoints), KEP-3960 (`preStop.sleep`), kube-proxy's `pkg/proxy/ipvs` (graceful
termination; `conn_reuse_mode`, kubernetes issue 81775), KubeProxyConfiguration v1alpha1 (`minSyncPeriod`), and measurements with
kube-proxy 1.36: a change takes effect after 10 to 100 ms; when another change came less than `minSyncPeriod` before, after
`minSyncPeriod` and some 150 ms more.
"""

from __future__ import annotations

import math
from functools import lru_cache

from rollouts.core.model.drain import DrainMode, DrainNumbers, DrainSpec, PreStop, ProxyFacts, ProxyMode

DEFAULT_MIN_SYNC_S = 1.0  # kube-proxy's default in iptables and nftables mode

SYNC_MARGIN_S = 2.0
"""Added to `minSyncPeriod`: a sync takes up to a second on a busy node, and the watch that delivers the slices takes time."""

UNKNOWN_LAG_S = 5.0
"""The lag of a proxy that is unknown or is not kube-proxy: five times kube-proxy's default period."""

PRE_STOP_MIN_S = 5

GRACE_SPARE_S = 5
"""Time for the app to end after its last request."""

GATEWAY_SPARE_S = 1.0
"""Added to the measured lag of gateways: the measurement began when the route was seen, not when it was written."""

IPVS_TIME_WAIT_S = 120.0
"""TIME_WAIT of ipvs: how long a closed connection holds its client's port. No flag of kube-proxy shortens it;
`--ipvs-tcpfin-timeout` is for connections with one half still open (measured: tests/ipvs)."""

IPVS_REUSE_SAFE_KERNEL = (5, 9)
"""From this kernel on, kube-proxy leaves `conn_reuse_mode` alone, and a reused port goes to a server with weight."""


@lru_cache(maxsize=1024)  # every pass needs the numbers, and a cluster has few different ones
def drain_numbers(spec: DrainSpec, facts: ProxyFacts) -> DrainNumbers:
    """The numbers for one Rollout in this cluster. Pure; none is negative, all are finite.

    p is the lag of one sync (`minSyncPeriod` + 2 s, or the measured lag), g the measured lag of the gateways, else 0:

    * preStop = max(5, 2 p, g + 1), and at least 120 + 2 p with ipvs on a kernel before 5.9;
    * grace period = preStop + longest request + 5;
    * drain = max(p (+ 120 with ipvs on a kernel before 5.9), g) + the longest request, or the longest stream that a probe
      counts, if that is longer.

    A server of weight 0 stays in an ipvs table until kube-proxy's check, once a minute, finds no connection to it. This adds no
    time: new connections do not go to weight 0, except from reused ports on kernels before 5.9. UDP has no connections to wait
    for; its servers are deleted at once.
    """
    sync_s, sync_why = _sync_lag(facts)
    if facts.learnt_lag_s is not None and facts.learnt_lag_s > sync_s:
        sync_s, sync_why = facts.learnt_lag_s, f"proxies were seen to take {facts.learnt_lag_s:g} s"
    reuse_s, reuse_why = 0.0, ""
    if facts.mode in (ProxyMode.IPVS, ProxyMode.UNKNOWN) and not kernel_moves_reused_ports(facts):
        which = "ipvs" if facts.mode is ProxyMode.IPVS else "the nodes may use ipvs, which"
        leads = f"sends a client's port to its old pod for {IPVS_TIME_WAIT_S:g} s after a connection was closed"
        reuse_s, reuse_why = IPVS_TIME_WAIT_S, f"; {which} on {kernel_words(facts)} {leads}"
    lag_s, lag_why = sync_s + reuse_s, f"{sync_why}{reuse_why}"
    pre_stop_s, pre_stop_why = _pre_stop(spec, facts, sync_s=sync_s, reuse_s=reuse_s, lag_why=lag_why)
    if facts.gateway_lag_s is not None and facts.gateway_lag_s > lag_s:
        lag_s = facts.gateway_lag_s
    grace_s, grace_why = 0, "spec.drain.preStop is Off"
    longest = f"{spec.max_request_s:g} s for the longest request"
    stream = f", {spec.max_stream_s:g} s for the longest stream" if spec.max_stream_s else ""
    drain_s = lag_s + max(spec.max_request_s, spec.max_stream_s)
    drain_why = f"{lag_s:g} s until no proxy sends new connections, and {longest}{stream}"
    if spec.mode is DrainMode.OFF:
        pre_stop_s, drain_s = 0, 0.0
        pre_stop_why = grace_why = drain_why = "spec.drain.mode is Off"
    elif pre_stop_s:
        grace_s = pre_stop_s + math.ceil(spec.max_request_s) + GRACE_SPARE_S
        grace_why = f"{pre_stop_s} s of preStop, {longest} and {GRACE_SPARE_S} s to end in"
    return DrainNumbers(
        pre_stop_s=pre_stop_s,
        pre_stop_why=pre_stop_why,
        grace_s=grace_s,
        grace_why=grace_why,
        proxy_lag_s=lag_s,
        drain_s=drain_s,
        drain_why=drain_why,
    )


def _pre_stop(spec: DrainSpec, facts: ProxyFacts, *, sync_s: float, reuse_s: float, lag_why: str) -> tuple[int, str]:
    if spec.pre_stop is PreStop.OFF:
        return 0, "spec.drain.preStop is Off"
    seconds = math.ceil(max(PRE_STOP_MIN_S, reuse_s + 2 * sync_s))
    if facts.gateway_lag_s is not None and facts.gateway_lag_s + GATEWAY_SPARE_S > seconds:
        seen = f"gateways were seen to take {facts.gateway_lag_s:g} s"
        return math.ceil(facts.gateway_lag_s + GATEWAY_SPARE_S), f"{seen}, and {GATEWAY_SPARE_S:g} s on top"
    if seconds == PRE_STOP_MIN_S:
        return seconds, f"at least {PRE_STOP_MIN_S} s, and no less than twice the time of a sync: {lag_why}"
    return seconds, f"twice the time of a sync{f', and {reuse_s:g} s more' if reuse_s else ''}: {lag_why}"


def _sync_lag(facts: ProxyFacts) -> tuple[float, str]:
    """Seconds until a change of the slices takes effect on the slowest node, as assumed without a measurement."""
    if facts.min_sync_period_s is not None:
        lag_s = facts.min_sync_period_s + SYNC_MARGIN_S
        often = f"kube-proxy ({facts.mode}) syncs every {facts.min_sync_period_s:g} s at most"
        return lag_s, f"{often}, and {SYNC_MARGIN_S:g} s on top"
    match facts.mode:
        case ProxyMode.IPTABLES | ProxyMode.NFTABLES | ProxyMode.IPVS:
            lag_s = DEFAULT_MIN_SYNC_S + SYNC_MARGIN_S
            return lag_s, f"kube-proxy ({facts.mode}) syncs every second by default, and {SYNC_MARGIN_S:g} s on top"
        case ProxyMode.OTHER:
            return UNKNOWN_LAG_S, f"the proxy is not kube-proxy, so {UNKNOWN_LAG_S:g} s are taken for its lag"
        case ProxyMode.UNKNOWN:
            return UNKNOWN_LAG_S, f"the proxy mode is not known, so {UNKNOWN_LAG_S:g} s are taken for its lag"


def kernel_moves_reused_ports(facts: ProxyFacts) -> bool:
    """Whether on every node ipvs sends a reused port to a server with weight; False when no kernel is known."""
    return facts.oldest_kernel is not None and facts.oldest_kernel >= IPVS_REUSE_SAFE_KERNEL


def kernel_words(facts: ProxyFacts) -> str:
    """The oldest kernel in words, for messages."""
    kernel = facts.oldest_kernel
    return "an unknown kernel" if kernel is None else f"kernel {kernel[0]}.{kernel[1]}"
