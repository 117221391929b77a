"""A simulated metrics-server: it scrapes kubelets, and answers metrics.k8s.io/v1beta1 as the real one does, or as a fault says.

Source: kubernetes-sigs/metrics-server v0.9 pkg/api/pod.go; k8s.io/metrics pkg/apis/metrics/v1beta1/types.go.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from rollouts.objects import POD, POD_METRICS, Kind, Manifest
from rollouts.ports import Request, Response
from rollouts.sim.actors.work import World
from rollouts.sim.apiserver.listing import watch_filter
from rollouts.sim.apiserver.verbs import rfc3339
from rollouts.sim.network.consumption import Consumptions, MeterReading
from rollouts.sim.storage.history import DELETED, CommittedWrite, Stored
from rollouts.sim.storage.quantities import binary_text, decimal_text
from rollouts.sim.storage.refusals import NoSuchPath, Refused, method_not_allowed, not_found

GROUP, VERSION = POD_METRICS.group, POD_METRICS.version
RESOLUTION_S = 15.0
"""From one scrape to the next."""
_NAMES_IN_ERRORS = Kind(GROUP, VERSION, "PodMetrics", "podmetrics")
_NANO = 10**9
FRESH_S = 10.0
"""A container that has run for so long at its first scrape, and for less than one interval, is measured since its start."""

PodName: TypeAlias = tuple[str, str]  # namespace, name


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
    """Which faults there are now; several may hold at once. A group that is not there at all is `SimMetricsServer.remove`."""

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


class ContainerSample(Struct, frozen=True):
    """Usage of a container: cores on average over the window, which ends at the last scrape."""

    name: str
    window_s: float
    cores: float
    memory_bytes: int


class PointStore:
    """The last two readings of each container, and the usage between them.

    A container is known from its second scrape on, or from its first one when it began a while before that. One that was started
    again is new. Source: kubernetes-sigs/metrics-server v0.9 pkg/storage/{pod.go,types.go}.
    """

    def __init__(self) -> None:
        self.at_s = 0.0
        """When it was scraped last, seconds since 1970."""
        self._last: Mapping[PodName, Mapping[str, MeterReading]] = {}
        self._before: dict[PodName, dict[str, tuple[float, MeterReading]]] = {}

    def store(self, pods: Mapping[PodName, Mapping[str, MeterReading]], *, at_s: float) -> None:
        """Keeps a scrape; pods that it does not have are forgotten."""
        before: dict[PodName, dict[str, tuple[float, MeterReading]]] = {}
        for pod, readings in pods.items():
            known, before[pod] = self._last.get(pod, {}), {}
            for name, reading in readings.items():
                if FRESH_S <= at_s - reading.started_at_s < RESOLUTION_S:
                    before[pod][name] = reading.started_at_s, MeterReading(reading.started_at_s, 0.0, 0)
                elif name in known and reading.started_at_s < self.at_s < at_s:
                    before[pod][name] = self.at_s, known[name]
        self._last, self._before, self.at_s = pods, before, at_s

    def samples(self, pod: PodName) -> list[ContainerSample] | None:
        """The usage of a pod's containers; None while one of them was read only once."""
        last, before = self._last.get(pod), self._before.get(pod)
        if not last or not before or last.keys() - before.keys():
            return None
        samples = []
        for name, reading in last.items():
            before_s, earlier = before[name]
            window_s = self.at_s - before_s
            cores = max(reading.core_s - earlier.core_s, 0.0) / window_s
            samples.append(ContainerSample(name, window_s, cores, reading.memory_bytes))
        return samples


