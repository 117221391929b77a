"""Promise: the proxy mode is found where it is written, the worst of all nodes counts, and what nobody says is not guessed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from rollouts.cluster.client import Client
from rollouts.controller.facts.proxies import AGAIN_S, FRESH_S, Proxies, proxy_facts
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.errors import ApiUnavailable
from rollouts.ports import Request, Response
from rollouts.sim.clock import SimClock
from tests.controller.world import ScriptedApi

pytestmark = pytest.mark.virtual_time

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
KUBE_PROXY = f"{CONFIG_MAPS}/kube-proxy"
DAEMON_SET = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
NODES = "/api/v1/nodes"
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.1"}

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a configuration says; nothing is bound here

KUBEADM = """
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
iptables:
  minSyncPeriod: 10s
ipvs:
  minSyncPeriod: 0s
  tcpFinTimeout: 30s
  tcpTimeout: 10m
kind: KubeProxyConfiguration
metricsBindAddress: ""
mode: "MODE"
"""


def _config(mode: str, *, key: str = "config.conf") -> dict[str, Any]:
    return {"data": {key: KUBEADM.replace("MODE", mode), "kubeconfig.conf": "x"}}


def _kernels(*versions: str) -> dict[str, Any]:
    return {"items": [{"status": {"nodeInfo": {"kernelVersion": each}}} for each in versions], "metadata": {}}


def _kube_proxy(*words: str) -> dict[str, Any]:
    container = {"name": "kube-proxy", "command": ["/usr/local/bin/kube-proxy", *words]}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


def _answers(found: dict[str, dict[str, Any] | int]) -> Callable[[Request], Response]:
    """A cluster that has these objects, or refuses them with a status."""

    def answer(request: Request) -> Response:
        what = found.get(request.path, 404)
        return Response(what, b"{}") if isinstance(what, int) else Response(200, msgspec.json.encode(what))

    return answer


def _client(api: ScriptedApi) -> Client:
    clock = SimClock(asyncio.get_running_loop())
    return Client(api, clock=clock, may_write=lambda: False, request_deadline_s=1.0)


async def _asked(found: dict[str, dict[str, Any] | int], *, declared: ProxyMode | None = None) -> ProxyFacts:
    return await proxy_facts(_client(ScriptedApi(otherwise=_answers(found))), declared=declared)


async def test_kubeadms_config_map_names_the_mode_and_its_period() -> None:
    """Only the period of that mode counts, and no node need be listed: kernels matter to ipvs alone."""
    api = ScriptedApi(otherwise=_answers({KUBE_PROXY: _config("iptables")}))

    assert await proxy_facts(_client(api)) == ProxyFacts(
        mode=ProxyMode.IPTABLES, known_by="ConfigMap kube-system/kube-proxy says iptables", min_sync_period_s=10.0
    )
    assert [request.path for request in api.requests] == [KUBE_PROXY]


@pytest.mark.parametrize(("mode", "found"), [("", ProxyMode.IPTABLES), ("nftables", ProxyMode.NFTABLES)])
async def test_an_empty_mode_is_iptables_and_a_missing_period_the_default(mode: str, found: ProxyMode) -> None:
    """kube-proxy on Linux; nftables is not in this configuration, so its period is the default of a second."""
    facts = await _asked({KUBE_PROXY: _config(mode)})

    assert (facts.mode, facts.min_sync_period_s) == (found, 10.0 if not mode else 1.0)


async def test_of_many_kernels_the_oldest_counts() -> None:
    """One node before 5.9 is enough to send a used port to the old pod."""
    kernels = _kernels("6.1.0-18-amd64", "5.4.0-150-generic", "5.15.0")
    facts = await _asked({KUBE_PROXY: _config("ipvs"), NODES: kernels})

    assert (facts.mode, facts.oldest_kernel, facts.min_sync_period_s) == (ProxyMode.IPVS, (5, 4), 0.0)
    assert (facts.ipvs_tcp_timeout_s, facts.ipvs_tcp_fin_timeout_s) == (600.0, 30.0)


@pytest.mark.parametrize("nodes", [403, _kernels(), _kernels("6.1.0", "")])
async def test_a_kernel_that_is_not_known_is_not_taken_for_a_new_one(nodes: dict[str, Any] | int) -> None:
    """No right to list nodes, no nodes, or one that says nothing: the safe number."""
    facts = await _asked({KUBE_PROXY: _config("ipvs"), NODES: nodes})

    assert facts.oldest_kernel is None


async def test_eks_keeps_it_elsewhere() -> None:
    """ConfigMap kube-proxy-config, key config; its ConfigMap kube-proxy holds a kubeconfig only."""
    found: dict[str, dict[str, Any] | int] = {
        KUBE_PROXY: {"data": {"kubeconfig": "kind: Config"}},
        f"{CONFIG_MAPS}/kube-proxy-config": _config("iptables", key="config"),
    }

    assert (await _asked(found)).known_by == "ConfigMap kube-system/kube-proxy-config says iptables"


@pytest.mark.parametrize("words", [("--proxy-mode=ipvs", "--ipvs-min-sync-period=2s"), ("--proxy-mode", "ipvs")])
async def test_the_arguments_of_the_daemon_set_are_read(words: tuple[str, ...]) -> None:
    """Both forms of a flag; clusters that predate the configuration file."""
    facts = await _asked({DAEMON_SET: _kube_proxy(*words), NODES: _kernels("5.10.1")})

    assert (facts.mode, facts.oldest_kernel) == (ProxyMode.IPVS, (5, 10))
    assert facts.min_sync_period_s == (2.0 if len(words[0]) > 14 else 1.0)


async def test_cilium_without_kube_proxy_is_another_data_plane() -> None:
    """`kube-proxy-replacement: "true"`; `"false"` says nothing about what stands in for it."""
    replaced = await _asked({f"{CONFIG_MAPS}/cilium-config": {"data": {"kube-proxy-replacement": "true"}}})
    beside = await _asked({f"{CONFIG_MAPS}/cilium-config": {"data": {"kube-proxy-replacement": "false"}}})

    assert (replaced.mode, beside.mode) == (ProxyMode.OTHER, ProxyMode.UNKNOWN)


@pytest.mark.parametrize("status", [403, 404])
async def test_what_is_refused_or_absent_is_unknown_with_its_remedy(status: int) -> None:
    """A condition, never a failure: an administrator may not want to grant this."""
    paths = [f"{CONFIG_MAPS}/{name}" for name in ("kube-proxy", "kube-proxy-config", "cilium-config")]
    facts = await _asked({**dict.fromkeys([*paths, DAEMON_SET], status), NODES: _kernels("6.1.0")})

    assert (facts.mode, facts.oldest_kernel) == (ProxyMode.UNKNOWN, (6, 1))
    assert "ConfigMap kube-system/kube-proxy" in facts.known_by
    assert "--proxy-mode" in facts.known_by


@pytest.mark.parametrize("text", ["", "}{", "kind: Config", "- a", KUBEADM.replace("MODE", "winkernel")])
async def test_a_configuration_that_says_nothing_to_us_is_unknown(text: str) -> None:
    """Broken YAML, another kind, or a mode of another system."""
    facts = await _asked({KUBE_PROXY: {"data": {"config.conf": text}}})

    assert facts.mode is ProxyMode.UNKNOWN


async def test_a_declared_mode_is_not_asked_for() -> None:
    """`--proxy-mode`, for clusters that hide it; the kernels of an ipvs cluster are still looked at."""
    api = ScriptedApi(otherwise=_answers({NODES: _kernels("6.1.0")}))

    iptables = await proxy_facts(_client(api), declared=ProxyMode.IPTABLES)
    assert (iptables.mode, api.requests) == (ProxyMode.IPTABLES, [])
    ipvs = await proxy_facts(_client(api), declared=ProxyMode.IPVS)
    assert (ipvs.oldest_kernel, len(api.requests)) == ((6, 1), 1)


def _nodes(*addresses: str) -> dict[str, Any]:
    kept = [{"type": "Hostname", "address": "n"}, *({"type": "InternalIP", "address": each} for each in addresses)]
    return {"items": [{"status": {"nodeInfo": {"kernelVersion": "6.1.0"}, "addresses": kept}}], "metadata": {}}


async def _learnt(
    bind: str, nodes: dict[str, Any] | int
) -> tuple[float | None, list[tuple[tuple[str, ...], int, float]]]:
    asked: list[tuple[tuple[str, ...], int, float]] = []

    async def ask(addresses: Sequence[str], *, port: int, min_sync_period_s: float, deadline_s: float) -> float:
        assert deadline_s > 0
        asked.append((tuple(addresses), port, min_sync_period_s))
        return 1.25

    text = KUBEADM.replace("MODE", "iptables").replace('metricsBindAddress: ""', f'metricsBindAddress: "{bind}"')
    api = ScriptedApi(otherwise=_answers({KUBE_PROXY: {"data": {"config.conf": text}}, NODES: nodes}))
    facts = await proxy_facts(_client(api), ask_nodes=ask)
    return facts.learnt_lag_s, asked


@pytest.mark.parametrize(
    ("bind", "port"), [(EVERYWHERE, 10249), ("0.0.0.0:9000", 9000), ("[::]:10249", 10249), ("::", 10249)]
)
async def test_the_lag_is_learnt_where_kube_proxies_can_be_asked(bind: str, port: int) -> None:
    """From the nodes' addresses, with the period that no second change is faster than."""
    assert await _learnt(bind, _nodes("10.1.0.1", "fd00::1")) == (1.25, [(("10.1.0.1",), port, 10.0)])


