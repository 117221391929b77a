"""Findings about what ipvs does to connections and no wait can prevent. Pure: facts about proxies in, findings out.

`rollouts plan` prints them, and the first also becomes the condition `DrainUnsafe`. Both were measured on a real ipvs table
(tests/ipvs).
"""

from __future__ import annotations

from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.context.drain_numbers import (
    IPVS_REUSE_SAFE_KERNEL,
    IPVS_TIME_WAIT_S,
    kernel_moves_reused_ports,
    kernel_words,
)
from rollouts.core.model.drain import ProxyFacts, ProxyMode

IPVS_TCP_TIMEOUT_S = 900.0
IPVS_TCP_FIN_TIMEOUT_S = 120.0
"""How long the kernel remembers a silent and a half-closed connection by default, unless kube-proxy sets other times."""


def proxy_findings(facts: ProxyFacts) -> tuple[Finding, ...]:
    """The findings about a cluster's proxies before an update; none unless they are ipvs."""
    if facts.mode is not ProxyMode.IPVS:
        return ()
    silent_s = facts.ipvs_tcp_timeout_s or IPVS_TCP_TIMEOUT_S
    half_s = facts.ipvs_tcp_fin_timeout_s or IPVS_TCP_FIN_TIMEOUT_S
    idle = Finding(
        Rule.IPVS_FORGETS_CONNECTIONS,
        Severity.NOTE,
        "spec.drain",
        f"ipvs forgets a connection that was silent for {silent_s:g} s, and answers its next request with a reset; it "
        f"forgets a half-closed connection after {half_s:g} s",
        f"let clients close idle connections before {silent_s:g} s, or raise --ipvs-tcp-timeout",
    )
    reuse = port_reuse(facts)
    return (idle,) if reuse is None else (reuse, idle)


def port_reuse(facts: ProxyFacts) -> Finding | None:
    """The finding that no finite wait is enough: ipvs with `conn_reuse_mode=0`, which kube-proxy sets on kernels before 5.9.

    Each use of a client's port extends the time during which the port leads to the old pod. A client that reuses few ports all
    the time reaches that pod until it is gone, and fails then. For an unknown mode there is the condition `ProxyModeKnown`.
    """
    if facts.mode is not ProxyMode.IPVS or kernel_moves_reused_ports(facts):
        return None
    needed = f"{IPVS_REUSE_SAFE_KERNEL[0]}.{IPVS_REUSE_SAFE_KERNEL[1]}"
    return Finding(
        Rule.IPVS_PORT_REUSE,
        Severity.UNSAFE,
        "spec.drain",
        f"need kernel {needed} on every node under ipvs, have {kernel_words(facts)}: a client's port that is used again within "
        f"{IPVS_TIME_WAIT_S:g} s leads to the old pod for as long again, so a client that does so all the time fails when that "
        "pod ends, however long the drain is",
        "run kube-proxy in nftables mode, or nodes with a newer kernel",
    )
