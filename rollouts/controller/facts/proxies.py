"""Facts about the cluster that waits depend on: how nodes proxy Services, and whether pods can sleep natively.

The controller asks at the start and once an hour, for all Rollouts together. Every question is optional: an answer that is
refused (403) or absent (404) leaves the fact unknown, which becomes a condition of the Rollouts and never a failure. When an
answer is late, the last known facts stay.

The order: ConfigMap `kube-system/kube-proxy` (kubeadm), `kube-proxy-config` (EKS), the DaemonSet's arguments, `cilium-config`.
A ConfigMap holds for all nodes; kernels differ, and the oldest counts. kube-proxy's own `/proxyMode` and metrics are on each
node's loopback address by default, so a Pod cannot reach them; where the configuration binds its metrics elsewhere, the lag of
the proxies is learnt from them (`probes/kube_proxy.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Protocol, TypeVar

import msgspec
import structlog
from msgspec import Struct

from rollouts.api.v1alpha1.wire import parse_duration
from rollouts.cluster.client import Client
from rollouts.cluster.discovery import server_version
from rollouts.core.context.drain_numbers import DEFAULT_MIN_SYNC_S
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.errors import ApiForbidden, ApiNotFound, ApiUnavailable, RolloutsError
from rollouts.objects import CONFIG_MAP, DAEMON_SET, Kind
from rollouts.ports import ApiServer

NODE = Kind("", "v1", "Node", "nodes", namespaced=False)

NAMESPACE = "kube-system"
CONFIG_MAPS = (("kube-proxy", "config.conf"), ("kube-proxy-config", "config"))
"""Names and keys of ConfigMaps with a KubeProxyConfiguration: kubeadm's, then EKS's."""

FRESH_S = 3600.0  # a proxy mode changes with the cluster's configuration, kernels with its nodes
AGAIN_S = 60.0  # after a question without an answer
VERSION_DEADLINE_S = 15.0
NATIVE_SLEEP = (1, 34)  # KEP-3960 and KEP-4818 are GA; kubelets of an older cluster may drop the field

METRICS_DEADLINE_S = 5.0
METRICS_PORT = 10249
_CONFIG_MAX = 65_536  # characters; kubeadm writes two thousand, and the parser reads some 50 in a millisecond

_Form = TypeVar("_Form")
_KERNEL = re.compile(r"(\d+)\.(\d+)")

log = structlog.get_logger()


class ClusterFacts(Struct, frozen=True):
    """The known facts about the cluster. With `native_sleep`, pods can have a `preStop.sleep`."""

    proxy: ProxyFacts = ProxyFacts()
    native_sleep: bool = True


class AskNodes(Protocol):
    """The type of `probes.kube_proxy.learnt_lag_s`: asks the nodes' kube-proxies for their lag."""

    async def __call__(
        self, addresses: Sequence[str], *, port: int, min_sync_period_s: float, deadline_s: float
    ) -> float | None:
        """The lag in seconds; None when it cannot be learnt. Raises: nothing that a node could cause."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Proxies:
    """The facts, kept up to date by `run`.

    Args:
        declared: the proxy mode that the administrator names; None to find out.
        ask_nodes: asks kube-proxies whose metrics can be reached; None to ask no node.
    """

    client: Client
    api: ApiServer
    declared: ProxyMode | None
    on_change: Callable[[], None]
    ask_nodes: AskNodes | None = None
    facts: ClusterFacts = field(default=ClusterFacts(), init=False)
    asked: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set after the first round of questions, answered or not."""

    async def run(self) -> None:
        """Asks again and again, until it is cancelled."""
        while True:
            good = await self._ask()
            self.asked.set()
            await asyncio.sleep(FRESH_S if good else AGAIN_S)

    async def _ask(self) -> bool:
        before, good = self.facts, True
        for question in (self._ask_version, self._ask_proxy):
            try:
                await question()
            except RolloutsError as exc:
                good = False
                log.warning("cluster_facts_not_read", error=type(exc).__name__, why=str(exc), again_in_s=AGAIN_S)
            except Exception:  # a bug, or an answer of an unexpected form: the last known facts stay
                good = False
                log.exception("cluster_facts_crashed", again_in_s=AGAIN_S)
        if self.facts != before:
            proxy = self.facts.proxy
            tell = log.warning if proxy.mode is ProxyMode.UNKNOWN else log.info
            tell("proxy_mode", mode=proxy.mode, known_by=proxy.known_by, native_sleep=self.facts.native_sleep)
            self.on_change()
        return good

    async def _ask_version(self) -> None:
        version = await server_version(self.api, deadline_s=VERSION_DEADLINE_S)
        self.facts = replace(self.facts, native_sleep=(version.major, version.minor) >= NATIVE_SLEEP)

    async def _ask_proxy(self) -> None:
        self.facts = replace(
            self.facts, proxy=await proxy_facts(self.client, declared=self.declared, ask_nodes=self.ask_nodes)
        )


