"""A Prometheus on the node that scrapes one gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gateways.gateway import Gateway, answers, folder
from tests.lab.prometheus_server import NAME, Target, prometheus
from tests.node.real_node import RealNode, wait_for

PORT = 9490
EVERY_S = 2


@contextmanager
def scraping(node: RealNode, gateway: Gateway) -> Iterator[str]:
    """Runs it, empty at first, while the block runs; gives its URL."""
    target = Target(job=gateway.name, address=gateway.admin.removeprefix("http://"), path=gateway.metrics)
    program, home = Path(node.plane.programs, NAME), folder(node, NAME)
    with prometheus(node.processes, program=program, home=home, port=PORT, target=target, every_s=EVERY_S) as url:
        wait_for(answers(f"{url}/-/ready"), NAME, node.processes)
        yield url
