"""What is known of the sources of configuration that a Rollout names, and its copies of them.

The watch of ConfigMaps shows versions, and so do looks at Secrets; contents were read beside the passes. A read of another
version than these show says nothing. Absent is only what the complete watch does not show, or the server's 404 to a look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass

from rollouts.api.times import time_or_0
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ConfigMapMetadata, ReplicaSetObject
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.controller.configs.contents import ContentRead, Contents, ReadFailed
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.core.config.content import copy_name
from rollouts.core.config.copies import additional_refs, sources_of_lost, unchecked
from rollouts.core.model.config import (
    ConfigKind,
    ConfigRef,
    ConfigUse,
    CopyLook,
    CopySeen,
    Source,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
    SourceUnread,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.revision import HASH_SCHEME_V2
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.manifests.ownership import (
    CONFIG_COPY,
    CONFIG_COPY_VALUE,
    CONFIG_SOURCE,
    CONTENT,
    HASH_SCHEME_LABEL,
    NAME,
    config_note_of,
    is_left_alone,
    name_label,
)
from rollouts.objects import CONFIG_MAP, Key
from rollouts.ports import Clock

_REMEDY = "delete it, or remove the labels"

_Noted = Mapping[tuple[ConfigKind, str, str, str], str]
"""Content hashes by kind, source, uid and resourceVersion, from the notes on ReplicaSets."""


@dataclass(slots=True, eq=False)
class Configs:
    """Reads sources and copies from the table of ConfigMaps.

    Args:
        is_listed: whether it is known of every namespace which ConfigMaps there are, or why that cannot be known.
        why_unseen: why the ConfigMaps of a namespace cannot be seen, and what helps; "" when they can.
    """

    store: Store
    contents: Contents
    _: KW_ONLY
    clock: Clock
    is_listed: Callable[[], bool]
    why_unseen: Callable[[str], str]

    def observed(self, snapshot: Snapshot, looks: Mapping[str, CopyLook]) -> Snapshot:
        """`snapshot` with the sources and the copies of its Rollout; `looks` are those at copies of Secrets."""
        rollout, replica_sets = snapshot.rollout, snapshot.replica_sets
        key, named = Key(rollout.namespace, rollout.name), rollout.spec.config_refs
        copies = self.copies(key, rollout.uid)
        lost = additional_refs(named, sources_of_lost(replica_sets, copies, looks))
        sources = self.sources(key, (*named, *lost), replica_sets, copies)
        if not (sources or copies or looks):
            return snapshot
        return replace(snapshot, sources=sources, copies=copies, copy_looks=looks)

    def sources(
        self, key: Key, refs: Iterable[ConfigRef], replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen] = ()
    ) -> Mapping[tuple[ConfigKind, str], Source]:
        """What is known of each source that the Rollout's template names; from now on a change of one wakes the Rollout.

        Args:
            copies: the Rollout's own; what is read of one that nobody has compared with its name wakes the Rollout, too.
        """
        refs = tuple(refs)
        read = (*refs, *unchecked(copies))
        self.contents.askers.asks(key, [(ref.kind, key.namespace, ref.name) for ref in read])
        if not refs:
            return {}
        noted = {
            (use.kind, use.source, use.uid, use.resource_version): use.content
            for replica_set in replica_sets
            for use in replica_set.config or ()
            if use.copy
        }
        unseen = self._unseen(key.namespace)
        sources: dict[tuple[ConfigKind, str], Source] = {}
        for ref in refs:
            if ref.kind is ConfigKind.SECRET:
                sources[ref.kind, ref.name] = self._secret(key.namespace, ref, noted)
            else:
                sources[ref.kind, ref.name] = unseen or self._config_map(key.namespace, ref, noted)
        return sources

    def copies(self, key: Key, uid: str) -> tuple[CopySeen, ...]:
        """The copies with the Rollout's name on them, whoever owns them, in order of their names."""
        named = self.store.table(CONFIG_MAP).labelled(NAME, key.namespace, name_label(key.name))
        copies = [
            self._checked(_copy(seen.metadata, key, uid), key.namespace)
            for seen in named
            if (seen.metadata.labels or {}).get(CONFIG_COPY) == CONFIG_COPY_VALUE
        ]
        return tuple(sorted(copies, key=lambda copy: copy.name))

    def _checked(self, copy: CopySeen, namespace: str) -> CopySeen:
        """A copy, with what its data says where it was read. The name says what the data must be, annotations only repeat it."""
        if copy.problem:
            return copy
        read = self.contents.get((ConfigKind.CONFIG_MAP, namespace, copy.name))
        if isinstance(read, ReadFailed):
            return replace(copy, unread_because=read.message)
        if read is None or read.uid != copy.uid:
            return copy
        if read.content == copy.content and read.immutable:
            return replace(copy, checked=True)
        why = "it is not immutable, so its data may change"
        if read.content != copy.content:
            why = "its data is not what its name says"
        again = "the controller makes it again while its source has that content"
        problem = f"ConfigMap {copy.name} is not the copy that the controller made: {why}; delete it, and {again}"
        return replace(copy, forged=True, problem=problem)

    def forget(self, key: Key) -> None:
        """Drops what is known of a Rollout that is gone."""
        self.contents.askers.asks(key, ())

    def _unseen(self, namespace: str) -> SourceUnread | None:
        """Why nothing can be said about the ConfigMaps of a namespace; None when it can."""
        if not self.is_listed():
            return SourceUnread(asks=False)
        if why := self.why_unseen(namespace):
            remedy = "or set spec.configVersioning.mode: Off"
            return SourceUnread(f"{why}, {remedy}", needs_a_person=True, asks=False)
        watch = self.store.table(CONFIG_MAP).watch(namespace)
        if watch.failing_for_s(now_s=self.clock.monotonic_s()) >= FAILED_TELL_S:
            return SourceUnread(f"the watch of ConfigMaps fails: {watch.trouble}", asks=False)
        return None

    def _config_map(self, namespace: str, ref: ConfigRef, noted: _Noted) -> Source:
        if (unreadable := self.store.table(CONFIG_MAP).unreadable.get((namespace, ref.name))) is not None:
            return SourceUnread(f"{ref} cannot be read: {unreadable.why}; repair it or delete it", asks=False)
        seen = self.store.table(CONFIG_MAP).get(namespace, ref.name)
        return self._source(namespace, ref, seen.metadata if seen is not None else None, noted)

    def _secret(self, namespace: str, ref: ConfigRef, noted: _Noted) -> Source:
        seen = self.contents.secrets.get((ref.kind, namespace, ref.name))
        if seen is None:
            return SourceUnread()
        if seen.failed is not None:
            return SourceUnread(seen.failed.message, needs_a_person=seen.failed.needs_a_person, asks=False)
        return self._source(namespace, ref, seen.metadata, noted)

    def _source(self, namespace: str, ref: ConfigRef, metadata: ConfigMapMetadata | None, noted: _Noted) -> Source:
        source = (ref.kind, namespace, ref.name)
        if metadata is None:
            return SourceAbsent(self.contents.gone_since_s.get(source))
        if is_left_alone(metadata.annotations or {}):
            return SourceLeftAlone()
        read = self.contents.get(source)
        version = (metadata.uid, metadata.resource_version)
        content, immutable = noted.get((ref.kind, ref.name, *version)), False
        if isinstance(read, ContentRead) and (read.uid, read.resource_version) == version:
            if read.left_alone:
                return SourceLeftAlone()
            content, immutable = read.content, read.immutable
        if content is not None:
            return SourceKnown(
                content=content,
                immutable=immutable,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
                changed_at_s=max(time_or_0(metadata.changed_at), self.contents.undated_change_s.get(source) or 0.0),
                shared_by=max(1, self.contents.askers.count(source)),
            )
        if isinstance(read, ReadFailed):
            return SourceUnread(read.message, needs_a_person=read.needs_a_person)
        # A later version was read than the watch shows: it will show this one, or a later one.
        return SourceUnread(asks=read is None or int(read.resource_version) <= metadata.version)


