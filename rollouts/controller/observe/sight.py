"""Whether a pass can see everything that it decides on: its objects are readable, and their watches work.

An object that cannot be seen is not absent: a ReplicaSet that cannot be read still has its pods. So nothing is decided, and
status says why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Store
from rollouts.cluster.structs import Metadata
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
        self, key: Key, uid: str, *, services: Collection[ServiceRef], routes: Collection[RouteRead]
    ) -> ObjectUnreadable | WatchFailed | None:
        """Why no decision about the Rollout of that key and uid can be made now; None when it can. O(1) while all is well."""
        of_routes = [(read.kind, read.place.target.namespace) for read in routes]
        for kind, namespace in (*((kind, key.namespace) for kind in WATCHED_KINDS), *of_routes):
            table = self.store.watched(kind)
            if table is None or not table.covers(namespace):
                continue
            watch = table.watch(namespace)
            failing_s = watch.failing_for_s(now_s=self.clock.monotonic_s())
            if failing_s >= FAILED_TELL_S:
                since = datetime.fromtimestamp(self.clock.now_s() - failing_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
                return WatchFailed(
                    f"the watch of {kind.plural} has failed since {since}; nothing is decided until it works: {watch.trouble}; "
                    f"check that the controller's ServiceAccount may list and watch {kind.plural}"
                )
        for kind, unreadable_object in self._unreadable(key, uid, services, routes):
            return unreadable(kind, unreadable_object)
        return None

    def _unreadable(
        self, key: Key, uid: str, services: Collection[ServiceRef], routes: Iterable[RouteRead]
    ) -> Iterator[tuple[Kind, UnreadableObject]]:
        """Those that the Rollout depends on; usually there is none in the whole cluster."""
        depends: Mapping[Kind, Callable[[Metadata], bool]] = {
            REPLICA_SET: lambda seen: (
                seen.controller_uid == uid
                or (seen.controller_uid is None and (seen.labels or {}).get(NAME) == key.name)
            ),
            SERVICE: lambda seen: seen.name in services,
            ENDPOINT_SLICE: lambda seen: (seen.labels or {}).get(SERVICE_NAME) in services,
        }
        for kind, is_needed in depends.items():
            unread = self.store.table(kind).unreadable
            yield from (
                (kind, unread[at]) for at in unread if at[0] == key.namespace and is_needed(unread[at].metadata)
            )
        for read in routes:
            target = read.place.target
            for kind, name in ((read.kind, target.name), (read.owned_kind, target.owned_name)):
                table = self.store.watched(kind)
                if table is not None and (route := table.unreadable.get((target.namespace, name))) is not None:
                    yield kind, route


def unreadable(kind: Kind, seen: UnreadableObject) -> ObjectUnreadable:
    """The error for an object that cannot be read."""
    metadata = seen.metadata
    where = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return ObjectUnreadable(
        f"the controller cannot read {kind.kind} {where}, and decides nothing until it can: {seen.why}; repair it or delete it"
    )
