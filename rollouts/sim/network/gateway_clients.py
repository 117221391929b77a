"""Clients of a gateway, and the counts of their requests.

Each client keeps a connection to one proxy for a while, as browsers do, so a proxy that is late shows in the counts. The proxy
chooses a pod for each request. A request without an answer from a pod is lost: the proxy's own 404, 500 and 503, a pod that does
not serve, a pod that ends before it has answered. Copies (RequestMirror) are counted apart, because no client waits for answers.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from rollouts.sim.actors.work import World
from rollouts.sim.network.applications import Applications
from rollouts.sim.network.gateway import Gateway, PodEndpoint, Proxy
from rollouts.sim.network.route_table import PLAIN, WebRequest
from rollouts.sim.network.traffic import NO_REVISION, PacedClients

CONNECTION_S = 10.0
"""The longest time that a connection is kept; the shortest is half of it."""
RESET = 0
"""Cause of a lost request in `GatewayClients.causes`: its pod was gone, or ended before the answer."""


class GatewayClients(PacedClients):
    """Clients that send one kind of request; each has one connection at a time."""

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
        super().__init__(world, applications, rate_per_s=rate_per_s, duration_s=duration_s)
        self.copies: Counter[str] = Counter()
        """Copies by the revision of the pod that got them."""
        self.causes: Counter[int] = Counter()
        """Lost requests by the proxy's status; `RESET` where a pod lost them."""
        self.request = request
        self._gateway = gateway
        self._connections: list[tuple[Proxy, float]] = [self._connect() for _ in range(clients)]

    def _connect(self) -> tuple[Proxy, float]:
        kept_s = CONNECTION_S * self._world.rng.uniform(0.5, 1.0)
        return self._world.rng.choice(self._gateway.proxies), self._world.loop.time() + kept_s

    def _send(self, number: int, second: int) -> None:
        client = number % len(self._connections)
        if self._connections[client][1] <= self._world.loop.time():
            self._connections[client] = self._connect()
        proxy = self._connections[client][0]
        forwarded = proxy.forward(self.request)
        self.copies.update(endpoint.revision for endpoint in forwarded.copies)
        if forwarded.endpoint is None:
            self._count(NO_REVISION, second, lost=True)
            self.causes[forwarded.status] += 1
            return
        proxy.active[forwarded.endpoint.revision] += 1
        self._when_answered(forwarded.endpoint.uid, partial(self._finish, proxy, forwarded.endpoint, second))

    def _finish(self, proxy: Proxy, endpoint: PodEndpoint, second: int, duration_s: float) -> None:
        proxy.active[endpoint.revision] -= 1
        if self._count_answer(endpoint.uid, endpoint.revision, second, duration_s):
            self.causes[RESET] += 1
