"""metrics.k8s.io/v1beta1 of the simulated cluster: the usage of pods, with the delays of metrics-server.

Source: kubernetes-sigs/metrics-server v0.9 pkg/api/pod.go; k8s.io/metrics pkg/apis/metrics/v1beta1/types.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, assert_never

import msgspec

from rollouts.objects import POD, Kind, Manifest
from rollouts.ports import Request, Response
from rollouts.sim.actors.work import World
from rollouts.sim.apiserver.listing import watch_filter
from rollouts.sim.apiserver.verbs import rfc3339
from rollouts.sim.network.consumption import Consumptions
from rollouts.sim.network.resource_metrics.faults import (
    ContainerMissing,
    Down,
    MetricsFault,
    MetricsFaults,
    PartialList,
    ReplacedFigures,
    ScrapesFail,
)
from rollouts.sim.network.resource_metrics.store import PointStore
from rollouts.sim.storage.history import DELETED, CommittedWrite, Stored
from rollouts.sim.storage.quantities import binary_text, decimal_text
from rollouts.sim.storage.refusals import NoSuchPath, Refused, method_not_allowed, not_found

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
RESOLUTION_S = 15.0
POD_METRICS = Kind(GROUP, VERSION, "PodMetrics", "pods")
_NAMES_IN_ERRORS = Kind(GROUP, VERSION, "PodMetrics", "podmetrics")
_NANO = 10**9


class SimMetricsServer:
    """One metrics-server, registered with the API server while it runs.

    Args:
        consumptions: what containers use.
        resolution_s: from one scrape to the next.
    """

    def __init__(self, world: World, consumptions: Consumptions, *, resolution_s: float = RESOLUTION_S) -> None:
        self.faults = MetricsFaults(world.loop.time)
        self.requests: list[Request] = []
        """What it was asked so far."""
        self._world = world
        self._consumptions = consumptions
        self._resolution_s = resolution_s
        self._store = PointStore(resolution_s)
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
                return _types()
            case ("pods",):
                return self._list(None, request.query, faults)
            case ("namespaces", namespace, "pods"):
                return self._list(namespace, request.query, faults)
            case ("namespaces", namespace, "pods", name):
                return self._one(namespace, name, faults)
            case _:
                raise NoSuchPath

    def _list(self, namespace: str | None, query: Mapping[str, str], faults: list[MetricsFault]) -> Manifest:
        shown = watch_filter(self._world.resource(POD), namespace, query)
        found_by_label = self._world.history.candidates(POD, namespace, query.get("labelSelector", ""))
        pods = [pod for pod in found_by_label if shown.selects_all or shown.selects(pod)]
        found = (self._metrics(pod, faults) for pod in sorted(pods, key=lambda pod: pod.key))
        items = [item for item in found if item is not None]
        for fault in faults:
            if isinstance(fault, PartialList):
                items = [item for number, item in enumerate(items, start=1) if number % fault.nth]
        return {"kind": "PodMetricsList", "apiVersion": POD_METRICS.api_version, "metadata": {}, "items": items}

    def _one(self, namespace: str, name: str, faults: list[MetricsFault]) -> Manifest:
        pod = self._world.history.get(POD, namespace, name)
        if pod is None:
            raise not_found(POD, name)
        found = self._metrics(pod, faults)
        if found is None:
            raise not_found(_NAMES_IN_ERRORS, f"{namespace}/{name}")
        return {"kind": POD_METRICS.kind, "apiVersion": POD_METRICS.api_version, **found}

    def _metrics(self, pod: Stored, faults: list[MetricsFault]) -> Manifest | None:
        samples = self._store.samples(pod.key)
        if samples is None:
            return None
        oldest = min(samples, key=lambda sample: sample.at_s)
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
        return {
            "metadata": metadata,
            "timestamp": rfc3339(oldest.at_s),
            "window": _duration_text(oldest.window_s),
            "containers": containers,
        }

    def _scrape(self, due_s: float) -> None:
        self._timer = self._world.loop.call_at(due_s + self._resolution_s, self._scrape, due_s + self._resolution_s)
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
            return [each for each in containers if each["name"] != name]
        case ReplacedFigures(resource, quantity):
            return [{**each, "usage": {**each["usage"], resource: quantity}} for each in containers]
        case Down() | ScrapesFail() | PartialList():
            return containers
        case _:
            assert_never(fault)


def _duration_text(duration_s: float) -> str:
    """A duration as Go writes it."""
    minutes, rest_s = divmod(round(duration_s, 3), 60.0)
    return (f"{minutes:g}m" if minutes else "") + f"{round(rest_s, 3):g}s"


def _types() -> Manifest:
    pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": POD_METRICS.api_version, "resources": [pods]}
