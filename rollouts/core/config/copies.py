"""The copies that ReplicaSets name: which are gone, which somebody else may have made, and which ReplicaSets will have none.

Who may write ConfigMaps can delete a copy and make another one of its name, with other data. So a copy's data is compared with
its name before pods read it. An immutable object never changes its data, so a copy is read once, and only before it is used or if
it is younger than a ReplicaSet that names it.
"""

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


def uses_of(replica_sets: Iterable[ReplicaSet]) -> Iterator[tuple[ReplicaSet, ConfigUse]]:
    """The uses that ReplicaSets note, with their ReplicaSets; without those that are being deleted."""
    for replica_set in replica_sets:
        for use in () if replica_set.deleting else replica_set.config or ():
            yield replica_set, use


def lost_uses(
    replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen], looks: Mapping[str, CopyLook]
) -> Iterator[tuple[ReplicaSet, ConfigUse]]:
    """The uses whose copy is gone, with their ReplicaSets. One of a Secret is gone if the last look at it says so.

    Args:
        copies: those of ConfigMaps.
        looks: at copies of Secrets, by name.
    """
    existing = {(copy.kind, copy.name) for copy in copies if not copy.deleting}
    for replica_set, use in uses_of(replica_sets):
        match use.kind:
            case ConfigKind.CONFIG_MAP:
                is_lost = use.has_copy and (use.kind, use.copy) not in existing
            case ConfigKind.SECRET:
                look = looks.get(use.copy)
                is_lost = use.made and look is not None and look.there is False
        if is_lost:
            yield replica_set, use


def additional_refs(named: Iterable[ConfigRef], refs: Iterable[ConfigRef]) -> list[ConfigRef]:
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
    too_late = []
    for use in replica_set.config or ():
        source = sources.get((use.kind, use.source))
        has_changed = isinstance(source, SourceKnown) and source.content != use.content
        if use.waits_for_copy and (has_changed or isinstance(source, SourceAbsent)):
            too_late.append(use)
    return tuple(too_late)


def used_copies(uses: Iterable[ConfigUse], copies: Iterable[CopySeen]) -> tuple[CopySeen, ...]:
    """The copies of ConfigMaps that are there, of those that the uses name."""
    named = {use.copy for use in uses if use.kind is ConfigKind.CONFIG_MAP and use.has_copy}
    return tuple([copy for copy in copies if copy.name in named and not copy.deleting])


def unchecked(copies: Iterable[CopySeen]) -> tuple[ConfigRef, ...]:
    """Those whose data nobody has compared with their names yet, to be read."""
    return tuple([ConfigRef(ConfigKind.CONFIG_MAP, copy.name) for copy in copies if not (copy.checked or copy.problem)])


def younger_copies(replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen]) -> tuple[CopySeen, ...]:
    """Copies that were not made before the ReplicaSet that names them, and nobody has compared: made again, or forged."""
    unknown = {copy.name: copy for copy in copies if not (copy.checked or copy.problem or copy.deleting)}
    if not unknown:
        return ()
    named = _named(replica_sets, unknown)
    younger = {name for replica_set, name in named if unknown[name].created_at_s > replica_set.created_at_s}
    return tuple([unknown[name] for name in sorted(younger)])


def forged_uses(
    replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen]
) -> Iterator[tuple[ReplicaSet, CopySeen]]:
    """The copies that are not what their names say, each with a ReplicaSet that names it."""
    forged = {copy.name: copy for copy in copies if copy.forged and not copy.deleting}
    return ((replica_set, forged[name]) for replica_set, name in _named(replica_sets, forged))


def _named(replica_sets: Iterable[ReplicaSet], copies: Mapping[str, CopySeen]) -> Iterator[tuple[ReplicaSet, str]]:
    for replica_set, use in uses_of(replica_sets) if copies else ():
        if use.kind is ConfigKind.CONFIG_MAP and use.has_copy and use.copy in copies:
            yield replica_set, use.copy
