"""The garbage collector and the namespace controller: they delete objects whose owner or namespace is gone.

Source: https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

from collections import defaultdict

from rollouts.objects import Kind, Manifest
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.refusals import Refused
from rollouts.sim.storage.registry import NAMESPACE

_NO_NAMESPACE = ""


class GarbageCollector(Actor):
    """Deletes dependents whose owners are all gone; carries out Foreground and Orphan deletion; empties namespaces.

    Its keys are an empty string and an object's uid.
    """

    name = "generic-garbage-collector"

    def __init__(self, world: World) -> None:
        super().__init__(world, lag_s=0.02)
        self._where: dict[str, tuple[Kind, ObjectKey]] = {}
        self._dependents: defaultdict[str, set[str]] = defaultdict(set)  # owner's uid: uids

    def start(self) -> None:
        """Subscribes to all objects."""
        self.listen(None, self._on_change)

    def sync(self, key: ObjectKey) -> None:
        """Does what is due for the object with a uid, or for its dependents when it is gone."""
        uid = key[1]
        stored = self._stored(uid)
        if stored is None:
            for dependent in sorted(self._dependents.pop(uid, ())):
                self._collect_if_orphaned(dependent)
            return
        self._collect_if_orphaned(uid)
        if "deletionTimestamp" in stored.metadata:
            finalizers = stored.metadata.get("finalizers") or []
            if "orphan" in finalizers:
                self._orphan_dependents(uid)
            elif "foregroundDeletion" in finalizers:
                self._delete_dependents_first(uid)
            elif self._where[uid][0] == NAMESPACE:
                self._empty(stored)

    def _on_change(self, change: CommittedWrite) -> None:
        uid = change.new.metadata["uid"]
        owners = change.new.metadata.get("ownerReferences") or ()
        if change.event == DELETED:
            self._where.pop(uid, None)
            for owner in owners:
                self._dependents[owner["uid"]].discard(uid)
                self.enqueue((_NO_NAMESPACE, owner["uid"]))
            if uid in self._dependents:
                self.enqueue((_NO_NAMESPACE, uid))
            self._look_at_dying_namespace(change.new)
            return
        self._where[uid] = (change.kind, change.new.key)
        if change.old is None or (change.old.metadata.get("ownerReferences") or ()) != owners:
            for owner in owners:
                self._dependents[owner["uid"]].add(uid)
            if owners:
                self.enqueue((_NO_NAMESPACE, uid))
        if "deletionTimestamp" in change.new.metadata:
            self.enqueue((_NO_NAMESPACE, uid))

    def _look_at_dying_namespace(self, gone: Stored) -> None:
        home = self.world.history.get(NAMESPACE, "", gone.metadata.get("namespace", ""))
        if home is not None and "deletionTimestamp" in home.metadata:
            self.enqueue((_NO_NAMESPACE, home.metadata["uid"]))

    def _stored(self, uid: str) -> Stored | None:
        if (where := self._where.get(uid)) is None:
            return None
        return self.world.history.get(where[0], *where[1])

    def _collect_if_orphaned(self, uid: str) -> None:
        stored = self._stored(uid)
        if stored is None:
            return
        owners = stored.metadata.get("ownerReferences") or ()
        if owners and not any(owner["uid"] in self._where for owner in owners):
            self._delete(uid, DeleteOptions(uid=uid, propagation="Background"))

    def _delete(self, uid: str, options: DeleteOptions) -> None:
        kind, key = self._where[uid]
        try:
            self.world.verbs.delete(self.world.resource(kind), *key, options)
        except Refused as refused:
            if refused.code not in (404, 409):
                raise

    def _orphan_dependents(self, uid: str) -> None:
        for dependent in sorted(self._dependents.pop(uid, ())):
            stored = self._stored(dependent)
            if stored is not None:
                left = [owner for owner in stored.metadata.get("ownerReferences") or () if owner["uid"] != uid]
                self._write(dependent, stored, {**stored.metadata, "ownerReferences": left})
        self._drop_finalizer(uid, "orphan")

    def _delete_dependents_first(self, uid: str) -> None:
        waiting = False
        for dependent in sorted(self._dependents.get(uid, ())):
            stored = self._stored(dependent)
            if stored is None:
                continue
            waiting = True
            if "deletionTimestamp" not in stored.metadata:
                self._delete(dependent, DeleteOptions(uid=dependent, propagation="Foreground"))
        if not waiting or not any(self._stored(dependent) for dependent in self._dependents.get(uid, ())):
            self._drop_finalizer(uid, "foregroundDeletion")

    def _empty(self, namespace: Stored) -> None:
        name = namespace.metadata["name"]
        left = [
            stored
            for kind in self.world.history.kinds()
            if kind.namespaced
            for stored in self.world.history.select(kind, name)
        ]
        for stored in left:
            if "deletionTimestamp" not in stored.metadata:
                self._delete(stored.metadata["uid"], DeleteOptions(propagation="Background"))
        if not any(self._stored(stored.metadata["uid"]) for stored in left):
            self._drop_finalizer(namespace.metadata["uid"], "kubernetes")

    def _drop_finalizer(self, uid: str, finalizer: str) -> None:
        stored = self._stored(uid)
        if stored is not None:
            left = [name for name in stored.metadata.get("finalizers") or () if name != finalizer]
            self._write(uid, stored, {**stored.metadata, "finalizers": left})

    def _write(self, uid: str, stored: Stored, metadata: Manifest) -> None:
        resource = self.world.resource(self._where[uid][0])
        self.world.verbs.update(resource, stored, {**stored.manifest, "metadata": metadata}, self.options)
