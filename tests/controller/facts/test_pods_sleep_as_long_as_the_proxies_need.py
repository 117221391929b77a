"""Promise: the whole controller asks the cluster how it proxies before its first pass, and the pods it makes end accordingly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.controller.facts.proxies import FRESH_S
from rollouts.objects import EVENT, REPLICA_SET, ROLLOUT, Manifest
from rollouts.settings import ProxyModeSetting
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.controller.test_the_process_outlives_what_objects_hold import Running

pytestmark = pytest.mark.virtual_time

CART = build.rollout({"canary": {}}, "cart", "default")


async def _rolled_out(
    *,
    kube_proxy: str,
    kernel: str = "6.1.0",
    proxy_mode: ProxyModeSetting = "auto",
    later_s: float = 0.0,
    later_mode: str = "",
) -> tuple[Manifest, Manifest, list[str]]:
    """The pod spec, the Rollout's status and what its Events say, `later_s` after kube-proxy's mode became another one."""

    def is_healthy(seen: Manifest | None) -> bool:
        return seen is not None and seen.get("status", {}).get("phase") == "Healthy"

    async with SimulatedCluster(
        seed=3, crds=crd_manifests(), kube_proxy=kube_proxy, kubelet=KubeletSettings(kernel=kernel)
    ) as cluster:
        controller = Running(cluster, proxy_mode=proxy_mode)
        cluster.apply(CART)
        await cluster.until(is_healthy, kind=ROLLOUT, namespace="default", name="cart", deadline_s=60)
        if later_mode:
            cluster.apply(_config(later_mode), manager="kubeadm")
        await asyncio.sleep(later_s)
        await controller.stopped()
        (made,), (rollout,) = cluster.list(REPLICA_SET), cluster.list(ROLLOUT)
        notes = [str(each["note"]) for each in cluster.list(EVENT)]
        return made["spec"]["template"]["spec"], rollout["status"], notes


def _config(mode: str) -> Manifest:
    config = f"kind: KubeProxyConfiguration\nmode: {mode}\n"
    return build.config_map("kube-proxy", "kube-system", data={"config.conf": config})


def _unknown(status: Manifest) -> list[Any]:
    return [each["message"] for each in status["conditions"] if each["type"] == "ProxyModeKnown"]


@pytest.mark.parametrize(
    ("kube_proxy", "kernel", "seconds", "grace_s"),
    [
        ("iptables", "5.4.0", 6, 41),
        ("nftables", "6.12.0", 6, 41),
        ("ipvs", "6.1.0", 6, 41),
        ("ipvs", "5.4.0", 126, 161),
    ],
)
async def test_the_sleep_is_that_of_the_proxy_mode(kube_proxy: str, kernel: str, seconds: int, grace_s: int) -> None:
    """From kube-proxy's ConfigMap and the nodes, all the way to the pods; said in status and in the Event of the update."""
    pod, status, notes = await _rolled_out(kube_proxy=kube_proxy, kernel=kernel)

    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": seconds}}}
    assert pod["terminationGracePeriodSeconds"] == grace_s
    noted = {"containers": ["app"], "seconds": seconds, "graceSeconds": grace_s, "native": True}
    assert status["drain"]["preStop"] == noted
    assert any(f"preStop sleep of {seconds} s in app" in note for note in notes)
    assert _unknown(status) == []


async def test_a_cluster_that_does_not_say_gets_the_safe_number_and_a_condition() -> None:
    """The remedy is in the condition's message; the Rollout goes on."""
    pod, status, _ = await _rolled_out(kube_proxy="", kernel="5.4.0")

    assert pod["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 130}}
    (message,) = _unknown(status)
    assert "--proxy-mode" in message


async def test_an_administrator_may_name_the_mode() -> None:
    """For clusters that hide it, or where the controller may not ask."""
    pod, status, _ = await _rolled_out(kube_proxy="", kernel="5.4.0", proxy_mode="nftables")

    assert pod["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 6}}
    assert _unknown(status) == []


async def test_a_mode_that_becomes_known_is_noticed_and_rolls_nobodys_pods() -> None:
    """An hour later at most; the condition goes, and the ReplicaSet that there is keeps its template."""
    pod, status, _ = await _rolled_out(kube_proxy="", kernel="5.4.0", later_s=FRESH_S + 10, later_mode="iptables")

    assert _unknown(status) == []
    assert pod["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 130}}
