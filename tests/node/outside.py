"""The machine's own network, for commands of a test that fetch something: a node's namespaces reach only themselves."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    """Runs a command in the machine's network.

    Raises: AssertionError with the program's own words when it fails; subprocess.TimeoutExpired.
    """
    done = subprocess.run(
        command(*words),
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    if done.returncode != 0:
        text = " ".join(map(str, words))
        raise AssertionError(f"{text} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done
