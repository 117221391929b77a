"""Fixtures of the real control plane, and what holds for a whole test run that used it.

One control plane serves the whole run, also under pytest-xdist: two of them on two cores would be slower than one shared, and
namespaces keep the tests apart. The first test that needs it starts it (about 3 s). Tests marked `controlplane` are skipped with
the reason where the programs are missing, unless `$ROLLOUTS_LAB_REQUIRED` is set: then they fail.
After a failed run the programs' logs are in build/lab-logs/.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lab import binaries, supervisor
from tests.lab.chart import CONTROLLER_USER, RBAC_GROUP, RELEASE, RELEASE_NAMESPACE, install_chart
from tests.lab.control_plane import HANDLE_FILE, ControlPlane

_ROOT = Path(__file__).parent.parent.parent
_FOLDER = pytest.StashKey[Path]()
_OWNER = pytest.StashKey[int]()
_DENIED = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Agrees on the folder of this run's control plane: the user's pytest process names it, its workers are told."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        config.stash[_FOLDER] = _ROOT / "build" / "lab" / f"{os.getpid()}-{secrets.token_hex(3)}"
        config.stash[_OWNER] = os.getpid()
    else:
        config.stash[_FOLDER] = Path(worker["lab_folder"])
        config.stash[_OWNER] = worker["lab_owner"]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells an xdist worker about the shared control plane."""
    node.workerinput["lab_folder"] = str(node.config.stash[_FOLDER])
    node.workerinput["lab_owner"] = node.config.stash[_OWNER]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what needs programs that this machine does not have."""
    if item.get_closest_marker("controlplane"):
        _programs_or_skip()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The run fails if the API server ever refused the controller something: the chart's RBAC would be too small."""
    config = session.config
    if hasattr(config, "workerinput") or not (config.stash[_FOLDER] / HANDLE_FILE).exists():
        return
    plane = ControlPlane.load(config.stash[_FOLDER])
    config.stash[_DENIED] = refused_to_the_controller(plane.audit_events())
    if config.stash[_DENIED]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Names the refused requests."""
    for request in config.stash.get(_DENIED, []):
        terminalreporter.write_line(f"ERROR the chart's ServiceAccount has no right to {request}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the control plane; nothing is left when pytest has ended."""
    if _FOLDER in config.stash and not hasattr(config, "workerinput"):
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        failed = bool(reporter and (reporter.stats.get("failed") or reporter.stats.get("error")))
        denied = bool(config.stash.get(_DENIED, []))
        supervisor.stop(config.stash[_FOLDER], keep_logs=failed or denied)


def refused_to_the_controller(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """The requests that the API server answered with 403 to the chart's ServiceAccount while the chart was installed.

    Helm takes the rights away before the controller's pods have ended. Secrets of tenants are not among the chart's rights: each
    tenant grants them with what `rollouts rbac` prints, and until then they are refused.
    """
    refused: set[str] = set()
    granted = True
    for event in events:
        of, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
        if of.get("apiGroup") == RBAC_GROUP and of.get("name", "").startswith(RELEASE) and code < 300:
            granted = event["verb"] != "delete"
        elif (
            granted
            and event["user"].get("username") == CONTROLLER_USER
            and code == 403
            and not event.get("userAgent", "").startswith("kubectl/")  # a test with the controller's kubeconfig
            and not (of.get("resource") == "secrets" and of.get("namespace") not in (None, RELEASE_NAMESPACE))
        ):
            refused.add(f"{event['verb']} {event['requestURI'].partition('?')[0]}")
    return sorted(refused)


@pytest.fixture(scope="session")
def lab_programs() -> Path:
    """The folder of etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok and helm."""
    return _programs_or_skip()


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config, lab_programs: Path) -> Iterator[ControlPlane]:
    """The real control plane of this test run, shared by all its tests; take a `namespace` of your own in it."""
    plane = supervisor.shared(pytestconfig.stash[_FOLDER], owner=pytestconfig.stash[_OWNER])
    yield plane
    plane.api.close()


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace on the real control plane. It stays, but for autoscalers, which are looked at every second."""
    with control_plane.fresh_namespace(stays=True, ends=["horizontalpodautoscalers"]) as name:
        yield name


@pytest.fixture(scope="session")
def controller_kubeconfig(control_plane: ControlPlane) -> Path:
    """A kubeconfig for the chart's ServiceAccount, whose RBAC and CRDs are installed once a run.

    Every test on the real control plane runs the controller with it, so that a missing permission shows.
    """
    with Path(control_plane.folder, "chart.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return install_chart(control_plane)


def _programs_or_skip() -> Path:
    try:
        return binaries.folder()
    except binaries.LabUnavailable as reason:
        if os.environ.get("ROLLOUTS_LAB_REQUIRED"):
            pytest.fail(f"no real control plane: {reason}")
        pytest.skip(f"no real control plane: {reason}")
