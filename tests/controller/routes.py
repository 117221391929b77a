"""Builders for tests about routes: an HTTPRoute, a Rollout that manages it, and what reads both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from rollouts.cluster.decoding import decode_route
from rollouts.cluster.structs import RolloutObject, RouteObject
from rollouts.controller.act.orphans import Orphans
from rollouts.controller.observe.observer import Seen
from rollouts.controller.observe.routes import RouteReader
from rollouts.controller.workqueue.managed import ManagedRouteObjects
from rollouts.core.model.snapshot import DrainSeen, Snapshot
from rollouts.core.model.traffic import LiveSeen, Pace, RouteName, VerifiedBy
from rollouts.objects import Kind, Manifest
from rollouts.ports import DataPlanes, DrainQuestion, LiveQuestion
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.traffic.registry import registry
from tests import build
from tests.controller.world import CART, World, metadata, rollout, spec_of
from tests.typed import misfit

BETA = Kind(HTTP_ROUTE.group, "v1beta1", HTTP_ROUTE.kind, HTTP_ROUTE.plural)
ROUTE = RouteName("gatewayAPI", "HTTPRoute", "shop", "cart")
PACE = Pace(since_s=0.0, first_s=0.05, most_s=1.0)
MARKS: Manifest = {
    "labels": {"rollouts.dev/managed": "true"},
    "annotations": {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "gatewayAPI"},
}


def route_manifest(name: str = "cart", *, version: int = 1, weights: tuple[int, int] = (1, 0), **more: Any) -> Manifest:
    """An HTTPRoute between Services cart and cart-canary."""
    stable, canary = weights
    rule = build.http_rule(build.backend("cart", stable), build.backend("cart-canary", canary))
    meta = metadata(name, version=version) | more
    return build.manifest(HTTP_ROUTE, name, metadata=meta, spec={"parentRefs": [{"name": "public"}], "rules": [rule]})


def route(name: str = "cart", **more: Any) -> RouteObject:
    """The same as a watch would bring it."""
    return decode_route(msgspec.json.encode(route_manifest(name, **more)))


def routed(
    *,
    trafficRouting: Any = None,  # noqa: N803 - as the manifest has it
    stable: str = "cart",
    canary: str = "cart-canary",
    **more: Any,
) -> RolloutObject:
    """A Rollout that manages HTTPRoute cart."""
    routing = trafficRouting or {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}}
    spec = spec_of({"setWeight": 50}, stableService=stable, canaryService=canary, trafficRouting=routing)
    return rollout(spec=spec, **more)


class Planes:
    """Data planes that can tell about routes with gateways; without `live` and `drained` they must not be asked for these."""

    def __init__(
        self,
        by: VerifiedBy | None = VerifiedBy.CONFIG,
        *,
        live: Callable[[LiveQuestion], Awaitable[LiveSeen]] | None = None,
        drained: Callable[[DrainQuestion], DrainSeen] | None = None,
    ) -> None:
        self._by, self._live, self._drained = by, live, drained

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """See `DataPlanes`."""
        return self._by if route.kind == ROUTE.kind and gateways else None

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """See `DataPlanes`."""
        assert self._live is not None and deadline_s > 0, question
        return await self._live(question)

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """See `DataPlanes`."""
        assert self._drained is not None and deadline_s > 0, question
        return self._drained(question)


class Reading:
    """An observer that reads routes, over a world whose server serves HTTPRoutes; not `found`: nobody knows that yet."""

    def __init__(self, world: World, *, found: bool = True, planes: DataPlanes | None = None) -> None:
        self.world = world
        self.managed_routes = ManagedRouteObjects()
        self.reader = RouteReader(
            store=world.store,
            inbox=world.inbox,
            kinds=world.kinds,
            managed=self.managed_routes,
            providers=registry(),
            planes=planes,
        )
        self.observer = world.observer(self.reader)
        if found:
            world.kinds.learn((HTTP_ROUTE, BETA), HTTP_ROUTE)
            self.table = world.store.add(HTTP_ROUTE, RouteObject)

    def shown(self, seen: RouteObject) -> None:
        """The watch shows a route."""
        change = self.table.put("", seen)
        assert change is not None
        self.managed_routes.learn(HTTP_ROUTE, change.before, change.after)

    def seen(self) -> Seen:
        """What is observed of Rollout cart, which can be carried out."""
        observed = self.observer.observe(CART)
        assert isinstance(observed, Seen), observed
        assert misfit(observed.snapshot, Snapshot) == ""
        return observed


async def release(reading: Reading) -> int:
    """What is done about the routes of Rollout cart, which is not there; how many were released."""
    world = reading.world
    world.rollouts.replace("", [], "5")
    world.services.replace("", [], "5")
    orphans = Orphans(
        client=world.client, store=world.store, barrier=world.barrier, managed=world.managed, routes=reading.reader
    )
    return await orphans.release(CART)
