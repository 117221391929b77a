"""The API server's storage: the last version of every object, the log of changes for watches, and one rising counter.

Manifests are never changed in place: a new version shares all equal parts with the old one.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from rollouts.objects import Kind, Manifest
from rollouts.sim.storage.apply import Owner
from rollouts.sim.storage.selectors import required_label

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

PARTIAL_METADATA: Manifest = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
"""The head of an object of which only the metadata was asked for."""

KEPT_CHANGES = 20_000
"""Changes kept for each kind before the oldest half is compacted away."""

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"


class Stored:
    """One version of one object; its manifest, without `managedFields`, begins with `kind` and `apiVersion` and never changes."""

    __slots__ = ("_lines", "_metadata_only", "_raw", "manifest", "owners", "version")

    def __init__(self, manifest: Manifest, owners: tuple[Owner, ...], version: int) -> None:
        self.manifest = manifest
        self.owners = owners
        self.version = version
        self._raw: bytes | None = None
        self._lines: dict[str, bytes] = {}
        self._metadata_only: Stored | None = None

    def metadata_only(self) -> Stored:
        """The same version as a PartialObjectMetadata, without the rest of the object; made once."""
        if self._metadata_only is None:
            manifest = {**PARTIAL_METADATA, "metadata": self.metadata}
            self._metadata_only = Stored(manifest, self.owners, self.version)
        return self._metadata_only

    def raw(self) -> bytes:
        """The object's JSON with `managedFields`; made once."""
        if self._raw is None:
            manifest = self.manifest
            if self.owners:
                metadata = {**manifest["metadata"], "managedFields": [owner.wire() for owner in self.owners]}
                manifest = {**manifest, "metadata": metadata}
            self._raw = msgspec.json.encode(manifest)
        return self._raw

    def line(self, event: str) -> bytes:
        """The line of the watch event with this version; made once for all watches."""
        line = self._lines.get(event)
        if line is None:
            line = self._lines[event] = b'{"type":"%b","object":%b}\n' % (event.encode(), self.raw())
        return line

    @property
    def metadata(self) -> Any:
        """Of the manifest."""
        return self.manifest["metadata"]

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        metadata = self.manifest["metadata"]
        return metadata.get("namespace", ""), metadata["name"]

    @property
    def labels(self) -> dict[str, str]:
        """{} for none."""
        return self.manifest["metadata"].get("labels") or {}


class CommittedWrite(Struct, frozen=True):
    """One committed write. For a deletion `new` is the last version, with the deletion's resourceVersion."""

    kind: Kind
    event: str
    new: Stored
    old: Stored | None


WriteListener: TypeAlias = Callable[[CommittedWrite], None]


class ObjectHistory:
    """All objects, and the recent changes to them."""

    def __init__(self) -> None:
        self.version = 1
        self._objects: defaultdict[Kind, dict[ObjectKey, Stored]] = defaultdict(dict)
        self._log: defaultdict[Kind, list[CommittedWrite]] = defaultdict(list)
        self._floor: defaultdict[Kind, int] = defaultdict(int)
        self._listeners: defaultdict[Kind, list[WriteListener]] = defaultdict(list)
        self._listeners_of_all: list[WriteListener] = []
        self._sorted: dict[Kind, list[ObjectKey]] = {}
        self._labelled: dict[Kind, dict[tuple[str, str, str], list[ObjectKey]]] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """The last version of an object."""
        return self._objects[kind].get((namespace, name))

    def select(self, kind: Kind, namespace: str | None = None) -> Iterator[Stored]:
        """The last versions of a kind's objects in the order of their keys; None for all namespaces."""
        objects = self._objects[kind]
        keys = self._sorted.get(kind)
        if keys is None:
            keys = self._sorted[kind] = sorted(objects)
        if namespace is not None:
            low = bisect.bisect_left(keys, (namespace, ""))
            high = bisect.bisect_left(keys, (namespace + "\0", ""))
            keys = keys[low:high]
        return (objects[key] for key in list(keys))

    def candidates(self, kind: Kind, namespace: str | None, selector: str) -> Iterator[Stored]:
        """Those of `select` that a `labelSelector` may select: few where it requires a label, whatever else there is."""
        required = required_label(selector)
        if required is None or namespace is None:
            return self.select(kind, namespace)
        index = self._labelled.get(kind)
        if index is None:
            index = self._labelled[kind] = defaultdict(list)
            for stored in self.select(kind):
                for name, value in stored.labels.items():
                    index[stored.key[0], name, value].append(stored.key)
        objects = self._objects[kind]
        return (objects[key] for key in list(index.get((namespace, *required), ())))

    def commit(
        self, kind: Kind, event: str, manifest: Manifest, owners: tuple[Owner, ...], old: Stored | None
    ) -> Stored:
        """Stores a version and calls every listener at once, in the order of their subscription.

        `manifest` does not have its resourceVersion yet. Listeners must not write during the call.
        """
        self.version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self.version)}
        head = {"kind": manifest["kind"], "apiVersion": manifest["apiVersion"], "metadata": metadata}
        new = Stored(head | {k: v for k, v in manifest.items() if k not in head}, owners, self.version)
        key = new.key
        if event == DELETED:
            del self._objects[kind][key]
        else:
            self._objects[kind][key] = new
        if event != MODIFIED:
            self._sorted.pop(kind, None)
        if event != MODIFIED or old is None or old.labels != new.labels:
            self._labelled.pop(kind, None)
        change = CommittedWrite(kind, event, new, old)
        log = self._log[kind]
        log.append(change)
        if len(log) > KEPT_CHANGES:
            half = len(log) // 2
            self._floor[kind] = log[half - 1].new.version
            del log[:half]
        for listener in (*self._listeners[kind], *self._listeners_of_all):
            listener(change)
        return new

    def listen(self, kind: Kind | None, listener: WriteListener) -> Callable[[], None]:
        """Calls `listener` on every commit of a kind, or of all kinds, from now on; calling the result ends that."""
        listeners = self._listeners_of_all if kind is None else self._listeners[kind]
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def follow(self, kind: Kind | None, listener: WriteListener) -> Callable[[], None]:
        """The same, and before that the objects that exist already, as ADDED."""
        for listed in self.kinds() if kind is None else [kind]:
            for stored in list(self.select(listed)):
                listener(CommittedWrite(listed, ADDED, stored, None))
        return self.listen(kind, listener)

    def kinds(self) -> list[Kind]:
        """The kinds that have objects."""
        return [kind for kind, objects in self._objects.items() if objects]

    def since(self, kind: Kind, version: int) -> list[CommittedWrite] | None:
        """The changes after `version`; None when some of them are no longer kept."""
        if version < self._floor[kind]:
            return None
        log = self._log[kind]
        return log[bisect.bisect_right(log, version, key=lambda change: change.new.version) :]

    def compact(self) -> None:
        """Forgets all changes so far: older watches and pages get 410."""
        for kind in {**self._log, **self._objects}:
            self.start_keeping(kind)

    def start_keeping(self, kind: Kind) -> None:
        """Forgets the changes of a kind so far, and keeps new ones."""
        self.version += 1  # the counter moves on, so that also a watch from the kind's last change is too old
        self._log[kind].clear()
        self._floor[kind] = self.version
