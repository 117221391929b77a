"""The real node of this test run, and what each of its tests gets.

A node needs namespaces of its own, in which pytest runs too: `make node` (`python -m tests.node`). Elsewhere they are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.stage import Stage
from tests.lab import binaries
from tests.lab.control_plane import ControlPlane
from tests.lab.pytest_plugin import refused_to_the_controller
from tests.node import machine
from tests.node.cutover import Cutover
from tests.node.cutover_report import Case, draw, side_by_side, table, write
from tests.node.real_node import Proxy, RealNode, started

ROOT = Path(__file__).parent.parent.parent
REPORT = ROOT / "build" / "reports" / "cutover.json"


def pytest_sessionstart() -> None:
    """Figures of an earlier run must not be taken for this one's."""
    if machine.INSIDE in os.environ:
        for suffix in (".json", ".md", ".svg"):
            REPORT.with_suffix(suffix).unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table, under the results."""
    if machine.INSIDE in os.environ and (path := REPORT.with_suffix(".md")).exists():
        terminalreporter.write(f"\n{path.read_text()}")


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """One real node for the whole run; the logs of a failed run stay in build/lab-logs/node."""
    if machine.INSIDE not in os.environ:
        pytest.skip("a real node is started by `make node`")
    folder = ROOT / "build" / "lab" / os.environ[machine.INSIDE]
    kept = ROOT / "build" / "lab-logs" / "node"
    programs = binaries.folder(programs=(*binaries.PROGRAMS, *binaries.NODE_PROGRAMS))
    complete = False
    try:
        with started(folder, programs=programs) as one:
            yield one
            refused = refused_to_the_controller(one.plane)
        complete = True
    finally:
        if not complete or request.session.testsfailed:
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder / "logs", kept)
        shutil.rmtree(folder)
    assert refused == [], "the chart grants the controller too little"


@pytest.fixture(scope="session")
def control_plane(node: RealNode) -> ControlPlane:
    """The node's control plane, for the fixtures that the lab has."""
    return node.plane


@pytest.fixture(scope="session")
def proxy(request: pytest.FixtureRequest, node: RealNode) -> Proxy:
    """How kube-proxy runs, for tests that are parametrised with it; changed as rarely as their order allows."""
    proxy: Proxy = request.param
    node.use_proxy(proxy)
    return proxy


@pytest.fixture
def stage(node: RealNode, namespace: str, controller_kubeconfig: Path) -> Iterator[Stage]:
    """A namespace of the node with a controller of its own, run as the chart's ServiceAccount."""
    with confined_controller(controller_kubeconfig, namespace=namespace, logs=Path(node.plane.folder, "logs")):
        yield Stage(node.plane, namespace)


@pytest.fixture
def cutover(node: RealNode, stage: Stage, proxy: Proxy, cases: list[Case]) -> Cutover:
    """Makes moves under load in the test's namespace."""
    return Cutover(node, stage, proxy, cases)


@pytest.fixture(scope="session")
def cases(node: RealNode) -> Iterator[list[Case]]:
    """Takes the rows of the report; written after the last test, with its picture, whatever failed."""
    rows: list[Case] = []
    yield rows
    write(rows, REPORT)
    REPORT.with_suffix(".md").write_text("\n".join([*table(rows), ""]))
    draw(side_by_side(rows), REPORT.with_suffix(".svg"))
