"""How long gateways take from a route to what they do: measured whenever one is asked until it says that a split is live.

A gateway learns of pods that go as it learns of weights, from the API server, so that pods have to sleep for as long before they
end (`core/context/drain_numbers.py`). Nothing is kept beyond the process: without measurements the general numbers hold;
updates measure anew.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import TypeVar

import structlog

from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.ports import Clock, LiveQuestion

KEPT = 50  # measurements of a gateway
LEAST = 3  # before anything is said

MOST_S = 30.0
"""Longer is a proxy that was cut off or down, which the wait for its weights tells; pods cannot outlive that."""

_ROUTES_MOST = 1_000  # that are remembered
_T = TypeVar("_T")

log = structlog.get_logger()


class GatewayLags:
    """Measures, from the questions and their answers."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._began: OrderedDict[RouteName, tuple[str, float]] = OrderedDict()
        self._was_live: OrderedDict[RouteName, None] = OrderedDict()
        self._measured: dict[str, deque[float]] = {}

    def asked(self, question: LiveQuestion) -> None:
        """A route is seen to say something, and its data plane is asked about it; the first time is what counts."""
        version, route = question.resource_version, question.route
        if self._began.get(route, ("", 0.0))[0] != version:
            _put(self._began, route, (version, self._clock.monotonic_s()))

    def answered(self, question: LiveQuestion, seen: LiveSeen) -> None:
        """What it answered. Counters of requests say what is done, and not since when.

        A route that is live for the first time may have waited for its gateway, or for pods: only changes are measured.
        """
        version, began_s = self._began.get(question.route, ("", 0.0))
        if not seen.live or seen.by is not VerifiedBy.CONFIG or version != question.resource_version:
            return
        del self._began[question.route]
        lag_s, is_change = self._clock.monotonic_s() - began_s, question.route in self._was_live
        _put(self._was_live, question.route, None)
        if is_change and lag_s <= MOST_S:
            for name in names_of(question.gateways, question.route):
                self._learn(name, lag_s)

    def slowest_s(self, names: Iterable[str]) -> float | None:
        """In whole seconds, rounded up, of the slowest of these gateways; None when nothing was measured often enough.

        The longest time of a gateway may be an accident of ours, so the longest but one is told.
        """
        known = [sorted(self._measured[each])[-2] for each in names if len(self._measured.get(each, ())) >= LEAST]
        return float(math.ceil(max(known))) if known else None

    def _learn(self, name: str, lag_s: float) -> None:
        before = self.slowest_s((name,))
        self._measured.setdefault(name, deque(maxlen=KEPT)).append(lag_s)
        if (now := self.slowest_s((name,))) != before:
            log.info("gateway_lag", gateway=name, lag_s=now)


def _put(routes: OrderedDict[RouteName, _T], route: RouteName, value: _T) -> None:
    routes[route] = value
    routes.move_to_end(route)
    if len(routes) > _ROUTES_MOST:
        routes.popitem(last=False)


def names_of(gateways: tuple[str, ...], route: RouteName) -> tuple[str, ...]:
    """Whom a measurement is of: the gateways, or all of the router's where the route does not tell them."""
    return gateways or (route.router,)
