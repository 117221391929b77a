"""What ipvs does to connections that no wait mends. Pure: what is known of the proxies in, findings out.

`rollouts plan` prints them; the first is the condition `DrainUnsafe` too. Both were measured on a real ipvs table (tests/ipvs).
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
"""The kernel's own, where kube-proxy sets none: so long it remembers a silent connection, and one half of which is closed."""


def proxy_findings(facts: ProxyFacts) -> tuple[Finding, ...]:
    """Everything that is to be known of these proxies before an update; nothing for those that are not ipvs."""
    found = (port_reuse(facts), _idle(facts))
    return tuple(each for each in found if each is not None)


def port_reuse(facts: ProxyFacts) -> Finding | None:
    """That no finite wait is enough: ipvs with `conn_reuse_mode=0`, which kube-proxy sets on kernels before 5.9.

    Each use of a client's port renews the time for which it leads to the old pod, so a client that has few ports and uses them
    all the time reaches that pod until it has gone, and fails then. Where the mode is not known, `ProxyModeKnown` says that.
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
        "pod ends, however long it was waited",
        "run kube-proxy in nftables mode, or nodes with a newer kernel",
    )


def _idle(facts: ProxyFacts) -> Finding | None:
    if facts.mode is not ProxyMode.IPVS:
        return None
    silent_s = facts.ipvs_tcp_timeout_s or IPVS_TCP_TIMEOUT_S
    half_s = facts.ipvs_tcp_fin_timeout_s or IPVS_TCP_FIN_TIMEOUT_S
    return Finding(
        Rule.IPVS_FORGETS_CONNECTIONS,
        Severity.NOTE,
        "spec.drain",
        f"ipvs forgets a connection that was silent for {silent_s:g} s, and answers its next request by a reset; one of which a "
        f"half is closed it forgets after {half_s:g} s",
        f"let clients close idle connections before {silent_s:g} s, or raise --ipvs-tcp-timeout",
    )
