"""Promise: what is waited follows from what is known of the proxies, each number with its reason; not knowing costs time only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import DrainMode, DrainSpec, PreStop, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace

SPEC = DrainSpec(max_request_s=30.0)
OLD, NEW = (5, 4), (6, 1)
EACH_SECOND = ProxyFacts(mode=ProxyMode.NFTABLES, min_sync_period_s=1.0)
IPVS = ProxyFacts(mode=ProxyMode.IPVS, min_sync_period_s=0.0, oldest_kernel=OLD)


NUMBERS: dict[str, tuple[ProxyFacts, int, float]] = {
    "twice the second between two syncs": (ProxyFacts(mode=ProxyMode.IPTABLES, min_sync_period_s=1.0), 6, 3.0),
    "and the same with nftables": (ProxyFacts(mode=ProxyMode.NFTABLES, min_sync_period_s=1.0), 6, 3.0),
    "never less than five seconds": (ProxyFacts(mode=ProxyMode.IPTABLES, min_sync_period_s=0.0), 5, 2.0),
    "the default period": (ProxyFacts(mode=ProxyMode.NFTABLES), 6, 3.0),
    "the kernel matters to ipvs alone": (ProxyFacts(mode=ProxyMode.NFTABLES, oldest_kernel=OLD), 6, 3.0),
    "an endpoint that left is called until the next sync": (replace(EACH_SECOND, min_sync_period_s=10.0), 24, 12.0),
    "measured counts more than configured": (replace(EACH_SECOND, learnt_lag_s=8.5), 17, 8.5),
    "what was learnt never shortens a wait": (replace(EACH_SECOND, learnt_lag_s=1.25), 6, 3.0),
    "a gateway that was seen to be slow": (replace(EACH_SECOND, gateway_lag_s=12.0), 13, 12.0),
    "a gateway that is quick says nothing of proxies": (replace(EACH_SECOND, gateway_lag_s=1.0), 6, 3.0),
    "ipvs: a port in TIME_WAIT, 120 s, goes to the old pod": (IPVS, 124, 122.0),
    "no flag of kube-proxy shortens that": (replace(IPVS, ipvs_tcp_timeout_s=600.0, ipvs_tcp_fin_timeout_s=20.0), 124, 122.0),
    "ipvs on a newer kernel": (replace(IPVS, oldest_kernel=(5, 9)), 5, 2.0),
    "ipvs on an unknown kernel": (replace(IPVS, oldest_kernel=None), 124, 122.0),
    "nothing is known: it may be ipvs on an old kernel": (ProxyFacts(), 130, 125.0),
    "only a new kernel is known": (ProxyFacts(oldest_kernel=NEW), 10, 5.0),
    "no kube-proxy": (ProxyFacts(mode=ProxyMode.OTHER), 10, 5.0),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "pre_stop_s", "proxy_lag_s"), NUMBERS.values(), ids=list(NUMBERS))
def test_what_is_known_of_proxies_decides(facts: ProxyFacts, pre_stop_s: int, proxy_lag_s: float) -> None:
    """A guess that is wrong loses requests, a wait that is too long loses time. Kubernetes issue 81775 has the ports of ipvs."""
    numbers = drain_numbers(SPEC, facts)

    assert (numbers.pre_stop_s, numbers.grace_s) == (pre_stop_s, pre_stop_s + 35)
    assert (numbers.proxy_lag_s, numbers.drain_s) == (proxy_lag_s, proxy_lag_s + 30.0)


def test_each_number_says_what_it_follows_from() -> None:
    """The period, the kernel, or what gateways were seen to take."""
    gateway = drain_numbers(SPEC, replace(EACH_SECOND, gateway_lag_s=12.0))

    assert "every 10 s" in drain_numbers(SPEC, replace(EACH_SECOND, min_sync_period_s=10.0)).pre_stop_why
    assert "kernel 5.4" in drain_numbers(SPEC, IPVS).pre_stop_why
    assert gateway.pre_stop_why == "gateways were seen to take 12 s, and 1 s on top"


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
    gateway_s=st.floats(0, 30),
    request_s=st.floats(0, 86_400),
)
def test_the_sleep_covers_the_lag_and_the_grace_period_both(
    mode: ProxyMode,
    period_s: float | None,
    kernel: tuple[int, int] | None,
    learnt_s: float | None,
    gateway_s: float,
    request_s: float,
) -> None:
    """Whatever is known: a pod is not told to end while a proxy may call it, nor killed under a request; each number says why.

    A quick gateway says nothing of the nodes' proxies, which other clients go through.
    """
    facts = ProxyFacts(mode=mode, min_sync_period_s=period_s, oldest_kernel=kernel, learnt_lag_s=learnt_s)
    spec = DrainSpec(max_request_s=request_s)

    without, numbers = drain_numbers(spec, facts), drain_numbers(spec, replace(facts, gateway_lag_s=gateway_s))

    assert numbers.proxy_lag_s == max(without.proxy_lag_s, gateway_s)
    assert numbers.pre_stop_s >= max(5, without.pre_stop_s, numbers.proxy_lag_s, gateway_s + 1)
    assert numbers.grace_s >= numbers.pre_stop_s + request_s + 5
    assert numbers.drain_s == numbers.proxy_lag_s + request_s
    assert all((numbers.pre_stop_why, numbers.grace_why, numbers.drain_why))
