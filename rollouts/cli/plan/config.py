"""ConfigMaps and Secrets for `rollouts plan`: those in the file as they will be, the others as they are in the cluster.

GET and LIST only. What may not be read is taken as unchanged, and the plan says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.view.config import ConfigValues, content_of, hash_of, key_changes, key_in
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.config import (
    ConfigKind,
    ConfigRef,
    ConfigUse,
    Source,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
)
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.manifests.config_copy import TOKEN_TYPE, kind_of
from rollouts.manifests.ownership import CONFIG_KEY_NAME, is_left_alone
from rollouts.objects import Manifest

NOT_KNOWN = "(unknown)"
"""Stands for a content that nobody may read here."""


class NotReadable(Struct, frozen=True):
    """An object that may not be read."""


ObjectRead: TypeAlias = Manifest | NotReadable | None


class PlannedSource(Struct, frozen=True, kw_only=True):
    """One source that a template names, as it will be.

    Args:
        source: for the Snapshot; never `SourceUnread`, so that the update can be rehearsed.
        keys: that differ from what the current revision has; None when that is not known, or when nothing differs.
        readable: False when it is taken as unchanged because it may not be read.
        missing: it is needed, and neither in the cluster nor in the file.
        locked: it is immutable in the cluster, and the file changes it.
    """

    ref: ConfigRef
    source: Source
    keys: tuple[str, ...] | None = None
    readable: bool = True
    missing: bool = False
    locked: bool = False


class ConfigState(StrEnum):
    """What happens to a source with the update."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"  # the current revision does not have it
    ABSENT = "absent"  # its references are optional


class PlannedConfig(Struct, frozen=True, kw_only=True, rename={"state": "change", "keys": "changedKeys"}):
    """One source of the planned revision.

    Args:
        copy: the immutable copy that the pods read; None when they read the source itself, or it is absent. A Secret's ends in
            `*`: its name is drawn when its ReplicaSet is made.
    """

    kind: ConfigKind
    name: str
    state: ConfigState
    keys: tuple[str, ...] | None
    copy: str | None


@dataclass(slots=True)
class SourceReader:
    """Reads each source once, and those in the file."""

    session: Session
    manifests: tuple[Manifest, ...] = ()
    _live: dict[tuple[ConfigKind, str, str], ObjectRead] = field(default_factory=dict)

    def in_file(self, kind: ConfigKind, namespace: str, name: str) -> Manifest | None:
        """The object in the file, without what only a cluster gives it."""
        for manifest in self.manifests:
            metadata = manifest.get("metadata") or {}
            where = metadata.get("namespace") or self.session.namespace
            if is_a(manifest, kind_of(kind)) and (metadata.get("name"), where) == (name, namespace):
                return manifest
        return None

    async def in_cluster(self, kind: ConfigKind, namespace: str, name: str) -> ObjectRead:
        """The object as it is now. Raises: what `Client` raises, but for refusals and absence."""
        key = (kind, namespace, name)
        if key not in self._live:
            try:
                found: ObjectRead = manifest_from(await self.session.client.get(kind_of(kind), namespace, name))
            except ApiNotFound:
                found = None
            except ApiForbidden:
                found = NotReadable()
            self._live[key] = found
        return self._live[key]

    async def hash_key(self, kind: ConfigKind, namespace: str) -> bytes | None:
        """What the hashes of a namespace are made with, see `view/config.py`; None when nobody may read it here."""
        if kind is not ConfigKind.SECRET:
            return b""
        found = await self.in_cluster(kind, namespace, CONFIG_KEY_NAME)
        return None if isinstance(found, NotReadable) else key_in(found)


async def read_sources(
    reader: SourceReader, refs: Iterable[ConfigRef], *, namespace: str, running: tuple[ConfigUse, ...]
) -> tuple[PlannedSource, ...]:
    """Reads the sources that a template names; `running` is what the current revision has.

    Raises: what `Client` raises. What may not be read is not an error.
    """
    before = {(use.kind, use.source): use for use in running}
    return tuple([await _planned(reader, ref, namespace, before.get((ref.kind, ref.name))) for ref in refs])