def config_of(seen: ReplicaSetObject) -> tuple[ConfigUse, ...] | None:
    """What a ReplicaSet's note says that it has of each source; None when that is not known.

    One of scheme v1 names the sources themselves. Without a note nobody has looked at them yet.
    """
    noted = config_note_of(seen.metadata.annotations or {})
    if noted is not None:
        return noted
    return None if (seen.metadata.labels or {}).get(HASH_SCHEME_LABEL) == HASH_SCHEME_V2 else ()


def _copy(metadata: ConfigMapMetadata, key: Key, uid: str) -> CopySeen:
    annotations = metadata.annotations or {}
    source, content = annotations.get(CONFIG_SOURCE, ""), annotations.get(CONTENT, "")
    forged = metadata.name != copy_name(ConfigKind.CONFIG_MAP, rollout=key.name, source=source, content=content)
    owners = metadata.owner_references or ()
    owned = is_controlled_by(metadata, key, uid)
    ours = [index for index, owner in enumerate(owners) if is_rollout(owner) and owner.uid == uid] if owned else []
    problem = ""
    has_labels = f"ConfigMap {metadata.name} has the labels of a copy of this Rollout, but"
    if forged:
        problem = f"{has_labels} its name does not follow from its annotations {CONFIG_SOURCE} and {CONTENT}: {_REMEDY}"
    elif any(owner.controller and not (is_rollout(owner) and owner.name == key.name) for owner in owners):
        problem = f"{has_labels} another object controls it: {_REMEDY}"
    return CopySeen(
        kind=ConfigKind.CONFIG_MAP,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        source=source,
        content=content,
        created_at_s=time_or_0(metadata.creation_timestamp),
        owned=owned,
        owners=len(owners),
        owner_index=ours[0] if ours else -1,
        claimed=not owned and any(owner.controller for owner in owners),
        deleting=metadata.deletion_timestamp is not None,
        problem=problem,
        forged=forged,
        checked=False,
    )
