"""Promise: what is waited follows from what is known of the proxies, each number with its reason; not knowing costs time only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import DrainMode, DrainSpec, PreStop, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace

SPEC = DrainSpec(max_request_s=30.0)
KUBE_PROXY = (ProxyMode.IPTABLES, ProxyMode.NFTABLES, ProxyMode.IPVS)
OLD, NEW = (5, 4), (6, 1)


@pytest.mark.parametrize("mode", [ProxyMode.IPTABLES, ProxyMode.NFTABLES])
def test_twice_the_time_of_a_sync_and_never_less_than_five_seconds(mode: ProxyMode) -> None:
    """With the default period of 1 s a change is in force after 3 s at most: sleep 6, and wait 3 s and the longest request."""
    usual = drain_numbers(SPEC, ProxyFacts(mode=mode, min_sync_period_s=1.0))
    quick = drain_numbers(SPEC, ProxyFacts(mode=mode, min_sync_period_s=0.0))

    assert (usual.pre_stop_s, usual.grace_s, usual.proxy_lag_s, usual.drain_s) == (6, 41, 3.0, 33.0)
    assert (quick.pre_stop_s, quick.proxy_lag_s) == (5, 2.0)
    assert drain_numbers(SPEC, ProxyFacts(mode=mode)) == drain_numbers(SPEC, ProxyFacts(mode=mode, oldest_kernel=OLD))


def test_a_slow_kube_proxy_is_waited_for() -> None:
    """`minSyncPeriod: 10s`: an endpoint that left may be called for 10 s more, and for the sync itself."""
    numbers = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.IPTABLES, min_sync_period_s=10.0))

    assert (numbers.pre_stop_s, numbers.proxy_lag_s, numbers.drain_s) == (24, 12.0, 42.0)
    assert "every 10 s" in numbers.proxy_lag_why


def test_what_was_measured_counts_more_than_what_was_configured() -> None:
    """A period says how seldom a proxy syncs, a measurement how long it took."""
    numbers = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.NFTABLES, min_sync_period_s=1.0, learnt_lag_s=8.5))

    assert (numbers.pre_stop_s, numbers.proxy_lag_s) == (17, 8.5)


def test_what_was_learnt_of_proxies_never_shortens_a_wait() -> None:
    """Most changes were quick; how long the slowest took cannot be told from a kube-proxy's histogram."""
    configured = ProxyFacts(mode=ProxyMode.NFTABLES, min_sync_period_s=1.0)

    assert drain_numbers(SPEC, replace(configured, learnt_lag_s=1.25)) == drain_numbers(SPEC, configured)


def test_a_gateway_that_was_seen_to_be_slow_is_waited_for() -> None:
    """It sends requests to a pod until it has learnt that the pod goes; kube-proxy is not asked for those."""
    slow = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.NFTABLES, min_sync_period_s=1.0, gateway_lag_s=12.0))
    quick = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.NFTABLES, min_sync_period_s=1.0, gateway_lag_s=1.0))

    assert (slow.pre_stop_s, slow.grace_s, slow.proxy_lag_s, slow.drain_s) == (13, 48, 12.0, 42.0)
    assert slow.proxy_lag_why == "gateways were seen to take 12 s"
    assert slow.pre_stop_why == "gateways were seen to take 12 s, and 1 s on top"
    assert quick == drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.NFTABLES, min_sync_period_s=1.0))


@given(gateway_s=st.floats(0, 30), period_s=st.floats(0, 60), mode=st.sampled_from(ProxyMode))
def test_what_was_learnt_of_gateways_never_shortens_a_wait(gateway_s: float, period_s: float, mode: ProxyMode) -> None:
    """A quick gateway says nothing of the nodes' proxies, which other clients go through."""
    facts = ProxyFacts(mode=mode, min_sync_period_s=period_s)
    without = drain_numbers(SPEC, facts)
    numbers = drain_numbers(SPEC, replace(facts, gateway_lag_s=gateway_s))

    assert numbers.pre_stop_s >= max(without.pre_stop_s, gateway_s + 1)
    assert numbers.proxy_lag_s == max(without.proxy_lag_s, gateway_s)
    assert numbers.drain_s >= without.drain_s


