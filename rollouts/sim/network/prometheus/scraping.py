"""Scrapes the pods behind Services, each at its own moment of the interval, and marks where series end.

Source: Prometheus v3, scrape/scrape.go (staleness when a scrape fails, and when a target goes) and discovery/manager.go (lag).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from rollouts.objects import ENDPOINT_SLICE, POD
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.endpointslices import SERVICE_NAME
from rollouts.sim.actors.work import World
from rollouts.sim.network.applications import BUCKETS_S, REVISION_LABEL, Applications, Requests
from rollouts.sim.network.prometheus.samples import SampleStore, StoredSeries, labels_of
from rollouts.sim.storage.history import CommittedWrite

REQUESTS = "http_requests_total"
SECONDS = "http_request_duration_seconds"
_REVISION = "rollouts_dev_revision"  # `podTargetLabels` of a ServiceMonitor gives it to a pod's series
_GONE_INTERVALS = 2.1
"""So long after its end a target's series are marked: it might come back. Source: scrapeLoop.endOfRunStaleness."""

Exposition: TypeAlias = list[tuple[str, dict[str, str], float]]
"""What a target shows: names, labels, values."""


class ScrapeSettings(Struct, frozen=True, kw_only=True):
    """How it scrapes; times are seconds of loop time.

    Args:
        interval_s: from one scrape of a target to the next.
        discovery_s: from a change of the targets until it is followed.
    """

    interval_s: float = 15.0
    discovery_s: float = 5.0


_SeriesKey: TypeAlias = tuple[str, ...]
_UP: _SeriesKey = ("up",)


@dataclass(slots=True)
class _Target:
    """A pod behind a Service: labels that all its series get, all that it has ever shown, the keys of its last scrape."""

    uid: str
    labels: dict[str, str]
    timer: asyncio.TimerHandle | None = None
    series: dict[_SeriesKey, StoredSeries] = field(default_factory=dict)
    shown: set[_SeriesKey] = field(default_factory=set)


_Place: TypeAlias = tuple[str, str, str]  # namespace, Service, pod


class Scraper:
    """Scrapes until it is stopped, each target at a moment that the seed decides.

    While `stopped` says so it keeps nothing of what it scrapes, as with a full disk.
    """

    def __init__(
        self,
        world: World,
        applications: Applications,
        store: SampleStore,
        *,
        settings: ScrapeSettings,
        seed: int,
        stopped: Callable[[], bool],
    ) -> None:
        self.settings = settings
        self._stopped = stopped
        self._world = world
        self._applications = applications
        self._store = store
        self._rng = random.Random(seed)  # noqa: S311  # a simulation's seed
        self._targets: dict[_Place, _Target] = {}
        self._discovery: asyncio.TimerHandle | None = None
        self._ends: set[asyncio.TimerHandle] = set()
        self._unlisten: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Finds what is there, and what comes."""
        self._find()
        self._unlisten = self._world.history.listen(ENDPOINT_SLICE, self._on_slice)

    def stop(self) -> None:
        """Scrapes no more. It may be called again."""
        self._unlisten()
        self._unlisten = lambda: None
        timers = [self._discovery, *self._ends, *(target.timer for target in self._targets.values())]
        for timer in timers:
            if timer is not None:
                timer.cancel()

    def _on_slice(self, _: CommittedWrite) -> None:
        if self._discovery is None:
            self._discovery = self._world.loop.call_later(self.settings.discovery_s, self._find)

    def _find(self) -> None:
        self._discovery = None
        discovered = dict(self._discovered())
        for place in [place for place in self._targets if place not in discovered]:
            self._forget(self._targets.pop(place))
        for place, target in discovered.items():
            if place not in self._targets:
                self._targets[place] = target
                offset_s = self._rng.uniform(0.0, self.settings.interval_s)
                self._plan(target, self._world.loop.time() + offset_s)

    def _discovered(self) -> Iterator[tuple[_Place, _Target]]:
        for stored in self._world.history.select(ENDPOINT_SLICE):
            service = stored.labels.get(SERVICE_NAME, "")
            for entry in stored.manifest.get("endpoints") or ():
                where = entry["targetRef"]
                pod = self._world.history.get(POD, where["namespace"], where["name"])
                if pod is None or pod.metadata["uid"] != where["uid"]:
                    continue
                labels = {
                    "namespace": where["namespace"],
                    "service": service,
                    "job": service,
                    "pod": where["name"],
                    "instance": f"{pod_facts.address(pod)}:8080",
                    _REVISION: pod.labels.get(REVISION_LABEL, ""),
                }
                yield (where["namespace"], service, where["name"]), _Target(where["uid"], labels)

    def _plan(self, target: _Target, at_s: float) -> None:
        target.timer = self._world.loop.call_at(at_s, self._scrape, target, at_s)

    def _scrape(self, target: _Target, due_s: float) -> None:
        self._plan(target, due_s + self.settings.interval_s)
        if self._stopped():
            return
        at_ms = round(self._world.now_s() * 1000)
        counted = self._applications.counted(target.uid) if self._applications.kubelets.serves(target.uid) else None
        shown: set[_SeriesKey] = set()
        for name, labels, value in exposition(counted) if counted is not None else ():
            key = (name, *labels.values())
            shown.add(key)
            self._series(target, key, labels).append(at_ms, value)
        for key in target.shown - shown:
            target.series[key].append(at_ms, None)
        target.shown = shown
        self._series(target, _UP, {}).append(at_ms, float(counted is not None))

    def _series(self, target: _Target, key: _SeriesKey, labels: dict[str, str]) -> StoredSeries:
        series = target.series.get(key)
        if series is None:
            series = target.series[key] = self._store.series(labels_of(key[0], **target.labels, **labels))
        return series

    def _forget(self, target: _Target) -> None:
        if target.timer is None:
            return
        target.timer.cancel()
        loop = self._world.loop
        missed_s = target.timer.when()
        missed_ms = round((self._world.now_s() + missed_s - loop.time()) * 1000)
        series = [self._series(target, _UP, {}), *(target.series[key] for key in target.shown)]

        def mark() -> None:
            self._ends.discard(end)
            for ended in series:
                ended.append(missed_ms, None)

        end = loop.call_at(missed_s + (_GONE_INTERVALS - 1) * self.settings.interval_s, mark)
        self._ends.add(end)


def exposition(counted: Requests) -> Exposition:
    """What a pod shows of its requests, with the names that most libraries give."""
    samples: Exposition = [(REQUESTS, {"code": str(code)}, float(count)) for code, count in counted.by_status.items()]
    below = 0
    for bound, count in zip((*BUCKETS_S, float("inf")), counted.buckets, strict=True):
        below += count
        le = "+Inf" if bound == float("inf") else repr(bound)
        samples.append((f"{SECONDS}_bucket", {"le": le}, float(below)))
    samples.append((f"{SECONDS}_sum", {}, counted.seconds))
    samples.append((f"{SECONDS}_count", {}, float(below)))
    return samples
