"""Releases workloads, routes and Services whose Rollout is gone: these two would lead to the pods of one revision forever.

A deleted Rollout brings its key into the queue, and so does a workload, route or Service that names an unknown Rollout. A pass
over a key without a Rollout ends here. An API error never counts as "the Rollout is gone".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import metadata_of
from rollouts.cluster.store import Store
from rollouts.cluster.structs import Metadata
from rollouts.controller.act.calls import Delete, Patch, Write
from rollouts.controller.act.disowning import disown
from rollouts.controller.act.render import workload_release
from rollouts.controller.act.render_routes import release
from rollouts.controller.observe.in_place import with_labelled_sets
from rollouts.controller.observe.routes import RouteRead, RouteReader
from rollouts.controller.observe.workloads import workload_seen
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.managed import ManagedNames, managed_by
from rollouts.core.lifecycle.workload import release_notice, release_of
from rollouts.core.model.intents import Notice, ReleaseService
from rollouts.core.model.traffic import RouteSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.errors import ApiNotFound
from rollouts.manifests.own_route import is_made
from rollouts.manifests.service import release_service
from rollouts.objects import REPLICA_SET, ROLLOUT, SERVICE, Key, Kind, Manifest
from rollouts.ports import MERGE_PATCH
from rollouts.traffic.codec import Context, Destination

Tell: TypeAlias = Callable[[Metadata, Notice, Kind], None]

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True, eq=False)
class Orphans:
    """Releases the workloads, routes and Services of a Rollout that no longer exists."""

    client: Client
    store: Store
    barrier: Barrier
    managed: ManagedNames
    routes: RouteReader | None = None
    workloads: Mapping[Kind, ManagedNames] = field(default_factory=dict)

    async def release(self, key: Key, tell: Tell = lambda *_: None) -> int:
        """Releases every workload, route, and Service of Rollout `key`, which is not in our store; returns how many.

        Args:
            tell: sends an Event about a workload that is left in the middle of an update: its Rollout has none any more.

        Guarantees: nothing is written unless the store is complete and the API server answers 404 for the Rollout.
        Raises: what `Client` raises; some objects may be released by then, and the next try releases the rest.
        """
        names = self.managed.of(key)
        workloads = [(kind, name) for kind, managed in self.workloads.items() for name in managed.of(key)]
        routes = self._read_routes(key)
        if not (names or routes or workloads):
            return 0
        if not (self.store.table(ROLLOUT).synced.is_set() and self.store.table(SERVICE).synced.is_set()):
            return 0
        try:
            await self.client.get(ROLLOUT, key.namespace, key.name)
        except ApiNotFound:
            pass
        else:
            return 0  # it exists again, and its own pass handles its Services
        released = 0
        for kind, name in workloads:  # first: its pods take the place of those that go with the Rollout
            released += await self._release_workload(key, kind, name, tell)
        for read in routes:  # before Services: a released route sends nothing to the revision that a Service leaves
            released += await self._carry_out(key, self._writes_to_route(key, read))
        for name in names:
            released += await self._carry_out(key, self._writes_to_service(key, name))
        return released

    def _writes_to_route(self, key: Key, read: RouteRead) -> tuple[Write, ...]:
        if read.objects is None:
            return ()
        if read.place.provider is None:
            why = read.route.problem if isinstance(read.route, RouteSeen) else "the controller has not read the route"
            log.error("route_not_released", rollout=str(key), route=str(read.place.route), why=why)
            return ()
        return tuple(release(read, read.place.provider, read.objects))

    def _writes_to_service(self, key: Key, name: str) -> tuple[Write, ...]:
        service = self.store.table(SERVICE).get(key.namespace, name)
        if service is None or managed_by(service) != key.name:
            return ()
        uid, version = service.metadata.uid, service.metadata.resource_version
        body = release_service(ReleaseService(name=name, uid=uid, resource_version=version))
        return (Patch(kind=SERVICE, name=name, namespace=key.namespace, uid=uid, body=body, content_type=MERGE_PATCH),)

    async def _release_workload(self, key: Key, kind: Kind, name: str, tell: Tell) -> int:
        seen = self.store.table(kind).get(key.namespace, name)
        if seen is None or managed_by(seen) != key.name:
            return 0
        space, sets = key.namespace, self.store.table(REPLICA_SET)
        intent = release_of(with_labelled_sets(workload_seen(WorkloadKind(kind.kind), seen), sets, space))
        if intent is None:  # its status, which comes, brings the key back
            log.info(
                "release_waits", rollout=str(key), kind=kind.kind, name=name, why="its counts are of an earlier spec"
            )
            return 0
        *unmarks, last = workload_release(intent, namespace=space)
        await self._carry_out(key, unmarks)
        released = await self._carry_out(key, (last,))
        if intent.in_update and released:
            tell(seen.metadata, release_notice(intent, namespace=space), kind)
        return released

    def _read_routes(self, key: Key) -> tuple[RouteRead, ...]:
        """The routes that the garbage collector does not delete, as it does those that we created and the Rollout owns."""
        if self.routes is None:
            return ()
        # The codec's own note on the route names the Services between which it was managed.
        context = Context(rollout=key.name, namespace=key.namespace, stable=Destination(""), canary=Destination(""))
        managed = self.routes.read(key, (), context, now_s=0.0, elsewhere=None).values()
        return tuple(read for read in managed if read.objects is None or not _is_collected(read.objects.user))

    async def _carry_out(self, key: Key, calls: Iterable[Write]) -> int:
        """Sends the calls one by one and skips objects that are gone; returns how many objects of users were released."""
        released = 0
        for call in calls:
            # The garbage collector also takes the objects that we own beside routes, if they are in the Rollout's namespace.
            with suppress(ApiNotFound):
                if isinstance(call, Delete):
                    await self.client.delete(call.kind, call.namespace, call.name, call.uid, call.resource_version)
                elif isinstance(call, Patch):
                    where = call.namespace
                    answer = await self.client.patch(call.kind, where, call.name, call.body, call.content_type)
                    answer = await disown(self.client, call, answer, namespace=where)
                    version = metadata_of(answer).resource_version
                    self.barrier.wrote(
                        key, call.kind, call.name, resource_version=version, uid=call.uid, namespace=where
                    )
                    log.info("released", rollout=str(key), kind=call.kind.kind, name=call.name)
                    released += 1
        return released


def _is_collected(route: Manifest) -> bool:
    """Whether we created the route and the Rollout owns it. An orphaning delete ends that."""
    owners = route["metadata"].get("ownerReferences") or ()
    return is_made(route) and any(owner.get("kind") == ROLLOUT.kind for owner in owners)
