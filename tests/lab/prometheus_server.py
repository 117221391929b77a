"""A real Prometheus on the loopback that scrapes a few targets, as those of clusters do, only more often."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeAlias

import httpx

from tests.lab import binaries
from tests.lab.loopback import answering, wait_for
from tests.lab.processes import Processes, free_ports

NAME = "prometheus"
Job: TypeAlias = dict[str, Any]


def target(job: str, address: str, path: str = "/metrics", **more: Any) -> Job:
    """The host and port where the metrics of a job are; `more` are fields of a scrape_config."""
    return {"job_name": job, "static_configs": [{"targets": [address]}], "metrics_path": path, **more}


def listed_targets(job: str, file: Path) -> Job:
    """Targets that come and go: a list in JSON, of which a change is noticed within 5 s (prometheus.io/docs/guides/file-sd)."""
    return {"job_name": job, "file_sd_configs": [{"files": [str(file)], "refresh_interval": "1s"}]}


class Prometheus:
    """One server, which may be stopped and started again: what it has measured stays."""

    def __init__(
        self,
        processes: Processes,
        *,
        program: Path,
        home: Path,
        port: int,
        jobs: Sequence[Job],
        every_s: int = 1,
        rules: Sequence[Path] = (),
    ) -> None:
        """Does not start it; its home is an empty folder of its own, and it scrapes so often. `rules` are files with alerts."""
        self.url = f"http://127.0.0.1:{port}"
        self.processes = processes
        self._process_id = 0
        self._data = home / "data"
        config = home / "prometheus.json"  # JSON is YAML
        every = {"scrape_interval": f"{every_s}s", "scrape_timeout": f"{every_s}s"}
        settings = {"global": every, "scrape_configs": list(jobs), "rule_files": [str(file) for file in rules]}
        config.write_text(json.dumps(settings))
        self._command = [
            *(str(program), f"--config.file={config}"),
            *(f"--storage.tsdb.path={self._data}", f"--web.listen-address=127.0.0.1:{port}"),
        ]

    def start(self) -> None:
        """Runs it; it may not answer yet. Its log stays."""
        self._process_id = self.processes.start(NAME, self._command)

    def freeze(self) -> None:
        """From now on it takes connections and answers nothing, and scrapes nothing."""
        os.kill(self._process_id, signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was."""
        os.kill(self._process_id, signal.SIGCONT)

    def stop(self) -> None:
        """Ends it in order."""
        self.processes.end(NAME, patience_s=5)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Runs it while the block runs, unless the block stops it before; then it has forgotten all."""
        self.start()
        try:
            yield self
        finally:
            self.stop()
            shutil.rmtree(self._data, ignore_errors=True)

    def query(self, query: str, **parameters: str) -> list[dict[str, Any]]:
        """The series that it finds now, or at a `time`. Raises: httpx.HTTPError."""
        found: list[dict[str, Any]] = self._asked("query", {"query": query, **parameters})["result"]
        return found

    def rule_groups(self) -> list[dict[str, Any]]:
        """The groups of its rules, with what they raise. Raises: httpx.HTTPError."""
        groups: list[dict[str, Any]] = self._asked("rules", {})["groups"]
        return groups

    def _asked(self, path: str, parameters: dict[str, str]) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=10, trust_env=False)
        return answer.raise_for_status().json()["data"]


@contextmanager
def prometheus_with(exposition: str, folder: Path, *, last: str, rules: Sequence[Path] = ()) -> Iterator[Prometheus]:
    """One that knows a history, samples with times of their own, which it gets in one scrape; gives it once it has all.

    Args:
        exposition: Prometheus' text format, each sample with its time in milliseconds, the oldest first. The labels `instance`
            and `job` are the target's and go.
        folder: for its data and its log.
        last: a query that gives a series only when the last sample has come.

    Raises: LabUnavailable without the program; ProcessEnded; TimeoutError.
    """
    program = binaries.folder(programs=(binaries.PROMETHEUS,)) / NAME
    dropped = [{"action": "labeldrop", "regex": "instance|job"}]
    with answering(lambda _: (200, exposition)) as served:
        jobs = [target("history", f"127.0.0.1:{served}", metric_relabel_configs=dropped)]
        server = Prometheus(
            Processes(folder), program=program, home=folder, port=free_ports(1)[0], jobs=jobs, rules=rules
        )
        with server.running():
            wait_for(lambda: server.query(last), last, server.processes)
            yield server
