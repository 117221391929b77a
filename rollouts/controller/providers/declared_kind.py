"""Watches a cluster-scoped kind that may be missing, or that the controller may not see: then there are none of its objects.

That is logged once. The kind is looked for again, once a minute, only while somebody misses one of its objects.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from typing import NoReturn, Protocol

import structlog

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Table
from rollouts.cluster.structs import ProviderObject
from rollouts.cluster.watch import reflect
from rollouts.errors import ApiForbidden, ApiNotFound, RolloutsError
from rollouts.objects import Kind
from rollouts.ports import ApiServer, Clock

LOOK_AGAIN_S = 60.0

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
        """All of them are known, even if there are none. Called after each list.

        Args:
            served: whether they could be listed.
        """
        ...

    def missed(self) -> bool:
        """Whether somebody has asked for one that there is not, since the last list; called rarely."""
        ...


class _NoneHere(Exception):
    """The watch was refused in a way that another try at once does not change."""

    def __init__(self, why: RolloutsError) -> None:
        super().__init__(str(why))
        self.why = why


class DeclaredKind:
    """Shows all objects of a kind to its reader.

    Args:
        rng: for the length of watches and of pauses.
    """

    def __init__(
        self, kind: Kind, reader: DeclarationReader, *, api: ApiServer, clock: Clock, rng: random.Random
    ) -> None:
        self._kind = kind
        self._reader = reader
        self._api = api
        self._clock = clock
        self._rng = rng
        self._told = False

    async def watch(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        while True:
            table = Table(self._kind, ProviderObject, clock=self._clock, labels=(), by_owner=False, scopes=("",))
            listing = asyncio.create_task(self._when_listed(table))
            try:
                await reflect(
                    self._api,
                    table,
                    on_change=self._changed,
                    on_problem=self._on_problem,
                    on_unreadable=self._unreadable,
                    rng=self._rng,
                )
            except _NoneHere as exc:
                self._tell_none(exc.why)
            finally:
                listing.cancel()
            self._reader.listed(served=False)
            await self._wanted()

    def _changed(self, _kind: Kind, before: ProviderObject | None, after: ProviderObject | None) -> None:
        if after is None:
            self._reader.gone((before or ProviderObject()).metadata.name)
        else:
            self._reader.changed(after.metadata.name, after)

    def _unreadable(self, kind: Kind, seen: UnreadableObject) -> None:
        log.error("object_unreadable", kind=kind.kind, name=seen.metadata.name, why=seen.why)
        self._reader.unreadable(seen.metadata.name, seen.why)

    async def _when_listed(self, table: Table[ProviderObject]) -> None:
        await table.synced.wait()
        self._told = False
        for name in [each for each in self._reader.names() if table.get("", each) is None]:
            self._reader.gone(name)  # it was deleted while the watch was down
        self._reader.listed(served=True)

    def _on_problem(self, kind: Kind, error: RolloutsError) -> None:
        if isinstance(error, ApiNotFound | ApiForbidden):
            raise _NoneHere(error)
        log.warning("watch_trouble", kind=kind.kind, error=type(error).__name__, why=str(error))

    def _tell_none(self, why: RolloutsError) -> None:
        if isinstance(why, ApiNotFound):  # the CRD is gone, and its objects with it
            for name in tuple(self._reader.names()):
                self._reader.gone(name)
        if not self._told:
            self._told = True
            what = f"{self._kind.plural}.{self._kind.group}"
            remedy = (
                "rollouts crds | kubectl apply -f -"
                if isinstance(why, ApiNotFound)
                else f"to use {self._kind.kind}s, grant get, list and watch of {what} in a ClusterRole"
            )
            log.info("none_declared", kind=self._kind.kind, why=str(why), remedy=remedy)

    async def _wanted(self) -> None:
        """Returns when it is time to look again."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            if self._reader.missed() or self._reader.names():
                return
