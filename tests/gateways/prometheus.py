"""A Prometheus on the node that scrapes one gateway, as those of clusters do, only more often."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gateways.gateway import Gateway, answers, folder
from tests.node.real_node import RealNode, wait_for

NAME = "prometheus"
PORT = 9490
EVERY_S = 2


@contextmanager
def scraping(node: RealNode, gateway: Gateway) -> Iterator[str]:
    """Runs it, empty at first, while the block runs; gives its URL. Its log stays among the node's."""
    home = folder(node, NAME)
    target = gateway.admin.removeprefix("http://")
    job = {"job_name": gateway.name, "metrics_path": gateway.metrics, "static_configs": [{"targets": [target]}]}
    config = home / "prometheus.json"  # JSON is YAML
    every = {"scrape_interval": f"{EVERY_S}s", "scrape_timeout": f"{EVERY_S}s"}
    config.write_text(json.dumps({"global": every, "scrape_configs": [job]}))
    data, url = home / "data", f"http://127.0.0.1:{PORT}"
    node.processes.start(
        NAME,
        [
            Path(node.plane.programs, NAME),
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={url.removeprefix('http://')}",
        ],
    )
    try:
        wait_for(answers(f"{url}/-/ready"), NAME, node.processes)
        yield url
    finally:
        node.processes.end(NAME, patience_s=5)
        shutil.rmtree(data)
