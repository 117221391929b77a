"""The controller as a process: started as an administrator would, its CPU and memory read from /proc (Linux)."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab import argo_rollouts
from tests.lab.control_plane import ControlPlane
from tests.lab.processes import Processes, free_ports

STOP_PATIENCE_S = 10.0
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Controller:
    """A running controller, or a dashboard.

    Args:
        started_at_s: wall clock, just before its process was made.
        health_url: where its HTTP server is: /readyz and /metrics of a controller.
    """

    process_id: int
    started_at_s: float
    health_url: str
    processes: Processes
    ready_path: str = "/readyz"

    def cpu_s(self) -> float:
        """Seconds of CPU, user and system, since it started: of all its threads, and of the process for expressions."""
        return sum(map(cpu_s, self._process_ids()))

    def rss_mib(self) -> float:
        """Resident memory now, MiB, without the process for expressions."""
        return self._memory_mib("VmRSS:")

    def _process_ids(self) -> list[int]:
        """Its own, and those of the processes that it has started and of theirs."""
        found = [self.process_id]
        for each in found:  # grows meanwhile
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
        return found

    def peak_rss_mib(self) -> float:
        """The most resident memory it ever had, MiB."""
        return self._memory_mib("VmHWM:")

    async def wait_until_ready(self, *, deadline_s: float) -> float:
        """Returns the seconds from the start of the process to the first 200 of `ready_path`.

        Raises: ProcessEnded, TimeoutError.
        """
        give_up_s = time.monotonic() + deadline_s
        while time.monotonic() < give_up_s:
            self.processes.check()
            if await asyncio.to_thread(self._is_ready):
                return time.time() - self.started_at_s
            await asyncio.sleep(0.05)
        raise TimeoutError(f"the controller was not ready within {deadline_s:g} s")

    @asynccontextmanager
    async def staying_alive(self) -> AsyncIterator[None]:
        """Ends what is inside as soon as the process has ended. Raises: an ExceptionGroup with ProcessEnded."""
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(self._look_for_ever())
            yield
            looking.cancel()

    async def _look_for_ever(self) -> None:
        while True:
            self.processes.check()
            await asyncio.sleep(1)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.health_url}{self.ready_path}", timeout=2) as answer:  # noqa: S310 - loopback
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _memory_mib(self, field: str) -> float:
        for line in Path(f"/proc/{self.process_id}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"/proc says nothing of {field} of process {self.process_id}")


def cpu_s(process_id: int) -> float:
    """Seconds of CPU, user and system, that a process has used since it started."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


@contextmanager
def running_argo(kubeconfig: Path, *, log_folder: Path) -> Iterator[Controller]:
    """Argo Rollouts' controller, alone and with its own limit on requests out of the way; ended when left."""
    processes = Processes(log_folder)
    started_at_s = time.time()
    started = argo_rollouts.start(processes, kubeconfig, "--qps=1000", "--burst=2000")
    try:
        yield Controller(started.process_id, started_at_s, started.health_url, processes)
    finally:
        processes.stop(patience_s=STOP_PATIENCE_S)


@contextmanager
def running(kubeconfig: Path, *, log_folder: Path, arguments: tuple[str, ...] = ()) -> Iterator[Controller]:
    """`rollouts controller` with its defaults (leader election, JSON logs) on a free port; ended when left."""
    (port,) = free_ports(1)
    processes = Processes(log_folder)
    command = [sys.executable, "-m", "rollouts", "controller", "--kubeconfig", str(kubeconfig)]
    started_at_s = time.time()
    process_id = processes.start(
        "controller", [*command, "--metrics-address", f"127.0.0.1:{port}", "--proxy-mode=iptables", *arguments]
    )
    try:
        yield Controller(process_id, started_at_s, f"http://127.0.0.1:{port}", processes)
    finally:
        processes.stop(patience_s=STOP_PATIENCE_S)


@contextmanager
def running_dashboard(plane: ControlPlane, *, log_folder: Path) -> Iterator[Controller]:
    """`rollouts dashboard --auth token` on a free port, without credentials, as the chart's pod; ended when left."""
    (port,) = free_ports(1)
    processes = Processes(log_folder)
    words = ["dashboard", "--auth", "token", "--address", "127.0.0.1", "--port", str(port)]
    where = ["--server", plane.url, "--certificate-authority", plane.certificate]
    started_at_s = time.time()
    process_id = processes.start("dashboard", [sys.executable, "-m", "rollouts", *words, *where])
    try:
        yield Controller(process_id, started_at_s, f"http://127.0.0.1:{port}", processes, "/healthz")
    finally:
        processes.stop(patience_s=STOP_PATIENCE_S)
