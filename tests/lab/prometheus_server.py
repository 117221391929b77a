"""A real Prometheus that scrapes a few targets, as those of clusters do, only more often."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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


@contextmanager
def prometheus(
    processes: Processes, *, program: Path, home: Path, port: int, target: Target, every_s: int
) -> Iterator[str]:
    """Runs it, empty at first, while the block runs; gives its URL, which may not answer yet. Its log stays.

    Args:
        program: the file to run.
        home: an empty folder of its own.
        every_s: how often it scrapes, in seconds.
    """
    job = {"job_name": target.job, "metrics_path": target.path, "static_configs": [{"targets": [target.address]}]}
    every = {"scrape_interval": f"{every_s}s", "scrape_timeout": f"{every_s}s"}
    config, data = home / "prometheus.json", home / "data"  # JSON is YAML
    config.write_text(json.dumps({"global": every, "scrape_configs": [job]}))
    url = f"http://127.0.0.1:{port}"
    listen = f"--web.listen-address=127.0.0.1:{port}"
    processes.start(NAME, [program, f"--config.file={config}", f"--storage.tsdb.path={data}", listen])
    try:
        yield url
    finally:
        processes.end(NAME, patience_s=5)
        shutil.rmtree(data, ignore_errors=True)
