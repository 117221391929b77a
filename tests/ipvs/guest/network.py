"""The guest's network: one node with pods and a client behind it, every one in a network namespace of its own.

    guest (etcd, kube-apiserver) 10.88.0.1
      └── node 10.88.0.2 ── bridge 10.89.0.1 ── pods 10.89.0.10 and on
                         └─ link   10.90.0.1 ── client 10.90.0.2

Client and pods are in different subnets, so that what goes to a Service and what comes back both pass the node.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

API_ADDRESS = "10.88.0.1"
CLIENT = "client"

_CLONE_NEWNET = 0x40000000  # <linux/sched.h>
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Pod:
    """A namespace with one address on the node's bridge."""

    name: str  # of the namespace and of the interface on the node, so at most 15 characters
    node: str
    address: str


@dataclass(frozen=True, slots=True)
class NodeNetwork:
    """The node's part of the network."""

    name: str
    pods: tuple[Pod, ...]
    address: str = "10.88.0.2"


def node_network(name: str, pod_names: Sequence[str]) -> NodeNetwork:
    """Gives every pod of the node its address."""
    pods = [Pod(pod, name, f"10.89.0.{10 + place}") for place, pod in enumerate(pod_names)]
    return NodeNetwork(name, tuple(pods))


def build(node: NodeNetwork) -> None:
    """Makes all namespaces and links. Raises: CalledProcessError."""
    _ip(None, *_links_of_the_guest(node))
    _ip(node.name, *_links_of_the_node(node))
    _ip(CLIENT, *_inside("10.90.0.2", "10.90.0.1"))
    for pod in node.pods:
        _ip(pod.name, *_inside(pod.address, "10.89.0.1"))


def remove(namespace: str) -> None:
    """Takes a namespace away, as the end of a pod's sandbox does: its address answers no more."""
    _ip(None, f"netns del {namespace}")


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is in another network namespace; sockets made meanwhile stay there. Never await inside."""
    with Path("/proc/thread-self/ns/net").open() as before, Path("/run/netns", namespace).open() as target:
        _enter(target.fileno())
        try:
            yield
        finally:
            _enter(before.fileno())


def socket_in(namespace: str, kind: socket.SocketKind) -> socket.socket:
    """A non-blocking IPv4 socket of a namespace."""
    with inside(namespace):
        made = socket.socket(socket.AF_INET, kind)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def setting(namespace: str, name: str, value: int | None = None) -> int:
    """A number under /proc/sys/net of a namespace, changed to a value if there is one."""
    path = Path("/proc/sys/net", name)
    with inside(namespace):
        if value is not None:
            path.write_text(str(value))
        return int(path.read_text())


def _links_of_the_guest(node: NodeNetwork) -> Iterator[str]:
    yield "link set lo up"
    yield f"netns add {node.name}"
    yield f"netns add {CLIENT}"
    yield from (f"netns add {pod.name}" for pod in node.pods)
    yield f"link add {node.name} type veth peer name control netns {node.name}"
    yield f"addr add {API_ADDRESS}/24 dev {node.name}"
    yield f"link set {node.name} up"


def _links_of_the_node(node: NodeNetwork) -> Iterator[str]:
    yield "link set lo up"
    yield f"addr add {node.address}/24 dev control"
    yield "link set control up"
    yield f"route add default via {API_ADDRESS}"
    yield "link add pods type bridge"
    yield "addr add 10.89.0.1/24 dev pods"
    yield "link set pods up"
    for pod in node.pods:
        yield f"link add {pod.name} type veth peer name eth0 netns {pod.name}"
        yield f"link set {pod.name} master pods up"
    yield f"link add client type veth peer name eth0 netns {CLIENT}"
    yield "addr add 10.90.0.1/24 dev client"
    yield "link set client up"


def _inside(address: str, gateway: str) -> Iterator[str]:
    yield "link set lo up"
    yield f"addr add {address}/24 dev eth0"
    yield "link set eth0 up"
    yield f"route add default via {gateway}"


def _ip(namespace: str | None, *lines: str) -> None:
    where = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def _enter(descriptor: int) -> None:
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
