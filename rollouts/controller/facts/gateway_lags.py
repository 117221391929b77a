"""How long gateways take to follow a route: measured whenever the controller asks one until a split is live.

A gateway learns from the API server of pods that terminate, as it learns of weights. So pods must sleep for as long before they
end (`core/context/drain_numbers.py`). Measurements end with the process: without them the general numbers hold, and updates
measure again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import structlog

from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.ports import Clock, LiveQuestion
from rollouts.recent import Recent

KEPT = 50  # measurements of a gateway
LEAST = 3  # measurements before a lag is given

MOST_S = 30.0
"""The longest lag that counts. A longer one is a proxy that was cut off or down, and no sleep of pods is long enough for that."""

_ROUTES_MOST = 1_000  # routes that are remembered

log = structlog.get_logger()


class GatewayLags:
    """Measures lags from questions to data planes and their answers."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._began: Recent[RouteName, tuple[str, float]] = Recent(_ROUTES_MOST)
        self._was_live: Recent[RouteName, None] = Recent(_ROUTES_MOST)
        self._measured: dict[str, deque[float]] = {}

    def asked(self, question: LiveQuestion) -> None:
        """Notes when the data plane was first asked about a split of a route."""
        version, route = question.resource_version, question.route
        if self._began.get(route, ("", 0.0))[0] != version:
            self._began[route] = (version, self._clock.monotonic_s())

    def answered(self, question: LiveQuestion, seen: LiveSeen) -> None:
        """Takes the answer. Counters of requests do not count: they show what proxies do, but not since when.

        Only changes are measured: a route that is live for the first time may have waited for its gateway, or for pods.
        """
        version, began_s = self._began.get(question.route, ("", 0.0))
        if not seen.live or seen.by is not VerifiedBy.CONFIG or version != question.resource_version:
            return
        del self._began[question.route]
        lag_s, is_change = self._clock.monotonic_s() - began_s, question.route in self._was_live
        self._was_live[question.route] = None
        if is_change and lag_s <= MOST_S:
            for name in names_of(question.gateways, question.route):
                self._learn(name, lag_s)

    def slowest_s(self, names: Iterable[str]) -> float | None:
        """The lag of the slowest of these gateways, in whole seconds, rounded up; None without enough measurements.

        The longest time of a gateway may be an accident on our side, so its second longest counts.
        """
        known = [sorted(self._measured[name])[-2] for name in names if len(self._measured.get(name, ())) >= LEAST]
        return float(math.ceil(max(known))) if known else None

    def _learn(self, name: str, lag_s: float) -> None:
        before = self.slowest_s((name,))
        self._measured.setdefault(name, deque(maxlen=KEPT)).append(lag_s)
        if (now := self.slowest_s((name,))) != before:
            log.info("gateway_lag", gateway=name, lag_s=now)


def names_of(gateways: tuple[str, ...], route: RouteName) -> tuple[str, ...]:
    """The gateways that a measurement is about; all gateways of the router when the route names none."""
    return gateways or (route.router,)
