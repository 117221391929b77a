"""Programs of the tests: run to their end, or beside the tests in a process group of their own, with their output in a file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)


class ProcessEnded(Exception):
    """A program of the lab ended although it should run; the message holds the end of its log."""


@dataclass(slots=True)
class Processes:
    """The programs that one owner has started.

    Guarantees: `stop` ends all of them, the last started first, and nothing else.
    On Linux they also end when the owner is killed.
    """

    log_folder: Path  # gets NAME.log for every program
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> int:
        """Starts a program and returns its process id. Its output is appended to its log."""
        with (self.log_folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,  # Ctrl-C of the terminal reaches pytest alone, which then stops everything in order
                preexec_fn=end_with_the_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one thread only
            )
        self._running[name] = process
        return process.pid

    def end(self, name: str, *, patience_s: float) -> None:
        """Ends one program as `stop` ends all; does nothing when there is none of that name."""
        process = self._running.pop(name, None)
        if process is not None:
            _end([process], patience_s=patience_s)

    def ids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._running.items()}

    def check(self) -> None:
        """Raises: ProcessEnded when one of them has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                end = (self.log_folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise ProcessEnded(f"{name} ended with status {process.returncode}:\n{end}")

    def stop(self, *, patience_s: float) -> None:
        """Ends every program: a polite signal, then, `patience_s` later, SIGKILL to the groups of those that are left."""
        _end(list(reversed(self._running.values())), patience_s=patience_s)
        self._running.clear()


def run(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text: str | None = None,
    within_s: float = 60,
    code: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, with `text` as its input; what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        env=env,
        cwd=cwd,
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    if code not in (None, done.returncode):
        said = f"{done.stdout[-6000:]}{done.stderr[-6000:]}"
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{said}")
    return done


def _end(processes: Sequence[subprocess.Popen[bytes]], *, patience_s: float) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)  # a test may have stopped it
            process.terminate()
    deadline = time.monotonic() + patience_s
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that nothing listens on now. Another program may take one first: callers start again then."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_running(process_id: int) -> bool:
    """Whether a process of that id exists and is not a zombie."""
    try:
        os.kill(process_id, 0)
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return True
    return state != "Z"


def end_with_the_parent(by: signal.Signals = signal.SIGTERM) -> None:
    """Runs in the child before the program: asks the kernel for that signal when the parent dies, however it dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, by)


_LIBC = ctypes.CDLL(None, use_errno=True)
