"""`python -m tests.node [PYTEST ARGUMENT...]`: the tests of this folder, on a real node in namespaces of its own.

Installs and builds what is missing, then runs pytest inside the namespaces. Nothing of the node outlives it, and the machine's
own network, mounts and processes are not touched. A machine that cannot run a node skips the tests with the reason, unless
$ROLLOUTS_LAB_REQUIRED is set: then this fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from tests.lab import binaries, gateway_parts
from tests.lab.processes import end_with_the_parent
from tests.node import machine

_NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts", "--mount-proc")
_ROOT = Path(__file__).parent.parent.parent


def main() -> int:
    code = prepared("node", (*binaries.PROGRAMS, *binaries.NODE_PROGRAMS))
    return run_inside(sys.argv[1:]) if code is None else code


def prepared(tier: str, programs: Sequence[binaries.Program], products: Collection[str] = ()) -> int | None:
    """Installs and builds what is missing for these; the code to exit with where that cannot be."""
    try:
        machine.prepare()
        binaries.build_missing(programs=programs)
        gateway_parts.prepare(products)
    except (machine.NodeUnavailable, binaries.LabUnavailable) as reason:
        print(f"{tier}: skipped: {reason}", file=sys.stderr)
        return 1 if os.environ.get("ROLLOUTS_LAB_REQUIRED") else 0
    return None


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
        ends = partial(end_with_the_parent, signal.SIGKILL)
        return subprocess.run(command, env=environment, pass_fds=[network], preexec_fn=ends, check=False).returncode
    finally:
        os.close(network)
        machine.remove_cgroup(cgroup)


if __name__ == "__main__":
    sys.exit(main())
