"""Services with metrics that tests set, and a real Prometheus that scrapes them: what an analysis measures."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.loopback import answering, wait_for
from tests.lab.processes import Processes, free_ports
from tests.lab.prometheus_server import Prometheus, target

REQUESTS_EACH_S = 200


class Requests:
    """Counts the requests that a service (the label of its series) would have served since it was made, at a steady rate."""

    def __init__(self, service: str) -> None:
        self.service = service
        self._since_s = time.monotonic()
        self._errors_percent = 0.0
        self._counts = {"200": 0.0, "500": 0.0}
        self._lock = threading.Lock()

    def fail(self, percent: float) -> None:
        """So many of the requests fail from now on."""
        self.series()
        self._errors_percent = percent

    def series(self) -> list[str]:
        """The counters, in Prometheus' text format."""
        with self._lock:
            now_s = time.monotonic()
            requests = (now_s - self._since_s) * REQUESTS_EACH_S
            self._since_s = now_s
            self._counts["500"] += requests * self._errors_percent / 100
            self._counts["200"] += requests * (1 - self._errors_percent / 100)
            of = f'http_requests_total{{service="{self.service}"'
            return [f'{of},code="{code}"}} {count:.0f}' for code, count in self._counts.items()]


class Measured:
    """A Prometheus that scrapes services each second; `service` adds to them."""

    def __init__(self, server: Prometheus, services: list[Requests]) -> None:
        self.url = server.url
        self._server = server
        self._services = services

    def service(self) -> Requests:
        """One service more, of a name of its own, once it was scraped twice: a rate needs two samples. Raises: TimeoutError."""
        added = Requests(f"web-{secrets.token_hex(4)}")
        self._services.append(added)
        query = f'count_over_time(http_requests_total{{service="{added.service}",code="200"}}[1m]) >= 2'
        wait_for(lambda: self._server.query(query), f"two scrapes of {added.service}", self._server.processes)
        return added


@contextmanager
def measured(*, program: Path, home: Path) -> Iterator[Measured]:
    """A Prometheus, with its files in an empty folder, that scrapes services each second while the block runs; none at first."""
    services: list[Requests] = []

    def exposition() -> str:
        lines = ["# TYPE http_requests_total counter", *(line for each in services for line in each.series()), ""]
        return "\n".join(lines)

    with answering(lambda _: (200, exposition())) as served:
        jobs = [target("web", f"127.0.0.1:{served}")]
        server = Prometheus(Processes(home), program=program, home=home, port=free_ports(1)[0], jobs=jobs)
        with server.running():
            yield Measured(server, services)
