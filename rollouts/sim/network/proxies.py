"""kube-proxy on one node, for one Service: when a change of the EndpointSlices takes effect, and where a connection goes.

The model follows measurements on real ones (docs/cutover.md, tests/node, tests/ipvs), and a test compares them:

* A change takes effect 10 to 100 ms after the slices' write. A change within `minSyncPeriod` of the last sync waits until the
  period ends, and about 150 ms more.
* iptables and nftables choose a pod when a connection begins, and keep open connections.
* ipvs gives a server that leaves weight 0 and keeps it while it has connections: a closed one counts for 120 s (TIME_WAIT), a
  reset one for 10 s. kube-proxy checks once a minute. Without connections the server is removed at once.
* On kernels before 5.9 a source port in TIME_WAIT leads to its old server again, also at weight 0, and then for 120 s more.

More sources: KEP-1669 (terminating endpoints), kube-proxy's `pkg/proxy/ipvs`, kubernetes issue 81775.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

Mode = Literal["iptables", "nftables", "ipvs"]
_REUSE_SAFE_KERNEL = (5, 9)
_QUICK_S = (0.01, 0.1)  # until a change takes effect, when there was no other change shortly before
_HELD_S = (0.1, 0.2)  # from the end of `minSyncPeriod`, for a change that has to wait for it
_CHECK_S = 60.0  # between two checks of ipvs servers of weight 0 by kube-proxy
_RESET_S = 10.0  # ipvs remembers a connection that was reset


class ProxyEndpoint(Struct, frozen=True):
    """A pod in an EndpointSlice."""

    namespace: str
    pod: str
    uid: str
    ready: bool
    serving: bool


class ProxySettings(Struct, frozen=True, kw_only=True):
    """How the kube-proxies of a cluster work.

    Args:
        kernel: kernel version of the nodes; only ipvs depends on it.
        time_wait_s: how long ipvs remembers a connection that both sides closed.
    """

    mode: Mode = "iptables"
    min_sync_period_s: float = 1.0
    kernel: tuple[int, int] = (6, 1)
    time_wait_s: float = 120.0


IPTABLES = ProxySettings()


@dataclass(slots=True)
class _Server:
    endpoint: ProxyEndpoint
    weight: int


@dataclass(slots=True)
class _Entry:
    """A connection that ipvs remembers until `expires_s`; for ever while it is open."""

    uid: str
    expires_s: float = math.inf


class NodeProxy:
    """The kube-proxy of one node; `rng` is for lags, and for the pod of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: random.Random, settings: ProxySettings) -> None:
        self.settings = settings
        self._loop = loop
        self._rng = rng
        self._slices: dict[str, tuple[ProxyEndpoint, ...]] = {}
        self._usable: tuple[ProxyEndpoint, ...] = ()
        self._servers: dict[str, _Server] = {}  # of ipvs
        self._entries: dict[int, _Entry] = {}
        self._synced_at_s = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.TimerHandle | None = None
        self._check_phase_s = loop.time() + rng.uniform(0.0, _CHECK_S) if settings.mode == "ipvs" else 0.0

    def hear(self, name: str, endpoints: tuple[ProxyEndpoint, ...], *, at_once: bool = False) -> None:
        """Takes a new version of a slice; with `at_once` without a lag, for slices that existed before."""
        self._slices[name] = endpoints
        if at_once:
            self._apply()
        elif self._timer is None:
            settings, since_s = self.settings, self._loop.time() - self._synced_at_s
            wait_s = self._rng.uniform(*_QUICK_S)
            if since_s < settings.min_sync_period_s:
                wait_s = settings.min_sync_period_s - since_s + self._rng.uniform(*_HELD_S)
            self._timer = self._loop.call_later(wait_s, self._sync)

    def connect(self, port: int) -> ProxyEndpoint | None:
        """The pod for a new connection from a client's port; None when there is no endpoint."""
        if self.settings.mode != "ipvs":
            return self._rng.choice(self._usable) if self._usable else None
        now_s = self._loop.time()
        known = self._entries.get(port)
        if known is not None and known.expires_s > now_s and self.settings.kernel < _REUSE_SAFE_KERNEL:
            known.expires_s = math.inf
            return self._servers[known.uid].endpoint
        choices = [server.endpoint for server in self._servers.values() if server.weight]
        if not choices:
            return None
        chosen = self._rng.choice(choices)
        self._entries[port] = _Entry(chosen.uid)
        return chosen

    def close(self, port: int, *, reset: bool = False) -> None:
        """Ends the connection from a port."""
        entry = self._entries.get(port)
        if entry is not None:
            entry.expires_s = self._loop.time() + (_RESET_S if reset else self.settings.time_wait_s)

    def weight(self, uid: str) -> int | None:
        """The weight of a pod in the ipvs table; None when it is not in it. Other modes have no weights: 1 or None."""
        if self.settings.mode == "ipvs":
            server = self._servers.get(uid)
            return server.weight if server is not None else None
        return 1 if any(endpoint.uid == uid for endpoint in self._usable) else None

    def stop(self) -> None:
        """Stops the proxy."""
        for timer in (self._timer, self._check):
            if timer is not None:
                timer.cancel()

    def _sync(self) -> None:
        self._timer = None
        self._synced_at_s = self._loop.time()
        self._apply()

    def _apply(self) -> None:
        known = [endpoint for endpoints in self._slices.values() for endpoint in endpoints]
        ready = tuple(endpoint for endpoint in known if endpoint.ready)
        self._usable = ready or tuple(endpoint for endpoint in known if endpoint.serving)
        if self.settings.mode != "ipvs":
            return
        for server in self._servers.values():
            server.weight = 0
        self._servers |= {endpoint.uid: _Server(endpoint, 1) for endpoint in self._usable}
        self._delete_unused()

    def _delete_unused(self) -> None:
        """Removes servers of weight 0 that have no connections; the others are checked again later."""
        now_s = self._loop.time()
        self._entries = {port: entry for port, entry in self._entries.items() if entry.expires_s > now_s}
        used = {entry.uid for entry in self._entries.values()}
        self._servers = {uid: server for uid, server in self._servers.items() if server.weight or uid in used}
        if self._check is None and any(not server.weight for server in self._servers.values()):
            done = math.floor((now_s - self._check_phase_s) / _CHECK_S + 1e-6)  # this one counts too
            self._check = self._loop.call_at(self._check_phase_s + (done + 1) * _CHECK_S, self._look)

    def _look(self) -> None:
        self._check = None
        self._delete_unused()
