"""The watch of ConfigMaps, which starts when the first Rollout needs one: a cluster has many, and many controllers need none.

It shows metadata only. A resourceVersion that has moved says that the content may have changed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NoReturn

from rollouts.cluster.store import Store
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.objects import CONFIG_MAP
from rollouts.ports import ApiServer
from rollouts.telemetry import Telemetry


class ConfigMapWatch:
    """Keeps the table of ConfigMaps equal to the cluster from the moment it is wanted.

    Without the right to see them, what was seen before still counts: a refusal is never read as absence.

    Args:
        on_change, on_unreadable: as for `OptionalWatch`.
        on_sight: called when ConfigMaps can be seen that could not be seen before, and when the reason why not is a new one.
    """

    def __init__(
        self,
        store: Store,
        api: ApiServer,
        telemetry: Telemetry,
        on_change: OnChange,
        on_unreadable: OnUnreadable,
        on_sight: Callable[[], None],
    ) -> None:
        self._table = store.table(CONFIG_MAP)
        self._telemetry = telemetry
        self._on_sight = on_sight
        self._wanted = asyncio.Event()
        self._reasons: list[str] = []
        self._watch = OptionalWatch(
            self._table,
            api=api,
            rng=random.Random(ConfigMapWatch.__name__),  # noqa: S311 - jitter of its own: many controllers have no such watch
            on_change=on_change,
            on_unreadable=on_unreadable,
            on_seen=self._seen,
            on_unseen=self._unseen,
            is_missed=lambda: True,  # a Rollout that wanted it waits for it
            keeps_what_was_seen=True,
        )

    def wanted(self) -> None:
        """Starts the watch, if it has not been started; it goes on until the process ends."""
        self._wanted.set()

    @property
    def is_wanted(self) -> bool:
        """Whether it has been started."""
        return self._wanted.is_set()

    @property
    def listed(self) -> asyncio.Event:
        """Set when it is known which ConfigMaps there are, or that they cannot be seen."""
        return self._watch.listed

    def why_unseen(self, namespace: str) -> str:
        """Why the ConfigMaps of a namespace cannot be seen, and what helps; "" when they can.

        They are not listed yet before somebody wanted them.
        """
        return self._watch.why_unseen(namespace)

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled, and sends nothing until it is wanted. Raises: nothing on purpose."""
        await self._wanted.wait()
        await self._watch.run()

    def _seen(self) -> None:
        self._telemetry.follow_table(self._table)
        self._reasons = []
        self._on_sight()

    def _unseen(self) -> None:
        reasons = [self._watch.why_unseen(scope) for scope in self._table.watches()]
        if reasons != self._reasons:
            self._reasons = reasons
            self._on_sight()
