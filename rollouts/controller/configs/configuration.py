"""The parts of this room, connected, and the watch of ConfigMaps.

The watch starts when the first Rollout needs one: a cluster has many ConfigMaps, and many controllers need none.
It shows metadata only. A resourceVersion that has moved says that the content may have changed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from rollouts.cluster.client import Client
from rollouts.cluster.store import Store
from rollouts.cluster.structs import RolloutObject
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.configs.contents import Contents
from rollouts.controller.configs.observed import Configs
from rollouts.controller.configs.sources import Sources
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.objects import CONFIG_MAP, Kind
from rollouts.ports import ApiServer, Clock
from rollouts.settings import Settings
from rollouts.telemetry import Telemetry

_NAMES_ONE = b'"configMap'  # the beginning of each field of a pod template that names a ConfigMap


class ConfigMapWatch(OptionalWatch):
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
        self._telemetry = telemetry
        self._on_sight = on_sight
        self._wanted = asyncio.Event()
        self._reasons: list[str] = []
        super().__init__(
            store.table(CONFIG_MAP),
            api=api,
            rng=random.Random(ConfigMapWatch.__name__),  # noqa: S311 - jitter of its own: many controllers have no such watch
            on_change=on_change,
            on_unreadable=on_unreadable,
            on_seen=self._sees,
            on_unseen=self._sees_nothing,
            is_missed=lambda: True,  # a Rollout that wanted it waits for it
            keeps_what_was_seen=True,
        )

    def wanted(self) -> None:
        """Starts the watch, if it has not been started; it goes on until the process ends."""
        self._wanted.set()

    async def wait_listed(self) -> None:
        """Returns when it is known which ConfigMaps there are, if anybody needs one. Cancellation: safe."""
        if self._wanted.is_set():
            await self.listed.wait()

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled, and sends nothing until it is wanted. Raises: nothing on purpose."""
        await self._wanted.wait()
        await super().run()

    def _sees(self) -> None:
        self._telemetry.follow_table(self.table)
        self._reasons = []
        self._on_sight()

    def _sees_nothing(self) -> None:
        reasons = [self.why_unseen(scope) for scope in self.table.watches()]
        if reasons != self._reasons:
            self._reasons = reasons
            self._on_sight()


@dataclass(eq=False)
class Configuration:
    """All parts about sources of configuration. With `--config-versioning=off` nothing is watched, read or copied.

    Args:
        on_change, on_unreadable: as for `cluster.watch.reflect`.
    """

    settings: Settings
    api: ApiServer
    store: Store
    queue: WorkQueue
    clock: Clock
    telemetry: Telemetry
    on_change: OnChange
    on_unreadable: OnUnreadable

    def __post_init__(self) -> None:
        self.contents = Contents()
        """What was read, and which Rollouts name which sources."""
        self.watch = ConfigMapWatch(self.store, self.api, self.telemetry, self._changed, self.on_unreadable, self._wake)
        listed, why = self.watch.listed.is_set, self.watch.why_unseen
        observes = Configs(self.store, self.contents, clock=self.clock, is_listed=listed, why_unseen=why)
        self.configs = observes if self.settings.config_versioning else None

    def sources(self, *, client: Client, barrier: Barrier, reads: asyncio.TaskGroup) -> Sources:
        """What reads and copies sources while this process leads; its tasks end with that group."""
        return Sources(
            client=client,
            store=self.store,
            contents=self.contents,
            barrier=barrier,
            queue=self.queue,
            clock=self.clock,
            reads=reads,
        )

    def follow(self, rollout: RolloutObject | None) -> None:
        """Starts the watch if the Rollout names a ConfigMap; in a standby too, so that a takeover needs no list."""
        if self.configs is not None and rollout is not None and _NAMES_ONE in bytes(rollout.spec):
            self.watch.wanted()

    def _changed(self, kind: Kind, before: Any, after: Any) -> None:
        self.contents.learn(before, after, now_s=self.clock.now_s())
        self.on_change(kind, before, after)

    def _wake(self) -> None:
        for key in self.contents.askers.all():
            self.queue.add(key)
