"""Which copies are gone although a ReplicaSet names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigUse, CopyLook, CopySeen
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