async def proxy_facts(
    client: Client, *, declared: ProxyMode | None = None, ask_nodes: AskNodes | None = None
) -> ProxyFacts:
    """How the nodes proxy Services; where nodes differ, the worst of them counts.

    Args:
        declared: the mode, if it is given; then only kernels are asked for, where they matter.
        ask_nodes: see `Proxies`.

    Raises: TransientError, when the API server does not answer; ApiInvalid.
    """
    facts, tried = None, list[str]()
    port: int | None = None
    if declared is not None:
        facts = ProxyFacts(mode=declared, known_by=f"--proxy-mode {declared} is set")
    for name, key in CONFIG_MAPS if facts is None else ():
        config_map = await _optional(client, CONFIG_MAP, name, _ConfigMap, tried)
        text = (config_map.data or {}).get(key, "") if config_map is not None else ""
        if (facts := _from_config(text, name)) is not None:
            port = _metrics_port(_configuration(text).get("metricsBindAddress"))
            break
    if facts is None:
        facts = await _from_daemon_set(client, tried)
    if facts is None:
        cilium = await _optional(client, CONFIG_MAP, "cilium-config", _ConfigMap, tried)
        if cilium is not None and (cilium.data or {}).get("kube-proxy-replacement") in ("true", "strict"):
            known_by = f"ConfigMap {NAMESPACE}/cilium-config says that Cilium replaces kube-proxy"
            facts = ProxyFacts(mode=ProxyMode.OTHER, known_by=known_by)
    if facts is None:
        remedy = "set the mode with --proxy-mode (in the chart: proxyMode)"
        facts = ProxyFacts(known_by=f"nothing says how the nodes proxy Services ({'; '.join(tried)}); {remedy}")
    return await _with_nodes(client, facts, port=port, ask_nodes=ask_nodes)


async def _with_nodes(client: Client, facts: ProxyFacts, *, port: int | None, ask_nodes: AskNodes | None) -> ProxyFacts:
    """`facts` with the oldest kernel of the nodes where it matters, and the measured lag of their kube-proxies.

    Neither is known when one of the nodes does not tell it.
    """
    needs_kernel = facts.mode in (ProxyMode.IPVS, ProxyMode.UNKNOWN)
    if port is None or ask_nodes is None:
        return replace(facts, oldest_kernel=_oldest_kernel(await _nodes(client))) if needs_kernel else facts
    nodes = await _nodes(client)
    if needs_kernel:
        facts = replace(facts, oldest_kernel=_oldest_kernel(nodes))
    addresses = [
        next((address.address for address in node.status.addresses if address.type == "InternalIP"), "")
        for node in nodes
    ]
    if not addresses or "" in addresses:
        return facts
    period_s = DEFAULT_MIN_SYNC_S if facts.min_sync_period_s is None else facts.min_sync_period_s
    lag_s = await ask_nodes(addresses, port=port, min_sync_period_s=period_s, deadline_s=METRICS_DEADLINE_S)
    return replace(facts, learnt_lag_s=lag_s)


def _oldest_kernel(nodes: Sequence[_Node]) -> tuple[int, int] | None:
    kernels = [_KERNEL.match(node.status.node_info.kernel_version) for node in nodes]
    versions = [(int(kernel[1]), int(kernel[2])) for kernel in kernels if kernel is not None]
    return min(versions, default=None) if len(versions) == len(kernels) else None


async def _optional(client: Client, kind: Kind, name: str, form: type[_Form], tried: list[str]) -> _Form | None:
    """Raises: ApiUnavailable."""
    try:
        return _decoded(await client.get(kind, NAMESPACE, name), form)
    except ApiNotFound:
        tried.append(f"no {kind.kind} {NAMESPACE}/{name}")
    except ApiForbidden:
        tried.append(f"reading {kind.kind} {NAMESPACE}/{name} is forbidden")
    return None


def _decoded(answer: bytes, form: type[_Form]) -> _Form:
    """Raises: ApiUnavailable."""
    try:
        return msgspec.json.decode(answer, type=form)
    except (ValueError, RecursionError) as exc:
        raise ApiUnavailable(f"the API server's answer cannot be read ({exc}): {answer[:80]!r}") from exc


@lru_cache(maxsize=4)  # it is asked for again and again, and next to never changes
def _configuration(text: str) -> Mapping[str, Any]:
    """The KubeProxyConfiguration in a text; {} when it has none."""
    import yaml  # noqa: PLC0415 - the connection's library needs it; the controller does not until here

    if len(text) > _CONFIG_MAX:
        return {}
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}  # the library's constructors raise what they like: `!!bool x` is a KeyError
    return config if isinstance(config, dict) and config.get("kind") == "KubeProxyConfiguration" else {}


