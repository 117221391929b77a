"""Copies of ConfigMaps that somebody else may have made: a copy's data is compared with its name before pods read it.

Who may write ConfigMaps can delete a copy and make another one of its name, with other data. An immutable object never changes
its data, so a copy is read once, and only before it is used or if it is younger than a ReplicaSet that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rollouts.core.config.lost import uses_of
from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigUse, CopySeen
from rollouts.core.model.snapshot import ReplicaSet


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
