"""What the applications in pods do with requests: how long they take, which ones they fail, and what they count of it.

A version says it itself, by annotations of its pods, or a test says it of an image, a revision or a label. Without either a
request takes as long as its client says, and none fails. Failing is not losing: the client gets an answer, with status 500.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from rollouts.objects import POD
from rollouts.sim.actors import processes
from rollouts.sim.actors.kubelet import Kubelets
from rollouts.sim.actors.work import World
from rollouts.sim.storage.history import DELETED, CommittedWrite, Stored

REVISION_LABEL = "rollouts.dev/revision"
"""The label of pods with their revision."""
ERROR_PERCENT = "sim.rollouts.dev/error-percent"
"""Pod annotation: the share of requests that are answered with 500, in percent."""
LATENCY_SECONDS = "sim.rollouts.dev/latency-seconds"
"""Pod annotation: how long a request takes, `0.2`, or between two times, `0.1-0.4`."""

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds. Source: prometheus/client_golang, DefBuckets."""
OK, FAILED = 200, 500


class Behaviour(Struct, frozen=True, kw_only=True):
    """How a version answers: the share of requests that fail, and how long one takes; None for what its client says."""

    error_ratio: float = 0.0
    latency_s: tuple[float, float] | None = None


WELL = Behaviour()


@dataclass(slots=True)
class Requests:
    """What one process has counted since it began.

    Args:
        buckets: requests by the index of the smallest bound of `BUCKETS_S` that they keep; one more for all others.
        seconds: what they took together.
    """

    by_status: Counter[int] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    seconds: float = 0.0


class _Rule(Struct, frozen=True):
    behaviour: Behaviour
    image: str
    revision: str
    labels: Mapping[str, str]

    def fits(self, pod: Stored) -> bool:
        images = {container.get("image", "") for container in pod.manifest["spec"]["containers"]}
        return (
            self.image in {"", *images}
            and self.revision in ("", pod.labels.get(REVISION_LABEL, ""))
            and self.labels.items() <= pod.labels.items()
        )


@dataclass(slots=True)
class _Instance:
    pod: Stored
    behaviour: Behaviour
    counted: Requests = field(default_factory=Requests)
    restarts: int = 0


class Applications:
    """The applications of all pods; `seed` decides which requests fail, and how long each takes."""

    def __init__(self, world: World, kubelets: Kubelets, *, seed: int = 0) -> None:
        self.kubelets = kubelets
        self._world = world
        self._rng = random.Random(seed)  # noqa: S311  # a simulation's seed; its own, so that it shifts nobody else's draws
        self._rules: list[_Rule] = []
        self._instances: dict[str, _Instance] = {}
        world.history.follow(POD, self._on_pod)

    def behave(
        self, behaviour: Behaviour, *, image: str = "", revision: str = "", labels: Mapping[str, str] | None = None
    ) -> None:
        """Makes pods behave so from now on, those that run and those to come; a later call comes before an earlier one.

        An image is that of a container, whole; "" is for any image, or any revision.
        """
        self._rules.append(_Rule(behaviour, image, revision, dict(labels or {})))
        for instance in self._instances.values():
            instance.behaviour = self._behaviour_of(instance.pod)

    def duration_s(self, uid: str, usual_s: float) -> float:
        """How long the pod will take for a request whose client says that it takes `usual_s`."""
        instance = self._instances.get(uid)
        if instance is None or instance.behaviour.latency_s is None:
            return usual_s
        shortest_s, longest_s = instance.behaviour.latency_s
        return shortest_s if shortest_s == longest_s else self._rng.uniform(shortest_s, longest_s)

    def answer(self, uid: str, took_s: float) -> int:
        """Counts a request that the pod has answered, and says with which status."""
        instance = self._instances.get(uid)
        if instance is None:
            return OK
        ratio, counted = instance.behaviour.error_ratio, instance.counted
        status = FAILED if ratio and self._rng.random() < ratio else OK
        counted.by_status[status] += 1
        counted.buckets[bisect_left(BUCKETS_S, took_s)] += 1
        counted.seconds += took_s
        return status

    def counted(self, uid: str) -> Requests | None:
        """What the pod's process has counted; None when there is no such pod."""
        instance = self._instances.get(uid)
        return instance.counted if instance is not None else None

    def _on_pod(self, change: CommittedWrite) -> None:
        pod = change.new
        uid = pod.metadata["uid"]
        if change.event == DELETED:
            self._instances.pop(uid, None)
            return
        known = self._instances.get(uid)
        if known is None:
            self._instances[uid] = _Instance(pod, self._behaviour_of(pod), restarts=processes.restarts(pod))
            return
        if known.pod.metadata is not pod.metadata:
            known.behaviour = self._behaviour_of(pod)
        known.pod = pod
        if processes.restarts(pod) != known.restarts:  # a new process counts from 0
            known.restarts, known.counted = processes.restarts(pod), Requests()

    def _behaviour_of(self, pod: Stored) -> Behaviour:
        for rule in reversed(self._rules):
            if rule.fits(pod):
                return rule.behaviour
        return annotated(pod.metadata.get("annotations") or {})


def annotated(annotations: Mapping[str, str]) -> Behaviour:
    """How a version with these annotations answers. Raises: ValueError for one that is no number."""
    percent, latency = annotations.get(ERROR_PERCENT), annotations.get(LATENCY_SECONDS)
    if percent is None and latency is None:
        return WELL
    shortest, _, longest = (latency or "").partition("-")
    return Behaviour(
        error_ratio=float(percent or 0) / 100,
        latency_s=(float(shortest), float(longest or shortest)) if latency else None,
    )
