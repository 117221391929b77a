"""ConfigMaps and Secrets as the API server has them: what they contain, and what our writes of them mean."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import deque
from typing import Any, TypeAlias

from rollouts.core.model.config import (
    ConfigKind,
    ConfigUse,
    CopySeen,
    Source,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
)
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    CopyOwner,
    CreateConfigCopy,
    DeleteConfigCopy,
    ReleaseConfigCopy,
)
from rollouts.core.model.revision import canonical_json, short_hash, short_name
from rollouts.core.model.rollout import Rollout
from rollouts.objects import CONFIG_MAP, SECRET, Kind, Manifest
from rollouts.sim.actors.pods import seconds
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import DELETED, CommittedWrite
from tests.behaviour.reading import NAME, PREFIX, annotations_of, controller_of, labels_of

HASH_KEY = b"the same in each run, so that revisions have the same names in all of them"
SourceKey: TypeAlias = tuple[ConfigKind, str]
CONTENT, CONFIG_SOURCE = f"{PREFIX}content", f"{PREFIX}config-source"


class ConfigTruth:
    """Follows all ConfigMaps and Secrets of a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._earlier: deque[tuple[float, SourceKey, Source]] = deque(maxlen=8)
        self._deleted: deque[tuple[float, Manifest]] = deque(maxlen=8)
        self._deleting = ""  # the copy that a write of ours deletes
        cluster.api.history.listen(CONFIG_MAP, self._follow)
        cluster.api.history.listen(SECRET, self._follow)

    def sources(self, of: Rollout) -> dict[SourceKey, Source]:
        """All that there are in the Rollout's namespace, and those that its template names and that are not there."""
        there = [*self._cluster.list(CONFIG_MAP, of.namespace), *self._cluster.list(SECRET, of.namespace)]
        absent: dict[SourceKey, Source] = {(ref.kind, ref.name): SourceAbsent() for ref in of.spec.config_refs}
        return absent | {_key(each): _source(each) for each in there}

    def copies(self, of: Rollout) -> tuple[CopySeen, ...]:
        """The copies of ConfigMaps with the Rollout's name on them, whoever owns them."""
        return tuple(
            _copy(each, of) for each in self._cluster.list(CONFIG_MAP, of.namespace) if _is_copy(each, of.name)
        )

    def earlier(self, *, since_s: float) -> list[dict[SourceKey, Source]]:
        """The sources that somebody has changed or deleted since that loop time, each as it was."""
        return [{key: source} for at_s, key, source in self._earlier if at_s >= since_s]

    def deleted(self, of: Rollout, *, since_s: float) -> list[CopySeen]:
        """The copies that somebody else than a pass of ours has deleted since that loop time."""
        return [_copy(each, of) for at_s, each in self._deleted if at_s >= since_s and _is_copy(each, of.name)]

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
                return DeleteConfigCopy(name=name, uid=uid, resource_version=version)
            case _:
                return None

    def _follow(self, change: CommittedWrite) -> None:
        now_s, before = asyncio.get_running_loop().time(), change.old
        source = SourceAbsent() if before is None else _source(before.manifest)
        self._earlier.append((now_s, _key(change.new.manifest), source))
        if change.event != DELETED:
            return
        if change.new.key[1] == self._deleting:
            self._deleting = ""
        else:
            self._deleted.append((now_s, change.new.manifest))


def content_of(found: Manifest) -> str:
    """The hash of all that pods can read: SHA-256 of canonical JSON; of a Secret an HMAC, with the namespace's key."""
    if found["kind"] == SECRET.kind:
        text = canonical_json({"binaryData": found.get("data") or {}, "data": {}})
        return short_hash(hmac.digest(HASH_KEY, text, "sha256"))
    text = canonical_json({"binaryData": found.get("binaryData") or {}, "data": found.get("data") or {}})
    return short_name(hashlib.sha256(text).digest())


def _key(found: Manifest) -> SourceKey:
    return ConfigKind(found["kind"]), found["metadata"]["name"]


def _source(found: Manifest) -> Source:
    if annotations_of(found).get(f"{PREFIX}config-versioning", "").lower() == "off":
        return SourceLeftAlone()
    metadata = found["metadata"]
    return SourceKnown(
        content=content_of(found),
        immutable=found.get("immutable") is True,
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        changed_at_s=0.0,
    )


def _is_copy(found: Manifest, name: str) -> bool:
    return labels_of(found).get(f"{PREFIX}config-copy") == "true" and labels_of(found).get(NAME) == name


def _copy(found: Manifest, of: Rollout) -> CopySeen:
    """A copy; one that is not what it says, or that somebody may still change, is forged, whoever knows it."""
    metadata, said = found["metadata"], annotations_of(found)
    owner = controller_of(found)
    owned = owner is not None and owner["uid"] == of.uid
    forged = content_of(found) != said.get(CONTENT) or found.get("immutable") is not True
    return CopySeen(
        kind=ConfigKind.CONFIG_MAP,
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        source=said.get(CONFIG_SOURCE, ""),
        content=said.get(CONTENT, ""),
        created_at_s=seconds(metadata["creationTimestamp"]),
        owned=owned,
        claimed=owner is not None and not owned,
        deleting="deletionTimestamp" in metadata,
        problem="it is not what it says" if forged else "",
        forged=forged,
    )


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
    said, content = annotations_of(copy), content_of(copy)
    assert said[CONTENT] == content, f"{copy['metadata']['name']} says {said}"
    kind, name = _key(copy)
    return ConfigUse(kind=kind, source=said[CONFIG_SOURCE], content=content, copy=name)
