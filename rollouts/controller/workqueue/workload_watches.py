"""The watches of workloads that Rollouts name in `workloadRef`: only those that carry our label, and only where that is allowed.

The rights for them are opt-in. A kind is watched when a Rollout names one of it, or from the start if the controller's flags name
the kind: a Deployment whose Rollout was deleted while no controller ran is still to be released.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from rollouts.cluster.store import Store
from rollouts.cluster.structs import RolloutObject
from rollouts.cluster.watch import OnChange, OnUnreadable
from rollouts.controller.workqueue.managed import ManagedNames
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE
from rollouts.objects import ROLLOUT, Kind
from rollouts.ports import ApiServer
from rollouts.telemetry import Telemetry


def forbidden_workload(kind: Kind, verb: str, why: str = "") -> str:
    """That the controller may not do something with workloads of a kind, and what helps."""
    message = f"the controller may not {verb} {kind.plural}: {_grant(kind)}"
    return f"{message}: {why}" if why else message


def _grant(kind: Kind) -> str:
    return f"name them in the chart's value workloads: [{kind.plural}]"


@dataclass(eq=False)
class WorkloadWatches:
    """Keeps the tables of workloads equal to the cluster.

    Args:
        on_change, on_unreadable: as for `cluster.watch.reflect`.
        on_sight: called with the name of a kind whenever it can be seen, and whenever it cannot.
        from_the_start: the plural names of kinds that are watched although no Rollout names one.
    """

    store: Store
    api: ApiServer
    telemetry: Telemetry
    on_change: OnChange
    on_unreadable: OnUnreadable
    on_sight: Callable[[str], None]
    from_the_start: Collection[str] = ()
    managed: dict[Kind, ManagedNames] = field(
        default_factory=lambda: {kind: ManagedNames() for kind in WORKLOAD_RESOURCES}, init=False
    )
    """The names of the workloads that each Rollout manages, by kind."""

    def __post_init__(self) -> None:
        self._wanted = {kind: asyncio.Event() for kind in WORKLOAD_RESOURCES}
        for kind in WORKLOAD_RESOURCES:
            if kind.plural in self.from_the_start:
                self._wanted[kind].set()
        rng = random.Random(WorkloadWatches.__name__)  # noqa: S311 - jitter of its own: many controllers have no such watch
        self._watches = {
            kind: OptionalWatch(
                self.store.table(kind),
                api=self.api,
                rng=rng,
                labels=f"{MANAGED}={MANAGED_VALUE}",
                on_change=self._changed,
                on_unreadable=self.on_unreadable,
                on_seen=partial(self._seen, kind),
                on_unseen=partial(self.on_sight, kind.kind),
                is_missed=partial(self._is_missed, kind),
                grant=_grant(kind),
            )
            for kind in WORKLOAD_RESOURCES
        }

    def why_unseen(self, kind: Kind, namespace: str) -> str:
        """Why workloads of that kind cannot be seen in a namespace; "" when they can."""
        return self._watches[kind].why_unseen(namespace)

    def follow(self, rollout: RolloutObject | None) -> None:
        """Starts the watch of the kind that the Rollout names; in a standby too, so that a takeover needs no list."""
        spec = b"" if rollout is None else bytes(rollout.spec)
        if b'"workloadRef"' in spec:
            for kind, wanted in self._wanted.items():
                if f'"{kind.kind}"'.encode() in spec:
                    wanted.set()

    async def wait_listed(self) -> None:
        """Returns when it is known which workloads of the watched kinds there are. Cancellation: safe."""
        for kind, watch in self._watches.items():
            if self._wanted[kind].is_set():
                await watch.listed.wait()

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        async with asyncio.TaskGroup() as watches:
            for kind in self._watches:
                watches.create_task(self._run(kind))
        raise AssertionError("a watch ended by itself")

    async def _run(self, kind: Kind) -> NoReturn:
        await self._wanted[kind].wait()
        await self._watches[kind].run()

    def _seen(self, kind: Kind) -> None:
        self.telemetry.follow_table(self.store.table(kind))
        self.on_sight(kind.kind)

    def _is_missed(self, kind: Kind) -> bool:
        """Whether a Rollout names a workload of that kind, or perhaps a text like it; called once a minute where it is unseen."""
        text = f'"{kind.kind}"'.encode()
        return any(text in bytes(rollout.spec) for rollout in self.store.table(ROLLOUT).all())

    def _changed(self, kind: Kind, before: Any, after: Any) -> None:
        self.managed[kind].learn(before, after)
        self.on_change(kind, before, after)
