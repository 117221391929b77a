"""Starts one control plane, and ends it with its owner.

`python -m tests.lab.supervisor FOLDER --owner PID` runs until SIGTERM or until the owner process is gone, however that went.
Logs that are kept go to $ROLLOUTS_LAB_LOGS, else build/lab-logs.
The first test process that needs the control plane starts it (`shared`), the others find its handle; the owner is the pytest
process that the user started, so that the control plane outlives a single xdist worker and never the run.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import binaries
from tests.lab.control_plane import HANDLE_FILE, RARE_COLLECTIONS, ControlPlane
from tests.lab.launch import STOP_PATIENCE_S, started
from tests.lab.processes import is_running

SUPERVISOR_FILE = "supervisor.pid"
KEEP_LOGS = "keep-logs"  # a file of this name in the folder asks the supervisor to keep the logs when it ends
LOGS_KEPT = 5  # failed runs whose logs are kept; older ones are removed
_HERE = Path(__file__).parent


def shared(folder: Path, *, owner: int) -> ControlPlane:
    """The owner's control plane in `folder`: the one that is there, else a new one. One start at a time.

    Raises: LabUnavailable (no binaries); RuntimeError (it did not become ready, with the reason).
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / HANDLE_FILE).exists():
            binaries.folder()
            _start_supervisor(folder, owner=owner)
        return ControlPlane.load(folder)


@contextmanager
def own(folder: Path) -> Iterator[ControlPlane]:
    """A control plane of the caller's own in `folder`, ended with the block. Raises: as `shared`."""
    plane = shared(folder, owner=os.getpid())
    try:
        yield plane
    finally:
        plane.api.close()
        stop(folder, keep_logs=False)


def stop(folder: Path, *, keep_logs: bool) -> None:
    """Ends the control plane of `folder`, if there is one, and returns when all its programs have ended."""
    try:
        process_id = int((folder / SUPERVISOR_FILE).read_text())
    except FileNotFoundError:
        return
    if keep_logs:
        (folder / KEEP_LOGS).touch()
    with _pidfd(process_id) as supervisor:
        if supervisor is None or str(folder) not in _command_line(process_id):
            return
        signal.pidfd_send_signal(supervisor, signal.SIGTERM)
        select.select([supervisor], [], [], STOP_PATIENCE_S + 5)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process_id, os.WNOHANG)


def _start_supervisor(folder: Path, *, owner: int) -> None:
    """Starts the supervisor and returns when the handle is there.

    Raises: RuntimeError with the supervisor's own words when it ends before that.
    """
    log = folder / "supervisor.log"
    process_id = os.posix_spawn(  # not subprocess: nobody here waits for it, its owner may be another process
        sys.executable,
        [sys.executable, "-m", "tests.lab.supervisor", str(folder), "--owner", str(owner)],
        {**RARE_COLLECTIONS, **os.environ, "PYTHONPATH": str(_HERE.parent.parent)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    (folder / SUPERVISOR_FILE).write_text(str(process_id))
    while is_running(process_id):
        if (folder / HANDLE_FILE).exists():
            return
        time.sleep(0.05)
    raise RuntimeError(f"the control plane did not start:\n{log.read_text() if log.exists() else ''}")


@contextmanager
def _pidfd(process_id: int) -> Iterator[int | None]:
    """A handle of a process that never means another one of the same id; None when it is gone."""
    try:
        handle = os.pidfd_open(process_id)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _command_line(process_id: int) -> str:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process_id}/cmdline").read_text().replace("\0", " ")
    return ""


def _supervise(folder: Path, *, owner: int, archive: Path) -> None:
    """Runs the control plane until SIGTERM or the owner's end; then keeps the logs, if asked, and removes the folder.

    A start that fails keeps the logs too, and leaves the folder, in which the reason is.
    """
    asked_to_stop, told = os.pipe()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(told, b"."))
    with _pidfd(owner) as owning:
        if owning is None:
            return
        keep_logs = True
        try:
            with started(folder) as plane:
                plane.save()
                ended, _, _ = select.select([asked_to_stop, owning], [], [])
            keep_logs = owning in ended or (folder / KEEP_LOGS).exists()
        finally:
            if keep_logs:
                archive.mkdir(parents=True, exist_ok=True)
                for old in sorted(archive.iterdir(), key=lambda one: one.stat().st_mtime)[: -(LOGS_KEPT - 1)]:
                    shutil.rmtree(old, ignore_errors=True)
                shutil.copytree(folder / "logs", archive / folder.name, dirs_exist_ok=True)
    shutil.rmtree(folder)


def main() -> None:
    """Arguments as in the module's first lines."""
    parser = argparse.ArgumentParser(description="One control plane for one test run.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--owner", type=int, required=True, help="process id; the control plane ends with it")
    options = parser.parse_args()
    archive = Path(os.environ.get("ROLLOUTS_LAB_LOGS") or _HERE.parent.parent / "build" / "lab-logs")
    _supervise(options.folder.resolve(), owner=options.owner, archive=archive)


if __name__ == "__main__":
    main()
