"""A real Prometheus on the loopback that knows a history: samples with times of their own, which it gets in one scrape."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.lab import binaries
from tests.lab.processes import Processes, free_ports

NAME = "prometheus"
PATIENCE_S = 60.0
_LOOK_S = 0.1


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
    programs = binaries.folder(programs=(binaries.PROMETHEUS,))
    with _served(exposition) as target:
        (port,) = free_ports(1)
        target_labels = {"action": "labeldrop", "regex": "instance|job"}
        job = {
            "job_name": "history",
            "static_configs": [{"targets": [target]}],
            "metric_relabel_configs": [target_labels],
        }
        config = folder / "prometheus.json"  # JSON is YAML
        every = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        config.write_text(json.dumps({"global": every, "scrape_configs": [job]}))
        processes = Processes(folder)
        url = f"http://127.0.0.1:{port}"
        processes.start(
            NAME,
            [
                programs / NAME,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
        )
        try:
            _wait_for(f"{url}/api/v1/query?query={last}", processes)
            yield url
        finally:
            processes.stop(patience_s=5)


def _wait_for(url: str, processes: Processes) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        processes.check()
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - the loopback
                if json.load(answer)["data"]["result"]:
                    return
        except (urllib.error.URLError, ConnectionError):
            pass
        threading.Event().wait(_LOOK_S)
    raise TimeoutError(f"no answer from {url}")


@contextmanager
def _served(exposition: str) -> Iterator[str]:
    body = exposition.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
