"""A real Prometheus with a history of series that grow at a steady rate, and what it answers at the end of it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.lab.binaries import LabUnavailable
from tests.lab.prometheus_history import prometheus_with

STEP_S = 15


@dataclass(frozen=True)
class Scraped:
    """Where it listens, and the time of the last sample."""

    url: str
    now_s: float

    def found(self, query: str) -> list[dict[str, Any]]:
        """The series of the answer to an instant query: each has its `metric` and its `value`."""
        asked = f"{self.url}/api/v1/query?{urlencode({'query': query, 'time': self.now_s})}"
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - the loopback
            body = json.load(answer)
        assert body["status"] == "success"
        result: list[dict[str, Any]] = body["data"]["result"]
        return result


@contextmanager
def scraped(folder: Path, series: Iterable[tuple[str, float, float]], *, length_s: int) -> Iterator[Scraped]:
    """Each series as the exposition has it, its value at the start, and how much it grows in a second."""
    now_s = time.time()
    samples = [
        f"{each} {start + grows * at_s:g} {int((now_s - length_s + at_s) * 1000)}\n"
        for each, start, grows in series
        for at_s in range(0, length_s + 1, STEP_S)
    ]
    text = "".join([*samples, f"last_sample 1 {int(now_s * 1000)}\n"])
    try:
        with prometheus_with(text, folder, last="last_sample") as url:
            yield Scraped(url, now_s)
    except LabUnavailable as reason:
        pytest.skip(f"no real Prometheus: {reason}")