class SimMetricsServer:
    """One metrics-server, registered with the API server while it runs."""

    def __init__(self, world: World, consumptions: Consumptions) -> None:
        self.faults = MetricsFaults(world.loop.time)
        self.requests: list[Request] = []
        """What it was asked so far."""
        self._world = world
        self._consumptions = consumptions
        self._store = PointStore()
        self._timer: asyncio.TimerHandle | None = None
        self._unlisten: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Registers the group, and scrapes for the first time."""
        self._world.server.aggregation.register(GROUP, VERSION, self)
        self._unlisten = self._world.history.listen(POD, self._on_pod)
        self._scrape(self._world.loop.time())

    def stop(self) -> None:
        """Scrapes no more; it goes on to answer. It may be called again."""
        self._unlisten()
        self._unlisten = lambda: None
        if self._timer is not None:
            self._timer.cancel()

    def remove(self) -> None:
        """Removes its APIService: the group is not found any more. `start` brings it back."""
        self.stop()
        self._world.server.aggregation.remove(GROUP, VERSION)

    def answer(self, request: Request, steps: tuple[str, ...]) -> Response:
        """Answers a request that the API server forwards."""
        self.requests.append(request)
        faults = self.faults.now()
        if Down() in faults:
            return Response(503, b"service unavailable\n")
        try:
            return Response(200, msgspec.json.encode(self._document(request, steps, faults)))
        except NoSuchPath as refused:
            return Response(refused.code, refused.TEXT)
        except Refused as refused:
            return Response(refused.code, msgspec.json.encode(refused.status()))

    def _document(self, request: Request, steps: tuple[str, ...], faults: list[MetricsFault]) -> Manifest:
        if request.method != "GET":
            raise method_not_allowed()
        match steps:
            case ():
                verbs = ["get", "list"]
                pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": verbs}
                head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": POD_METRICS.api_version}
                return {**head, "resources": [pods]}
            case ("pods",):
                return self._list(None, request.query, faults)
            case ("namespaces", namespace, "pods"):
                return self._list(namespace, request.query, faults)
            case ("namespaces", namespace, "pods", name):
                pod = self._world.history.get(POD, namespace, name)
                if pod is None:
                    raise not_found(POD, name)
                metrics = self._metrics(pod, faults)
                if metrics is None:
                    raise not_found(_NAMES_IN_ERRORS, f"{namespace}/{name}")
                return {"kind": POD_METRICS.kind, "apiVersion": POD_METRICS.api_version, **metrics}
            case _:
                raise NoSuchPath

    def _list(self, namespace: str | None, query: Mapping[str, str], faults: list[MetricsFault]) -> Manifest:
        shown = watch_filter(self._world.resource(POD), namespace, query)
        candidates = self._world.history.candidates(POD, namespace, query.get("labelSelector", ""))
        pods = sorted(filter(shown.selects, candidates), key=lambda pod: pod.key)
        metrics = (self._metrics(pod, faults) for pod in pods)
        items = [item for item in metrics if item is not None]
        for fault in faults:
            if isinstance(fault, PartialList):
                items = [item for number, item in enumerate(items, start=1) if number % fault.nth]
        return {"kind": "PodMetricsList", "apiVersion": POD_METRICS.api_version, "metadata": {}, "items": items}

    def _metrics(self, pod: Stored, faults: list[MetricsFault]) -> Manifest | None:
        samples = self._store.samples(pod.key)
        if samples is None:
            return None
        metadata: Manifest = {"name": pod.key[1], "namespace": pod.key[0], "creationTimestamp": self._world.verbs.now()}
        if pod.labels:
            metadata["labels"] = dict(pod.labels)
        containers: list[dict[str, Any]] = []
        for sample in samples:
            cpu = decimal_text(Fraction(round(sample.cores * _NANO), _NANO))
            usage = {"cpu": cpu, "memory": binary_text(Fraction(sample.memory_bytes))}
            containers.append({"name": sample.name, "usage": usage})
        for fault in faults:
            containers = _with_fault(containers, fault)
        minutes, rest_s = divmod(round(samples[0].window_s, 3), 60.0)
        return {
            "metadata": metadata,
            "timestamp": rfc3339(int(self._store.at_s)),
            "window": (f"{minutes:g}m" if minutes else "") + f"{round(rest_s, 3):g}s",
            "containers": containers,
        }

    def _scrape(self, due_s: float) -> None:
        self._timer = self._world.loop.call_at(due_s + RESOLUTION_S, self._scrape, due_s + RESOLUTION_S)
        if ScrapesFail() in self.faults.now():
            return
        read = {pod.key: self._consumptions.read(pod) for pod in self._world.history.select(POD)}
        self._store.store({key: readings for key, readings in read.items() if readings}, at_s=self._world.now_s())

    def _on_pod(self, change: CommittedWrite) -> None:
        if change.event == DELETED:
            self._consumptions.forget(change.new.metadata["uid"])


def _with_fault(containers: list[dict[str, Any]], fault: MetricsFault) -> list[dict[str, Any]]:
    match fault:
        case ContainerMissing(name):
            return [container for container in containers if container["name"] != name]
        case ReplacedFigures(resource, quantity):
            return [{**container, "usage": {**container["usage"], resource: quantity}} for container in containers]
        case Down() | ScrapesFail() | PartialList():
            return containers
        case _:
            assert_never(fault)
