"""ConfigMaps and Secrets as the API server has them: what they contain, and what our writes of them mean."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, TypeAlias

from rollouts.cluster.decoding import decode, decode_secret_metadata
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ConfigMapObject
from rollouts.controller.observe.config import Configs
from rollouts.controller.workqueue.contents import ContentRead, Contents, SecretSeen
from rollouts.core.config.content import content_hash
from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigUse, CopySeen, Source
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    CopyOwner,
    CreateConfigCopy,
    DeleteConfigCopy,
    ReleaseConfigCopy,
)
from rollouts.core.model.snapshot import Pod, PodsSeen
from rollouts.manifests.ownership import CONFIG_SOURCE, CONTENT, NAME, REVISION
from rollouts.objects import CONFIG_MAP, POD, SECRET, Key, Kind, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import DELETED, CommittedWrite, Stored

HASH_KEY = b"the same in each run, so that revisions have the same names in all of them"
SourceKey: TypeAlias = tuple[ConfigKind, str]


class ConfigTruth:
    """Follows all ConfigMaps and Secrets of a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster, store: Store) -> None:
        self._cluster = cluster
        store.add(CONFIG_MAP, ConfigMapObject, labels=(NAME,), metadata_only=True)
        self._table = store.table(CONFIG_MAP)
        self._contents = Contents()
        self.configs = Configs(store, self._contents, clock=cluster.clock)
        """Observes sources and copies with all that is known of them."""
        self._earlier: deque[tuple[float, SourceKey, Source]] = deque(maxlen=8)
        self._deleted: deque[tuple[float, CopySeen]] = deque(maxlen=8)
        self._deleting = ""  # the copy that a write of ours deletes
        cluster.api.history.listen(CONFIG_MAP, self._follow)
        cluster.api.history.listen(SECRET, self._follow_secret)

    def earlier(self, *, since_s: float) -> list[dict[SourceKey, Source]]:
        """The sources that somebody has changed or deleted since that loop time, each as it was."""
        return [{key: source} for at_s, key, source in self._earlier if at_s >= since_s]

    def deleted(self, *, since_s: float) -> list[CopySeen]:
        """The copies that somebody else than a pass of ours has deleted since that loop time."""
        return [each for at_s, each in self._deleted if at_s >= since_s]

    def pods(self, namespace: str) -> PodsSeen:
        """All pods with a revision: those of the ReplicaSets, and those that have lost theirs."""
        found = []
        for each in self._cluster.api.history.select(POD, namespace):
            metadata = each.metadata
            if (revision := each.labels.get(REVISION)) is not None:
                pod = Pod(
                    name=metadata["name"],
                    uid=metadata["uid"],
                    revision=revision,
                    created_at_s=pod_facts.seconds(metadata["creationTimestamp"]),
                    ready=pod_facts.is_ready(each),
                    deleting=pod_facts.is_terminating(each),
                )
                found.append(pod)
        return PodsSeen(self._cluster.clock.now_s(), tuple(found))

    def meaning(
        self, kind: Kind, method: str, name: str, body: Any
    ) -> CreateConfigCopy | DeleteConfigCopy | AdoptConfigCopy | ReleaseConfigCopy | None:
        """What a write of a copy carries out; None for one that no pass of ours makes. A copy is what is really in it."""
        match method:
            case "POST" if kind == SECRET and body.get("immutable") is True:
                (owner,) = body["metadata"]["ownerReferences"]
                return CreateConfigCopy(_use(body), CopyOwner(owner["name"], owner["uid"]))
            case _ if kind == SECRET:
                return None
            case "POST" if body.get("immutable") is True:
                return CreateConfigCopy(_use(body))
            case "PATCH" if isinstance(body, list):
                return _of_owners(name, body)
            case "DELETE":
                seen = body.get("preconditions") or {}
                uid, version = seen["uid"], seen["resourceVersion"]
                self._deleting = name
                return DeleteConfigCopy(kind=ConfigKind.CONFIG_MAP, name=name, uid=uid, resource_version=version)
            case _:
                return None

    def _follow(self, change: CommittedWrite) -> None:
        self._remember(ConfigRef(ConfigKind.CONFIG_MAP, change.new.key[1]), change)
        seen = decode(CONFIG_MAP, change.new.metadata_only().raw())
        gone = change.event == DELETED
        if gone:
            self._remember_deleted(change.new)
        difference = self._table.remove("", seen) if gone else self._table.put("", seen)
        before, after = (difference.before, difference.after) if difference is not None else (None, None)
        self._contents.learn(before, after, now_s=self._cluster.clock.now_s())
        if not gone:
            manifest, metadata = change.new.manifest, change.new.metadata
            read = ContentRead(
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
                content=content_hash(manifest.get("data"), manifest.get("binaryData")),
                immutable=manifest.get("immutable") is True,
            )
            self._contents.put((ConfigKind.CONFIG_MAP, metadata["namespace"], metadata["name"]), read)

    def _follow_secret(self, change: CommittedWrite) -> None:
        self._remember(ConfigRef(ConfigKind.SECRET, change.new.key[1]), change)
        gone = change.event == DELETED
        metadata = decode_secret_metadata(change.new.metadata_only().raw())
        source = (ConfigKind.SECRET, metadata.namespace, metadata.name)
        self._contents.look(source, SecretSeen(None if gone else metadata), now_s=self._cluster.clock.now_s())
        if not gone:
            manifest = change.new.manifest
            read = ContentRead(
                uid=metadata.uid,
                resource_version=metadata.resource_version,
                content=content_hash(None, manifest.get("data"), key=HASH_KEY),
                immutable=manifest.get("immutable") is True,
            )
            self._contents.put(source, read)

    def _remember_deleted(self, copy: Stored) -> None:
        namespace, name = copy.key
        if name == self._deleting:
            self._deleting = ""
            return
        at_s, of = asyncio.get_running_loop().time(), Key(namespace, copy.labels.get(NAME, ""))
        self._deleted += [(at_s, each) for each in self.configs.copies(of, "") if each.name == name]

    def _remember(self, ref: ConfigRef, change: CommittedWrite) -> None:
        before_s, key = asyncio.get_running_loop().time(), Key(change.new.key[0], "nobody")
        self._earlier += [(before_s, name, was) for name, was in self.configs.sources(key, (ref,), ()).items()]


def _of_owners(name: str, operations: list[Manifest]) -> AdoptConfigCopy | ReleaseConfigCopy:
    """What a JSON Patch of a copy does to its owners."""
    uid, version = (str(operations[index]["value"]) for index in (0, 1))
    change = operations[-1]
    if change["op"] == "remove":
        index = int(change["path"].rpartition("/")[2])
        return ReleaseConfigCopy(name=name, uid=uid, resource_version=version, owner_index=index)
    return AdoptConfigCopy(name=name, uid=uid, resource_version=version, has_owners=change["path"].endswith("-"))


def _use(copy: Manifest) -> ConfigUse:
    """What a copy is of; its content is what is in it, whatever its annotation says."""
    metadata = copy["metadata"]
    kind = ConfigKind(copy["kind"])
    if kind is ConfigKind.SECRET:
        content = content_hash(None, copy.get("data"), key=HASH_KEY)
    else:
        content = content_hash(copy.get("data"), copy.get("binaryData"))
    assert metadata["annotations"][CONTENT] == content, f"{metadata['name']} says {metadata['annotations']}"
    source = metadata["annotations"][CONFIG_SOURCE]
    return ConfigUse(kind=kind, source=source, content=content, copy=metadata["name"])
