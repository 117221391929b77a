"""The real node of this test run, and what each of its tests gets.

A node needs namespaces of its own, in which pytest runs too: `make node` (`python -m tests.node`). Elsewhere they are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.lab.chart import install_chart
from tests.lab.control_plane import ControlPlane
from tests.node import engine, machine
from tests.node.cutover import Seen
from tests.node.cutover_report import draw, side_by_side, table
from tests.node.installed import BEFORE, PRESENT, Installed, bare, checkout_of, give_image
from tests.node.lanes import Job, Lanes, lanes
from tests.node.one_run import ROOT, Report, node_of
from tests.node.real_node import RealNode

REPORT = Report(ROOT / "build" / "reports" / "cutover.json")
UPGRADED_FROM = os.environ.get("ROLLOUTS_NODE_UPGRADED_FROM", "b57b7c0")
"""The commit whose chart and image are upgraded: Secrets had no versions then, and analyses did not ask the cluster."""


def pytest_sessionstart() -> None:
    """As `Report.forget`."""
    REPORT.forget()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests whose jobs want the same kube-proxy follow each other, in the order in which the files ask for its modes.

    Before them come those that install the chart, into a cluster that has nothing of ours.
    """
    if machine.INSIDE not in os.environ:
        return
    items.sort(key=lambda item: "bare_cluster" not in getattr(item, "fixturenames", ()))
    proxies = list(dict.fromkeys(job.proxy if (job := _job(item)) else None for item in items))
    items.sort(key=lambda item: proxies.index(job.proxy if (job := _job(item)) else None))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """As `Report.show`."""
    REPORT.show(terminalreporter)


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """One real node for the whole run."""
    with node_of(request.session, command="node") as one:
        yield one


@pytest.fixture(scope="session")
def control_plane(node: RealNode) -> ControlPlane:
    """The node's control plane, for the fixtures that the lab has."""
    return node.plane


@pytest.fixture(scope="session")
def controller_kubeconfig(node: RealNode) -> Path:
    """The chart's ServiceAccount, with the rights to workloads that are updated in place, and the policies that hold them."""
    return install_chart(node.plane, "--set", "workloads={deployments,statefulsets,daemonsets}")


@pytest.fixture(scope="session")
def jobs_of_this_run(node: RealNode, controller_kubeconfig: Path, request: pytest.FixtureRequest) -> Iterator[Lanes]:
    """The jobs of all tests that were chosen, several at once. The report is written after the last test, whatever failed."""
    chosen = [job for item in request.session.items if (job := _job(item))]
    with lanes(node, controller_kubeconfig, chosen) as running:
        yield running
        rows = [result.row for result in running.results() if isinstance(result, Seen)]
        REPORT.write(list(map(asdict, rows)), table(rows))
        draw("Requests lost while pods are replaced", side_by_side(rows), REPORT.path.with_suffix(".svg"))


@pytest.fixture
def seen(request: pytest.FixtureRequest, jobs_of_this_run: Lanes) -> Any:
    """What the job that the test is parametrised with returned: `Seen` for a Trial."""
    return jobs_of_this_run.result(request.param)


@pytest.fixture
def bare_cluster(node: RealNode) -> Iterator[Installed]:
    """The cluster without the chart; what the test installs is removed after it."""
    with bare(node) as one:
        yield one


@pytest.fixture(scope="session")
def image_engine(node: RealNode) -> engine.Engine:
    """What builds images, with the base image of the Dockerfile."""
    try:
        one = engine.engine_in(Path(node.plane.folder, "engine"))
    except engine.NoEngine as reason:
        pytest.skip(str(reason))
    one.make_base(ROOT)
    return one


@pytest.fixture(scope="session")
def image(node: RealNode, image_engine: engine.Engine) -> str:
    """`make image` of this checkout, on the node under the tag PRESENT; what it printed."""
    said = image_engine.make_image(ROOT, tag=PRESENT)
    give_image(node, image_engine, PRESENT)
    return said


@pytest.fixture(scope="session")
def checkout_before(node: RealNode, image_engine: engine.Engine) -> Path:
    """The checkout of UPGRADED_FROM; its image is on the node under the tag BEFORE."""
    try:
        checkout = checkout_of(UPGRADED_FROM, Path(node.plane.folder, "checkout-before"))
    except LookupError as reason:
        pytest.skip(str(reason))
    image_engine.make_image(checkout, tag=BEFORE)
    give_image(node, image_engine, BEFORE)
    return checkout


def _job(item: pytest.Item) -> Job | None:
    job: Job | None = item.callspec.params.get("seen") if hasattr(item, "callspec") else None
    return job
