"""A real Prometheus with a history of series that grow at a steady rate, and what it answers at the end of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lab.binaries import LabUnavailable
from tests.lab.loopback import wait_for
from tests.lab.prometheus_server import Prometheus, prometheus_with

STEP_S = 15


@dataclass(frozen=True)
class Scraped:
    """The server, and the time of its last sample."""

    server: Prometheus
    now_s: float

    def found(self, query: str, *, later_s: float = 0.0) -> list[dict[str, Any]]:
        """The series of the answer to an instant query: each has its `metric` and its `value`."""
        return self.server.query(query, time=str(self.now_s + later_s))

    def alerts(self) -> list[dict[str, Any]]:
        """What the rules raise, once each of their groups has seen the whole history."""
        began = datetime.now(UTC)

        def evaluated() -> list[dict[str, Any]] | None:
            groups = self.server.rule_groups()
            seen = all(datetime.fromisoformat(group["lastEvaluation"]) > began for group in groups)
            return groups if seen else None

        groups = wait_for(evaluated, "rules", self.server.processes)
        return [alert for group in groups for rule in group["rules"] for alert in rule["alerts"]]


@contextmanager
def scraped(
    folder: Path, series: Iterable[tuple[str, float, float]], *, length_s: int, rules: Sequence[Path] = ()
) -> Iterator[Scraped]:
    """Each series as the exposition has it, its value at the start, and how much it grows in a second."""
    now_s = time.time()
    samples = [
        f"{each} {start + grows * at_s:g} {int((now_s - length_s + at_s) * 1000)}\n"
        for each, start, grows in series
        for at_s in range(0, length_s + 1, STEP_S)
    ]
    text = "".join([*samples, f"last_sample 1 {int(now_s * 1000)}\n"])
    try:
        with prometheus_with(text, folder, last="last_sample", rules=rules) as server:
            yield Scraped(server, now_s)
    except LabUnavailable as reason:
        pytest.skip(f"no real Prometheus: {reason}")
