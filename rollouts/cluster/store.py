"""The state of the cluster in memory. The watch is the only writer; readers get the watch's own objects, never copies.

Look-ups are O(1): by name, by namespace and uid of the controlling owner (an owner is in the namespace of its objects), by the
value of a registered label, and by that of a label of objects without a controller. Nothing here awaits, so a reader that does
not await either sees the state of one moment.

The read-your-writes barrier: `Store.wrote` remembers a write of ours, and `is_behind` is true until the watch has shown it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.structs import KubernetesObject, Metadata, T
from rollouts.cluster.watch_state import FAILED_TELL_S, WatchState
from rollouts.objects import Kind
from rollouts.ports import Clock

BARRIER_DEADLINE_S = 30.0
TOMBSTONES = 4096  # deletions that are remembered for each kind, because events may come late or twice
TOMBSTONE_S = 900.0  # and no longer than this


class Change(NamedTuple, Generic[T]):
    """One change of an object: created (no `before`), changed, or gone (no `after`)."""

    before: T | None
    after: T | None


NamespacedName = tuple[str, str]
"""(namespace, name); the namespace is "" for cluster-scoped kinds."""


@dataclass(slots=True)
class _Written:
    """A write of ours that the watch has not shown yet."""

    version: int  # 0 when the watch has shown it, or when it was a deletion
    uid: str
    gone: bool  # a deletion: the object of that uid must be gone, or be marked for deletion
    drop_at_s: float
    sure: bool  # the server gave this version; otherwise it only said that there is a newer one than ours


@dataclass(slots=True)
class _Scope:
    """The objects of one list and watch: those of a namespace, or all."""

    version: int = 0  # that of the last list, event or bookmark
    synced: bool = False
    watch: WatchState = field(default_factory=WatchState)
    # In the order of arrival, so that a run can be repeated.
    names: dict[NamespacedName, None] = field(default_factory=dict)


class Table(Generic[T]):
    """The objects of one kind that match its watches' label selector.

    An object that no longer matches comes as DELETED and is removed here although it exists: absence means "we do not watch it".
    """

    def __init__(
        self,
        kind: Kind,
        struct: type[T],
        *,
        clock: Clock,
        labels: Iterable[str],
        by_owner: bool,
        scopes: Iterable[str],
        orphans_by: str = "",
        metadata_only: bool = False,
    ) -> None:
        self.kind = kind
        self.struct = struct
        self.metadata_only = metadata_only
        """Whether its watches ask for the objects' metadata without the rest."""
        self.synced = asyncio.Event()
        """Set when every scope has been listed once; never cleared."""
        self.unreadable: dict[NamespacedName, UnreadableObject] = {}
        """Objects that exist and cannot be read; an older version that could be read stays in the table too."""
        self._clock = clock
        self._objects: dict[NamespacedName, T] = {}
        self._by_owner: dict[tuple[str, str], dict[NamespacedName, T]] | None = {} if by_owner else None
        self._by_label: dict[str, dict[tuple[str, str], dict[NamespacedName, T]]] = {label: {} for label in labels}
        self._orphans_by = orphans_by
        self._orphans: dict[tuple[str, str], dict[NamespacedName, T]] = {}
        self._scopes = {scope: _Scope() for scope in scopes}
        self._tombstones: dict[str, tuple[int, float]] = {}  # by uid: version, and until when; the oldest is the first
        self._written: dict[NamespacedName, _Written] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name."""
        return self._objects.get((namespace, name))

    def covers(self, namespace: str) -> bool:
        """Whether one of its watches shows the objects of that namespace."""
        return "" in self._scopes or namespace in self._scopes

    def now_s(self) -> float:
        """Monotonic time, on the clock of all times of the table."""
        return self._clock.monotonic_s()

    def age_s(self) -> float:
        """Seconds of silence of the watch that has been silent the longest; inf until each has been heard once."""
        heard = [scope.watch.heard_at_s for scope in self._scopes.values()]
        return max((math.inf if at_s is None else self.now_s() - at_s for at_s in heard), default=math.inf)

    def watch(self, namespace: str) -> WatchState:
        """State of the watch that shows the objects of that namespace. Raises: KeyError, when none does."""
        return self._scope_of(namespace).watch

    def _scope_of(self, namespace: str) -> _Scope:
        return self._scopes["" if "" in self._scopes else namespace]

    def watches(self) -> Mapping[str, WatchState]:
        """State of each watch, by namespace; "" for all namespaces."""
        return {namespace: scope.watch for namespace, scope in self._scopes.items()}

    def all(self) -> Collection[T]:
        """Every object; a live view."""
        return self._objects.values()

    def owned_by(self, namespace: str, uid: str) -> Collection[T]:
        """Objects of the namespace whose controlling owner has that uid; a live view.

        Raises: LookupError, when not indexed by owner.
        """
        if self._by_owner is None:
            raise LookupError(f"{self.kind.plural} are not indexed by owner")
        return self._by_owner.get((namespace, uid), _NONE).values()

    def labelled(self, label: str, namespace: str, value: str) -> Collection[T]:
        """Objects of the namespace with that value of a label; a live view. Raises: LookupError, when not indexed by it."""
        if label not in self._by_label:
            raise LookupError(f"{self.kind.plural} are not indexed by the label {label}")
        return self._by_label[label].get((namespace, value), _NONE).values()

    def orphans(self, namespace: str, value: str) -> Collection[T]:
        """Objects of the namespace without a controller and with that value of the label `orphans_by`; a live view.

        Raises: LookupError, when they are not indexed.
        """
        if not self._orphans_by:
            raise LookupError(f"{self.kind.plural} without a controller are not indexed")
        return self._orphans.get((namespace, value), _NONE).values()

    # The barrier.

    def wrote(self, namespace: str, name: str, resource_version: str | None, uid: str, *, sure: bool = True) -> None:
        """Remembers a write of ours: the resourceVersion it returned, or None for a deletion.

        Args:
            sure: the server gave that version. It may refuse a write as old although nothing newer will be shown.
        """
        where = (namespace, name)
        before = self._written.get(where)
        version = int(resource_version) if resource_version is not None else 0
        if version and self._has_come(where, uid, version):  # the watch came before the answer to our write
            version = 0
        elif resource_version is None and before is not None and before.uid == uid:
            version = before.version  # not seen yet, so it may be missing without being gone
        self._written[where] = _Written(
            version, uid, resource_version is None, self._clock.monotonic_s() + BARRIER_DEADLINE_S, sure
        )

    def is_behind(self, namespace: str, name: str) -> bool:
        """Whether the watch has not shown a write of ours to that object yet.

        After 30 s it gives up on a write that the watch has passed by. A watch that has not come so far shows a
        view that is known to be old, so that is waited for; once the watch has failed for 90 s nothing is decided on it anyway.
        """
        where = (namespace, name)
        written = self._written.get(where)
        if written is None:
            return False
        behind = written.version > 0
        if not behind and written.gone:
            current = self._objects.get(where)
            behind = (
                current is not None
                and current.metadata.uid == written.uid
                and current.metadata.deletion_timestamp is None
            )
        if behind and self._clock.monotonic_s() >= written.drop_at_s:
            if written.sure and self.covers(namespace) and self._scope_of(namespace).version < written.version:
                return self.watch(namespace).failing_for_s(now_s=self._clock.monotonic_s()) < FAILED_TELL_S
            behind = False
        if not behind:
            del self._written[where]
        return behind

    # For the watch.

    def version(self, scope: str) -> int:
        """The newest resourceVersion that the scope's watch has shown."""
        return self._scopes[scope].version

    def put(self, scope: str, seen: T) -> Change[T] | None:
        """Stores an object that was created or changed; returns None when the event is old or came twice.

        An object that could not be read before counts as created, so that whoever waits for it looks again.
        """
        metadata = seen.metadata
        where = (metadata.namespace, metadata.name)
        version = metadata.version
        self._progress(scope, where, version)
        if self._has_come(where, metadata.uid, version):
            return None
        before = self._objects.get(where)
        if before is not None and before.metadata.uid != metadata.uid:  # the event of its deletion is late or lost
            self._bury(before.metadata.uid, version)
        self._insert(scope, where, before, seen)
        return Change(None if self.unreadable.pop(where, None) else before, seen)

    def put_unreadable(self, scope: str, seen: UnreadableObject) -> bool:
        """Notes an object that was created or changed and cannot be read; False when the event is old or came twice."""
        metadata = seen.metadata
        where = (metadata.namespace, metadata.name)
        self._progress(scope, where, metadata.version)
        if self._has_come(where, metadata.uid, metadata.version):
            return False
        self.unreadable[where] = seen
        return True

    def remove(self, scope: str, seen: KubernetesObject) -> Change[T] | None:
        """Removes an object that was deleted or left the filter; None when it is removed already, or has come back."""
        metadata = seen.metadata
        where = (metadata.namespace, metadata.name)
        version = metadata.version
        self._progress(scope, where, version)
        before = self._objects.get(where)
        newer = self.unreadable.get(where) if self._is_old(where, version + 1) else None
        if newer is not None and newer.metadata.uid == metadata.uid:
            return None
        returned = before is not None and before.metadata.version > version
        if returned and before is not None and before.metadata.uid == metadata.uid:
            return None
        self._bury(metadata.uid, version)
        unread = self.unreadable.pop(where, None) if newer is None else None
        if before is None and unread is not None:
            return Change(self._bare(metadata), None)
        if before is None or returned:
            return None
        if before.metadata.uid != metadata.uid:  # a later object of its name is deleted, so this one is too
            self._bury(before.metadata.uid, version)
        self._drop(scope, where, before)
        return Change(before, None)

    def replace(
        self, scope: str, seen: Iterable[T], resource_version: str, *, unreadable: Iterable[UnreadableObject] = ()
    ) -> list[Change[T]]:
        """Replaces the scope's objects by a new list, in one moment; objects that are not in it are gone.

        The caller makes sure that the list is not older than `version(scope)`, unless history itself was turned back (a restored
        etcd). So the list is true, and earlier deletions are forgotten.
        """
        listed = {(found.metadata.namespace, found.metadata.name): found for found in seen}
        version = int(resource_version)
        state = self._scopes[scope]
        if version < state.version:
            self._tombstones.clear()
            for where, written in self._written.items():  # their versions are of the time before
                written.version = 0 if scope in ("", where[0]) else written.version
        changes: list[Change[T]] = []
        could_not = {where: found for where, found in self.unreadable.items() if scope in ("", where[0])}
        cannot = {(found.metadata.namespace, found.metadata.name): found for found in unreadable}
        for where in could_not:
            del self.unreadable[where]
        self.unreadable |= cannot
        never_read = (
            unread
            for where, unread in could_not.items()
            if where not in self._objects and where not in {*listed, *cannot}
        )
        changes += [Change(self._bare(unread.metadata), None) for unread in never_read]
        for where in [name for name in state.names if name not in listed and name not in cannot]:
            before = self._objects[where]
            self._bury(before.metadata.uid, version)
            self._drop(scope, where, before)
            changes.append(Change(before, None))
        for where, after in listed.items():
            known = self._objects.get(where)
            same = known is not None and known.metadata.resource_version == after.metadata.resource_version
            if same and where not in could_not:
                continue
            self._insert(scope, where, known, after)
            changes.append(Change(None if where in could_not else known, after))
        self._advance(scope, version, relisted=True)
        return changes

    def bookmark(self, scope: str, resource_version: str) -> None:
        """Notes that the watch has shown everything up to this version."""
        self._advance(scope, int(resource_version), relisted=False)

    def _advance(self, scope: str, version: int, *, relisted: bool) -> None:
        state = self._scopes[scope]
        state.version = version if relisted else max(version, state.version)
        for where, written in self._written.items():
            if 0 < written.version <= version and scope in ("", where[0]):
                written.version = 0
        if relisted and not state.synced:
            state.synced = True
            if all(scoped.synced for scoped in self._scopes.values()):
                self.synced.set()

    def _progress(self, scope: str, where: NamespacedName, version: int) -> None:
        state = self._scopes[scope]
        state.version = max(version, state.version)
        written = self._written.get(where)
        if written is not None and 0 < written.version <= version:
            written.version = 0

    def _bare(self, metadata: Metadata) -> T:
        """The known part of an unreadable object, for the change that reports that it is gone."""
        struct: Any = self.struct
        bare: T = struct(metadata=metadata)
        return bare

    def _has_come(self, where: NamespacedName, uid: str, version: int) -> bool:
        """Whether this version of the object, a later one, or its end was shown."""
        current = self._objects.get(where)
        if current is not None and current.metadata.version >= version:
            return True
        return self._is_old(where, version) or self._tombstones.get(uid, (-1, 0.0))[0] >= version

    def _is_old(self, where: NamespacedName, version: int) -> bool:
        """Whether a newer version of the object has come, which could not be read."""
        unreadable = self.unreadable.get(where)
        return unreadable is not None and unreadable.metadata.version >= version

    def _insert(self, scope: str, where: NamespacedName, before: T | None, after: T) -> None:
        if before is not None:
            self._unindex(where, before)
        self._objects[where] = after
        self._scopes[scope].names[where] = None
        for index, value in self._index_entries(after):
            index.setdefault(value, {})[where] = after

    def _drop(self, scope: str, where: NamespacedName, before: T) -> None:
        del self._objects[where]
        self._scopes[scope].names.pop(where, None)
        self._unindex(where, before)

    def _unindex(self, where: NamespacedName, before: T) -> None:
        for index, value in self._index_entries(before):
            entries = index[value]
            del entries[where]
            if not entries:
                del index[value]

    def _index_entries(self, stored: T) -> Iterable[tuple[dict[Any, dict[NamespacedName, T]], Any]]:
        metadata = stored.metadata
        if self._by_owner is not None and (uid := metadata.controller_uid):
            yield self._by_owner, (metadata.namespace, uid)
        labels = metadata.labels or {}
        for label, index in self._by_label.items():
            if (value := labels.get(label)) is not None:
                yield index, (metadata.namespace, value)
        if self._orphans_by and self._orphans_by in labels and metadata.controller_uid is None:
            yield self._orphans, (metadata.namespace, labels[self._orphans_by])

    def _bury(self, uid: str, version: int) -> None:
        now_s = self._clock.monotonic_s()
        self._tombstones.pop(uid, None)  # it moves to the end
        self._tombstones[uid] = version, now_s + TOMBSTONE_S
        for oldest in tuple(islice(self._tombstones, 2)):  # more go than come, until none is old
            if len(self._tombstones) > TOMBSTONES or self._tombstones[oldest][1] < now_s:
                del self._tombstones[oldest]


