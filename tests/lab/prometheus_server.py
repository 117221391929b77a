"""A real Prometheus that scrapes a few targets, as those of clusters do, only more often."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.lab.processes import Processes

NAME = "prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where metrics are.

    Args:
        job: label of its series.
        address: host and port.
    """

    job: str
    address: str
    path: str = "/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTargets:
    """Targets that come and go, at `/metrics`; Prometheus notices changes of their list within 5 s.

    Args:
        job: label of their series.
        file: the list, JSON. Source of its form: https://prometheus.io/docs/guides/file-sd/
    """

    job: str
    file: Path


Scraped: TypeAlias = Target | ListedTargets


class Prometheus:
    """One server, which may be stopped and started again: what it has measured stays."""

    def __init__(
        self, processes: Processes, *, program: Path, home: Path, port: int, scraped: Sequence[Scraped], every_s: int
    ) -> None:
        """Does not start it.

        Args:
            program: the file to run.
            home: an empty folder of its own.
            port: of the loopback that it listens on.
            every_s: how often it scrapes, in seconds.
        """
        self.url = f"http://127.0.0.1:{port}"
        self._processes = processes
        self._process_id = 0
        self._data = home / "data"
        config = home / "prometheus.json"  # JSON is YAML
        every = {"scrape_interval": f"{every_s}s", "scrape_timeout": f"{every_s}s"}
        config.write_text(json.dumps({"global": every, "scrape_configs": [_job(each) for each in scraped]}))
        listen = f"--web.listen-address=127.0.0.1:{port}"
        self._command: list[str | Path] = [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={self._data}",
            listen,
        ]

    def start(self) -> None:
        """Runs it; it may not answer yet. Its log stays."""
        self._process_id = self._processes.start(NAME, self._command)

    def freeze(self) -> None:
        """From now on it takes connections and answers nothing, and scrapes nothing."""
        os.kill(self._process_id, signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was."""
        os.kill(self._process_id, signal.SIGCONT)

    def stop(self) -> None:
        """Ends it in order."""
        self._processes.end(NAME, patience_s=5)

    def forget(self) -> None:
        """Removes what it has measured."""
        shutil.rmtree(self._data, ignore_errors=True)


@contextmanager
def prometheus(
    processes: Processes, *, program: Path, home: Path, port: int, target: Target, every_s: int
) -> Iterator[str]:
    """Runs one with one target, empty at first, while the block runs; gives its URL, which may not answer yet."""
    server = Prometheus(processes, program=program, home=home, port=port, scraped=[target], every_s=every_s)
    with running(server):
        yield server.url


@contextmanager
def running(server: Prometheus) -> Iterator[None]:
    """Runs it while the block runs, unless the block stops it before; then it has forgotten all."""
    server.start()
    try:
        yield
    finally:
        server.stop()
        server.forget()


def _job(scraped: Scraped) -> dict[str, Any]:
    match scraped:
        case Target():
            where: dict[str, Any] = {"static_configs": [{"targets": [scraped.address]}], "metrics_path": scraped.path}
        case ListedTargets():
            where = {"file_sd_configs": [{"files": [str(scraped.file)], "refresh_interval": "1s"}]}
    return {"job_name": scraped.job, **where}
