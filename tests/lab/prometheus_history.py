"""A real Prometheus on the loopback that knows a history: samples with times of their own, which it gets in one scrape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import binaries
from tests.lab.loopback import answering, wait_for
from tests.lab.processes import Processes, free_ports
from tests.lab.prometheus_server import NAME, Prometheus, target


@contextmanager
def prometheus_with(exposition: str, folder: Path, *, last: str) -> Iterator[str]:
    """Runs it while the block runs; gives its URL once it knows all samples.

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
        server = Prometheus(Processes(folder), program=program, home=folder, port=free_ports(1)[0], jobs=jobs)
        with server.running():
            wait_for(lambda: server.query(last), last, server.processes)
            yield server.url