class Store:
    """All tables, and the barrier over all of them."""

    def __init__(self, *, clock: Clock) -> None:
        """Args: clock: for the barrier's deadline."""
        self._clock = clock
        self._tables: dict[Kind, Table[Any]] = {}
        self._optional: set[Kind] = set()

    def add(
        self,
        kind: Kind,
        struct: type[T],
        *,
        labels: Iterable[str] = (),
        by_owner: bool = False,
        orphans_by: str = "",
        namespaces: Iterable[str] = ("",),
        optional: bool = False,
        metadata_only: bool = False,
    ) -> Table[T]:
        """Adds a table for a kind.

        Args:
            orphans_by: a label to index objects without a controller by; "" for no such index.
            namespaces: the namespaces, each with a watch of its own; "" is all of them.
            optional: the cluster may lack the kind, so nobody waits for its first list.
            metadata_only: whether its watches ask for the objects' metadata without the rest.
        """
        table = Table(
            kind,
            struct,
            clock=self._clock,
            labels=labels,
            by_owner=by_owner,
            orphans_by=orphans_by,
            scopes=namespaces,
            metadata_only=metadata_only,
        )
        self._tables[kind] = table
        if optional:
            self._optional.add(kind)
        return table

    def table(self, kind: Kind) -> Table[Any]:
        """The kind's table. Raises: KeyError."""
        return self._tables[kind]

    def watched(self, kind: Kind) -> Table[Any] | None:
        """The kind's table; None when it has none."""
        return self._tables.get(kind)

    async def wait_synced(self) -> None:
        """Returns when every kind that is not optional has been listed. Cancellation: safe."""
        for kind, table in tuple(self._tables.items()):  # tables may be added meanwhile
            if kind not in self._optional:
                await table.synced.wait()

    def wrote(
        self, kind: Kind, namespace: str, name: str, resource_version: str | None, uid: str, *, sure: bool = True
    ) -> None:
        """Remembers a write of ours, as `Table.wrote` does. Kinds not watched are ignored."""
        if kind in self._tables:
            self._tables[kind].wrote(namespace, name, resource_version, uid, sure=sure)

    def is_behind(self, kind: Kind, namespace: str, name: str) -> bool:
        """Whether the watch has not shown our last write to that object yet."""
        return kind in self._tables and self._tables[kind].is_behind(namespace, name)


_NONE: dict[NamespacedName, Any] = {}
