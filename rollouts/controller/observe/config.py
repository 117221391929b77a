"""What is known of the sources of configuration that a Rollout names, and its copies of them.

The watch of ConfigMaps shows versions, and so do looks at Secrets; contents were read beside the passes. A read of another
version than these show says nothing. Absent is only what the complete watch does not show, or the server's 404 to a look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rollouts.api.times import time_or_0
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ConfigMapMetadata, ConfigMapObject, ReplicaSetObject
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.controller.workqueue.contents import ContentRead, Contents, ReadFailed
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.core.config.content import copy_name
from rollouts.core.config.replaced import unchecked
from rollouts.core.model.config import (
    ConfigKind,
    ConfigRef,
    ConfigUse,
    CopySeen,
    Source,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
    SourceUnread,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.revision import HASH_SCHEME_V2
from rollouts.core.model.snapshot import ReplicaSet
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

_REMEDY = "or set spec.configVersioning.mode: Off"

_Noted = Mapping[tuple[ConfigKind, str, str, str], str]
"""Content hashes by kind, source, uid and resourceVersion, from the notes on ReplicaSets."""


class Configs:
    """Reads sources and copies from the table of ConfigMaps.

    Args:
        is_listed: whether it is known of every namespace which ConfigMaps there are, or why that cannot be known.
        why_unseen: why the ConfigMaps of a namespace cannot be seen, and what helps; "" when they can.
    """

    def __init__(
        self,
        store: Store,
        contents: Contents,
        *,
        clock: Clock,
        is_listed: Callable[[], bool] = lambda: True,
        why_unseen: Callable[[str], str] = lambda _namespace: "",
    ) -> None:
        self._table = store.table(CONFIG_MAP)
        self._contents = contents
        self._clock = clock
        self._is_listed = is_listed
        self._why_unseen = why_unseen

    def sources(
        self, key: Key, refs: Iterable[ConfigRef], replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen] = ()
    ) -> Mapping[tuple[ConfigKind, str], Source]:
        """What is known of each source that the Rollout's template names; from now on a change of one wakes the Rollout.

        Args:
            copies: the Rollout's own; what is read of one that nobody has compared with its name wakes the Rollout, too.
        """
        refs = tuple(refs)
        read = (*refs, *unchecked(copies))
        self._contents.askers.asks(key, [(ref.kind, key.namespace, ref.name) for ref in read])
        if not refs:
            return {}
        noted = {
            (use.kind, use.source, use.uid, use.resource_version): use.content
            for each in replica_sets
            for use in each.config or ()
            if use.copy
        }
        unseen = self._unseen(key.namespace)
        found: dict[tuple[ConfigKind, str], Source] = {}
        for ref in refs:
            if ref.kind is ConfigKind.SECRET:
                found[ref.kind, ref.name] = self._secret(key.namespace, ref, noted)
            else:
                found[ref.kind, ref.name] = unseen or self._config_map(key.namespace, ref, noted)
        return found

    def copies(self, key: Key, uid: str) -> tuple[CopySeen, ...]:
        """The copies with the Rollout's name on them, whoever owns them, in order of their names."""
        marked = self._table.labelled(NAME, key.namespace, name_label(key.name))
        return tuple(
            sorted(
                (self._copy(each.metadata, key, uid) for each in marked if is_copy(each)), key=lambda each: each.name
            )
        )

    def _copy(self, metadata: ConfigMapMetadata, key: Key, uid: str) -> CopySeen:
        """A copy, with what its data says where it was read. The name says what the data must be, annotations only repeat it."""
        seen = _copy(metadata, key, uid)
        if seen.problem:
            return seen
        read = self._contents.get((ConfigKind.CONFIG_MAP, key.namespace, metadata.name))
        if isinstance(read, ReadFailed):
            return replace(seen, unread_because=read.message)
        if read is None or read.uid != metadata.uid:
            return seen
        if read.content != seen.content:
            return replace(seen, forged=True, problem=_forged(metadata.name, "its data is not what its name says"))
        if not read.immutable:
            return replace(
                seen, forged=True, problem=_forged(metadata.name, "it is not immutable, so its data may change")
            )
        return replace(seen, checked=True)

    def forget(self, key: Key) -> None:
        """Drops what is known of a Rollout that is gone."""
        self._contents.askers.rests(key)

    def _unseen(self, namespace: str) -> SourceUnread | None:
        """Why nothing can be said about the ConfigMaps of a namespace; None when it can."""
        if not self._is_listed():
            return SourceUnread(asks=False)
        if why := self._why_unseen(namespace):
            return SourceUnread(f"{why}, {_REMEDY}", needs_a_person=True, asks=False)
        watch = self._table.watch(namespace)
        if watch.failing_for_s(now_s=self._clock.monotonic_s()) >= FAILED_TELL_S:
            return SourceUnread(f"the watch of ConfigMaps fails: {watch.trouble}", asks=False)
        return None

    def _config_map(self, namespace: str, ref: ConfigRef, noted: _Noted) -> Source:
        where = (namespace, ref.name)
        if (unreadable := self._table.unreadable.get(where)) is not None:
            return SourceUnread(f"{ref} cannot be read: {unreadable.why}; repair it or delete it", asks=False)
        seen: ConfigMapObject | None = self._table.get(*where)
        return self._source(namespace, ref, seen.metadata if seen is not None else None, noted)

    def _secret(self, namespace: str, ref: ConfigRef, noted: _Noted) -> Source:
        seen = self._contents.secret((ref.kind, namespace, ref.name))
        if seen is None:
            return SourceUnread()
        if seen.failed is not None:
            return SourceUnread(seen.failed.message, needs_a_person=seen.failed.needs_a_person, asks=False)
        return self._source(namespace, ref, seen.metadata, noted)

    def _source(self, namespace: str, ref: ConfigRef, metadata: ConfigMapMetadata | None, noted: _Noted) -> Source:
        source = (ref.kind, namespace, ref.name)
        if metadata is None:
            return SourceAbsent(self._contents.gone_since_s(source))
        if is_left_alone(metadata.annotations or {}):
            return SourceLeftAlone()
        read = self._contents.get(source)
        if isinstance(read, ContentRead) and _is_about(read, metadata):
            if read.left_alone:
                return SourceLeftAlone()
            return self._known(source, metadata, content=read.content, immutable=read.immutable)
        content = noted.get((ref.kind, ref.name, metadata.uid, metadata.resource_version))
        if content is not None:
            return self._known(source, metadata, content=content, immutable=False)
        return self._not_known(read, metadata)

    def _known(
        self, source: tuple[ConfigKind, str, str], metadata: ConfigMapMetadata, *, content: str, immutable: bool
    ) -> SourceKnown:
        return SourceKnown(
            content=content,
            immutable=immutable,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            changed_at_s=max(time_or_0(metadata.changed_at), self._contents.undated_change_s(source) or 0.0),
            shared_by=max(1, self._contents.askers.count(source)),
        )

    def _not_known(self, read: ContentRead | ReadFailed | None, metadata: ConfigMapMetadata) -> SourceUnread:
        match read:
            case ReadFailed(message=message, needs_a_person=needs_a_person):
                return SourceUnread(message, needs_a_person=needs_a_person)
            case ContentRead(resource_version=version) if int(version) > metadata.version:
                return SourceUnread(asks=False)  # the watch will show this version, or a later one
            case _:
                return SourceUnread()


