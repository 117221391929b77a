"""Turns at one thing that serves one at a time: tenants take turns, and none gets more than its part of the time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

RESTS = 9
"""After a turn a tenant waits for so many times its length, so it has at most a tenth of a core."""


class Turns:
    """Gives one turn at a time.

    Args:
        monotonic_s: seconds that never go back.
    """

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the tenant that was served last is the last one
        self._rests_until_s: dict[str, float] = {}
        self._taken = False
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """A turn of the tenant's. Cancellation: safe."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(mine)
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._over()
            raise
        began_s = self._monotonic_s()
        try:
            yield
        finally:
            now_s = self._monotonic_s()
            self._rests_until_s[tenant] = now_s + RESTS * (now_s - began_s)
            self._over()

    def _over(self) -> None:
        self._taken = False
        self._next()

    def _next(self) -> None:
        """Gives the turn to the first tenant that does not rest; looks again when the first has rested."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = self._monotonic_s()
        self._rests_until_s = {tenant: until_s for tenant, until_s in self._rests_until_s.items() if until_s > now_s}
        for tenant in () if self._taken else tuple(self._waiting):
            if tenant in self._rests_until_s:
                continue
            line = self._waiting.pop(tenant)
            while line and not self._taken:
                first = line.popleft()
                if not first.done():  # cancelled
                    self._taken = True
                    first.set_result(None)
            if line:
                self._waiting[tenant] = line
            if self._taken:
                return
        if self._waiting and not self._taken:
            wait_s = min(self._rests_until_s[tenant] for tenant in self._waiting) - now_s
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._next)
