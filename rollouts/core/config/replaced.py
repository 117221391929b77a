"""Copies of ConfigMaps that somebody else may have made: a copy's data is compared with its name before pods read it.

Who may write ConfigMaps can delete a copy and make another one of its name, with other data. An immutable object never changes
its data, so a copy is read once, and only before it is used or if it is younger than a ReplicaSet that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigUse, CopySeen
from rollouts.core.model.snapshot import ReplicaSet


def used_copies(uses: Iterable[ConfigUse], copies: Iterable[CopySeen]) -> tuple[CopySeen, ...]:
    """The copies of ConfigMaps that are there, of those that the uses name."""
    named = {use.copy for use in uses if use.kind is ConfigKind.CONFIG_MAP and use.has_copy}
    return tuple([each for each in copies if each.name in named and not each.deleting])


def unchecked(copies: Iterable[CopySeen]) -> tuple[ConfigRef, ...]:
    """Those whose data nobody has compared with their names yet, to be read."""
    return tuple([ConfigRef(ConfigKind.CONFIG_MAP, each.name) for each in copies if not (each.checked or each.problem)])


def younger_copies(replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen]) -> tuple[CopySeen, ...]:
    """Copies that were not made before the ReplicaSet that names them, and nobody has compared: made again, or forged."""
    unknown = {each.name: each for each in copies if not (each.checked or each.problem or each.deleting)}
    if not unknown:
        return ()
    found = {
        name: each for each, name in _named(replica_sets, unknown) if unknown[name].created_at_s > each.created_at_s
    }
    return tuple([unknown[name] for name in sorted(found)])


def forged_uses(
    replica_sets: Iterable[ReplicaSet], copies: Iterable[CopySeen]
) -> Iterator[tuple[ReplicaSet, CopySeen]]:
    """The copies that are not what their names say, each with a ReplicaSet that names it."""
    forged = {each.name: each for each in copies if each.forged and not each.deleting}
    return ((replica_set, forged[name]) for replica_set, name in _named(replica_sets, forged))


def _named(replica_sets: Iterable[ReplicaSet], copies: Mapping[str, CopySeen]) -> Iterator[tuple[ReplicaSet, str]]:
    for each in replica_sets if copies else ():
        for use in () if each.deleting else each.config or ():
            if use.kind is ConfigKind.CONFIG_MAP and use.has_copy and use.copy in copies:
                yield each, use.copy