@pytest.mark.parametrize(
    ("bind", "nodes"),
    [
        ("", _nodes("10.1.0.1")),
        ("127.0.0.1:10249", _nodes("10.1.0.1")),
        ("127.0.0.1", _nodes("10.1.0.1")),
        ("0.0.0.0:port", _nodes("10.1.0.1")),
        ("nonsense", _nodes("10.1.0.1")),
        (EVERYWHERE, _nodes()),
        (EVERYWHERE, 403),
    ],
)
async def test_no_node_is_asked_in_vain(bind: str, nodes: dict[str, Any] | int) -> None:
    """The loopback is out of reach, and a node without an address may be the slowest."""
    assert await _learnt(bind, nodes) == (None, [])


async def test_trouble_is_not_read_as_unknown() -> None:
    """A 503 of a starting API server says nothing about proxies."""
    with pytest.raises(ApiUnavailable):
        await _asked({KUBE_PROXY: 503})


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"x":' + b"[" * 100_000, b'{"data":{"a":"\xff"}}', b'{"items":["\xff"],"spec":["']
)
@pytest.mark.parametrize("path", [KUBE_PROXY, DAEMON_SET, NODES])
async def test_an_answer_that_cannot_be_read_is_trouble_too(path: str, body: bytes) -> None:
    """It is what a proxy in between says, whatever its depth and its bytes."""
    others: dict[str, dict[str, Any] | int] = {KUBE_PROXY: _config("ipvs")} if path == NODES else {}
    rest = _answers(others)
    api = ScriptedApi(otherwise=lambda request: Response(200, body) if request.path == path else rest(request))

    with pytest.raises(ApiUnavailable, match="cannot be read"):
        await proxy_facts(_client(api))


async def test_it_is_asked_once_an_hour_and_sooner_after_trouble() -> None:
    """Not for each Rollout, nor in a pass. What was known stays while the API server has trouble."""
    trouble = _answers({"/version": 503, KUBE_PROXY: 503})
    good = _answers({"/version": VERSION, KUBE_PROXY: _config("nftables")})
    api = ScriptedApi(otherwise=good)
    changes: list[ProxyMode] = []
    api.otherwise = trouble
    proxies = Proxies(
        client=_client(api), api=api, declared=None, on_change=lambda: changes.append(proxies.facts.proxy.mode)
    )
    asking = asyncio.ensure_future(proxies.run())
    await proxies.asked.wait()
    assert proxies.facts.proxy.mode is ProxyMode.UNKNOWN
    api.otherwise, api.requests[:] = good, []
    await asyncio.sleep(AGAIN_S + 1)
    assert (proxies.facts.proxy.mode, len(api.requests)) == (ProxyMode.NFTABLES, 2)
    await asyncio.sleep(FRESH_S - 2 * AGAIN_S)
    assert len(api.requests) == 2
    api.otherwise = trouble
    await asyncio.sleep(2 * AGAIN_S)
    assert (proxies.facts.proxy.mode, len(api.requests) > 2) == (ProxyMode.NFTABLES, True)
    asking.cancel()
    await asyncio.wait({asking})

    assert changes == [ProxyMode.NFTABLES]


@pytest.mark.parametrize(("minor", "native"), [("33", False), ("34", True), ("36+", True)])
async def test_pods_sleep_natively_where_the_server_knows_it(minor: str, native: bool) -> None:
    """GA in 1.34: from there every kubelet that may run beside the server knows the field."""
    version = {**VERSION, "minor": minor}
    api = ScriptedApi(otherwise=_answers({"/version": version, KUBE_PROXY: _config("iptables")}))
    proxies = Proxies(client=_client(api), api=api, declared=None, on_change=lambda: None)
    asking = asyncio.ensure_future(proxies.run())
    await proxies.asked.wait()
    asking.cancel()
    await asyncio.wait({asking})
    assert proxies.facts.native_sleep is native
