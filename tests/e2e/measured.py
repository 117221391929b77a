"""Services with metrics that tests set, and a real Prometheus that scrapes them: what an analysis measures."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from tests.lab.processes import Processes, free_ports
from tests.lab.prometheus_server import NAME, Target, prometheus

REQUESTS_EACH_S = 200
SCRAPED_EVERY_S = 1
READY_WITHIN_S = 30


class Requests:
    """Counts the requests that a service would have served since it was made, at a steady rate.

    Args:
        service: label of its series.
    """

    def __init__(self, service: str) -> None:
        self.service = service
        self._since_s = time.monotonic()
        self._failed = 0.0
        self._served = 0.0
        self._errors_percent = 0.0
        self._lock = threading.Lock()

    def fail(self, percent: float) -> None:
        """So many of the requests fail from now on."""
        with self._lock:
            self._count()
            self._errors_percent = percent

    def series(self) -> list[str]:
        """The counters, in Prometheus' text format."""
        with self._lock:
            self._count()
            counts = {"200": self._served, "500": self._failed}
        return [f'http_requests_total{{service="{self.service}",code="{code}"}} {n:.0f}' for code, n in counts.items()]

    def _count(self) -> None:
        now_s = time.monotonic()
        requests = (now_s - self._since_s) * REQUESTS_EACH_S
        self._failed += requests * self._errors_percent / 100
        self._served += requests * (100 - self._errors_percent) / 100
        self._since_s = now_s


class Measured:
    """A Prometheus that scrapes services each second.

    Args:
        url: of the Prometheus; it may not answer yet.
        services: those that it scrapes; `service` adds to them.
    """

    def __init__(self, url: str, services: list[Requests], processes: Processes) -> None:
        self.url = url
        self._services = services
        self._processes = processes

    def service(self) -> Requests:
        """One service more, of a name of its own, once it was scraped twice: a rate needs two samples.

        Raises: AssertionError when Prometheus does not get there.
        """
        added = Requests(f"web-{secrets.token_hex(4)}")
        self._services.append(added)
        end_s = time.monotonic() + READY_WITHIN_S
        query = {"query": f'count_over_time(http_requests_total{{service="{added.service}",code="200"}}[1m])'}
        with httpx.Client(base_url=self.url, timeout=2, transport=httpx.HTTPTransport(retries=0)) as client:
            while time.monotonic() < end_s:
                self._processes.check()
                try:
                    found = client.get("/api/v1/query", params=query).raise_for_status().json()["data"]["result"]
                except (httpx.HTTPError, ValueError):
                    found = []
                if found and float(found[0]["value"][1]) >= 2:
                    return added
                threading.Event().wait(0.1)
        raise AssertionError(f"{NAME} at {self.url} had no two scrapes within {READY_WITHIN_S} s")


@contextmanager
def measured(*, program: Path, home: Path) -> Iterator[Measured]:
    """A Prometheus that scrapes services each second, while the block runs; none at first.

    Args:
        program: Prometheus' file.
        home: an empty folder.
    """
    processes = Processes(home)
    services: list[Requests] = []
    with _exporter(services) as address:
        target, port = Target(job="web", address=address), free_ports(1)[0]
        running = prometheus(processes, program=program, home=home, port=port, target=target, every_s=SCRAPED_EVERY_S)
        with running as url:
            yield Measured(url, services, processes)


@contextmanager
def _exporter(services: list[Requests]) -> Iterator[str]:
    """Serves the counters on a loopback port while the block runs; gives host and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            lines = ["# TYPE http_requests_total counter", *(line for each in services for line in each.series()), ""]
            body = "\n".join(lines).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Nothing: a scrape each second is no news."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
