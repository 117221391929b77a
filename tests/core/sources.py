"""The ConfigMaps of the model world of `model.py`: the users' sources, what the controller has read of them, and its copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

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

SourceKey: TypeAlias = tuple[ConfigKind, str]
Meaning: TypeAlias = tuple[str, frozenset[tuple[ConfigKind, str, str]]]
"""What a revision is: its template, and the contents of its sources; "" for an absent one."""


class SourceObject(Struct, frozen=True):
    """A ConfigMap of a user, in one version."""

    uid: str
    version: str
    content: str
    changed_at_s: float
    immutable: bool = False
    left_alone: bool = False


class Configs(Struct, frozen=True, kw_only=True):
    """Everything there is of configuration.

    Args:
        objects: the sources, as the API server has them.
        gone: when the watch saw a source go.
        read: the version that was read last.
        coming: answers of slow reads: what they will say.
        slow: answers to reads come later.
        trouble: why reads fail; "" when they do not.
        forbidden: the controller may not watch ConfigMaps now.
        shared_by: how many Rollouts name each source.
        secret_copies: copies of Secrets: the uid of the ReplicaSet that owns one, and its name. Nobody sees them.
        secret_copies_taken: names of those that somebody deleted and nobody has made again.
        copy_looks: what the last questions about them said.
        meant: by revision: what it was taken up for.
    """

    objects: Mapping[SourceKey, SourceObject] = field(default_factory=dict)
    gone: Mapping[SourceKey, float] = field(default_factory=dict)
    read: Mapping[SourceKey, SourceObject] = field(default_factory=dict)
    coming: Mapping[SourceKey, SourceObject] = field(default_factory=dict)
    slow: bool = False
    trouble: str = ""
    forbidden: bool = False
    shared_by: int = 1
    copies: tuple[CopySeen, ...] = ()
    secret_copies: frozenset[tuple[str, str]] = frozenset()
    secret_copies_taken: frozenset[str] = frozenset()
    copy_looks: Mapping[str, CopyLook] = field(default_factory=dict)
    meant: Mapping[str, Meaning] = field(default_factory=dict)


def seen_sources(configs: Configs, refs: Iterable[ConfigRef]) -> dict[SourceKey, Source]:
    """The sources as the controller sees them now."""
    return {(ref.kind, ref.name): _seen(configs, (ref.kind, ref.name)) for ref in refs}


def _seen(configs: Configs, key: SourceKey) -> Source:
    if configs.forbidden:
        return SourceUnread("grant get, list and watch of configmaps", needs_a_person=True, asks=False)
    found = configs.objects.get(key)
    if found is None:
        return SourceAbsent(configs.gone.get(key))
    if found.left_alone:
        return SourceLeftAlone()
    read = configs.read.get(key)
    if read is None or (read.uid, read.version) != (found.uid, found.version):
        return SourceUnread(configs.trouble)
    return SourceKnown(
        content=read.content,
        immutable=read.immutable,
        uid=read.uid,
        resource_version=read.version,
        changed_at_s=found.changed_at_s,
        shared_by=configs.shared_by,
    )


def asked(configs: Configs, ref: ConfigRef) -> Configs:
    """A read: it fails, is answered now, or will be answered with what is there now."""
    key = (ref.kind, ref.name)
    found = configs.objects.get(key)
    if configs.trouble or found is None:
        return configs
    if not configs.slow:
        return replace(configs, read={**configs.read, key: found})
    return configs if key in configs.coming else replace(configs, coming={**configs.coming, key: found})


def answered(configs: Configs) -> Configs:
    """Answers that were on their way are there; they may be about versions that are old by now."""
    if not configs.coming:
        return configs
    return replace(configs, read={**configs.read, **configs.coming}, coming={})


def written(configs: Configs, key: SourceKey, content: str, *, version: int, now_s: float, **changes: bool) -> Configs:
    """Somebody creates a source or writes another content into it. An immutable one is deleted and made again."""
    before = configs.objects.get(key)
    if before is None or before.immutable:
        before = SourceObject(f"uid-{version}", "", "", now_s)
    made = SourceObject(
        before.uid,
        str(version),
        content,
        now_s,
        immutable=changes.get("immutable", before.immutable),
        left_alone=changes.get("left_alone", before.left_alone),
    )
    return replace(configs, objects={**configs.objects, key: made})


def removed(configs: Configs, key: SourceKey, *, now_s: float) -> Configs:
    """Somebody deletes a source."""
    if key not in configs.objects:
        return configs
    objects = {each: found for each, found in configs.objects.items() if each != key}
    return replace(configs, objects=objects, gone={**configs.gone, key: now_s})


def meaning(template: str, sources: Mapping[SourceKey, Source]) -> Meaning | None:
    """What a spec means; None while a content is not known."""
    contents = set()
    for (kind, name), source in sources.items():
        match source:
            case SourceKnown(content=content):
                contents.add((kind, name, content))
            case SourceAbsent():
                contents.add((kind, name, ""))
            case SourceUnread():
                return None
            case SourceLeftAlone():
                pass
    return template, frozenset(contents)


def noted(template: str, uses: Iterable[ConfigUse]) -> Meaning:
    """What a note on a ReplicaSet says that it is."""
    return template, frozenset((each.kind, each.source, each.content) for each in uses)
