"""What every end-to-end test gets: a fresh namespace with the real controller at work in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import KUBE_PROXY
from tests.e2e.stage import KubectlStage, Stage
from tests.lab import supervisor
from tests.lab.control_plane import ControlPlane


@pytest.fixture(scope="session", autouse=True)
def kube_proxy(control_plane: ControlPlane) -> None:
    """Every cluster says how it proxies, before a controller asks."""
    control_plane.apply(KUBE_PROXY)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace. It stays, but Rollouts, pods and whatever else is at work in it are deleted after the test."""
    with control_plane.fresh_namespace(stays=True) as name:
        yield name


@pytest.fixture(scope="module")
def controller_flags() -> tuple[str, ...]:
    """More flags of the controller that the tests of a file share; a file that needs some has a fixture of this name."""
    return ()


@pytest.fixture(scope="module")
def _namespaces_with_a_controller(
    control_plane: ControlPlane,
    controller_kubeconfig: Path,
    controller_flags: tuple[str, ...],
    request: pytest.FixtureRequest,
) -> Iterator[Iterator[str]]:
    """A namespace for each test of the file that has a stage, and one controller at work in all of them: a start takes as much as
    many a test.

    The controller runs as the chart's ServiceAccount. After the last test it must stop on SIGTERM, without a crash in its log.
    """
    tests = [each for each in request.session.items if each.path == request.path]
    staged = [each for each in tests if isinstance(each, pytest.Function) and "stage" in each.fixturenames]
    names = [control_plane.new_namespace() for _ in staged]
    with confined_controller(control_plane, controller_kubeconfig, *names, flags=controller_flags):
        yield iter(names)


@pytest.fixture
def stage(
    control_plane: ControlPlane, _namespaces_with_a_controller: Iterator[str], request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """A namespace of the test's own with a controller at work. What is at work in it is deleted after the test.

    In a file whose name ends with `_by_kubectl` the test acts by kubectl.
    """
    acts = KubectlStage if request.path.stem.endswith("_by_kubectl") else Stage
    namespace = next(_namespaces_with_a_controller)
    yield acts(control_plane, namespace)
    control_plane.end_in(namespace)


@pytest.fixture(scope="module")
def modules_plane(tmp_path_factory: pytest.TempPathFactory, lab_programs: Path) -> Iterator[ControlPlane]:
    """A control plane of the file's own: here controllers work in all namespaces, as the chart's Deployment does.

    Objects without a namespace stay from one test to the next.
    """
    with supervisor.own(tmp_path_factory.mktemp("plane")) as plane:
        yield plane
