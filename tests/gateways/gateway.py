"""What the tests need to know of a gateway that runs on the node."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from rollouts.sim.network.gateway_types import GATEWAY, GATEWAY_CLASS
from rollouts.sim.storage.registry import NAMESPACE as NAMESPACE_KIND
from tests.build import manifest
from tests.lab import gateway_parts
from tests.lab.chart import wait_established
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for
from tests.lab.prometheus_server import NAME as PROGRAM
from tests.lab.prometheus_server import Job, Prometheus, target
from tests.node.real_node import RealNode

NAMESPACE = "gateways"  # where every gateway's own objects are
PROMETHEUS_PORT = 9490
ADDRESS = "10.200.0.1"  # the node's, on which the gateways listen


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """A gateway at work."""

    name: str  # of the product, of its GatewayClass and of its Gateway
    port: int  # that clients ask at
    plane: str  # the kind of data plane, as the controller's flag --data-plane has it
    admin: str  # the data plane's own address, for tests that look at it themselves
    features: frozenset[str]  # what its routes can do besides weights: header, mirror
    counters: str = ""  # what the flag calls its counters of requests; "" for a gateway whose counters tell nothing
    metrics: str = ""  # path at `admin` where Prometheus finds them

    @property
    def asked_as(self) -> str:
        """What the flag says of whom to ask."""
        return f"{self.plane}:{self.admin}"

    @property
    def scraped(self) -> Job:
        """What Prometheus scrapes of it."""
        return target(self.name, self.admin.removeprefix("http://"), self.metrics)


def install_gateway_api(plane: ControlPlane) -> None:
    """The Gateway API's CRDs of the standard channel, and the namespace of the gateways."""
    plane.apply(manifest(NAMESPACE_KIND, NAMESPACE))
    install_crds(plane, "gateway-api")


def install_crds(plane: ControlPlane, name: str) -> None:
    found = gateway_parts.crds(name)
    plane.apply(*found)
    for each in found:
        wait_established(plane, each["metadata"]["name"])


def gateway_manifests(name: str, *, controller: str, port: int, parameters: dict[str, Any] | None = None) -> list[Any]:
    """A GatewayClass and its Gateway with one listener for routes of all namespaces."""
    reference = {"parametersRef": parameters} if parameters else {}
    listener = {"name": "http", "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
    return [
        manifest(GATEWAY_CLASS, name, spec={"controllerName": controller, **reference}),
        manifest(GATEWAY, name, NAMESPACE, spec={"gatewayClassName": name, "listeners": [listener]}),
    ]


def answers(url: str) -> Callable[[], bool]:
    """Whether something answers at `url` with 2xx."""
    return lambda: httpx.get(url, timeout=1, trust_env=False).is_success


def listens(port: int) -> Callable[[], bool]:
    """Whether something listens at a port of the node's address."""

    def ask() -> bool:
        with socket.socket() as one:
            one.settimeout(1)
            return one.connect_ex((ADDRESS, port)) == 0

    return ask


def folder(node: RealNode, name: str) -> Path:
    """A folder for a gateway's files, among the node's."""
    path = Path(node.plane.folder, name)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def scraping(node: RealNode, gateway: Gateway) -> Iterator[Prometheus]:
    """A Prometheus on the node that scrapes the gateway, empty at first, while the block runs."""
    program, home = Path(node.plane.programs, PROGRAM), folder(node, PROGRAM)
    jobs = [gateway.scraped]
    server = Prometheus(node.processes, program=program, home=home, port=PROMETHEUS_PORT, jobs=jobs, every_s=2)
    with server.running():
        wait_for(answers(f"{server.url}/-/ready"), PROGRAM, node.processes)
        yield server
