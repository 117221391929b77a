"""Clients of a Service, and the counts of their requests.

Each client sends at a constant rate through the kube-proxy of a node (`proxies.py`), which knows the endpoints as they were a
moment ago. A request is lost if there is no endpoint, if its pod does not serve, or if its pod ends before it has answered. A
kept connection stays with its pod; if the pod ended while the connection was idle, the client opens another one, as pools do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from rollouts.objects import ENDPOINT_SLICE, POD
from rollouts.sim.actors.endpointslices import SERVICE_NAME
from rollouts.sim.actors.work import World
from rollouts.sim.network.applications import FAILED, REVISION_LABEL, Applications
from rollouts.sim.network.proxies import IPTABLES, NodeProxy, ProxyEndpoint, ProxySettings
from rollouts.sim.storage.history import DELETED, CommittedWrite

NO_REVISION = ""


class Tally(Struct, frozen=True):
    """Counts of requests by the revision of their pod, which is "" when there was no endpoint.

    Answers that failed have a status of 500 and above: the application's, not the network's. Seconds are those of the loop.
    """

    sent: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    sent_by_second: Counter[tuple[int, str]] = field(default_factory=Counter)
    lost_by_second: Counter[tuple[int, str]] = field(default_factory=Counter)


class Connections(Struct, frozen=True, kw_only=True):
    """How clients use connections.

    Args:
        kept: how many are kept open and used in turn; 0: one connection for each request.
        ports: how many source ports new connections use in turn; 0: every connection has a new port.
    """

    kept: int = 0
    ports: int = 0


NEW = Connections()


class PacedClients:
    """Sends requests at a constant rate, and counts what becomes of them.

    Args:
        applications: they know whether a pod serves, and what becomes of a request.
        rate_per_s: requests of all clients together.
        duration_s: how long a request takes, unless its version says otherwise.
    """

    def __init__(self, world: World, applications: Applications, *, rate_per_s: float, duration_s: float) -> None:
        self.tally = Tally()
        self._world = world
        self._kubelets = applications.kubelets
        self._applications = applications
        self._interval_s = 1.0 / rate_per_s
        self._duration_s = duration_s
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts to send."""
        self._timer = self._world.loop.call_later(self._interval_s, self._send_next)

    def stop(self) -> None:
        """Stops to send; requests that are in flight are still counted."""
        if self._timer is not None:
            self._timer.cancel()

    def _send_next(self) -> None:
        loop, timer = self._world.loop, self._timer
        due_s = timer.when() if timer is not None else loop.time()
        # Counted from the due time, not from now: a late loop sends late, but not fewer requests.
        self._timer = loop.call_at(due_s + self._interval_s, self._send_next)
        number, self._number = self._number, self._number + 1
        self._send(number, int(due_s))

    def _send(self, number: int, second: int) -> None:
        raise NotImplementedError

    def _when_answered(self, uid: str, finish: Callable[[float], None]) -> None:
        """Calls `finish` with the seconds that the pod took; at once when it does not serve."""
        duration_s = self._applications.duration_s(uid, self._duration_s)
        if duration_s and self._kubelets.serves(uid):
            self._world.loop.call_later(duration_s, finish, duration_s)
        else:
            finish(duration_s)

    def _count_answer(self, uid: str, revision: str, second: int, duration_s: float) -> bool:
        lost = not self._kubelets.serves(uid)
        self._count(revision, second, lost=lost)
        if not lost and self._applications.answer(uid, duration_s) >= FAILED:
            self.tally.failed[revision] += 1
        return lost

    def _count(self, revision: str, second: int, *, lost: bool) -> None:
        self.tally.sent[revision] += 1
        self.tally.sent_by_second[second, revision] += 1
        if lost:
            self.tally.lost[revision] += 1
            self.tally.lost_by_second[second, revision] += 1


class ClientTraffic(PacedClients):
    """Clients of one Service, through kube-proxies that work as `proxy` says."""

    def __init__(
        self,
        world: World,
        applications: Applications,
        *,
        namespace: str,
        service: str,
        rate_per_s: float,
        proxy: ProxySettings = IPTABLES,
        duration_s: float = 0.02,
        connections: Connections = NEW,
    ) -> None:
        super().__init__(world, applications, rate_per_s=rate_per_s, duration_s=duration_s)
        self._where = (namespace, service)
        self.proxies = tuple(NodeProxy(world.loop, world.rng, proxy) for _ in applications.kubelets.nodes)
        self._kept: list[tuple[int, ProxyEndpoint] | None] = [None] * connections.kept
        self._ports = connections.ports
        self._unlisten: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Starts to send; every proxy starts with the current slices."""
        for stored in self._world.history.select(ENDPOINT_SLICE, self._where[0]):
            self._on_slice(CommittedWrite(ENDPOINT_SLICE, "ADDED", stored, None), at_once=True)
        self._unlisten = self._world.history.listen(ENDPOINT_SLICE, self._on_slice)
        super().start()

    def stop(self) -> None:
        """Stops to send; requests that are in flight are still counted."""
        super().stop()
        self._unlisten()
        self._unlisten = lambda: None
        for proxy in self.proxies:
            proxy.stop()

    def _on_slice(self, change: CommittedWrite, *, at_once: bool = False) -> None:
        if change.new.key[0] != self._where[0] or change.new.labels.get(SERVICE_NAME) != self._where[1]:
            return
        endpoints: tuple[ProxyEndpoint, ...] = ()
        if change.event != DELETED:
            endpoints = tuple(
                ProxyEndpoint(
                    entry["targetRef"]["namespace"],
                    entry["targetRef"]["name"],
                    entry["targetRef"]["uid"],
                    entry["conditions"]["ready"],
                    entry["conditions"]["serving"],
                )
                for entry in change.new.manifest["endpoints"]
            )
        name = change.new.metadata["name"]
        for proxy in self.proxies:
            proxy.hear(name, endpoints, at_once=at_once)

    def _send(self, number: int, second: int) -> None:
        proxy, port, chosen = self._through_kept(number) if self._kept else self._through_new(number)
        if chosen is None:
            self._count(NO_REVISION, second, lost=True)
            return
        pod = self._world.history.get(POD, chosen.namespace, chosen.pod)
        revision = pod.labels.get(REVISION_LABEL, NO_REVISION) if pod is not None else NO_REVISION
        self._when_answered(chosen.uid, partial(self._finish, proxy, port, chosen.uid, revision, second))

    def _through_new(self, number: int) -> tuple[NodeProxy, int, ProxyEndpoint | None]:
        port = number % self._ports if self._ports else number
        proxy = self.proxies[port % len(self.proxies)] if self._ports else self._world.rng.choice(self.proxies)
        return proxy, port, proxy.connect(port)

    def _through_kept(self, number: int) -> tuple[NodeProxy, int, ProxyEndpoint | None]:
        index = number % len(self._kept)
        proxy, kept = self.proxies[index % len(self.proxies)], self._kept[index]
        if kept is not None and self._kubelets.serves(kept[1].uid):
            return proxy, *kept
        if kept is not None:  # its pod ended while it was idle
            proxy.close(kept[0], reset=True)
        chosen = proxy.connect(number)
        self._kept[index] = (number, chosen) if chosen is not None else None
        return proxy, number, chosen

    def _finish(self, proxy: NodeProxy, port: int, uid: str, revision: str, second: int, duration_s: float) -> None:
        if not self._kept:
            proxy.close(port)
        self._count_answer(uid, revision, second, duration_s)
