"""Clients of a Service, and what became of their requests.

Each client sends at a constant rate through the kube-proxy of a node, which knows the endpoints as they were a moment ago
and picks one of the ready ones by chance; when none is ready, one that is terminating and still serving, as kube-proxy
does. A request that reaches a pod that does not serve, or finds no endpoint, is lost; so is one whose pod ends under it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rollouts.objects import ENDPOINT_SLICE, POD
from rollouts.sim.actors.endpointslices import SERVICE_NAME
from rollouts.sim.actors.kubelet import Kubelets
from rollouts.sim.actors.work import World
from rollouts.sim.history import DELETED, Change

REVISION_LABEL = "rollouts.dev/revision"
NO_REVISION = ""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    namespace: str
    pod: str
    uid: str
    ready: bool
    serving: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of requests.

    Args:
        sent: by the revision of the pod they were sent to; no revision when there was no endpoint.
        lost: of those.
        by_second: sent and lost by loop second, then by revision.
    """

    sent: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    sent_by_second: Counter[tuple[int, str]] = field(default_factory=Counter)
    lost_by_second: Counter[tuple[int, str]] = field(default_factory=Counter)


class Traffic:
    """Clients of one Service.

    Args:
        world: the cluster.
        kubelets: which know whether a pod serves.
        namespace: of the Service.
        service: its name.
        rate_per_s: requests of all clients together.
        proxy_lag_s: shortest and longest time from a slice's write to a node's kube-proxy knowing it.
        duration_s: of one request.
    """

    def __init__(
        self,
        world: World,
        kubelets: Kubelets,
        *,
        namespace: str,
        service: str,
        rate_per_s: float,
        proxy_lag_s: tuple[float, float] = (0.01, 0.5),
        duration_s: float = 0.02,
    ) -> None:
        self.tally = Tally()
        self._world = world
        self._kubelets = kubelets
        self._where = (namespace, service)
        self._interval_s = 1.0 / rate_per_s
        self._duration_s = duration_s
        self._lag_s = {node: world.rng.uniform(*proxy_lag_s) for node in kubelets.nodes}
        self._seen: dict[str, dict[str, tuple[_Endpoint, ...]]] = {node: {} for node in kubelets.nodes}
        self._timer: asyncio.TimerHandle | None = None
        self._unlisten: Callable[[], None] = _nothing

    def start(self) -> None:
        """Begins to send; every proxy starts with what the slices say now."""
        for stored in self._world.history.select(ENDPOINT_SLICE, self._where[0]):
            self._on_slice(Change(ENDPOINT_SLICE, "ADDED", stored, None), at_once=True)
        self._unlisten = self._world.history.listen(ENDPOINT_SLICE, self._on_slice)
        self._timer = self._world.loop.call_later(self._interval_s, self._send)

    def stop(self) -> None:
        """Sends no more; requests on their way are still counted."""
        if self._timer is not None:
            self._timer.cancel()
        self._unlisten()
        self._unlisten = _nothing

    def _on_slice(self, change: Change, *, at_once: bool = False) -> None:
        if change.new.key[0] != self._where[0] or change.new.labels.get(SERVICE_NAME) != self._where[1]:
            return
        endpoints: tuple[_Endpoint, ...] = ()
        if change.event != DELETED:
            endpoints = tuple(
                _Endpoint(
                    entry["targetRef"]["namespace"],
                    entry["targetRef"]["name"],
                    entry["targetRef"]["uid"],
                    entry["conditions"]["ready"],
                    entry["conditions"]["serving"],
                )
                for entry in change.new.manifest["endpoints"]
            )
        name = change.new.metadata["name"]
        for node, lag_s in self._lag_s.items():
            if at_once:
                self._seen[node][name] = endpoints
            else:
                self._world.loop.call_later(lag_s, self._seen[node].__setitem__, name, endpoints)

    def _send(self) -> None:
        loop, rng = self._world.loop, self._world.rng
        timer = self._timer
        due = timer.when() if timer is not None else loop.time()
        # From the due time, not from now: a late loop sends late, never less.
        self._timer = loop.call_at(due + self._interval_s, self._send)
        known = [entry for entries in self._seen[rng.choice(self._kubelets.nodes)].values() for entry in entries]
        choices = [entry for entry in known if entry.ready] or [entry for entry in known if entry.serving]
        second = int(due)
        if not choices:
            self._count(NO_REVISION, second, lost=True)
            return
        chosen = rng.choice(choices)
        pod = self._world.history.get(POD, chosen.namespace, chosen.pod)
        revision = pod.labels.get(REVISION_LABEL, NO_REVISION) if pod is not None else NO_REVISION
        if not self._kubelets.serves(chosen.uid):
            self._count(revision, second, lost=True)
        elif self._duration_s:
            loop.call_later(self._duration_s, self._finish, chosen.uid, revision, second)
        else:
            self._count(revision, second, lost=False)

    def _finish(self, uid: str, revision: str, second: int) -> None:
        self._count(revision, second, lost=not self._kubelets.serves(uid))

    def _count(self, revision: str, second: int, *, lost: bool) -> None:
        self.tally.sent[revision] += 1
        self.tally.sent_by_second[second, revision] += 1
        if lost:
            self.tally.lost[revision] += 1
            self.tally.lost_by_second[second, revision] += 1


def _nothing() -> None:
    """Not listening."""
