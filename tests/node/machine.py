"""What a machine must be and have to run a real node, how it gets it, and what is left of a node when it has ended.

A node is a set of namespaces: processes, network, mounts. Its first process ends last, and the kernel ends everything in it then:
containerd's shims and the pods' processes too, wherever they have moved to. Only control groups are seen from outside; all of
a node's are below one that has the name of its launcher's process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.lab.packages import install
from tests.lab.processes import is_running, run

INSIDE = "ROLLOUTS_NODE_CGROUP"
"""Environment variable that the node's namespaces are marked with: the name of the control group above all of its pods."""

NETWORK = "ROLLOUTS_NODE_OUTSIDE"
"""Environment variable: the file descriptor of the machine's network namespace, which pytest inherits."""

CNI_PLUGINS = Path("/usr/lib/cni")
_CGROUP = "rollouts-node-"
_CGROUPS = Path("/sys/fs/cgroup")
_COMMANDS = {  # command: its Debian package
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    str(CNI_PLUGINS / "bridge"): "containernetworking-plugins",
}
_WEIGHT = {"cpu.shares": 4096, "cpu.weight": 400}  # in version 1, in version 2
"""Of all pods together against one other program of the machine: four times the usual. With the usual, where others work too,
twenty pods get a twentieth of the machine, and requests wait until they time out whatever becomes of the pods."""

_GONE_WITHIN_S = 5.0


class NodeUnavailable(Exception):
    """This machine cannot run a real node; the message is the reason and the remedy."""


def prepare() -> None:
    """Installs the packages that are missing. Raises: NodeUnavailable."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise NodeUnavailable("a real node needs root on Linux (namespaces, mounts, control groups)")
    if not (missing := _missing_packages()):
        return
    if not shutil.which("apt-get"):
        raise NodeUnavailable(f"install {', '.join(missing)} (as Debian names them)")
    said = install(missing, tier="node")
    if said or _missing_packages():
        raise NodeUnavailable(f"{', '.join(_missing_packages())} cannot be installed:\n{said}")


def make_cgroup() -> str:
    """Makes an empty control group of this process in every hierarchy, for the kubelet to work below; its name.

    Those of launchers that were killed, and could not remove theirs, are removed.
    """
    name = f"{_CGROUP}{os.getpid()}"
    for left in {group.name for hierarchy in _hierarchies() for group in hierarchy.glob(f"{_CGROUP}*")}:
        if not is_running(int(left.removeprefix(_CGROUP))):
            remove_cgroup(left)
    make_cgroup_below(name)
    for hierarchy in _hierarchies():
        for setting, weight in _WEIGHT.items():
            if (hierarchy / name / setting).exists():
                (hierarchy / name / setting).write_text(str(weight))
    return name


def make_cgroup_below(name: str) -> None:
    """Makes a control group of that path in every hierarchy; the one above it is there."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.mems", "cpuset.cpus"):
            with contextlib.suppress(FileNotFoundError):  # version 1, where they are empty at first and must not be
                (group / setting).write_text((group.parent / setting).read_text())


def remove_cgroup(name: str) -> None:
    """Removes a control group with all below it; its processes have ended. One that stays busy is left."""
    deadline = time.monotonic() + _GONE_WITHIN_S
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            while time.monotonic() < deadline:
                try:
                    Path(folder).rmdir()
                except OSError:  # the kernel is still busy with the last process
                    time.sleep(0.05)
                else:
                    break


def _hierarchies() -> list[Path]:
    if (_CGROUPS / "cgroup.controllers").exists():  # version 2
        return [_CGROUPS]
    return [folder for folder in _CGROUPS.iterdir() if not folder.is_symlink() and (folder / "cgroup.procs").exists()]


def _missing_packages() -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return sorted({package for command, package in _COMMANDS.items() if not shutil.which(command, path=path)})


def outside(*words: str | Path, within_s: float, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Runs a command in the machine's own network, for what fetches something: a node's namespaces reach only themselves.

    What it prints; otherwise as tests.lab.processes.run. The network is a descriptor that `python -m tests.node` hands down.
    """
    network = f"/proc/{os.getpid()}/fd/{os.environ[NETWORK]}"
    return run("nsenter", f"--net={network}", "--", *words, env=env, cwd=cwd, within_s=within_s).stdout
