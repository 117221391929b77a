"""Promise: under ipvs the waits keep every request that a wait can keep, and what none can keep is a condition beforehand.

A client here has 20 ports and uses each every two seconds: what the real ip_vs does to it is measured in tests/ipvs.
"""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import Manifest
from rollouts.sim.network.proxies import ProxySettings
from rollouts.sim.network.traffic import NEW, Connections
from tests import build
from tests.behaviour.faults.under_load import Watched, watched
from tests.behaviour.scenarios import HALF, SHORT, canary, updated
from tests.behaviour.stage import Stage

OLD, SAFE = (5, 8), (5, 9)
BUSY_PORTS = Connections(ports=20)
SLEEP_S = 130.0  # more than pods sleep on old kernels
KUBE_PROXY = build.config_map(
    "kube-proxy",
    "kube-system",
    data={"config.conf": "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n"},
)


def update(kernel: tuple[int, int], connections: Connections) -> tuple[Watched, list[Manifest], list[str]]:
    """An update on ipvs nodes of that kernel; with the conditions and the notes of the Events about draining."""
    conditions: list[Manifest] = []
    notes: list[str] = []

    async def script(stage: Stage) -> None:
        conditions.extend(filter(None, [stage.condition("DrainUnsafe")]))
        await updated(stage)
        await asyncio.sleep(SLEEP_S)
        notes.extend(stage.events("DrainUnsafe"))

    seen = watched(
        canary(HALF, SHORT),
        script,
        "web",
        there=(KUBE_PROXY,),
        kernel=f"{kernel[0]}.{kernel[1]}.0-generic",
        rate_per_s=10.0,
        proxy=ProxySettings(mode="ipvs", kernel=kernel),
        connections=connections,
    )
    seen.run.assert_clean()
    return seen, conditions, notes


@pytest.mark.parametrize(
    ("kernel", "connections"),
    [(SAFE, BUSY_PORTS), (SAFE, NEW), (OLD, NEW)],
    ids=["5.9, the same ports", "5.9, other ports", "5.8, other ports"],
)
def test_what_a_wait_can_keep_is_kept(kernel: tuple[int, int], connections: Connections) -> None:
    """Whoever lets ports rest, and everybody from Linux 5.9 on, loses nothing."""
    seen, _, _ = update(kernel, connections)

    assert (seen.lost, seen.sent > 1_000) == (0, True)


def test_a_client_that_never_lets_its_ports_rest_loses_requests_on_old_kernels() -> None:
    """After more than two minutes of sleep: that is why it is told, and the proof that the tests above can see it."""
    seen, _, _ = update(OLD, BUSY_PORTS)

    assert seen.lost > 0


def test_it_is_told_before_the_first_update_and_once() -> None:
    """A condition on a healthy Rollout, with need, have and the remedy, and one Event; on kernels from 5.9 neither."""
    _, (condition,), (note,) = update(OLD, NEW)

    assert (condition["status"], condition["reason"]) == ("True", "DrainUnsafe")
    assert "need kernel 5.9 on every node under ipvs, have kernel 5.8" in condition["message"]
    assert "run kube-proxy in nftables mode" in condition["message"]
    assert note == condition["message"]
    assert update(SAFE, NEW)[1:] == ([], [])
