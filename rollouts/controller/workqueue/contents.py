"""What was read of sources of configuration, and which Rollouts name them. In RAM only, and hashes only: no content is kept.

A read is about one version of a source. What the watch shows decides whether it is still true, see `observe/config.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeAlias

from rollouts.cluster.structs import ConfigMapObject
from rollouts.controller.workqueue.askers import Askers
from rollouts.core.model.config import ConfigKind

KEPT_MAX = 50_000
"""Sources whose hash is kept, 0.5 KB each; the least recently used one makes room, and is read again when it is needed."""

SourceKey: TypeAlias = tuple[ConfigKind, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRead:
    """One version of a source.

    Args:
        content: the hash, see core/config/content.py.
    """

    uid: str
    resource_version: str
    content: str
    immutable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailed:
    """The last read brought no content; it is repeated.

    Args:
        message: why, and what helps.
        needs_a_person: the controller lacks a right.
    """

    message: str
    needs_a_person: bool


class Contents:
    """What is known of sources, by name."""

    def __init__(self) -> None:
        self.askers: Askers[SourceKey] = Askers()
        """Which Rollouts name which sources."""
        self._read: OrderedDict[SourceKey, ContentRead | ReadFailed] = OrderedDict()
        self._gone: OrderedDict[SourceKey, float] = OrderedDict()

    def put(self, source: SourceKey, answer: ContentRead | ReadFailed) -> None:
        """Takes what the last read of a source brought."""
        self._read[source] = answer
        self._read.move_to_end(source)
        if len(self._read) > KEPT_MAX:
            self._read.popitem(last=False)

    def get(self, source: SourceKey) -> ContentRead | ReadFailed | None:
        """What the last read of a source brought; None when there was none, or it is forgotten."""
        found = self._read.get(source)
        if found is not None:
            self._read.move_to_end(source)
        return found

    def gone_since_s(self, source: SourceKey) -> float | None:
        """When the watch saw the source go, wall clock; None when it did not, or nobody named the source then."""
        return self._gone.get(source)

    def learn(self, before: ConfigMapObject | None, after: ConfigMapObject | None, *, now_s: float) -> None:
        """Follows one change of a watched ConfigMap.

        Args:
            now_s: wall clock.
        """
        seen = after or before
        if seen is None:
            return
        source = (ConfigKind.CONFIG_MAP, seen.metadata.namespace, seen.metadata.name)
        if after is not None:
            self._gone.pop(source, None)
            return
        self._read.pop(source, None)
        if self.askers.count(source):
            self._gone[source] = now_s
            if len(self._gone) > KEPT_MAX:
                self._gone.popitem(last=False)
