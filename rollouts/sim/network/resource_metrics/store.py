"""The last two readings of each container, and the usage between them.

A container is known from its second scrape on, or from its first one when it began a while before that. One that was started
again is new. Source: kubernetes-sigs/metrics-server v0.9 pkg/storage/{pod.go,types.go}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from rollouts.sim.network.consumption import MeterReading

FRESH_S = 10.0
"""A container that has run for so long at its first scrape, and for less than one interval, is measured since its start."""

PodName: TypeAlias = tuple[str, str]  # namespace, name


class MeterPoint(Struct, frozen=True):
    """A reading at a time, seconds since 1970."""

    at_s: float
    reading: MeterReading


class ContainerSample(Struct, frozen=True):
    """Usage of a container.

    Args:
        at_s: end of what was measured, seconds since 1970.
        cores: on average over the window.
    """

    name: str
    at_s: float
    window_s: float
    cores: float
    memory_bytes: int


class PointStore:
    """What two scrapes have found.

    Args:
        interval_s: from one scrape to the next.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last: dict[PodName, dict[str, MeterPoint]] = {}
        self._before: dict[PodName, dict[str, MeterPoint]] = {}

    def store(self, pods: Mapping[PodName, Mapping[str, MeterReading]], *, at_s: float) -> None:
        """Keeps a scrape; pods that it does not have are forgotten."""
        last: dict[PodName, dict[str, MeterPoint]] = {}
        before: dict[PodName, dict[str, MeterPoint]] = {}
        for pod, readings in pods.items():
            last[pod] = {name: MeterPoint(at_s, reading) for name, reading in readings.items()}
            found = {name: self._earlier(pod, name, point) for name, point in last[pod].items()}
            before[pod] = {name: point for name, point in found.items() if point is not None}
        self._last, self._before = last, before

    def samples(self, pod: PodName) -> list[ContainerSample] | None:
        """The usage of a pod's containers; None while one of them was read only once."""
        last, before = self._last.get(pod), self._before.get(pod)
        if not last or not before or last.keys() - before.keys():
            return None
        return [_between(name, before[name], point) for name, point in last.items()]

    def _earlier(self, pod: PodName, name: str, point: MeterPoint) -> MeterPoint | None:
        started_at_s = point.reading.started_at_s
        if FRESH_S <= point.at_s - started_at_s < self._interval_s:
            return MeterPoint(started_at_s, MeterReading(started_at_s, 0.0, 0))
        known = self._last.get(pod, {}).get(name)
        return known if known is not None and started_at_s < known.at_s < point.at_s else None


def _between(name: str, before: MeterPoint, last: MeterPoint) -> ContainerSample:
    window_s = last.at_s - before.at_s
    cores = max(last.reading.core_s - before.reading.core_s, 0.0) / window_s
    return ContainerSample(name, last.at_s, window_s, cores, last.reading.memory_bytes)
