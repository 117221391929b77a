"""Sends each Event to Flux's notification-controller too, beside the passes, so that Flux's Providers can report on Rollouts.

They never fail or delay a pass, and each is sent once, in order. What does not get through is dropped and counted, and so is what
has waited for a minute: a person who hears of an abort an hour late takes it for a new one.
Source of the format: https://pkg.go.dev/github.com/fluxcd/pkg/apis/event/v1beta1
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import structlog
from prometheus_client import Counter

from rollouts.errors import Unanswered
from rollouts.objects import Manifest

if TYPE_CHECKING:
    from rollouts.probes.exchange import Asker  # httpx costs 5 MiB, which only those pay who use this

WAITING_MAX = 1_000

_TOO_MANY_REQUESTS = 429
_SUCCESS = range(200, 300)
_FIX = "see that --flux-events is the URL of a notification-controller that runs, and that NetworkPolicies let it be reached"

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class FluxEvents:
    """A bounded queue of Events and one task that empties it.

    Args:
        url: of notification-controller; the administrator has named it.
        may_write: whether this process leads; without the lead it sends nothing.
        dropped: counts what was not sent or not accepted, by its label `why`.
        late_s: an Event that has waited longer is dropped.
        quiet_s: between two lines of the log about what was dropped.
    """

    url: str
    asker: Asker
    may_write: Callable[[], bool]
    dropped: Counter
    deadline_s: float = 10.0
    late_s: float = 60.0
    quiet_s: float = 300.0
    _waiting: asyncio.Queue[tuple[float, Manifest]] = field(
        default_factory=lambda: asyncio.Queue(WAITING_MAX), init=False
    )
    _unlogged: int = field(default=0, init=False)
    _quiet_until_s: float = field(default=0.0, init=False)

    def offer(self, event: Manifest) -> None:
        """Queues an Event (`manifests.event.event`). One that comes when 1,000 wait already is dropped."""
        try:
            self._waiting.put_nowait((asyncio.get_running_loop().time(), event))
        except asyncio.QueueFull:
            self._drop("too many waiting", f"{WAITING_MAX:,} Events wait already")

    async def run(self) -> None:
        """Sends until cancelled."""
        try:
            while True:
                await self._send(*await self._waiting.get())
                self._waiting.task_done()
        finally:
            await self.asker.aclose()

    async def drained(self, *, deadline_s: float) -> None:
        """Returns when the queue is empty, or at the deadline."""
        await emptied(self._waiting, self.dropped, deadline_s=deadline_s)

    async def _send(self, offered_s: float, event: Manifest) -> None:
        waited_s = asyncio.get_running_loop().time() - offered_s
        if not self.may_write():
            self.dropped.labels("not leading").inc()  # the next leader reports what it sees itself
        elif waited_s > self.late_s:
            self._drop("too late", f"it has waited for {waited_s:.0f} s")
        else:
            try:
                status = await self.asker.post(self.url, flux_event(event), deadline_s=self.deadline_s)
            except Unanswered as exc:
                self._drop(type(exc).__name__, str(exc))
            except Exception:  # a bug; a failed Event must not end the sender
                self.dropped.labels("crashed").inc()
                log.exception("flux_event_crashed")
            else:
                if status == _TOO_MANY_REQUESTS:  # Flux has reported the same about this object less than 5 minutes ago
                    self.dropped.labels("duplicate").inc()
                elif status not in _SUCCESS:
                    self._drop(str(status), f"it answers {status}")

    def _drop(self, label: str, why: str) -> None:
        self.dropped.labels(label).inc()
        self._unlogged += 1
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._quiet_until_s:
            log.warning("flux_events_dropped", dropped=self._unlogged, why=why, fix=_FIX)
            self._unlogged, self._quiet_until_s = 0, now_s + self.quiet_s


async def emptied(
    waiting: asyncio.Queue[tuple[float, Manifest]] | asyncio.Queue[tuple[float, str, Manifest]],
    dropped: Counter,
    *,
    deadline_s: float,
) -> None:
    """Returns when all that waits has been sent; at the deadline it counts the rest as dropped."""
    try:
        async with asyncio.timeout(deadline_s):
            await waiting.join()
    except TimeoutError:
        dropped.labels("shutdown").inc(waiting.qsize())


def flux_event(event: Manifest) -> bytes:
    """The body that notification-controller takes for an Event of ours.

    Of the metadata Flux keeps the keys of the object's API group, without the group: `rollouts.dev/weight` becomes `weight`.
    """
    return msgspec.json.encode(
        {
            "involvedObject": event["regarding"],
            "severity": "error" if event["type"] == "Warning" else "info",
            "timestamp": event["eventTime"],
            "message": event["note"],
            "reason": event["reason"],
            "metadata": event["metadata"].get("annotations", {}),
            "reportingController": event["reportingController"],
            "reportingInstance": event["reportingInstance"],
        }
    )
