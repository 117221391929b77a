"""One real node: a control plane, containerd, kubelet and kube-proxy, in the namespaces that this process is in.

Pods have addresses of the bridge `cni0`. Clients have a network namespace of their own behind a router, as on another machine:
what they send to a Service goes through kube-proxy's rules on the way in, and through the connection tracker both ways.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import httpx

from rollouts.objects import ENDPOINT_SLICE
from tests.build import config_map, manifest
from tests.lab.control_plane import ControlPlane, is_true
from tests.lab.launch import start_without_nodes
from tests.lab.loopback import wait_for
from tests.lab.processes import Processes, run
from tests.node import images, machine, metrics_server

ProxyMode: TypeAlias = Literal["iptables", "nftables"]

NODE = "node1"
READY_WITHIN_S = 60
CLIENTS = "clients"  # the network namespace of the clients, below /run/netns

IMAGES = {
    "pause": ["registry.local/pause:1"],
    "app-dies": ["registry.local/app-dies:1"],
    "app-graceful": ["registry.local/app-graceful:1"],
    "podinfo": [f"ghcr.io/stefanprodan/podinfo:6.9.{patch}" for patch in range(3)],
}
"""Programs, and the images that are made of them, as examples and pages name them; no registry is asked for any."""

STATE = Path("/run/rollouts-node")
"""Files of the nodes: in memory, seen from the nodes' namespaces only."""

_ADDRESS = "10.200.0.1"
_PROXY_HEALTH = "http://127.0.0.1:10256/healthz"
_PROXY_METRICS_PORT = 10249
_PROGRAMMING = re.compile(
    r'^kubeproxy_network_programming_duration_seconds_bucket\{.*?le="(.+?)"\} (\S+)$', re.MULTILINE
)
_NETWORK = f"""
link add cni0 type bridge
addr add 10.88.0.1/16 dev cni0
link set cni0 up
addr add {_ADDRESS}/32 dev lo
route add default dev cni0
netns add {CLIENTS}
link add clients0 type veth peer name eth0 netns {CLIENTS}
addr add 10.201.0.1/24 dev clients0
link set clients0 up
"""
_CLIENTS_NETWORK = """
addr add 10.201.0.2/24 dev eth0
link set eth0 up
link set lo up
route add default via 10.201.0.1
"""
_CNI = {
    "cniVersion": "1.0.0",
    "name": "lab",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": str(STATE / "addresses"),
            },
        }
    ],
}
_CONTAINERD = f"""
version = 2
root = "$home/containerd"
state = "$home/containerd-state"
oom_score = 0
[grpc]
address = "$home/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "$home/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGES["pause"][0]}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{machine.CNI_PLUGINS}"
conf_dir = "{STATE}/cni"
"""


@dataclass(frozen=True)
class _Host:
    """One node of the cluster: a kubelet and a containerd of its own, in the network that all nodes here share."""

    number: int

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def home(self) -> Path:
        return STATE / self.name

    @property
    def socket(self) -> Path:
        return self.home / "containerd.sock"

    def ctr(self, *words: str | Path, code: int | None = 0) -> int:
        """Runs containerd's client; its exit code."""
        return run("ctr", f"--address={self.socket}", *words, code=code).returncode

    def import_image(self, archive: Path) -> None:
        self.ctr("--namespace", "k8s.io", "images", "import", archive)


_FIRST, _SECOND = _Host(1), _Host(2)
_STARTING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Proxy:
    """How kube-proxy runs."""

    mode: ProxyMode
    min_sync_period_s: float = 1.0  # it changes its rules at most once in this time; 1 s is its own default

    def __str__(self) -> str:
        return self.mode if self.min_sync_period_s == 1 else f"{self.mode}-{self.min_sync_period_s:g}s"


@dataclass(frozen=True)
class RealNode:
    """A node that is ready, and its control plane."""

    plane: ControlPlane
    processes: Processes

    def use_proxy(self, proxy: Proxy) -> None:
        """Runs kube-proxy in this way from now on, the rules of another mode removed; returns when its rules are in force."""
        self.processes.check()
        self.processes.end("kube-proxy", patience_s=2.0)
        config = self._write_proxy_config(proxy)
        program = Path(self.plane.programs, "kube-proxy")
        run(program, "--cleanup", f"--config={config}")
        self.processes.start("kube-proxy", [program, f"--config={config}", "--v=2"])
        wait_for(lambda: httpx.get(_PROXY_HEALTH, trust_env=False).status_code == 200, "kube-proxy", self.processes)

    def slowest_sync_s(self) -> float:
        """The longest that kube-proxy took, since it was started, from a change of an endpoint to its rules, in seconds.

        kube-proxy gives a histogram: this is the upper bound of its slowest bucket that is not empty.
        """
        metrics = httpx.get(f"http://127.0.0.1:{_PROXY_METRICS_PORT}/metrics", trust_env=False).text
        counts = [(float(bound), float(count)) for bound, count in _PROGRAMMING.findall(metrics)]
        return min(bound for bound, count in counts if count == counts[-1][1])

    def import_image(self, archive: Path) -> None:
        """Gives the images of an archive (`docker save`, or the OCI layout) to containerd."""
        _FIRST.import_image(archive)

    def start_second(self) -> None:
        """Starts a second node, unless it is there; returns when it is ready. It takes only pods that tolerate its taint.

        Both have the machine's network, so the one kube-proxy is that of both.
        """
        with _STARTING:
            if _SECOND.home.exists():
                return
            run("ip", "address", "add", f"{_address(_SECOND)}/32", "dev", "lo")
            machine.make_cgroup_below(_cgroup(_SECOND))
            _start_containerd(self.processes, _SECOND)
            _import_images(_SECOND, Path(self.plane.programs), ("pause", "app-dies"))
            self.processes.start(f"kubelet-{_SECOND.name}", _kubelet(self.plane, _SECOND))
            nodes = "/api/v1/nodes"
            self.plane.until(nodes, _SECOND.name, lambda one: is_true(one, "Ready"), within_s=READY_WITHIN_S)

    def _write_proxy_config(self, proxy: Proxy) -> Path:
        sync = {"minSyncPeriod": f"{proxy.min_sync_period_s:g}s"}
        # Its own limits for the connection tracker are the whole machine's: left as they are.
        conntrack = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
        config: dict[str, Any] = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.plane.kubeconfig_admin), "qps": 100, "burst": 200},
            "mode": proxy.mode,
            "hostnameOverride": NODE,
            "conntrack": conntrack,
            "iptables": sync,
            "nftables": sync,
            "metricsBindAddress": f"0.0.0.0:{_PROXY_METRICS_PORT}",
        }
        text = json.dumps(config, indent=1)
        # Where kubeadm keeps it, and where a controller that wants to know the mode looks.
        self.plane.apply(config_map("kube-proxy", "kube-system", data={"config.conf": text}))
        path = Path(self.plane.folder, "kube-proxy.json")
        path.write_text(text)
        return path


