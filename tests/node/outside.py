"""The machine's own network, for commands of a test that fetch something: a node's namespaces reach only themselves."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab import processes

NETWORK = "ROLLOUTS_NODE_OUTSIDE"
"""Environment variable: the file descriptor of the machine's network namespace, which pytest inherits."""


def command(*words: str | Path) -> list[str]:
    """The words of a command that runs in the machine's network, and in all other namespaces of the node.

    Raises: KeyError where `python -m tests.node` has not started this process.
    """
    network = f"/proc/{os.getpid()}/fd/{os.environ[NETWORK]}"
    return ["nsenter", f"--net={network}", "--", *map(str, words)]


def run(
    words: Sequence[str | Path],
    *,
    within_s: float,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in the machine's network. Raises: as tests.lab.processes.run."""
    return processes.run(*command(*words), env=environment, cwd=folder, within_s=within_s)
