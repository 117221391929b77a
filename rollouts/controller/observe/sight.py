"""Whether a pass can see everything that it decides on: its objects are readable, and their watches work.

An object that cannot be seen is not absent: a ReplicaSet that cannot be read still has its pods. So nothing is decided, and
status says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Store, Table
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.controller.observe.routes import RouteRead
from rollouts.controller.workqueue.standing_watches import WATCHED_KINDS
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.model.service_ref import ServiceRef
from rollouts.errors import ObjectUnreadable, WatchFailed
from rollouts.manifests.ownership import NAME
from rollouts.objects import ENDPOINT_SLICE, REPLICA_SET, SERVICE, Key, Kind
from rollouts.ports import Clock


class Sight(Struct, frozen=True):
    """Judges from the state of the watches what can be seen.

    Args:
        clock: dates the beginning of a failure, for messages.
    """

    store: Store
    clock: Clock

    def trouble(
        self, key: Key, uid: str, *, services: Iterable[ServiceRef], routes: Iterable[RouteRead]
    ) -> ObjectUnreadable | WatchFailed | None:
        """Why no decision about the Rollout of that key and uid can be made now; None when it can. O(1) while all is well."""
        routes = tuple(routes)
        if (failed := self._failed(key.namespace, routes)) is not None:
            return failed
        for kind, each in self._unreadable(key, uid, frozenset(services), routes):
            return unreadable(kind, each)
        return None

    def _failed(self, namespace: str, routes: tuple[RouteRead, ...]) -> WatchFailed | None:
        of_routes = ((each.kind, each.place.target.namespace) for each in routes)
        for kind, where in (*((kind, namespace) for kind in WATCHED_KINDS), *of_routes):
            table = self.store.watched(kind)
            if table is None or not table.covers(where):
                continue
            watch = table.watch(where)
            failing_s = watch.failing_for_s(now_s=self.clock.monotonic_s())
            if failing_s >= FAILED_TELL_S:
                since = datetime.fromtimestamp(self.clock.now_s() - failing_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
                return WatchFailed(
                    f"the watch of {kind.plural} has failed since {since}; nothing is decided until it works: {watch.trouble}; "
                    f"check that the controller's ServiceAccount may list and watch {kind.plural}"
                )
        return None

    def _unreadable(
        self, key: Key, uid: str, services: frozenset[ServiceRef], routes: tuple[RouteRead, ...]
    ) -> Iterator[tuple[Kind, UnreadableObject]]:
        for each in self._of(REPLICA_SET, key.namespace):
            owner = each.metadata.controller_uid
            if owner == uid or (owner is None and (each.metadata.labels or {}).get(NAME) == key.name):
                yield REPLICA_SET, each
        for each in self._of(SERVICE, key.namespace):
            if each.metadata.name in services:
                yield SERVICE, each
        for each in self._of(ENDPOINT_SLICE, key.namespace):
            if (each.metadata.labels or {}).get(SERVICE_NAME) in services:
                yield ENDPOINT_SLICE, each
        for read in routes:
            target = read.place.target
            for kind, name in ((read.kind, target.name), (read.owned_kind, target.owned_name)):
                table = self.store.watched(kind)
                if table is not None and (found := table.unreadable.get((target.namespace, name))) is not None:
                    yield kind, found

    def _of(self, kind: Kind, namespace: str) -> Iterable[UnreadableObject]:
        """The unreadable objects of a kind in a namespace; usually there is none in the whole cluster."""
        table: Table[Any] = self.store.table(kind)
        return [each for where, each in table.unreadable.items() if where[0] == namespace] if table.unreadable else ()


def unreadable(kind: Kind, seen: UnreadableObject) -> ObjectUnreadable:
    """The error for an object that cannot be read."""
    metadata = seen.metadata
    where = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return ObjectUnreadable(
        f"the controller cannot read {kind.kind} {where}, and decides nothing until it can: {seen.why}; repair it or delete it"
    )
