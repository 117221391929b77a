"""Read your writes: a pass waits until the store shows everything that earlier passes of its key have written.

`cluster/store.py` knows which writes are not shown yet. The barrier knows which key waits for them, and queues the key again at
the watch's event, without polling. The store gives up on a write only when its watch has passed it by without showing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rollouts.cluster.store import BARRIER_DEADLINE_S, Store
from rollouts.controller.workqueue.index import Index
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.objects import Key, Kind
from rollouts.ports import Clock


@dataclass(slots=True, kw_only=True, eq=False)
class Barrier:
    """Our own writes by key, and the keys that wait for them."""

    store: Store
    queue: WorkQueue
    clock: Clock
    _written: Index[Key, tuple[Kind, str, str]] = field(default_factory=Index, init=False)
    _waiters: Index[tuple[Kind, str, str], Key] = field(default_factory=Index, init=False)

    def wrote(
        self,
        key: Key,
        kind: Kind,
        name: str,
        *,
        resource_version: str | None,
        uid: str,
        namespace: str = "",
        sure: bool = True,
    ) -> None:
        """Remembers that a pass over `key` wrote an object.

        Args:
            resource_version: None for a deletion.
            namespace: "" for that of `key`.
            sure: the server gave that version; see `Table.wrote`.
        """
        self.store.wrote(kind, namespace or key.namespace, name, resource_version, uid, sure=sure)
        self._written.add(key, (kind, namespace or key.namespace, name))

    def outdated(self, key: Key, kind: Kind, name: str, *, resource_version: str, uid: str) -> None:
        """Remembers that the server has a newer version than this one, so no pass decides on this one again."""
        self.wrote(key, kind, name, resource_version=str(int(resource_version) + 1), uid=uid, sure=False)

    def holds_back(self, key: Key) -> bool:
        """Whether the store is behind our writes; if so, the key is queued again when it no longer is."""
        written = self._written.get(key)
        if written is None:
            return False
        behind = {name for name in written if self.store.is_behind(*name)}
        if not behind:
            del self._written[key]
            return False
        self._written[key] = behind
        for name in behind:
            self._waiters.add(name, key)
        self.queue.add_at(key, self.clock.monotonic_s() + BARRIER_DEADLINE_S)
        return True

    def shown(self, kind: Kind, namespace: str, name: str) -> None:
        """Notes that the watch has shown a change of an object, and queues the keys that waited for it."""
        for key in self._waiters.pop((kind, namespace, name), ()):
            self.queue.add(key)

    def forget(self, key: Key) -> None:
        """Forgets a Rollout that is gone."""
        self._written.pop(key, None)
