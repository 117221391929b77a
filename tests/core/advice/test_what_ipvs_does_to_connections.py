"""Promise: where ipvs breaks connections that no wait can save, a condition and the plan say so, with the remedy."""

from __future__ import annotations

import pytest

from rollouts.core.advice.findings import Rule, Severity
from rollouts.core.advice.proxy_findings import port_reuse, proxy_findings
from rollouts.core.decide import decide
from rollouts.core.model.drain import DrainMode, DrainSpec, PreStop, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice
from rollouts.core.model.pod_exit import ContainerExit, PodExit
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.status import Condition
from tests.core.model import snapshot
from tests.core.worlds import running

DRAIN = DrainSpec(max_request_s=20.0)
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", scale_down_delay_s=0)
IPVS = ProxyFacts(mode=ProxyMode.IPVS, known_by="ConfigMap kube-system/kube-proxy says ipvs", min_sync_period_s=1.0)
OLD = replace(IPVS, oldest_kernel=(5, 8))
NEW = replace(IPVS, oldest_kernel=(5, 9))


def told(
    facts: ProxyFacts, drain: DrainSpec = DRAIN, ends: PodExit | None = None
) -> tuple[list[Condition], list[Notice]]:
    """Condition and Events `DrainUnsafe` of a healthy Rollout once the proxies are known to be these."""
    there = running(GREEN, drain=drain, ends=ends or PodExit())
    decision = decide(replace(snapshot(there), proxy=facts))
    conditions = [each for each in decision.status.conditions if each.type == "DrainUnsafe"]
    return conditions, [each for each in decision.notices if each.reason is Reason.DRAIN_UNSAFE]


def test_an_old_kernel_under_ipvs_is_a_condition_and_an_event() -> None:
    """A real ipvs table failed every port that was used once during the wait; a person has to know, as no number helps."""
    (condition,), (notice,) = told(OLD)

    assert condition.status
    assert condition.message.startswith("nodes: need kernel 5.9 on every node under ipvs, have kernel 5.8: ")
    assert (
        "however long the drain is; run kube-proxy in nftables mode, or nodes with a newer kernel" in condition.message
    )
    assert (notice.message, notice.warning) == (condition.message, True)
    (unknown,), _ = told(IPVS)
    assert "have an unknown kernel" in unknown.message, "it is no safe one"


@pytest.mark.parametrize(
    "facts",
    [
        NEW,
        *(replace(OLD, mode=mode) for mode in (ProxyMode.IPTABLES, ProxyMode.NFTABLES, ProxyMode.OTHER)),
        ProxyFacts(),
    ],
    ids=["ipvs on 5.9", "iptables", "nftables", "no kube-proxy", "unknown"],
)
def test_where_a_wait_is_enough_nothing_is_told(facts: ProxyFacts) -> None:
    """And where the mode is not known, `ProxyModeKnown` says that already."""
    assert told(facts) == ([], [])
    assert port_reuse(facts) is None
    assert told(OLD, DrainSpec(mode=DrainMode.OFF)) == ([], []), "who drains nothing"


def test_what_the_pods_lack_is_told_beside_it() -> None:
    """One condition of a type: two causes are two sentences of one message."""
    validate = replace(DRAIN, pre_stop=PreStop.VALIDATE)
    (condition,), _ = told(OLD, validate, PodExit(3600, (ContainerExit("app"),)))

    assert condition.message.startswith("container app: need a preStop sleep of 126 s, have none")
    assert "; nodes: need kernel 5.9" in condition.message


def test_the_plan_names_the_time_after_which_ipvs_forgets_a_silent_connection() -> None:
    """Clients that keep idle connections longer get a reset in the middle of nothing, which looks like a lost request."""
    flags = replace(NEW, ipvs_tcp_timeout_s=600.0, ipvs_tcp_fin_timeout_s=30.0)
    (kernels_own,), (flagged,) = proxy_findings(NEW), proxy_findings(flags)

    assert (flagged.rule, flagged.severity) == (Rule.IPVS_FORGETS_CONNECTIONS, Severity.NOTE)
    assert "silent for 900 s" in kernels_own.what
    assert "after 120 s" in kernels_own.what
    assert "silent for 600 s" in flagged.what
    assert "after 30 s" in flagged.what
    assert "before 600 s" in flagged.fix


def test_an_old_kernel_is_unsafe_in_the_plan_too() -> None:
    """A pipeline that runs `plan` stops before the update, not after it."""
    assert [(each.rule, each.severity) for each in proxy_findings(OLD)] == [
        (Rule.IPVS_PORT_REUSE, Severity.UNSAFE),
        (Rule.IPVS_FORGETS_CONNECTIONS, Severity.NOTE),
    ]