def config_of(seen: ReplicaSetObject) -> tuple[ConfigUse, ...] | None:
    """What a ReplicaSet's note says that it has of each source; None when that is not known.

    One of scheme v1 names the sources themselves. Without a note nobody has looked at them yet.
    """
    noted = config_note_of(seen.metadata.annotations or {})
    if noted is not None:
        return noted
    return None if (seen.metadata.labels or {}).get(HASH_SCHEME_LABEL) == HASH_SCHEME_V2 else ()


def is_copy(seen: ConfigMapObject) -> bool:
    """Whether a ConfigMap says that it is a copy of ours."""
    return (seen.metadata.labels or {}).get(CONFIG_COPY) == CONFIG_COPY_VALUE


def _is_about(read: ContentRead, metadata: ConfigMapMetadata) -> bool:
    return (read.uid, read.resource_version) == (metadata.uid, metadata.resource_version)


def _copy(metadata: ConfigMapMetadata, key: Key, uid: str) -> CopySeen:
    annotations = metadata.annotations or {}
    owners = metadata.owner_references or ()
    owned = is_controlled_by(metadata, key, uid)
    ours = [index for index, each in enumerate(owners) if is_rollout(each) and each.uid == uid] if owned else []
    return CopySeen(
        kind=ConfigKind.CONFIG_MAP,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        source=annotations.get(CONFIG_SOURCE, ""),
        content=annotations.get(CONTENT, ""),
        created_at_s=time_or_0(metadata.creation_timestamp),
        owned=owned,
        owners=len(owners),
        owner_index=ours[0] if ours else -1,
        claimed=not owned and any(each.controller for each in owners),
        deleting=metadata.deletion_timestamp is not None,
        problem=_not_ours(metadata, key),
        forged=not _is_named_by_its_content(metadata, key),
        checked=False,
    )


def _is_named_by_its_content(metadata: ConfigMapMetadata, key: Key) -> bool:
    annotations = metadata.annotations or {}
    source, content = annotations.get(CONFIG_SOURCE, ""), annotations.get(CONTENT, "")
    return metadata.name == copy_name(ConfigKind.CONFIG_MAP, rollout=key.name, source=source, content=content)


def _forged(name: str, why: str) -> str:
    again = "the controller makes it again while its source has that content"
    return f"ConfigMap {name} is not the copy that the controller made: {why}; delete it, and {again}"


def _not_ours(metadata: ConfigMapMetadata, key: Key) -> str:
    """Why an object with the labels of a copy was not made for the Rollout of that key, and what to do; "" when it was."""
    if not _is_named_by_its_content(metadata, key):
        why = f"its name does not follow from its annotations {CONFIG_SOURCE} and {CONTENT}"
    elif any(
        each.controller and not (is_rollout(each) and each.name == key.name) for each in metadata.owner_references or ()
    ):
        why = "another object controls it"
    else:
        return ""
    return f"ConfigMap {metadata.name} has the labels of a copy of this Rollout, but {why}: delete it, or remove the labels"
