"""`python -m tests.node [PYTEST ARGUMENT...]`: the tests of this folder, on a real node in namespaces of its own.

Installs and builds what is missing, then runs pytest inside the namespaces. Nothing of the node outlives it, and the machine's
own network, mounts and processes are not touched. A machine that cannot run a node skips the tests with the reason, unless
$ROLLOUTS_LAB_REQUIRED is set: then this fails.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.lab import binaries
from tests.node import machine

_PR_SET_PDEATHSIG = 1  # prctl(2)
_NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts", "--mount-proc")
_ROOT = Path(__file__).parent.parent.parent


def main() -> int:
    """The exit code of pytest."""
    try:
        machine.prepare()
        binaries.build_missing(programs=(*binaries.PROGRAMS, *binaries.NODE_PROGRAMS))
    except (machine.NodeUnavailable, binaries.LabUnavailable) as reason:
        print(f"node: skipped: {reason}", file=sys.stderr)
        return 1 if os.environ.get("ROLLOUTS_LAB_REQUIRED") else 0
    return run_inside(sys.argv[1:])


def run_inside(arguments: list[str]) -> int:
    """Runs pytest with these arguments as a node's namespaces have it; its exit code."""
    cgroup = machine.make_cgroup()
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    environment = {
        **os.environ,
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "PYTHONPATH": str(_ROOT),
        machine.INSIDE: cgroup,
        machine.NETWORK: str(network),
    }
    # --kill-child: the first process of the namespaces ends with unshare, unshare ends with us, and everything with the first.
    command = ["unshare", *_NAMESPACES, "--fork", "--kill-child", sys.executable, "-m", "tests.node.inside", *arguments]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which then stops in order
    try:
        return subprocess.run(
            command, env=environment, pass_fds=[network], preexec_fn=_end_with_the_parent, check=False
        ).returncode
    finally:
        os.close(network)
        machine.remove_cgroup(cgroup)


def _end_with_the_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_LIBC = ctypes.CDLL(None)

if __name__ == "__main__":
    sys.exit(main())
