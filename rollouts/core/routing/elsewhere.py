"""Routes in other namespaces than the Rollout's: one is changed only when status records that this Rollout manages it.

The mark on a route is no proof, because the route's owner can write any Rollout's name into it. The record comes from the spec,
before the first write. So a crash does not lose a route that the spec dropped, and no route is ever taken by its mark alone.
"""

from __future__ import annotations

from msgspec.structs import astuple

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.changes import StatusChange, record_routes_elsewhere
from rollouts.core.model.traffic import RouteAbsent, RouteName, RouteSeen


def to_be_recorded(ctx: PassContext, name: RouteName) -> bool:
    """Whether a write of the route must wait until status records it: it is in another namespace."""
    return name.namespace != ctx.seen.rollout.namespace and name not in ctx.recorded.elsewhere


def record_elsewhere(ctx: PassContext) -> tuple[StatusChange, ...]:
    """Records every route in another namespace that the spec names and that can be managed."""
    before, more = ctx.status.elsewhere, set[RouteName]()
    for route in ctx.seen.routes.values():
        usable = isinstance(route, RouteSeen) and route.named and route.split is not None
        if usable and route.route.namespace != ctx.seen.rollout.namespace and route.route not in before:
            more.add(route.route)
    return (record_routes_elsewhere(tuple(sorted({*before, *more}, key=astuple))),) if more else ()


def forget_elsewhere(ctx: PassContext) -> tuple[StatusChange, ...]:
    """Forgets routes that the spec no longer names and that were seen without our mark."""
    if not ctx.status.elsewhere:
        return ()
    ours = ctx.seen.rollout.name
    gone = {
        route.route
        for route in ctx.unnamed_routes
        if isinstance(route, RouteAbsent) or (isinstance(route, RouteSeen) and route.managed_by != ours)
    }
    kept = tuple([name for name in ctx.status.elsewhere if name not in gone])
    return () if kept == ctx.status.elsewhere else (record_routes_elsewhere(kept),)
