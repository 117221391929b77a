"""What goes wrong with the resource metrics API, for a time. A group that is not there at all is `SimMetricsServer.remove`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct


class Down(Struct, frozen=True):
    """The aggregated API does not answer: 503 from the API server."""


class ScrapesFail(Struct, frozen=True):
    """Questions are answered, and nothing is scraped: samples grow old."""


class PartialList(Struct, frozen=True):
    """Every `nth` pod is missing, as when a node does not answer; nobody says so."""

    nth: int = 2


class ContainerMissing(Struct, frozen=True):
    """The pods are there without one of their containers."""

    container: str


class ReplacedFigures(Struct, frozen=True):
    """Every figure of a resource is another text: `-5m`, `NaN`, `1e30`."""

    resource: str
    quantity: str


MetricsFault: TypeAlias = Down | ScrapesFail | PartialList | ContainerMissing | ReplacedFigures


@dataclass
class MetricsFaults:
    """Which faults there are now. Several may hold at once.

    Args:
        now_s: the loop's time.
    """

    now_s: Callable[[], float]
    _until_s: dict[MetricsFault, float] = field(default_factory=dict)

    def begin(self, fault: MetricsFault, *, for_s: float = math.inf) -> None:
        """Begins a fault now."""
        self._until_s[fault] = self.now_s() + for_s

    def end(self) -> None:
        """Ends all faults."""
        self._until_s.clear()

    def now(self) -> list[MetricsFault]:
        """What holds now."""
        now_s = self.now_s()
        return [fault for fault, until_s in self._until_s.items() if now_s < until_s]
