"""The watches of all kinds whose CRD may be missing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from rollouts.cluster.store import Store
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.standing_watches import OPTIONAL
from rollouts.objects import Kind
from rollouts.ports import ApiServer


class OptionalWatches:
    """One watch for each kind.

    Args:
        identity: of this process; its watches reconnect at other times than those of other processes.
        on_change, on_unreadable: as for `OptionalWatch`.
        on_seen: called with a kind whenever its objects can be seen that could not be seen before.
    """

    def __init__(
        self,
        store: Store,
        identity: str,
        *,
        api: ApiServer,
        on_change: OnChange,
        on_unreadable: OnUnreadable,
        on_seen: Callable[[Kind], None],
    ) -> None:
        rng = random.Random(identity)  # noqa: S311 - jitter of its own: some clusters have none of these to watch
        self._watches = {
            kind: OptionalWatch(
                store.table(kind),
                api=api,
                rng=rng,
                on_change=on_change,
                on_unreadable=on_unreadable,
                on_seen=partial(on_seen, kind),
            )
            for kind in OPTIONAL
        }

    def why_unseen(self, kind: Kind, namespace: str) -> str:
        """Why the kind's objects cannot be seen, and what helps; "" when they can.

        Args:
            namespace: theirs; "" for a kind of the cluster.
        """
        return self._watches[kind].why_unseen(namespace)

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