def planned_config(
    sources: Iterable[PlannedSource], uses: Iterable[ConfigUse], running: Iterable[ConfigUse]
) -> tuple[PlannedConfig, ...]:
    """What happens to each source of the planned revision, which has `uses`; the current one has `running`."""
    keys = {(source.ref.kind, source.ref.name): source.keys for source in sources}
    before = {(use.kind, use.source): use.content for use in running}
    planned = []
    for use in uses:
        content = before.get((use.kind, use.source))
        if content == use.content:
            state = ConfigState.SAME
        elif not use.content:
            state = ConfigState.ABSENT
        else:
            state = ConfigState.CHANGED if content else ConfigState.NEW
        copy = None
        if use.has_copy:
            copy = f"{use.source}-*" if use.kind is ConfigKind.SECRET else use.copy
        changed_keys = keys.get((use.kind, use.source))
        planned.append(PlannedConfig(kind=use.kind, name=use.source, state=state, keys=changed_keys, copy=copy))
    return tuple(planned)


def unchanged_source(use: ConfigUse | None) -> SourceKnown:
    """A source with the content that the current revision has of it."""
    content, immutable = (use.content, not use.copy) if use is not None else (NOT_KNOWN, True)
    uid, version = (use.uid, use.resource_version) if use is not None else ("", "")
    return SourceKnown(content=content, immutable=immutable, uid=uid, resource_version=version, changed_at_s=0.0)


def known_source(kind: ConfigKind, manifest: Manifest, *, key: bytes = b"") -> Source:
    """A source with this content, which changed long ago: whatever belongs to it is there. The key is that of the hash."""
    metadata: Mapping[str, object] = manifest.get("metadata") or {}
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping) and is_left_alone(annotations):
        return SourceLeftAlone()
    if kind is ConfigKind.SECRET and manifest.get("type") == TOKEN_TYPE:
        return SourceLeftAlone()
    return SourceKnown(
        content=hash_of(kind, manifest, key=key),
        immutable=manifest.get("immutable") is True,
        uid=str(metadata.get("uid") or ""),
        resource_version=str(metadata.get("resourceVersion") or ""),
        changed_at_s=0.0,
    )


async def _planned(reader: SourceReader, ref: ConfigRef, namespace: str, before: ConfigUse | None) -> PlannedSource:
    in_file = reader.in_file(ref.kind, namespace, ref.name)
    live = await reader.in_cluster(ref.kind, namespace, ref.name)
    key = await reader.hash_key(ref.kind, namespace)
    found: ObjectRead = live if in_file is None else in_file
    if key is None and found is not None:
        found = NotReadable()
    locked = (
        in_file is not None
        and isinstance(live, dict)
        and live.get("immutable") is True
        and (in_file.get("immutable") is not True or hash_of(ref.kind, in_file) != hash_of(ref.kind, live))
    )
    match found:
        case NotReadable():
            return PlannedSource(ref=ref, source=unchanged_source(before), readable=False)
        case None if ref.optional:
            return PlannedSource(ref=ref, source=SourceAbsent())
        case None:
            return PlannedSource(ref=ref, source=unchanged_source(before), missing=True)
        case _:
            source = known_source(ref.kind, found, key=key or b"")
            keys = None
            if before is not None and isinstance(source, SourceKnown) and source.content != before.content:
                keys = await _changed_keys(reader, namespace, before, content_of(ref.kind, found))
            return PlannedSource(ref=ref, source=source, keys=keys, locked=locked)


async def _changed_keys(
    reader: SourceReader, namespace: str, before: ConfigUse, after: ConfigValues
) -> tuple[str, ...] | None:
    """The keys that differ from what the current revision has; None when its content cannot be read any more."""
    old: ConfigValues | None = ConfigValues() if not before.content else None
    key = await reader.hash_key(before.kind, namespace) or b""
    for name in dict.fromkeys((before.name, before.source)) if old is None else ():
        found = await reader.in_cluster(before.kind, namespace, name)
        if isinstance(found, dict) and hash_of(before.kind, found, key=key) == before.content:
            old = content_of(before.kind, found)
            break
    return None if old is None else tuple(change.key for change in key_changes(before.kind, old, after))
