"""The watches of analysis templates, whose CRDs may be missing."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import NoReturn

from rollouts.cluster.store import Store
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.standing_watches import TEMPLATES
from rollouts.objects import Kind
from rollouts.ports import ApiServer
from rollouts.telemetry import Telemetry


class TemplateWatches:
    """One watch for each kind.

    Args:
        on_change, on_unreadable: as for `OptionalWatch`.
    """

    def __init__(
        self,
        store: Store,
        api: ApiServer,
        telemetry: Telemetry,
        on_change: OnChange,
        on_unreadable: OnUnreadable,
    ) -> None:
        rng = random.Random(TemplateWatches.__name__)  # noqa: S311 - jitter of its own: some clusters have none to watch
        self._watches = {
            kind: OptionalWatch(
                store.table(kind),
                api=api,
                rng=rng,
                on_change=on_change,
                on_unreadable=on_unreadable,
                on_seen=partial(telemetry.follow_table, store.table(kind)),
            )
            for kind in TEMPLATES
        }

    def of(self, kind: Kind) -> OptionalWatch:
        """The watch of a kind. Raises: KeyError."""
        return self._watches[kind]

    async def wait_listed(self) -> None:
        """Returns when it is known of every kind what there is, even if that is nothing. Cancellation: safe."""
        for each in self._watches.values():
            await each.listed.wait()

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        async with asyncio.TaskGroup() as watches:
            for each in self._watches.values():
                watches.create_task(each.run())
        raise AssertionError("a watch ended by itself")
