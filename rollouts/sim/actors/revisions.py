"""What the StatefulSet and the DaemonSet controllers share: the pods of an object, and the ControllerRevisions of its templates.

A template that was there before gets its old ControllerRevision again, with the next number. Pods and ControllerRevisions without
a controller are adopted by the object that selects them, and released when their labels are changed.
Source: k8s.io/kubernetes pkg/controller/history/controller_history.go, `getStatefulSetRevisions` of
pkg/controller/statefulset/stateful_set_control.go, `constructHistory` of pkg/controller/daemon/update.go.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable

from rollouts.objects import CONTROLLER_REVISION, POD, Kind, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import NAME_LETTERS, DeleteOptions
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.refusals import compact_json
from rollouts.sim.storage.selectors import selects

REVISION_LABEL = "controller-revision-hash"
"""The label of a pod with its revision: the ControllerRevision's name for a StatefulSet, its hash for a DaemonSet."""


_NOBODY = ""
"""In place of the uid of a pod's controller."""


class RevisionedController(Actor):
    """Syncs objects of `kind` when they or their pods change. It looks at pods only from the first such object on."""

    kind: Kind
    hash_label: str
    """The label of a ControllerRevision with its hash."""

    def __init__(self, world: World) -> None:
        super().__init__(world, lag_s=0.002)
        self._pods: defaultdict[str, dict[ObjectKey, Stored]] = defaultdict(dict)
        self._key_of: dict[str, ObjectKey] = {}
        self._follows_more = False

    def start(self) -> None:
        """Subscribes to the objects; to their pods when there is one."""
        self.listen(self.kind, self._on_object)

    def follow_more(self) -> None:
        """Subscribes to what decides about the objects besides themselves."""
        self.listen(POD, self._on_pod)

    def sync_all(self) -> None:
        """Syncs every object."""
        for key in self._key_of.values():
            self.enqueue(key)

    def pods_of(self, owner: Stored) -> list[Stored]:
        """The pods that an object controls, in the order of their names."""
        pods = {**self._pods[owner.metadata["uid"]], **self._pods[_NOBODY]}
        return self._claimed(owner, POD, [pod for key, pod in sorted(pods.items()) if key[0] == owner.key[0]])

    def delete_pod(self, pod: Stored) -> None:
        """Deletes a pod that was just seen."""
        self.world.verbs.delete(self.world.resource(POD), *pod.key, DeleteOptions(uid=pod.metadata["uid"]))

    def revisions_of(self, owner: Stored) -> list[Stored]:
        """The ControllerRevisions of an object, oldest first."""
        found = self.world.history.select(CONTROLLER_REVISION, owner.key[0])
        return sorted(self._claimed(owner, CONTROLLER_REVISION, found), key=_age)

    def may_adopt(self, owner: Stored, orphan: Stored) -> bool:  # noqa: ARG002 - for a controller that looks at names
        """Whether an owner takes an object that it selects, and that has no controller."""
        return not pod_facts.is_terminating(orphan)

    def _claimed(self, owner: Stored, kind: Kind, found: Iterable[Stored]) -> list[Stored]:
        """Those that an owner controls, after it has adopted and released some. One that is being deleted does neither."""
        uid, is_going = owner.metadata["uid"], pod_facts.is_terminating(owner)
        claimed: list[Stored] = []
        for each in found:
            controller, owners = pod_facts.controller_uid(each), each.metadata.get("ownerReferences") or []
            selected = selects(owner.manifest["spec"]["selector"], each.labels)
            if controller == uid and (selected or is_going):
                claimed.append(each)
            elif controller == uid:
                self._write_owners(kind, each, [own for own in owners if own["uid"] != uid])
            elif controller is None and selected and not is_going and self.may_adopt(owner, each):
                own = pod_facts.owner_reference(self.kind, owner)
                claimed.append(self._write_owners(kind, each, [*owners, own]))
        return claimed

    def _write_owners(self, kind: Kind, stored: Stored, owners: list[Manifest]) -> Stored:
        manifest = {**stored.manifest, "metadata": {**stored.metadata, "ownerReferences": owners}}
        return self.world.verbs.update(self.world.resource(kind), stored, manifest, self.options)

    def latest(self, owner: Stored, revisions: list[Stored]) -> tuple[Stored, int]:
        """The ControllerRevision of an object's template, and how many names were taken; `revisions` are those of the object."""
        data = {"spec": {"template": {**owner.manifest["spec"]["template"], "$patch": "replace"}}}
        collisions: int = (owner.manifest.get("status") or {}).get("collisionCount", 0)
        number = revisions[-1].manifest["revision"] + 1 if revisions else 1
        resource = self.world.resource(CONTROLLER_REVISION)
        equal = [each for each in revisions if each.manifest["data"] == data]
        if equal and equal[-1] is revisions[-1]:
            return equal[-1], collisions
        if equal:
            again = {**equal[-1].manifest, "revision": number}
            return self.world.verbs.update(resource, equal[-1], again, self.options), collisions
        while True:
            hashed = _hash(data, collisions)
            name = f"{owner.metadata['name'][:223]}-{hashed}"
            taken = self.world.history.get(CONTROLLER_REVISION, owner.key[0], name)
            if taken is None:
                break
            if taken.manifest["data"] == data:
                return taken, collisions
            collisions += 1
        labels = (data["spec"]["template"].get("metadata") or {}).get("labels") or {}
        metadata = {
            "name": name,
            "labels": {**labels, self.hash_label: hashed},
            "annotations": owner.metadata.get("annotations") or {},
            "ownerReferences": [pod_facts.owner_reference(self.kind, owner)],
        }
        manifest = {"metadata": metadata, "data": data, "revision": number}
        return self.world.verbs.create(resource, owner.key[0], manifest, self.options), collisions

    def forget(self, revisions: list[Stored], count: int, *, live: Collection[str]) -> None:
        """Deletes the oldest of some ControllerRevisions, `count` at most, but not those with the name of a live one."""
        for each in [each for each in revisions if each.metadata["name"] not in live][: max(0, count)]:
            self.world.verbs.delete(self.world.resource(CONTROLLER_REVISION), *each.key, DeleteOptions())

    def _on_object(self, change: CommittedWrite) -> None:
        uid = change.new.metadata["uid"]
        if change.event == DELETED:
            self._key_of.pop(uid, None)
            return
        self._key_of[uid] = change.new.key
        if not self._follows_more:
            self._follows_more = True
            self.follow_more()
        self.enqueue(change.new.key)

    def _on_pod(self, change: CommittedWrite) -> None:
        pod = change.new
        uid = pod_facts.controller_uid(pod) or _NOBODY
        if change.old is not None:
            self._pods[pod_facts.controller_uid(change.old) or _NOBODY].pop(pod.key, None)
        if change.event != DELETED:
            self._pods[uid][pod.key] = pod
        may_want = self._key_of.values() if uid == _NOBODY else (self._key_of[uid],) if uid in self._key_of else ()
        for key in may_want:
            if key[0] == pod.key[0]:
                self.enqueue(key)


def _age(revision: Stored) -> tuple[int, str, str]:
    return revision.manifest["revision"], revision.metadata["creationTimestamp"], revision.metadata["name"]


def _hash(data: Manifest, collisions: int) -> str:
    """A number without vowels, as `SafeEncodeString` writes one."""
    number = zlib.crc32(f"{compact_json(data)}{collisions}".encode())
    return "".join(NAME_LETTERS[ord(digit) % len(NAME_LETTERS)] for digit in str(number))
