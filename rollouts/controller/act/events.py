"""Sends Kubernetes Events with best effort: outside of passes, which they never fail, and dropping them when too many wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from rollouts.cluster.client import Client
from rollouts.controller.act.flux_events import FluxEvents, emptied
from rollouts.core.model.intents import Notice
from rollouts.errors import RolloutsError
from rollouts.manifests.event import NO_ANNOTATIONS, Regarding, event, event_name
from rollouts.objects import EVENT, ROLLOUT, Kind, Manifest
from rollouts.telemetry import Telemetry

WAITING_MAX = 1_000
SENDERS = 4
LAG_S = 0.1  # a pass is often followed by another at once, whose writes should not queue behind an Event

log = structlog.get_logger()


class EventSender:
    """A bounded queue of Events and a few tasks that empty it, with a client that has a short deadline.

    Args:
        flux: whom each Event is sent besides; None for nobody.
    """

    def __init__(self, *, client: Client, telemetry: Telemetry, flux: FluxEvents | None = None) -> None:
        self._client = client
        self._flux = flux
        self._telemetry = telemetry
        self._waiting: asyncio.Queue[tuple[float, str, Manifest]] = asyncio.Queue(WAITING_MAX)
        self._offered = 0

    def report(
        self,
        regarding: Regarding,
        notices: Iterable[Notice],
        *,
        at_s: float,
        instance: str,
        kind: Kind = ROLLOUT,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        """Queues the Events for notices about an object, told by this process (`instance`), now (`at_s`, wall clock).

        Those that come when 1,000 wait already are dropped.
        """
        for notice in notices:
            self._offered = (self._offered + 1) % 1_000  # makes the names of Events of one microsecond differ
            name = event_name(regarding.name, at_s=at_s, index=self._offered)
            manifest = event(
                regarding, notice, at_s=at_s, name=name, instance=instance, kind=kind, annotations=annotations
            )
            if self._flux is not None:
                self._flux.offer(manifest)
            not_before_s = asyncio.get_running_loop().time() + LAG_S
            try:
                self._waiting.put_nowait((not_before_s, regarding.namespace, manifest))
            except asyncio.QueueFull:
                self._telemetry.events_dropped.labels("too many waiting").inc()

    async def run(self) -> None:
        """Sends until cancelled."""
        async with asyncio.TaskGroup() as senders:
            if self._flux is not None:
                senders.create_task(self._flux.run())
            for _ in range(SENDERS):
                senders.create_task(self._send_forever())

    async def drained(self, *, deadline_s: float) -> None:
        """Returns when everything is sent, or at the deadline."""
        async with asyncio.TaskGroup() as waits:
            if self._flux is not None:
                waits.create_task(self._flux.drained(deadline_s=deadline_s))
            await emptied(self._waiting, self._telemetry.events_dropped, deadline_s=deadline_s)

    async def _send_forever(self) -> None:
        while True:
            not_before_s, namespace, manifest = await self._waiting.get()
            try:
                await asyncio.sleep(not_before_s - asyncio.get_running_loop().time())
                await self._client.create(EVENT, namespace, manifest)
            except RolloutsError as exc:
                self._telemetry.events_dropped.labels(type(exc).__name__).inc()
                log.debug("event_dropped", namespace=namespace, error=str(exc))
            except Exception:  # a bug; a failed Event must not end the sender
                self._telemetry.events_dropped.labels("crashed").inc()
                log.exception("event_crashed", namespace=namespace)
            finally:
                self._waiting.task_done()
