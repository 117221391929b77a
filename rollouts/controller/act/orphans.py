"""Releases routes and Services whose Rollout is gone: otherwise they would lead to the pods of one revision forever.

A deleted Rollout brings its key into the queue, and so does a route or Service that names an unknown Rollout. A pass over a key
without a Rollout ends here. An API error never counts as "the Rollout is gone".
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import metadata_of
from rollouts.cluster.store import Store
from rollouts.controller.act.calls import Delete, Patch, Write
from rollouts.controller.act.render_routes import release
from rollouts.controller.observe.routes import RouteRead, RouteReader
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.managed import ManagedServices, managed_by
from rollouts.core.model.intents import ReleaseService
from rollouts.core.model.traffic import Route, RouteSeen
from rollouts.errors import ApiNotFound
from rollouts.manifests.own_route import is_made
from rollouts.manifests.ownership import FIELD_MANAGER
from rollouts.manifests.service import release_service
from rollouts.objects import ROLLOUT, SERVICE, Key, Manifest
from rollouts.ports import MERGE_PATCH
from rollouts.traffic.codec import Context, Destination

log = structlog.get_logger()


class Orphans:
    """Releases the routes and Services of a Rollout that no longer exists."""

    def __init__(
        self,
        *,
        client: Client,
        store: Store,
        barrier: Barrier,
        managed: ManagedServices,
        routes: RouteReader | None = None,
    ) -> None:
        self._client = client
        self._store = store
        self._barrier = barrier
        self._managed = managed
        self._routes = routes

    async def release(self, key: Key) -> int:
        """Releases every route, then every Service, of Rollout `key`, which is not in our store; returns how many.

        Guarantees: nothing is written unless the store is complete and the API server answers 404 for the Rollout.
        Raises: what `Client` raises; some objects may be released by then, and the next try releases the rest.
        """
        names = self._managed.of(key)
        routes = self._read_routes(key)
        if not (names or routes):
            return 0
        if not (self._store.table(ROLLOUT).synced.is_set() and self._store.table(SERVICE).synced.is_set()):
            return 0
        try:
            await self._client.get(ROLLOUT, key.namespace, key.name)
        except ApiNotFound:
            pass
        else:
            return 0  # it exists again, and its own pass handles its Services
        released = 0
        for read in routes:  # routes first: a released route sends nothing to the revision that a Service leaves
            released += await self._carry_out(key, _writes_to_route(key, read))
        for name in names:
            released += await self._carry_out(key, self._writes_to_service(key, name))
        return released

    def _read_routes(self, key: Key) -> tuple[RouteRead, ...]:
        if self._routes is None:
            return ()
        # The codec's own note on the route names the Services between which it was managed.
        context = Context(rollout=key.name, namespace=key.namespace, stable=Destination(""), canary=Destination(""))
        found = self._routes.read(key, (), context, now_s=0.0, elsewhere=None).values()
        return tuple(each for each in found if each.objects is None or not _goes_too(each.objects.user))

    def _writes_to_service(self, key: Key, name: str) -> tuple[Write, ...]:
        service = self._store.table(SERVICE).get(key.namespace, name)
        if service is None or managed_by(service) != key.name:
            return ()
        uid, version = service.metadata.uid, service.metadata.resource_version
        body = release_service(ReleaseService(name=name, uid=uid, resource_version=version))
        return (Patch(kind=SERVICE, name=name, namespace=key.namespace, uid=uid, body=body, content_type=MERGE_PATCH),)

    async def _carry_out(self, key: Key, calls: Iterable[Write]) -> int:
        """Sends the calls one by one and skips objects that are gone; returns how many objects of users were released."""
        released = 0
        for call in calls:
            # The garbage collector also takes the objects that we own beside routes, if they are in the Rollout's namespace.
            with suppress(ApiNotFound):
                if isinstance(call, Delete):
                    await self._client.delete(call.kind, call.namespace, call.name, call.uid, call.resource_version)
                elif isinstance(call, Patch):
                    await self._patch(key, call)
                    released += 1
        return released

    async def _patch(self, key: Key, call: Patch) -> None:
        answer = await self._client.patch(
            call.kind, call.namespace, call.name, call.body, call.content_type, field_manager=FIELD_MANAGER
        )
        version = metadata_of(answer).resource_version
        self._barrier.wrote(key, call.kind, call.name, resource_version=version, uid=call.uid, namespace=call.namespace)
        log.info("released", rollout=str(key), kind=call.kind.kind, name=call.name)


def _writes_to_route(key: Key, read: RouteRead) -> tuple[Write, ...]:
    provider, objects = read.place.provider, read.objects
    if objects is None:
        return ()
    if provider is None:
        log.error("route_not_released", rollout=str(key), route=str(read.place.route), why=_problem(read.route))
        return ()
    return release(read, provider, objects)


def _goes_too(route: Manifest) -> bool:
    """Whether the garbage collector deletes the route: we created it and the Rollout owns it. An orphaning delete ends that."""
    owners = route["metadata"].get("ownerReferences") or ()
    return is_made(route) and any(each.get("kind") == ROLLOUT.kind for each in owners)


def _problem(route: Route) -> str:
    return route.problem if isinstance(route, RouteSeen) else "the controller has not read the route"
