"""What containers use of CPU and memory: at rest, and for each request that their pod answers.

A version says it itself, by annotations of its pods, or a test says it of an image. A value goes for all containers of the pod,
`0.05`, or for some of them, `app=0.05,proxy=0.01`. Nothing is worked out until somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from rollouts.objects import POD, Manifest
from rollouts.sim.actors.pods import seconds
from rollouts.sim.actors.work import World
from rollouts.sim.network.applications import Applications
from rollouts.sim.storage.history import Stored
from rollouts.sim.storage.quantities import amount

IDLE_CORES = "sim.rollouts.dev/idle-cores"
"""Pod annotation: cores in use without any request."""
CORE_SECONDS_PER_REQUEST = "sim.rollouts.dev/core-seconds-per-request"
"""Pod annotation: CPU time of a request; as many cores for each request a second."""
MEMORY_BYTES = "sim.rollouts.dev/memory-bytes"
"""Pod annotation: the working set."""


class Consumption(Struct, frozen=True, kw_only=True):
    """What a container uses; `core_s_per_request` is as many cores for each request a second. A limit of its CPU holds."""

    idle_cores: float = 0.001
    core_s_per_request: float = 0.0
    memory_bytes: int = 32 * 2**20


MODEST = Consumption()


class MeterReading(Struct, frozen=True):
    """What a kubelet reads of a container: CPU time of its process since its start, in seconds since 1970."""

    started_at_s: float
    core_s: float
    memory_bytes: int


@dataclass(slots=True)
class _Meter:
    """The CPU time of one process, and the requests of its pod, when they were read last."""

    started_at_s: float
    at_s: float
    core_s: float = 0.0
    requests: int = 0


@dataclass
class Consumptions:
    """The usage of all containers."""

    world: World
    applications: Applications
    _by_image: dict[str, Consumption] = field(default_factory=dict)
    _meters: dict[tuple[str, str], _Meter] = field(default_factory=dict)

    def use(self, consumption: Consumption, *, image: str) -> None:
        """Makes the containers of an image use so much from now on, those that run and those to come."""
        for pod in self.world.history.select(POD):
            self.read(pod)
        self._by_image[image] = consumption

    def read(self, pod: Stored) -> dict[str, MeterReading]:
        """What is read now of those containers of a pod that run, by their names."""
        statuses = (pod.manifest.get("status") or {}).get("containerStatuses") or ()
        states = {status["name"]: status.get("state", {}) for status in statuses}
        readings = {}
        for container in pod.manifest["spec"]["containers"]:
            running = states.get(container["name"], {}).get("running")
            if running is not None:
                readings[container["name"]] = self._reading(pod, container, seconds(running["startedAt"]))
        return readings

    def forget(self, uid: str) -> None:
        """Forgets a pod that is gone."""
        for key in [key for key in self._meters if key[0] == uid]:
            del self._meters[key]

    def _reading(self, pod: Stored, container: Manifest, started_at_s: float) -> MeterReading:
        key = (pod.metadata["uid"], container["name"])
        meter = self._meters.get(key)
        if meter is None or meter.started_at_s != started_at_s:
            meter = self._meters[key] = _Meter(started_at_s, started_at_s)
        now_s, consumption = self.world.now_s(), self._by_image.get(container.get("image", ""))
        if consumption is None:
            consumption = annotated(pod.metadata.get("annotations") or {}, container["name"])
        counted = self.applications.counted(pod.metadata["uid"])
        requests = counted.by_status.total() if counted is not None else 0
        # A process that began again counts from 0; its sidecars' meters go on.
        new = requests - meter.requests if requests >= meter.requests else requests
        wanted = consumption.idle_cores * (now_s - meter.at_s) + consumption.core_s_per_request * new
        limit = ((container.get("resources") or {}).get("limits") or {}).get("cpu")
        limit_cores = float(amount(limit)) if limit is not None else math.inf
        meter.core_s += min(wanted, limit_cores * (now_s - meter.at_s))
        meter.at_s, meter.requests = now_s, requests
        return MeterReading(started_at_s, meter.core_s, consumption.memory_bytes)


def annotated(annotations: Mapping[str, str], container: str) -> Consumption:
    """What a container of a version with these annotations uses. Raises: ValueError for a value that is no number."""
    return Consumption(
        idle_cores=_value(annotations.get(IDLE_CORES, ""), container, MODEST.idle_cores),
        core_s_per_request=_value(annotations.get(CORE_SECONDS_PER_REQUEST, ""), container, MODEST.core_s_per_request),
        memory_bytes=int(_value(annotations.get(MEMORY_BYTES, ""), container, MODEST.memory_bytes)),
    )


def _value(text: str, container: str, usual: float) -> float:
    for part in filter(None, text.split(",")):
        name, _, value = part.rpartition("=")
        if name in ("", container):
            return float(value)
    return usual