def _metrics_port(address: object) -> int | None:
    """The port at which a Pod can ask a node's kube-proxy: `0.0.0.0`, `0.0.0.0:10249`, `[::]:10249`; None for the loopback."""
    if not isinstance(address, str) or not address:
        return None
    host, colon, port = address.rpartition(":")
    if not colon or (address.count(":") > 1 and not address.startswith("[")):  # an address without a port
        host, port = address, str(METRICS_PORT)
    try:
        bound = ip_address(host.strip("[]"))
    except ValueError:
        return None
    return int(port) if bound.is_unspecified and port.isascii() and port.isdigit() else None


def _from_config(text: str, name: str) -> ProxyFacts | None:
    """The facts in a KubeProxyConfiguration; None when the text is none. An empty mode is iptables (kube-proxy on Linux)."""
    config = _configuration(text)
    if not config:
        return None
    mode = _mode(config.get("mode") or ProxyMode.IPTABLES)
    if mode is None:
        return None
    part: dict[str, Any] = config[mode] if isinstance(config.get(mode), dict) else {}
    ipvs = part if mode is ProxyMode.IPVS else {}
    return ProxyFacts(
        mode=mode,
        known_by=f"ConfigMap {NAMESPACE}/{name} says {mode}",
        min_sync_period_s=_period_s(part.get("minSyncPeriod")),
        ipvs_tcp_timeout_s=_seconds(ipvs.get("tcpTimeout")) or None,  # 0 keeps the kernel's timeout
        ipvs_tcp_fin_timeout_s=_seconds(ipvs.get("tcpFinTimeout")) or None,
    )


async def _from_daemon_set(client: Client, tried: list[str]) -> ProxyFacts | None:
    """The facts in kube-proxy's arguments, `--proxy-mode ipvs` or `--proxy-mode=ipvs`; None without that flag."""
    daemon_set = await _optional(client, DAEMON_SET, "kube-proxy", _DaemonSet, tried)
    if daemon_set is None:
        return None
    containers = daemon_set.spec.template.spec.containers
    words = [word for container in containers for word in (*(container.command or ()), *(container.args or ()))]
    mode = _mode(_flag(words, "--proxy-mode"))
    if mode is None:
        tried.append(f"DaemonSet {NAMESPACE}/kube-proxy names no mode")
        return None
    return ProxyFacts(
        mode=mode,
        known_by=f"the arguments of DaemonSet {NAMESPACE}/kube-proxy say {mode}",
        min_sync_period_s=_period_s(_flag(words, f"--{mode}-min-sync-period") or None),
        ipvs_tcp_timeout_s=_seconds(_flag(words, "--ipvs-tcp-timeout")) or None,
        ipvs_tcp_fin_timeout_s=_seconds(_flag(words, "--ipvs-tcpfin-timeout")) or None,
    )


async def _nodes(client: Client) -> Sequence[_Node]:
    """All nodes; () when the controller may not list them."""
    nodes: list[_Node] = []
    token = ""
    while True:
        try:
            page = _decoded(await client.list_page(NODE, None, continue_token=token), _Nodes)
        except (ApiForbidden, ApiNotFound):
            return ()
        nodes += page.items
        if not (token := page.metadata.continue_token):
            return nodes


def _mode(word: object) -> ProxyMode | None:
    """The mode that kube-proxy's word means on Linux."""
    return next((mode for mode in (ProxyMode.IPTABLES, ProxyMode.NFTABLES, ProxyMode.IPVS) if mode == word), None)


def _flag(words: Sequence[str], name: str) -> str:
    for index, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and index + 1 < len(words):
            return words[index + 1]
    return ""


def _period_s(value: object) -> float:
    """`minSyncPeriod` in seconds. When it is not given, 1 s, also for ipvs, which has no default."""
    seconds = _seconds(value) if value is not None else None
    return DEFAULT_MIN_SYNC_S if seconds is None else seconds


def _seconds(value: object) -> float | None:
    try:
        return parse_duration(value)
    except ValueError:
        return None


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


class _Container(msgspec.Struct):
    command: list[str] | None = None
    args: list[str] | None = None


class _PodSpec(msgspec.Struct):
    containers: list[_Container]


class _Template(msgspec.Struct):
    spec: _PodSpec


class _DaemonSetSpec(msgspec.Struct):
    template: _Template


class _DaemonSet(msgspec.Struct):
    spec: _DaemonSetSpec


class _NodeInfo(msgspec.Struct, rename="camel"):
    kernel_version: str = ""


class _NodeAddress(msgspec.Struct):
    type: str = ""
    address: str = ""


class _NodeStatus(msgspec.Struct, rename="camel"):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)
    addresses: list[_NodeAddress] = msgspec.field(default_factory=list)


class _Node(msgspec.Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _ListMetadata(msgspec.Struct):
    continue_token: str = msgspec.field(default="", name="continue")


class _Nodes(msgspec.Struct):
    items: list[_Node]
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
