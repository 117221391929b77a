"""The chart with its image on a real node, as a person installs it: Helm, the Deployment, and what can be seen of its process."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.stage import Stage
from tests.lab.chart import CHART, RELEASE, RELEASE_NAMESPACE
from tests.lab.control_plane import ControlPlane
from tests.lab.processes import run
from tests.node.engine import Engine
from tests.node.one_run import ROOT
from tests.node.real_node import RealNode
from tests.node.workload import Manifest

PRESENT, BEFORE = "0.1.0", "before"
"""Tags of the controller's images: of this checkout, as `make image` names it, and of the version before."""

WITHIN_S = 120  # from the command until the Deployment is available and a process leads: many times what it takes
_LEASE = "rollouts-controller"
_COMMAND = b"/opt/rollouts/bin/python\0-I\0-m\0rollouts\0controller\0"
_CRDS = "app.kubernetes.io/name=rollouts"


@dataclass(frozen=True)
class Process:
    """What the kernel says of a controller's process."""

    user: int  # id; of the node, which has no user namespaces
    capabilities: int  # that it may have, as a bit set
    no_new_privileges: bool  # whether programs that it starts can have no more rights than it has
    seccomp: int  # 2 when system calls are filtered
    root_is_read_only: bool  # its root file system


def processes() -> list[Process]:
    """Every process that runs the image's entry point."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if not (folder / "cmdline").read_bytes().startswith(_COMMAND):
                continue
            lines = (folder / "status").read_text().splitlines()
            mounts = [line.split() for line in (folder / "mountinfo").read_text().splitlines()]
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        root = next(mount for mount in mounts if mount[4] == "/")
        found.append(
            Process(
                user=int(status["Uid"][1]),
                capabilities=int(status["CapBnd"][0], 16),
                no_new_privileges=status["NoNewPrivs"] == ["1"],
                seccomp=int(status["Seccomp"][0]),
                root_is_read_only="ro" in root[5].split(","),
            )
        )
    return found


@dataclass(frozen=True)
class Installed:
    """A cluster in which the chart may be installed; nobody else's controller runs there."""

    node: RealNode

    @property
    def plane(self) -> ControlPlane:
        return self.node.plane

    def upgrade(self, chart: Path = CHART, *, tag: str, values: Mapping[str, object] | None = None) -> str:
        """Installs or upgrades; returns when the new pods are all that are there, and one of them leads: its name."""
        command = (
            *("upgrade", "--install", RELEASE, str(chart), "--namespace", RELEASE_NAMESPACE, "--create-namespace"),
            *("--set", f"image.tag={tag}", "--set", "image.pullPolicy=Never"),
            *(each for name, value in (values or {}).items() for each in ("--set-json", f"{name}={json.dumps(value)}")),
        )
        self.plane.helm(*command)
        self.wait_available()
        return self.wait_for_leader()

    def wait_available(self) -> None:
        """`kubectl rollout status`, with what the pods say when it fails."""
        of = ("--namespace", RELEASE_NAMESPACE)
        done = self.plane.kubectl("rollout", "status", f"deployment/{RELEASE}", *of, "--timeout=55s", check=False)
        if done.returncode == 0:
            return
        pods = self.plane.kubectl("get", "pods", "-o", "yaml", *of).stdout
        logs = self.plane.kubectl("logs", f"deployment/{RELEASE}", *of, "--tail=40", check=False)
        raise AssertionError(f"{done.stderr}{pods[-6000:]}{logs.stdout}{logs.stderr}")

    def wait_for_leader(self) -> str:
        """The name of the pod that holds the Lease, one of the Deployment's present ones."""
        present = self.pods()

        def leaders(lease: Manifest) -> list[str]:
            return [name for name in present if name in str(lease.get("spec", {}).get("holderIdentity"))]

        stage = Stage(self.plane, RELEASE_NAMESPACE)
        return leaders(stage.until("leases", _LEASE, lambda one: bool(leaders(one)), within_s=WITHIN_S))[0]

    def pods(self) -> list[str]:
        pods = Stage(self.plane, RELEASE_NAMESPACE).all("pods")
        return [one["metadata"]["name"] for one in pods if "deletionTimestamp" not in one["metadata"]]

    def restarts(self) -> int:
        pods = Stage(self.plane, RELEASE_NAMESPACE).all("pods")
        return sum(each["restartCount"] for one in pods for each in one["status"].get("containerStatuses", []))

    def remove(self) -> None:
        """As the page's last commands do it: nothing of the chart is left."""
        plane = self.plane
        plane.kubectl("delete", "crd", "--selector", _CRDS, "--ignore-not-found", "--timeout=50s")
        if RELEASE in plane.helm("list", "--short", "--namespace", RELEASE_NAMESPACE).stdout.split():
            plane.helm("uninstall", RELEASE, "--namespace", RELEASE_NAMESPACE, "--wait", "--timeout", "60s")
            plane.kubectl("delete", "crd", "--selector", _CRDS, "--ignore-not-found", "--timeout=50s")
        plane.kubectl("delete", "namespace", RELEASE_NAMESPACE, "--ignore-not-found", "--timeout=55s")


@contextmanager
def bare(node: RealNode) -> Iterator[Installed]:
    """A cluster without the chart, before and after."""
    crds = node.plane.kubectl("get", "crd", "-l", _CRDS, "-o", "name").stdout
    assert crds == "", f"the chart is installed already:\n{crds}"
    one = Installed(node)
    try:
        yield one
    finally:
        one.remove()


def checkout_of(commit: str, folder: Path) -> Path:
    """The tree of a commit, unpacked. Raises: LookupError where this checkout does not have it."""
    archive = folder.with_suffix(".tar")
    safe = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    words = ("git", "-C", ROOT, "archive", f"--output={archive}", commit)
    done = run(*words, env={**os.environ, **safe}, code=None)
    if done.returncode != 0:
        raise LookupError(f"{commit} is not in this checkout: {done.stderr.strip()}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()
    return folder


def give_image(node: RealNode, engine: Engine, tag: str) -> None:
    """Gives an image that the engine has built to the node."""
    archive = engine.folder / f"{tag}.tar"
    engine.save(tag=tag, archive=archive)
    node.import_image(archive)
    archive.unlink()
