"""Clients of a Service while something happens to its pods: requests at a constant rate, each sent once, each accounted for."""

from __future__ import annotations

import json
import select
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import httpx

from tests.e2e.stage import Stage
from tests.lab.loopback import wait_for
from tests.node.real_node import CLIENTS, RealNode
from tests.node.workload import NAME

Connections: TypeAlias = Literal["new", "fresh", "kept"]
Protocol: TypeAlias = Literal["http1", "h2c", "websocket"]

ERROR = "error"  # the kind of a request that the app itself answered, and not with 2xx
ANSWERED_WITHIN_S = 30
PATIENCE_S = 10.0  # after this a request counts as failed by timeout
AT_MOST_S = 600  # the clients end by themselves after this time, whatever becomes of the test


@dataclass(frozen=True)
class Outcome:
    """What became of the requests."""

    sent: int  # requests
    failed: Mapping[str, int]  # kind of failure: number of requests. Kinds are in tests/node/apps/load/tally.go
    pods: Mapping[str, int]  # answers by pod
    latency_ms: Mapping[str, float]  # p50, p99, p999 and max of the answers, from the moment that the request was due
    failures: list[dict[str, Any]] | None  # the first fifty of each kind, with time, kind, detail and pod
    seconds: list[dict[str, Any]]  # for each second: at, sent, failed, versions (answers by version), slowest_ms

    @property
    def lost(self) -> dict[str, int]:
        """What failed, but for errors that the app itself answered with: those came."""
        return {kind: count for kind, count in self.failed.items() if kind != ERROR}

    @property
    def versions(self) -> dict[str, int]:
        return dict(sum((Counter(second["versions"]) for second in self.seconds), Counter()))


@dataclass
class Traffic:
    """Clients at work; `outcome` is there when they have stopped."""

    _outcome: list[Outcome] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """Raises: IndexError before the block of `traffic` has been left."""
        return self._outcome[0]


@contextmanager
def traffic(
    node: RealNode,
    url: str,
    *,
    rate: float,
    connections: Connections = "new",
    protocol: Protocol = "http1",
    patience_s: float = PATIENCE_S,
    name: str = "load",
) -> Iterator[Traffic]:
    """Requests to `url`, `rate` a second, while the block runs; it begins when the first was answered.

    Args:
        connections: one for each request (new), from a port that none before it had (fresh), or a pool (kept).
        patience_s: for one request, its connection included.
        name: of the files in the folder of the node's logs.
    """
    # From the node, not from the clients: what a client sends before the proxy knows the Service leaves an entry in the
    # connection tracker, and who uses that port again in the next two minutes is sent nowhere.
    front = httpx.URL(url).copy_with(raw_path=b"/")
    wait_for(lambda: httpx.get(front, timeout=1, trust_env=False).is_success, url)
    seconds = node.plane.logs / f"{name}.jsonl"
    errors = seconds.with_suffix(".errors")
    command = ["nsenter", f"--net=/run/netns/{CLIENTS}", str(Path(node.plane.programs, "load"))]
    command += ["-url", url, "-rate", f"{rate:g}", "-connections", connections, "-protocol", protocol]
    command += ["-timeout", f"{patience_s:g}s", "-for", f"{AT_MOST_S}s", "-seconds", str(seconds)]
    with (
        errors.open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as process,
    ):
        assert process.stdout is not None
        running = Traffic()
        try:
            if not _line(process.stdout, within_s=ANSWERED_WITHIN_S).get("answering"):
                raise AssertionError(f"no answer from {url}: {errors.read_text()}")
            yield running
        finally:
            process.send_signal(signal.SIGTERM)
            summary = _last_line(process, within_s=patience_s + 10)
        lines = [json.loads(line) for line in seconds.read_text().splitlines()]
        running._outcome.append(Outcome(**summary, seconds=lines))


def traffic_of(
    node: RealNode, stage: Stage, service: str = NAME, *, ask: str = "/", rate: float, **more: Any
) -> AbstractContextManager[Traffic]:
    """`traffic` to a Service of the stage; `ask` is the path and the query."""
    url = f"http://{stage.get('services', service)['spec']['clusterIP']}{ask}"
    return traffic(node, url, rate=rate, name=f"load-{stage.namespace}", **more)


def _line(output: IO[str], *, within_s: float) -> dict[str, Any]:
    readable, _, _ = select.select([output], [], [], within_s)
    line: dict[str, Any] = json.loads(output.readline() or "{}") if readable else {}
    return line


def _last_line(process: subprocess.Popen[str], *, within_s: float) -> dict[str, Any]:
    try:
        output, _ = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    line: dict[str, Any] = json.loads((output or "{}").splitlines()[-1])
    return line
