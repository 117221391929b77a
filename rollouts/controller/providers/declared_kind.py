"""Watches a cluster-scoped kind of declarations, whose CRD may be missing: it is looked for again only while one is missed.

A declaration that was read still holds while the right to see the kind is missing: an update that uses it goes on.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import NoReturn, Protocol

import structlog

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Table
from rollouts.cluster.structs import ProviderObject
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.objects import Kind
from rollouts.ports import ApiServer, Clock

log = structlog.get_logger()


class DeclarationReader(Protocol):
    """Who reads the objects that the watch shows."""

    def names(self) -> Collection[str]:
        """The objects that it knows."""
        ...

    def changed(self, name: str, seen: ProviderObject) -> None:
        """One is new, or has changed."""
        ...

    def unreadable(self, name: str, why: str) -> None:
        """One exists and cannot be read."""
        ...

    def gone(self, name: str) -> None:
        """One that it knows does not exist any more."""
        ...

    def listed(self, *, served: bool) -> None:
        """All of them are known, even if there are none. Called after the first list, and after one that can be read again.

        Args:
            served: whether they could be listed.
        """
        ...

    def missed(self) -> bool:
        """Whether somebody has asked for one that there is not, since the last list; called rarely."""
        ...


class DeclaredKind:
    """Shows all objects of a kind to its reader.

    Args:
        rng: for the length of watches and of pauses.
    """

    def __init__(
        self, kind: Kind, reader: DeclarationReader, *, api: ApiServer, clock: Clock, rng: random.Random
    ) -> None:
        self._reader = reader
        self._watch = OptionalWatch(
            Table(kind, ProviderObject, clock=clock, labels=(), by_owner=False, scopes=("",)),
            api=api,
            rng=rng,
            on_change=self._changed,
            on_unreadable=self._unreadable,
            on_seen=lambda: reader.listed(served=True),
            on_unseen=lambda: reader.listed(served=False),
            is_missed=lambda: reader.missed() or bool(reader.names()),
            keeps_what_was_seen=True,
        )

    async def watch(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        await self._watch.run()

    def _changed(self, _kind: Kind, before: ProviderObject | None, after: ProviderObject | None) -> None:
        if after is None:
            self._reader.gone((before or ProviderObject()).metadata.name)
        else:
            self._reader.changed(after.metadata.name, after)

    def _unreadable(self, kind: Kind, seen: UnreadableObject) -> None:
        log.error("object_unreadable", kind=kind.kind, name=seen.metadata.name, why=seen.why)
        self._reader.unreadable(seen.metadata.name, seen.why)
