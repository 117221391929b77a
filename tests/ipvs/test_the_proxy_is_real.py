"""The real kube-proxy runs in ipvs mode on a real IPVS kernel; its `--ipvs-*-timeout` do what they say; UDP is moved at once."""

from __future__ import annotations

from tests.ipvs.plan import LEAVING, Measured, Plan, Waits, given

READ_WITHIN_S = 5.0  # between the last packet of a connection and the reading of its entry


def test_the_kernels_own_timeouts_are_those_that_the_controller_knows(measured: Measured) -> None:
    """900 s for an open TCP connection, 120 s after a FIN, 300 s for UDP, where kube-proxy has no flags."""
    assert given(measured.node).timeouts_before_s == [900, 120, 300]


def test_the_flags_shorten_what_they_name_and_none_shortens_time_wait(
    measured: Measured, plan: Plan, waits: Waits
) -> None:
    """The controller reads them from kube-proxy's configuration; so they must mean what it takes them for.

    `--ipvs-tcpfin-timeout` is about connections of which one half is open: none shortens the wait for reused ports.
    """
    assert given(measured.node).timeouts_s == [plan.tcp_timeout_s, plan.tcp_fin_timeout_s, plan.udp_timeout_s]
    seen = given(measured.timeouts)
    assert plan.tcp_timeout_s - READ_WITHIN_S <= seen.established_s <= plan.tcp_timeout_s
    assert plan.tcp_fin_timeout_s - READ_WITHIN_S <= seen.fin_wait_s <= plan.tcp_fin_timeout_s
    assert plan.udp_timeout_s - READ_WITHIN_S <= seen.udp_s <= plan.udp_timeout_s
    assert 120 - READ_WITHIN_S <= seen.time_wait_s <= 120
    assert waits.reuse_wait_s >= 120


def test_a_connection_silent_for_longer_than_the_timeout_is_forgotten(measured: Measured, plan: Plan) -> None:
    """So a client's idle time must be below `--ipvs-tcp-timeout`; its next request is answered by a reset."""
    seen = given(measured.timeouts)
    assert seen.idle_s > plan.tcp_timeout_s
    assert seen.after_idle == "reset"


def test_udp_is_moved_at_once(measured: Measured, waits: Waits) -> None:
    """kube-proxy deletes the server without weight 0, though the pod still serves: there is nothing to wait for.

    The datagram that meets its deleted server ends the entry and is dropped; the others' flows lose none.
    """
    seen = given(measured.datagrams)
    assert seen.on_leaving >= 3
    assert not seen.weight_zero_seen
    assert seen.deleted_s <= waits.wait_s
    assert (seen.moved, seen.late_to_leaving) == (seen.on_leaving, 0), f"flows stay with {LEAVING}"
    assert seen.lost_by_one_flow <= 2
    assert seen.lost_by_others == 0


def test_every_experiment_has_been_carried_out(measured: Measured) -> None:
    """An experiment that broke would leave its promise untested; its words are the reason here."""
    assert measured.errors == {}


def test_kube_proxy_itself_says_that_its_mode_is_ipvs(measured: Measured) -> None:
    """It falls back to iptables where the kernel has no ipvs, and everything measured would be about something else."""
    assert given(measured.node).proxy_mode == "ipvs"


def test_kube_proxy_leaves_conn_reuse_mode_alone_from_linux_5_9(measured: Measured) -> None:
    """The kernel's version decides the wait, because it decides what kube-proxy sets; the kernel's own default is 1."""
    assert tuple(map(int, given(measured.node).kernel.split(".")[:2])) >= (5, 9)
    assert given(measured.node).settings == {
        "conn_reuse_mode": 1,
        "expire_nodest_conn": 1,
        "expire_quiescent_template": 1,
        "conntrack": 1,
    }
