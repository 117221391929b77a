"""The real node of this test run, its gateways, and what each test gets.

They need namespaces of their own, in which pytest runs too: `make gateways` (`python -m tests.gateways`). Elsewhere they are
skipped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.stage import Stage
from tests.gateways import contour, envoy_gateway, traefik
from tests.gateways.gateway import ADDRESS, NAMESPACE, PROMETHEUS_PORT, Gateway, install_gateway_api, scraping
from tests.gateways.report import REPORT, Case, table
from tests.gateways.routes import CANARY, STABLE, Route, version_behind
from tests.gateways.selection import programs_of
from tests.gateways.shifting import Shifting
from tests.lab.chart import install_chart
from tests.lab.control_plane import ControlPlane
from tests.node.measuring import measuring
from tests.node.one_run import node_of
from tests.node.real_node import RealNode

STARTS: dict[str, Callable[[RealNode], Gateway]] = {each.NAME: each.start for each in (envoy_gateway, traefik, contour)}


def pytest_sessionstart() -> None:
    """As `Report.forget`."""
    REPORT.forget()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """As `Report.show`."""
    REPORT.show(terminalreporter)


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
    """The chart's ServiceAccount with the rights that it has when these routers and workloads are among its values."""
    return install_chart(node.plane, "--set", "routers={gatewayAPI,contour,traefik,nginx},workloads={deployments}")


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
    stage = Stage(node.plane, route.namespace)
    stage.apply(*version_behind("1", STABLE), *version_behind("2", CANARY))
    for name in (STABLE, CANARY):
        stage.kubectl("rollout", "status", f"deployment/{name}", "--timeout=55s")
    stage.apply(*route.manifests())
    return route


@pytest.fixture
def shifting(node: RealNode, route: Route, controller_kubeconfig: Path) -> Iterator[Shifting]:
    """The route's namespace with a controller of its own, which knows whom to ask about the gateway."""
    yield from _managed(node, route, controller_kubeconfig, route.gateway.asked_as)


@pytest.fixture
def counted(node: RealNode, route: Route, controller_kubeconfig: Path) -> Iterator[Shifting]:
    """As `shifting`, but nobody lets the controller at the gateway: it knows a Prometheus, which scrapes it."""
    with scraping(node, route.gateway) as server:
        asked = f"prometheus:{route.gateway.counters}"
        yield from _managed(node, route, controller_kubeconfig, asked, f"--prometheus-url={server.url}")


@pytest.fixture
def measured(node: RealNode, route: Route, controller_kubeconfig: Path) -> Iterator[Shifting]:
    """As `shifting`, with a Prometheus that scrapes the gateway and the pods, for analyses."""
    stage, asked = Stage(node.plane, route.namespace), route.gateway.asked_as
    with measuring(node, stage, port=PROMETHEUS_PORT, besides=[route.gateway.scraped]) as server:
        yield from _managed(node, route, controller_kubeconfig, asked, f"--prometheus-url={server.url}")


def _managed(node: RealNode, route: Route, kubeconfig: Path, asked: str, *told: str) -> Iterator[Shifting]:
    # A route of the product's own kind does not tell which Gateway it is for.
    of = f"{NAMESPACE}/{route.gateway.name}" if route.kind == "HTTPRoute" else "*"
    flags = (f"--data-plane={of}={asked}", *told)
    with confined_controller(node.plane, kubeconfig, route.namespace, flags=flags):
        yield Shifting(node, Stage(node.plane, route.namespace), route)


@pytest.fixture(scope="session")
def cases(node: RealNode) -> Iterator[list[Case]]:
    """Takes the rows of the report; written after the last test, whatever failed."""
    rows: list[Case] = []
    yield rows
    REPORT.write([asdict(row) for row in rows], table(rows))
