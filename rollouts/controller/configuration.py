"""Sources of configuration in this process: their watch, what was read of them, and who reads and copies them."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from rollouts.cluster.client import Client
from rollouts.cluster.store import Store
from rollouts.cluster.structs import RolloutObject
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.act.sources import Sources
from rollouts.controller.observe.config import Configs
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.config_map_watch import ConfigMapWatch
from rollouts.controller.workqueue.contents import Contents
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.objects import Kind
from rollouts.ports import ApiServer, Clock
from rollouts.settings import Settings
from rollouts.telemetry import Telemetry

_NAMES_ONE = b'"configMap'  # the beginning of each field of a pod template that names a ConfigMap


class Configuration:
    """All parts about sources of configuration, connected. The watch starts with the first Rollout that names a ConfigMap.

    Args:
        settings: with `--config-versioning=off` nothing is watched, read or copied.
        on_change, on_unreadable: as for `cluster.watch.reflect`.
    """

    def __init__(
        self,
        settings: Settings,
        api: ApiServer,
        store: Store,
        queue: WorkQueue,
        clock: Clock,
        telemetry: Telemetry,
        on_change: OnChange,
        on_unreadable: OnUnreadable,
    ) -> None:
        self.contents = Contents()
        """What was read, and which Rollouts name which sources."""
        self._enabled = settings.config_versioning
        self._store = store
        self._queue = queue
        self._clock = clock
        self._on_change = on_change
        self._watch = ConfigMapWatch(store, api, telemetry, self._changed, on_unreadable, self._wake)

    def configs(self) -> Configs | None:
        """What observes sources and copies; None when they are left as they are."""
        if not self._enabled:
            return None
        return Configs(
            self._store,
            self.contents,
            clock=self._clock,
            is_listed=self._watch.listed.is_set,
            why_unseen=self._watch.why_unseen,
        )

    def sources(self, *, client: Client, barrier: Barrier, reads: asyncio.TaskGroup) -> Sources:
        """What reads and copies sources while this process leads; its tasks end with that group."""
        return Sources(
            client=client,
            store=self._store,
            contents=self.contents,
            barrier=barrier,
            queue=self._queue,
            clock=self._clock,
            reads=reads,
        )

    def follow(self, rollout: RolloutObject | None) -> None:
        """Starts the watch if the Rollout names a ConfigMap; in a standby too, so that a takeover needs no list."""
        if self._enabled and rollout is not None and _NAMES_ONE in bytes(rollout.spec):
            self._watch.wanted()

    async def wait_listed(self) -> None:
        """Returns when it is known which ConfigMaps there are, if anybody needs one. Cancellation: safe."""
        if self._watch.is_wanted:
            await self._watch.listed.wait()

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        await self._watch.run()

    def _changed(self, kind: Kind, before: Any, after: Any) -> None:
        self.contents.learn(before, after, now_s=self._clock.now_s())
        self._on_change(kind, before, after)

    def _wake(self) -> None:
        for key in self.contents.askers.all():
            self._queue.add(key)
