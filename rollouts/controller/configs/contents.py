"""What was read of sources of configuration, and which Rollouts name them. In RAM only, and hashes only: no content is kept.

A read is about one version of a source. What the watch of ConfigMaps shows, or the last look at a Secret, decides whether it is
still true (`observed.py`).
"""

from __future__ import annotations

from msgspec import Struct

from rollouts.cluster.structs import ConfigMapMetadata, ConfigMapObject
from rollouts.controller.workqueue.askers import Askers, SourceKey
from rollouts.core.model.config import ConfigKind
from rollouts.recent import Recent

KEPT_MAX = 50_000
"""Sources whose hash is kept, 0.5 KB each; the least recently used one makes room, and is read again when it is needed."""


class ContentRead(Struct, frozen=True, kw_only=True):
    """One version of a source.

    Args:
        content: the hash, see core/config/content.py.
        left_alone: it belongs to the control plane, which writes it: the token of a ServiceAccount.
    """

    uid: str
    resource_version: str
    content: str
    immutable: bool
    left_alone: bool = False


class ReadFailed(Struct, frozen=True, kw_only=True):
    """The last read brought no content; it is repeated. `needs_a_person` when the controller lacks a right."""

    message: str
    needs_a_person: bool


class SecretSeen(Struct, frozen=True):
    """What the last look at a Secret showed.

    Args:
        metadata: None when there is no such Secret.
        failed: why it cannot be seen now; what it was before says nothing then.
    """

    metadata: ConfigMapMetadata | None = None
    failed: ReadFailed | None = None


class Contents:
    """What is known of sources, by name."""

    def __init__(self) -> None:
        self.askers: Askers[SourceKey] = Askers()
        """Which Rollouts name which sources."""
        self._read: Recent[SourceKey, ContentRead | ReadFailed] = Recent(KEPT_MAX)
        self.gone_since_s: Recent[SourceKey, float] = Recent(KEPT_MAX)
        """When a source was seen to go, wall clock; of those that somebody named then."""
        self.undated_change_s: Recent[SourceKey, float] = Recent(KEPT_MAX)
        """When a change was seen that the API server gave no time, wall clock; of sources whose last change has none.

        The API server dates what an update sets. One that only removes a key moves no time in managedFields.
        """
        self.secrets: dict[SourceKey, SecretSeen] = {}
        """What the last look at each Secret showed that somebody needs."""

    def put(self, source: SourceKey, answer: ContentRead | ReadFailed) -> None:
        """Takes what the last read of a source brought."""
        self._read[source] = answer

    def get(self, source: SourceKey) -> ContentRead | ReadFailed | None:
        """What the last read of a source brought; None when there was none, or it is forgotten."""
        answer = self._read.get(source)
        if answer is not None:
            self._read.move_to_end(source)
        return answer

    def learn(self, before: ConfigMapObject | None, after: ConfigMapObject | None, *, now_s: float) -> None:
        """Follows one change of a watched ConfigMap. `now_s` is the wall clock."""
        seen = after or before
        if seen is None:
            return
        source = (ConfigKind.CONFIG_MAP, seen.metadata.namespace, seen.metadata.name)
        if after is not None:
            self._changed(source, before.metadata if before is not None else None, after.metadata, now_s=now_s)
        else:
            self._deleted(source, now_s=now_s)

    def look(self, source: SourceKey, seen: SecretSeen, *, now_s: float) -> bool:
        """Takes what a look at a Secret showed, or a read of it, and returns whether that is news.

        An older version than the last one counts for nothing. `now_s` is the wall clock.
        """
        before = self.secrets.get(source)
        known, now = (before.metadata if before is not None else None), seen.metadata
        if known is not None and now is not None and now.version < known.version:
            return False
        self.secrets[source] = seen
        if now is not None:
            self._changed(source, known, now, now_s=now_s)
        elif seen.failed is None and known is not None:
            self._deleted(source, now_s=now_s)
        return before is None or (_version(known), before.failed) != (_version(now), seen.failed)

    def _changed(
        self, source: SourceKey, before: ConfigMapMetadata | None, after: ConfigMapMetadata, *, now_s: float
    ) -> None:
        """Notes when a version was seen that is not dated later than the one before; a process that has just begun saw none."""
        self.gone_since_s.pop(source, None)
        if before is None or _version(before) == _version(after):
            return
        self.undated_change_s.pop(source, None)
        # RFC 3339 in UTC, whole seconds
        if self.askers.count(source) and (after.changed_at or "") <= (before.changed_at or ""):
            self.undated_change_s[source] = now_s

    def _deleted(self, source: SourceKey, *, now_s: float) -> None:
        self._read.pop(source, None)
        self.undated_change_s.pop(source, None)
        if self.askers.count(source):
            self.gone_since_s[source] = now_s


def _version(metadata: ConfigMapMetadata | None) -> tuple[str, str]:
    return (metadata.uid, metadata.resource_version) if metadata is not None else ("", "")
