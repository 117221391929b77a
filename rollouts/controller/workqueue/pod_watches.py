"""The watches of pods of workloads that are updated in place and whose status does not say which pod has which revision.

One for each such Rollout, by the workload's selector, and only while `needs_pods` says so: at rest nothing is watched.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NoReturn

from msgspec import Struct

from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Table
from rollouts.cluster.structs import PodObject
from rollouts.cluster.watch import reflect
from rollouts.objects import POD, Key, Kind
from rollouts.ports import ApiServer, Clock


class _PodWatch(Struct, frozen=True):
    selector: str
    table: Table[PodObject]
    task: asyncio.Task[NoReturn]


@dataclass(eq=False, kw_only=True)
class PodWatches:
    """Keeps tables of pods equal to the cluster.

    Args:
        wake: queues a Rollout whose pods have changed, or are listed.
    """

    api: ApiServer
    clock: Clock
    wake: Callable[[Key], None]
    _watches: dict[Key, _PodWatch] = field(default_factory=dict, init=False)
    _group: asyncio.TaskGroup | None = field(default=None, init=False)

    def follow(self, key: Key, selector: str) -> None:
        """From now on the pods that the label selector finds are watched for the Rollout; for "" none are."""
        before = self._watches.get(key)
        if before is not None and before.selector != selector:
            del self._watches[key]
            before.task.cancel()
            before = None
        if before is None and selector and self._group is not None:
            table = Table(POD, PodObject, clock=self.clock, labels=(), by_owner=False, scopes=(key.namespace,))
            task = self._group.create_task(self._run(key, table, selector))
            self._watches[key] = _PodWatch(selector, table, task)

    def pods(self, key: Key) -> Collection[PodObject] | None:
        """The pods that are watched for the Rollout; None while they are not listed, or one of them cannot be read."""
        watch = self._watches.get(key)
        return watch.table.all() if watch is not None and watch.table.synced.is_set() and self._can_read(key) else None

    def failing(self, key: Key) -> tuple[float, str]:
        """Seconds since which the watch has failed, and why; (0, "") while it works, or is not wanted."""
        watch = self._watches.get(key)
        if watch is None:
            return 0.0, ""
        state = watch.table.watch(key.namespace)
        return state.failing_for_s(now_s=self.clock.monotonic_s()), state.trouble

    async def run(self) -> NoReturn:
        """Runs the watches until cancelled. Raises: nothing on purpose."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()
        raise AssertionError("the watches ended by themselves")

    async def _run(self, key: Key, table: Table[PodObject], selector: str) -> NoReturn:
        def changed(_kind: Kind, _before: Any, _after: Any) -> None:
            self.wake(key)

        def unreadable(_kind: Kind, _seen: UnreadableObject) -> None:
            self.wake(key)

        await reflect(
            self.api,
            table,
            namespace=key.namespace,
            label_selector=selector,
            on_change=changed,
            on_unreadable=unreadable,
            on_listed=lambda: self.wake(key),
            rng=random.Random(str(key)),  # noqa: S311 - jitter of its own: most controllers have no such watch
        )

    def _can_read(self, key: Key) -> bool:
        return not self._watches[key].table.unreadable