def test_ipvs_on_an_old_kernel_sends_used_ports_to_the_old_pod() -> None:
    """Kubernetes issue 81775: with `conn_reuse_mode=0` a port in TIME_WAIT, 120 s, goes to the server of weight 0."""
    old = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.IPVS, min_sync_period_s=0.0, oldest_kernel=OLD))
    new = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.IPVS, min_sync_period_s=0.0, oldest_kernel=(5, 9)))
    unknown = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.IPVS, min_sync_period_s=0.0))

    assert (old.pre_stop_s, old.proxy_lag_s, old.drain_s, old.grace_s) == (124, 122.0, 152.0, 159)
    assert (new.pre_stop_s, new.proxy_lag_s) == (5, 2.0)
    assert (unknown.pre_stop_s, unknown.proxy_lag_s) == (124, 122.0)
    assert "kernel 5.4" in old.pre_stop_why


def test_no_flag_of_kube_proxy_shortens_the_wait_for_ports() -> None:
    """With `--ipvs-tcpfin-timeout=20s` closed connections still lived 120 s in a real ipvs table, and their ports with them."""
    facts = ProxyFacts(
        mode=ProxyMode.IPVS,
        min_sync_period_s=0.0,
        oldest_kernel=OLD,
        ipvs_tcp_timeout_s=600.0,
        ipvs_tcp_fin_timeout_s=20.0,
    )

    assert drain_numbers(SPEC, facts).pre_stop_s == 124


def test_what_is_unknown_gets_the_safe_number() -> None:
    """A guess that is wrong loses requests, a wait that is too long loses time: unknown may be ipvs on an old kernel."""
    nothing = drain_numbers(SPEC, ProxyFacts())
    kernel = drain_numbers(SPEC, ProxyFacts(oldest_kernel=NEW))
    no_kube_proxy = drain_numbers(SPEC, ProxyFacts(mode=ProxyMode.OTHER))

    assert (nothing.pre_stop_s, nothing.proxy_lag_s) == (130, 125.0)
    assert (kernel.pre_stop_s, kernel.proxy_lag_s) == (10, 5.0)
    assert (no_kube_proxy.pre_stop_s, no_kube_proxy.proxy_lag_s) == (10, 5.0)


def test_off_waits_for_nothing() -> None:
    """Who turns draining off gets what Kubernetes does, and the sentence that says so."""
    off = drain_numbers(DrainSpec(mode=DrainMode.OFF), ProxyFacts())
    no_sleep = drain_numbers(DrainSpec(pre_stop=PreStop.OFF), ProxyFacts(mode=ProxyMode.IPTABLES))

    assert (off.pre_stop_s, off.grace_s, off.drain_s) == (0, 0, 0.0)
    assert off.drain_why == "spec.drain.mode is Off"
    assert (no_sleep.pre_stop_s, no_sleep.grace_s, no_sleep.drain_s) == (0, 0, 33.0)


@given(
    mode=st.sampled_from(ProxyMode),
    period_s=st.none() | st.floats(0, 3600),
    kernel=st.none() | st.tuples(st.integers(3, 7), st.integers(0, 20)),
    learnt_s=st.none() | st.floats(0, 3600),
    request_s=st.floats(0, 86_400),
)
def test_the_sleep_covers_the_lag_and_the_grace_period_both(
    mode: ProxyMode,
    period_s: float | None,
    kernel: tuple[int, int] | None,
    learnt_s: float | None,
    request_s: float,
) -> None:
    """Whatever is known: a pod is not told to end while a proxy may call it, nor killed under a request; each number says why."""
    facts = ProxyFacts(mode=mode, min_sync_period_s=period_s, oldest_kernel=kernel, learnt_lag_s=learnt_s)

    numbers = drain_numbers(DrainSpec(max_request_s=request_s), facts)

    assert numbers.pre_stop_s >= max(5, numbers.proxy_lag_s)
    assert numbers.grace_s >= numbers.pre_stop_s + request_s + 5
    assert numbers.drain_s == numbers.proxy_lag_s + request_s
    assert all((numbers.pre_stop_why, numbers.grace_why, numbers.proxy_lag_why, numbers.drain_why))
