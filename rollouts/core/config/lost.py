"""Which copies are gone although a ReplicaSet names them, and which ReplicaSets will have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rollouts.core.model.config import (
    ConfigKind,
    ConfigRef,
    ConfigUse,
    CopyLook,
    CopySeen,
    Source,
    SourceAbsent,
    SourceKnown,
)
from rollouts.core.model.snapshot import ReplicaSet


def lost_uses(
    replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen], looks: Mapping[str, CopyLook]
) -> Iterator[tuple[ReplicaSet, ConfigUse]]:
    """The uses whose copy is gone, with their ReplicaSets. One of a Secret is gone if the last look at it says so.

    Args:
        copies: those of ConfigMaps.
        looks: at copies of Secrets, by name.
    """
    there = {(each.kind, each.name) for each in copies if not each.deleting}
    for replica_set in replica_sets:
        for use in () if replica_set.deleting else replica_set.config or ():
            match use.kind:
                case ConfigKind.CONFIG_MAP:
                    is_lost = use.has_copy and (use.kind, use.copy) not in there
                case ConfigKind.SECRET:
                    look = looks.get(use.copy)
                    is_lost = use.made and look is not None and look.there is False
            if is_lost:
                yield replica_set, use


def beside_named(named: Iterable[ConfigRef], refs: Iterable[ConfigRef]) -> list[ConfigRef]:
    """Those of `refs` that name no source of `named`, in order."""
    known = {(ref.kind, ref.name) for ref in named}
    return sorted(ref for ref in refs if (ref.kind, ref.name) not in known)


def sources_of_lost(
    replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen], looks: Mapping[str, CopyLook]
) -> frozenset[ConfigRef]:
    """The sources of copies that are gone: a copy can be made again of a source that the template names no more."""
    return frozenset([ConfigRef(use.kind, use.source) for _, use in lost_uses(replica_sets, copies, looks)])


def uses_too_late(replica_set: ReplicaSet, sources: Mapping[tuple[ConfigKind, str], Source]) -> tuple[ConfigUse, ...]:
    """The Secrets that have changed or gone before an empty ReplicaSet had a copy of them, so that its pods cannot begin.

    Until the sources have that content again, the ReplicaSet is as good as deleted. () while that is not known.
    """
    if replica_set.spec_replicas or replica_set.replicas:
        return ()
    return tuple([use for use in replica_set.config or () if use.waits_for_copy and _is_too_late(use, sources)])


def _is_too_late(use: ConfigUse, sources: Mapping[tuple[ConfigKind, str], Source]) -> bool:
    match sources.get((use.kind, use.source)):
        case SourceKnown(content=content):
            return content != use.content
        case SourceAbsent():
            return True
        case _:
            return False
