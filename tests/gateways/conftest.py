"""The real node of this test run, its gateways, and what each test gets.

They need namespaces of their own, in which pytest runs too: `make gateways` (`python -m tests.gateways`). Elsewhere they are
skipped.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controllers import Controller
from tests.e2e.stage import Stage
from tests.gateways import contour, envoy_gateway, prometheus, traefik
from tests.gateways.backends import run_two_versions
from tests.gateways.gateway import ADDRESS, NAMESPACE, Gateway, install_gateway_api
from tests.gateways.report import REPORT, Case, table, write
from tests.gateways.routes import Route
from tests.gateways.selection import programs_of
from tests.gateways.shifting import Shifting
from tests.lab.chart import install_chart
from tests.lab.control_plane import ControlPlane
from tests.lab.prometheus_server import Prometheus, Target
from tests.node import machine
from tests.node.measuring import measuring
from tests.node.one_run import node_of
from tests.node.real_node import RealNode

STARTS: dict[str, Callable[[RealNode], Gateway]] = {each.NAME: each.start for each in (envoy_gateway, traefik, contour)}


def pytest_sessionstart() -> None:
    """Figures of an earlier run must not be taken for this one's."""
    if machine.INSIDE in os.environ:
        for suffix in (".json", ".md"):
            REPORT.with_suffix(suffix).unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table, under the results."""
    if machine.INSIDE in os.environ and (path := REPORT.with_suffix(".md")).exists():
        terminalreporter.write(f"\n{path.read_text()}")


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """One real node for the whole run, which knows the Gateway API."""
    with node_of(request.session, command="gateways", more_programs=programs_of(request.session.items)) as one:
        install_gateway_api(one.plane)
        yield one


@pytest.fixture(scope="session")
def control_plane(node: RealNode) -> ControlPlane:
    """The node's control plane, for the fixtures that the lab has."""
    return node.plane


@pytest.fixture(scope="session")
def controller_kubeconfig(node: RealNode) -> Path:
    """The chart's ServiceAccount with the rights that it has when these routers are among its values."""
    return install_chart(node.plane, "--set", "routers={gatewayAPI,contour,traefik,nginx}")


@pytest.fixture(scope="session")
def running(node: RealNode) -> dict[str, Gateway]:
    """The gateways that were started so far, by name; they end with the node's other programs."""
    return {}


@pytest.fixture(scope="session")
def hosts(node: RealNode) -> Path:
    """The file of hosts as all processes of the node's namespaces see it: lines may be added."""
    file = Path(node.plane.folder, "hosts")
    file.write_text("127.0.0.1 localhost\n")
    subprocess.run(["mount", "--bind", str(file), "/etc/hosts"], check=True)
    return file


@pytest.fixture
def route(request: pytest.FixtureRequest, node: RealNode, running: dict[str, Gateway], hosts: Path) -> Route:
    """The user's route that the test is parametrised with: a gateway's name and a kind, in a namespace of its own."""
    name, kind = request.param
    if name not in running:
        running[name] = STARTS[name](node)
    one = Route(kind, running[name], request.getfixturevalue("namespace"))
    with hosts.open("a") as file:
        file.write(f"{ADDRESS} {one.host}\n")
    return one


@pytest.fixture
def two_versions(node: RealNode, route: Route) -> Route:
    """The route, applied, with the two versions behind it, and no Rollout."""
    run_two_versions(node.plane, route.namespace)
    node.plane.apply(*route.manifests(), namespace=route.namespace)
    return route


@pytest.fixture
def shifting(node: RealNode, route: Route, controller_kubeconfig: Path) -> Iterator[Shifting]:
    """The route's namespace with a controller of its own, which knows whom to ask about the gateway."""
    yield from _managed(node, route, controller_kubeconfig, f"--data-plane={_named(route, route.gateway.asked_as)}")


@pytest.fixture
def counted(node: RealNode, route: Route, controller_kubeconfig: Path) -> Iterator[Shifting]:
    """As `shifting`, but nobody lets the controller at the gateway: it knows a Prometheus, which scrapes it."""
    with prometheus.scraping(node, route.gateway) as url:
        told = f"--data-plane={_named(route, f'prometheus:{route.gateway.counters}')}"
        yield from _managed(node, route, controller_kubeconfig, told, f"--prometheus-url={url}")


@pytest.fixture
def measured(node: RealNode, route: Route, controller_kubeconfig: Path) -> Iterator[tuple[Shifting, Prometheus]]:
    """As `shifting`, with a Prometheus that scrapes the gateway and the pods, for analyses."""
    told = f"--data-plane={_named(route, route.gateway.asked_as)}"
    stage, gateway = Stage(node.plane, route.namespace), route.gateway
    counters = Target(job=gateway.name, address=gateway.admin.removeprefix("http://"), path=gateway.metrics)
    with measuring(node, stage, port=prometheus.PORT, besides=[counters]) as server:
        for one in _managed(node, route, controller_kubeconfig, told, f"--prometheus-url={server.url}"):
            yield one, server


def _named(route: Route, kind: str) -> str:
    # A route of the product's own kind does not tell which Gateway it is for.
    return f"{NAMESPACE}/{route.gateway.name}={kind}" if route.kind == "HTTPRoute" else f"*={kind}"


def _managed(node: RealNode, route: Route, kubeconfig: Path, *told: str) -> Iterator[Shifting]:
    log = Path(node.plane.folder, "logs", f"controller-{route.namespace}.log")
    arguments = ["-n", route.namespace, "--leader-elect", "--lease-name", route.namespace, *told]
    with Controller(kubeconfig, log=log, arguments=arguments):
        yield Shifting(node, Stage(node.plane, route.namespace), route)


@pytest.fixture(scope="session")
def cases(node: RealNode) -> Iterator[list[Case]]:
    """Takes the rows of the report; written after the last test, whatever failed."""
    rows: list[Case] = []
    yield rows
    write(rows, REPORT)
    REPORT.with_suffix(".md").write_text("\n".join([*table(rows), ""]))
