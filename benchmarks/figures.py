"""What was measured, each with the limit that it has to keep."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One number.

    Args:
        limit: the most it may be; None for a number that only explains others.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the limit holds."""
        return self.limit is None or self.value <= self.limit


def machine() -> dict[str, Any]:
    """Where this was measured."""
    return {
        "cpus": os.cpu_count(),
        "load_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


@dataclass(slots=True)
class Results:
    """Everything of one run, for build/reports/bench.json.

    Args:
        series: samples and curves by name, in seconds.
        requests: by phase, how many of each verb and resource the controller asked.
        argo: of Argo Rollouts in the same run, by the names of the figures; empty where it was not measured.
    """

    title: str
    settings: dict[str, Any]
    figures: list[Figure] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)
    requests: dict[str, dict[str, int]] = field(default_factory=dict)
    argo: dict[str, float] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=machine)

    def add(self, name: str, value: float, unit: str, *, limit: float | None = None) -> None:
        """Adds a figure."""
        self.figures.append(Figure(name, value, unit, limit))

    @property
    def kept(self) -> bool:
        """Whether every limit holds."""
        return all(each.kept for each in self.figures)

    def save(self, path: Path) -> None:
        """Writes the results as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.machine["load_at_end"] = os.getloadavg()[0]
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` per cent of all do not exceed (nearest rank)."""
    ordered = sorted(samples)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(int(rank), 1) - 1]
