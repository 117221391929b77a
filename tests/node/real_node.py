"""One real node: a control plane, containerd, kubelet and kube-proxy, in the namespaces that this process is in.

Pods have addresses of the bridge `cni0`. Clients have a network namespace of their own behind a router, as on another machine:
what they send to a Service goes through kube-proxy's rules on the way in, and through the connection tracker both ways.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
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

_STATE = Path("/run/rollouts-node")  # in memory, seen from the node's namespaces only
_SOCKET = _STATE / "containerd.sock"
_CTR = ("ctr", f"--address={_SOCKET}")
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
                "dataDir": str(_STATE / "addresses"),
            },
        }
    ],
}
_CONTAINERD = f"""
version = 2
root = "{_STATE}/containerd"
state = "{_STATE}/containerd-state"
oom_score = 0
[grpc]
address = "{_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{_STATE}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGES["pause"][0]}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{machine.CNI_PLUGINS}"
conf_dir = "{_STATE}/cni"
"""


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
        run(*_CTR, "--namespace", "k8s.io", "images", "import", archive)

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
        _start_containerd(processes)
        plane = start_without_nodes(folder, processes, programs=programs)
        node = RealNode(plane, processes)
        _import_images(node, programs)
        processes.start("kubelet", _kubelet(plane))
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


def _start_containerd(processes: Processes) -> None:
    (_STATE / "cni").mkdir(parents=True)
    (_STATE / "cni" / "10-lab.conflist").write_text(json.dumps(_CNI))
    config = _STATE / "containerd.toml"
    config.write_text(_CONTAINERD)
    processes.start("containerd", ["containerd", "--config", config])


def _import_images(node: RealNode, programs: Path) -> None:
    """Packs the images and gives them to containerd, which has been starting meanwhile."""
    wait_for(lambda: run(*_CTR, "version", code=None).returncode == 0, "containerd")
    for program, names in IMAGES.items():
        archive = _STATE / f"{program}.tar"
        images.pack(programs / program, names=names, archive=archive)
        node.import_image(archive)
        archive.unlink()


def _kubelet(plane: ControlPlane) -> list[str | Path]:
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{_SOCKET}",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{os.environ[machine.INSIDE]}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "oomScoreAdj": 0,
        "resolvConf": "",
        "volumePluginDir": str(_STATE / "volume-plugins"),
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
    }
    path = Path(plane.folder, "kubelet.json")
    path.write_text(json.dumps(config, indent=1))
    return [
        Path(plane.programs, "kubelet"),
        f"--config={path}",
        f"--kubeconfig={plane.kubeconfig_admin}",
        f"--hostname-override={NODE}",
        f"--node-ip={_ADDRESS}",
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
