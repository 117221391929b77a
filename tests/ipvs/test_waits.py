"""The waits that the controller derives are long enough, and shorter ones lose connections.

The pod dies at once at the end of its wait, as an app does that has no handler for SIGTERM, and its address a moment later.
"""

from __future__ import annotations

import pytest

from tests.ipvs.plan import Measured, PortReuse, Waits


def _reuse(measured: Measured, name: str) -> PortReuse:
    seen = measured.reuse.get(name)
    assert seen is not None, measured.errors.get(name)
    assert seen.on_leaving >= 10, "the pod that left had served too few of the ports to show anything"
    return seen


def test_without_a_wait_new_connections_fail(measured: Measured) -> None:
    """The pod ends and leaves the slice at the same time; until kube-proxy has heard of it, connections go to a dead pod."""
    seen = measured.load["none"]
    assert sum(seen.failed.values()) > 0


def test_with_the_wait_no_new_connection_fails(measured: Measured, waits: Waits) -> None:
    """The promise, on kernels from 5.9: 12 connections a second, every source port used again after 8 s."""
    seen = measured.load["whole"]
    assert seen.sent > 200
    assert seen.failed == {}
    assert seen.late_to_leaving == 0
    assert waits.wait_s <= seen.died_s <= waits.wait_s + 1


def test_no_connection_is_delayed_by_a_reused_port_from_linux_5_9(measured: Measured) -> None:
    """Before, a SYN that met its old entry was dropped and sent again a second later; that is why kube-proxy turned it off."""
    assert measured.load["whole"].slow == 0


@pytest.mark.parametrize("name", ["none", "half"])
def test_on_older_kernels_a_reused_port_leads_to_the_dead_pod_without_the_whole_wait(
    measured: Measured, name: str
) -> None:
    """kubernetes issue 81775: `conn_reuse_mode=0` sends it to the server of its last connection, though that has weight 0.

    The kernel remembers a closed connection for 120 s; that, and nothing shorter, is in the wait.
    """
    seen = _reuse(measured, name)
    (again,) = seen.reuses
    assert again.failed_on_leaving == sum(again.failed.values()) == seen.on_leaving
    assert name == "half" or again.staying == seen.ports - seen.on_leaving


@pytest.mark.parametrize("name", ["whole", "fixed"])
def test_on_older_kernels_the_wait_is_enough_for_ports_that_rest_meanwhile(measured: Measured, name: str) -> None:
    """The promise, for ports that are not used between the removal and the pod's end.

    From Linux 5.16 on (and where that was carried back to) `expire_nodest_conn` sends one elsewhere: the shorter wait is enough.
    """
    seen = _reuse(measured, name)
    (again,) = seen.reuses
    assert again.failed == {}
    assert again.staying == seen.ports


def test_on_older_kernels_a_port_used_during_the_wait_holds_on_to_the_old_pod(measured: Measured) -> None:
    """What the wait cannot give: each use renews the 120 s, so a client that uses its ports again within that time fails."""
    seen = _reuse(measured, "renewed")
    during, after = seen.reuses
    assert during.failed == {}
    assert during.leaving == seen.on_leaving
    assert after.failed_on_leaving == sum(after.failed.values()) == seen.on_leaving


@pytest.mark.parametrize("name", ["half", "whole", "renewed", "fixed"])
def test_ports_never_used_before_lose_nothing(measured: Measured, name: str) -> None:
    """Whoever does not reuse ports is served all the time: the failures above are those of the reuse, not of the removal."""
    seen = _reuse(measured, name)
    assert seen.fresh_sent > 5
    assert (seen.fresh_failed, seen.fresh_to_leaving) == ({}, 0)