@contextmanager
def started(folder: Path, *, programs: Path) -> Iterator[RealNode]:
    """A node that is ready, with kube-proxy in iptables mode; its files, and NAME.log of every program, are in the folder.

    Guarantees: all programs have ended when left; pods' processes end with the namespaces.
    """
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    processes = Processes(folder / "logs")
    try:
        _make_network()
        (STATE / "cni").mkdir(parents=True)
        (STATE / "cni" / "10-lab.conflist").write_text(json.dumps(_CNI))
        _start_containerd(processes, _FIRST)
        plane = start_without_nodes(folder, processes, programs=programs)
        node = RealNode(plane, processes)
        _import_images(_FIRST, programs, IMAGES)
        processes.start("kubelet", _kubelet(plane, _FIRST))
        plane.until("/api/v1/nodes", NODE, lambda one: is_true(one, "Ready"), within_s=READY_WITHIN_S)
        plane.wait_for_default_account("default")
        _publish_api_server(plane)
        node.use_proxy(Proxy("iptables"))
        metrics_server.start(plane, processes)
        yield node
        plane.api.close()
    finally:
        processes.stop(patience_s=3.0)


def _make_network() -> None:
    run("ip", "-batch", "-", text=_NETWORK)
    run("ip", "-netns", CLIENTS, "-batch", "-", text=_CLIENTS_NETWORK)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # Answers from one pod to another pass the bridge; without this the tracker would not see them.
    with contextlib.suppress(FileNotFoundError):
        Path("/proc/sys/net/bridge/bridge-nf-call-iptables").write_text("1")
    # A client that opens 400 connections a second has 24,000 in TIME_WAIT: more than half of the usual range.
    ports = "echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range"
    run("ip", "netns", "exec", CLIENTS, "sh", "-c", ports)


def _start_containerd(processes: Processes, host: _Host) -> None:
    host.home.mkdir()
    config = host.home / "containerd.toml"
    config.write_text(_CONTAINERD.replace("$home", str(host.home)))
    processes.start(f"containerd-{host.name}", ["containerd", "--config", config])


def _import_images(host: _Host, programs: Path, names: Iterable[str]) -> None:
    """Packs the images and gives them to containerd, which has been starting meanwhile."""
    wait_for(lambda: host.ctr("version", code=None) == 0, "containerd")
    for program in names:
        archive = host.home / f"{program}.tar"
        images.pack(programs / program, names=IMAGES[program], archive=archive)
        host.import_image(archive)
        archive.unlink()


def _address(host: _Host) -> str:
    return f"10.200.0.{host.number}"


def _cgroup(host: _Host) -> str:
    """Below it are the control groups of its pods."""
    all_nodes = os.environ[machine.INSIDE]
    return all_nodes if host is _FIRST else f"{all_nodes}/{host.name}"


def _kubelet(plane: ControlPlane, host: _Host) -> list[str | Path]:
    # What all nodes of a machine would have in common if nobody said otherwise.
    own = {
        "port": 10_250 + host.number - 1,
        "healthzPort": 10_240 + host.number,
        "podLogsDir": str(host.home / "pod-logs"),
        "registerWithTaints": [{"key": "second", "effect": "NoSchedule"}],
    }
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{host.socket}",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{_cgroup(host)}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "oomScoreAdj": 0,
        "resolvConf": "",
        "volumePluginDir": str(STATE / "volume-plugins"),
        # The machine's disk is none of the tests' business.
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "maxPods": 110,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        **({} if host is _FIRST else own),
    }
    path = host.home / "kubelet.json"
    path.write_text(json.dumps(config, indent=1))
    return [
        Path(plane.programs, "kubelet"),
        f"--config={path}",
        f"--kubeconfig={plane.kubeconfig_admin}",
        f"--hostname-override={host.name}",
        f"--node-ip={_address(host)}",
        *([] if host is _FIRST else [f"--root-dir={host.home}/kubelet"]),
    ]


def _publish_api_server(plane: ControlPlane) -> None:
    """Pods reach the API server as in any cluster, by the Service `kubernetes`."""
    port = httpx.URL(plane.url).port
    slices = manifest(
        ENDPOINT_SLICE,
        "kubernetes",
        "default",
        metadata={"labels": {"kubernetes.io/service-name": "kubernetes"}},
        addressType="IPv4",
        endpoints=[{"addresses": [_ADDRESS], "conditions": {"ready": True}}],
        ports=[{"name": "https", "port": port, "protocol": "TCP"}],
    )
    plane.apply(slices)
