"""The measurements are of the real kube-proxy in ipvs mode on a real IPVS kernel, with the settings that kube-proxy makes."""

from __future__ import annotations

from tests.ipvs.plan import Measured, given


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
