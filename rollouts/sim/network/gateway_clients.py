"""Clients of a gateway, and the counts of their requests.

Each client keeps a connection to one proxy for a while, as browsers do, so a proxy that is late shows in the counts. The proxy
chooses a pod for each request. A request without an answer from a pod is lost: the proxy's own 404, 500 and 503, a pod that does
not serve, a pod that ends before it has answered. Copies (RequestMirror) are counted apart, because no client waits for answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from rollouts.sim.actors.work import World
from rollouts.sim.network.applications import FAILED, Applications
from rollouts.sim.network.gateway import Gateway, PodEndpoint, Proxy
from rollouts.sim.network.route_table import PLAIN, WebRequest
from rollouts.sim.network.traffic import NO_REVISION, Tally

CONNECTION_S = 10.0
"""The longest time that a connection is kept; the shortest is half of it."""
RESET = 0
"""Cause of a lost request in `GatewayClients.causes`: its pod was gone, or ended before the answer."""


class GatewayClients:
    """Clients that send one kind of request.

    Args:
        applications: they know whether a pod serves, and what becomes of a request.
        rate_per_s: requests of all clients together.
        clients: number of clients; each has one connection at a time.
        duration_s: how long a request takes, unless its version says otherwise.
    """

    def __init__(
        self,
        world: World,
        applications: Applications,
        gateway: Gateway,
        *,
        rate_per_s: float,
        request: WebRequest = PLAIN,
        clients: int = 8,
        duration_s: float = 0.02,
    ) -> None:
        self.tally = Tally()
        self.copies: Counter[str] = Counter()
        """Copies by the revision of the pod that got them."""
        self.causes: Counter[int] = Counter()
        """Lost requests by the proxy's status; `RESET` where a pod lost them."""
        self.request = request
        self._world = world
        self._kubelets = applications.kubelets
        self._applications = applications
        self._gateway = gateway
        self._interval_s = 1.0 / rate_per_s
        self._duration_s = duration_s
        self._connections: list[tuple[Proxy, float]] = [self._connect() for _ in range(clients)]
        self._next = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts to send."""
        self._timer = self._world.loop.call_later(self._interval_s, self._send)

    def stop(self) -> None:
        """Stops to send; requests that are in flight are still counted."""
        if self._timer is not None:
            self._timer.cancel()

    def _connect(self) -> tuple[Proxy, float]:
        kept_s = CONNECTION_S * self._world.rng.uniform(0.5, 1.0)
        return self._world.rng.choice(self._gateway.proxies), self._world.loop.time() + kept_s

    def _send(self) -> None:
        loop = self._world.loop
        due_s = self._timer.when() if self._timer is not None else loop.time()
        # Counted from the due time, not from now: a late loop sends late, but not fewer requests.
        self._timer = loop.call_at(due_s + self._interval_s, self._send)
        client, self._next = self._next, (self._next + 1) % len(self._connections)
        if self._connections[client][1] <= loop.time():
            self._connections[client] = self._connect()
        proxy = self._connections[client][0]
        forwarded = proxy.forward(self.request)
        self.copies.update(endpoint.revision for endpoint in forwarded.copies)
        second = int(due_s)
        if forwarded.endpoint is None:
            self._count(NO_REVISION, second, lost=forwarded.status)
            return
        proxy.active[forwarded.endpoint.revision] += 1
        duration_s = self._applications.duration_s(forwarded.endpoint.uid, self._duration_s)
        if not self._kubelets.serves(forwarded.endpoint.uid) or not duration_s:
            self._finish(proxy, forwarded.endpoint, second, duration_s)
        else:
            loop.call_later(duration_s, self._finish, proxy, forwarded.endpoint, second, duration_s)

    def _finish(self, proxy: Proxy, endpoint: PodEndpoint, second: int, duration_s: float) -> None:
        proxy.active[endpoint.revision] -= 1
        lost = not self._kubelets.serves(endpoint.uid)
        self._count(endpoint.revision, second, lost=RESET if lost else None)
        if not lost and self._applications.answer(endpoint.uid, duration_s) >= FAILED:
            self.tally.failed[endpoint.revision] += 1

    def _count(self, revision: str, second: int, *, lost: int | None) -> None:
        self.tally.sent[revision] += 1
        self.tally.sent_by_second[second, revision] += 1
        if lost is not None:
            self.tally.lost[revision] += 1
            self.tally.lost_by_second[second, revision] += 1
            self.causes[lost] += 1
