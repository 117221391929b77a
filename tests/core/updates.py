"""Where tests of an update begin, and what they read in its status."""

from __future__ import annotations

from typing import Any

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskLive, Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Condition, Traffic, WaitingFor
from rollouts.core.model.steps import PauseUntilPromoted, SetHeaderRoute, SetMirrorRoute, Step
from rollouts.core.model.traffic import RouteName
from tests.core.model import World, router, snapshot
from tests.core.worlds import (
    edited,
    pods_ready,
    pods_unready,
    reconciled,
    replica_sets_caught_up,
    running,
    settled,
    slices_caught_up,
)

ASKED = RouteName("gatewayAPI", "HTTPRoute", "shop", "asked-cart")
TIMED = RouteName("istio", "HTTPRoute", "shop", "cart")
GATE = PauseUntilPromoted()
COUNTED = RouteName("istio", "HTTPRoute", "shop", "counted-cart")


def with_services(*steps: Step, **fields: Any) -> Canary:
    """A canary of the Services `cart` and `cart-canary`."""
    return Canary(steps=steps, **{"stable_service": "cart", "canary_service": "cart-canary", **fields})


def routed(*steps: Step, by: tuple[RouteName, ...] = (ASKED,), dynamic: bool = False, **fields: Any) -> Canary:
    """The same with a route for each name, and with `dynamicStableScale` or without."""
    routers = tuple(router(each.router, each.name) for each in by)
    managed = dict.fromkeys(each.name for each in steps if isinstance(each, SetHeaderRoute | SetMirrorRoute))
    routing = TrafficRouting(routers=routers, managed_routes=tuple(managed), dynamic_stable_scale=dynamic)
    return with_services(*steps, traffic_routing=routing, **fields)


def updating(strategy: Strategy, **spec: Any) -> World:
    """Revision `b` after `a`, as far as it comes by itself."""
    return settled(edited(running(strategy, **spec), revision="b"))


def measuring(strategy: Strategy, **spec: Any) -> World:
    """The same while nobody measures for its analyses."""
    return settled(edited(replace(running(strategy, **spec), unmeasured=True), revision="b"))


def pods_there(there: World) -> World:
    """Every pod that was asked for is there, and ready unless its revision is bad."""
    return replica_sets_caught_up(pods_ready(replica_sets_caught_up(there)))


def pods_fail(there: World, revision: str, *, limit: int = 1000) -> World:
    """Pods of a revision fail their probes, and its ReplicaSet has counted that."""
    return replica_sets_caught_up(pods_unready(there, revision, limit=limit))


def without_gateways(there: World, rounds: int = 40) -> World:
    """Everything happens by itself, except that no data plane follows; no wait is waited out."""
    for _ in range(rounds):
        there = reconciled(slices_caught_up(pods_there(there)))
    return there


def waiting(there: World | Decision) -> WaitingFor:
    """What status says that is waited for."""
    assert there.status.waiting_for is not None, there.status
    return there.status.waiting_for


def waits_for(there: World | Decision) -> Reason | None:
    """Why the update does not go on; None while it waits for nothing."""
    return there.status.waiting_for.reason if there.status.waiting_for is not None else None


def condition(there: World | Decision, kind: str) -> Condition:
    """The condition of that type."""
    (found,) = (each for each in there.status.conditions if each.type == kind)
    return found


def said(there: World | Decision, kind: str) -> str:
    """What the condition of that type says; "" where it is not there, or not true."""
    return next((each.message for each in there.status.conditions if each.type == kind and each.status), "")


def traffic(there: World | Decision) -> Traffic:
    """What status says of the routes."""
    assert there.status.traffic is not None, there.status
    return there.status.traffic


def questions_about_routes(there: World, *, seconds: float) -> int:
    """How often data planes are asked in that time, with every pass that somebody asked for."""
    asked, end_s = 0, there.now_s + seconds
    while there.now_s < end_s:
        asked += sum(isinstance(each, AskLive) for each in decide(snapshot(there)).intents)
        there = reconciled(there)
        wake_s = decide(snapshot(there)).requeue_at_s
        there = replace(there, now_s=max(there.now_s + 0.01, wake_s or there.now_s))
    return asked
