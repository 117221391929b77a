"""Watches a kind whose CRD may be missing, or that the controller may not see: then there are none of its objects.

That is logged once, and the kind is looked for again: first after a minute, and then less and less often, or once a minute while
somebody misses one of its objects.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, NoReturn

import structlog

from rollouts.cluster.store import Table
from rollouts.cluster.watch import OnChange, OnUnreadable, reflect
from rollouts.errors import APPLY_CRDS, ApiForbidden, ApiNotFound, RolloutsError
from rollouts.objects import Kind
from rollouts.ports import ApiServer

LOOK_AGAIN_FIRST_S, LOOK_AGAIN_MAX_S = 60.0, 600.0

log = structlog.get_logger()


class _NoneHere(Exception):
    """The watch was refused in a way that another try at once does not change."""

    def __init__(self, why: RolloutsError) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(slots=True, eq=False)
class OptionalWatch:
    """Keeps a table equal to the cluster for as long as the kind can be seen, and empty otherwise.

    Args:
        labels: a label selector; "" for every object of the kind.
        on_change, on_unreadable: as for `cluster.watch.reflect`; what can no longer be seen is reported as gone.
        on_seen: called whenever the objects can be seen that could not be seen before.
        on_unseen: called after each try that was refused.
        is_missed: whether somebody wants an object that there is not; called rarely. None for a kind that is always wanted.
        keeps_what_was_seen: without the right to see them, the objects that were seen before still hold.
        grant: what helps where the right to see them is missing; by default to grant it.
    """

    table: Table[Any]
    _: KW_ONLY
    api: ApiServer
    rng: random.Random
    on_change: OnChange
    on_unreadable: OnUnreadable
    on_seen: Callable[[], None]
    on_unseen: Callable[[], None] = lambda: None
    is_missed: Callable[[], bool] | None = None
    keeps_what_was_seen: bool = False
    grant: str = ""
    labels: str = ""
    listed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when it is known what there is, even if that is nothing."""
    _unknown: set[str] = field(init=False)  # by scope
    _refused: dict[str, str] = field(default_factory=dict, init=False)  # by scope: why, and what helps

    def __post_init__(self) -> None:
        self._unknown = set(self.table.watches())

    def why_unseen(self, namespace: str) -> str:
        """Why the objects of a namespace cannot be seen, and what helps; "" when they can."""
        if not self.table.covers(namespace):
            return f"the controller does not work in namespace {namespace}"
        scope = "" if "" in self.table.watches() else namespace
        if scope in self._unknown:
            return f"{self.table.kind.plural} are not listed yet"
        return self._refused.get(scope, "")

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        async with asyncio.TaskGroup() as scopes:
            for scope in self.table.watches():
                scopes.create_task(self._follow(scope))
        raise AssertionError("a watch ended by itself")

    async def _follow(self, scope: str) -> NoReturn:
        tries = 0
        while True:
            try:
                await reflect(
                    self.api,
                    self.table,
                    namespace=scope,
                    label_selector=self.labels,
                    on_change=self.on_change,
                    on_problem=self._on_problem,
                    on_unreadable=self.on_unreadable,
                    on_listed=partial(self._seen, scope),
                    rng=self.rng,
                )
            except _NoneHere as exc:
                tries = tries + 1 if scope in self._refused else 0
                self._not_seen(scope, exc.why)
            await self._time_to_look_again(tries)

    async def _time_to_look_again(self, tries: int) -> None:
        if self.is_missed is None:
            await asyncio.sleep(min(LOOK_AGAIN_MAX_S, LOOK_AGAIN_FIRST_S * 2.0 ** min(tries, 10)))
            return
        while True:
            await asyncio.sleep(LOOK_AGAIN_FIRST_S)
            if self.is_missed():
                return

    def _on_problem(self, kind: Kind, error: RolloutsError) -> None:
        if isinstance(error, ApiNotFound | ApiForbidden):
            raise _NoneHere(error)
        log.warning("watch_trouble", kind=kind.kind, error=type(error).__name__, why=str(error))

    def _seen(self, scope: str) -> None:
        if scope in self._refused or scope in self._unknown:
            self._refused.pop(scope, None)
            self.on_seen()
        self._known(scope)

    def _not_seen(self, scope: str, why: RolloutsError) -> None:
        kind = self.table.kind
        what = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        if isinstance(why, ApiNotFound):
            what_is_wrong, remedy = f"the CRD of {kind.plural} is not installed", APPLY_CRDS
        else:
            what_is_wrong, remedy = (
                f"the controller may not watch {kind.plural}",
                self.grant or f"grant get, list and watch of {what}",
            )
        if scope not in self._refused:
            log.info("kind_not_seen", kind=kind.kind, namespace=scope, why=str(why), remedy=remedy)
        self._refused[scope] = f"{what_is_wrong}: {remedy}"
        if scope not in self._unknown and not (self.keeps_what_was_seen and isinstance(why, ApiForbidden)):
            for change in self.table.replace(scope, (), str(self.table.version(scope))):
                self.on_change(kind, change.before, change.after)
        self._known(scope)
        self.on_unseen()

    def _known(self, scope: str) -> None:
        self._unknown.discard(scope)
        if not self._unknown:
            self.listed.set()
