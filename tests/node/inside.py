"""The first process of a node's namespaces: mounts, then pytest, then the end of everything.

Runs as `python -m tests.node.inside [PYTEST ARGUMENT...]`, started by `python -m tests.node` alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.node import machine

_OWN_FOLDERS = ("/run", "/var/log", "/var/lib/cni", "/var/lib/kubelet")
"""Where the programs of a node write although they are told to write elsewhere: empty, in memory, seen from inside only."""


def main() -> int:
    """Pytest's exit code. When this process ends the kernel ends all others of the namespaces."""
    if machine.INSIDE not in os.environ or os.getpid() != 1:
        print("this is not the first process of a node's namespaces; use python -m tests.node", file=sys.stderr)
        return 2
    for folder in _OWN_FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    pytest = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "pytest", *(sys.argv[1:] or ["tests/node"])],
        os.environ,
        setsigdef=[signal.SIGINT],  # ignored here, but not there
    )
    while True:  # whoever loses its parent becomes a child of the first process, which must wait for it
        ended, status = os.wait()
        if ended == pytest:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
